//! Polls for ripe runs, and sleeps until the next one is ready.
//!
//! Redis alone says what is ripe: a poll answers its time and the head's ready time, and this node's monotonic clock only
//! measures the sleep between, to the microsecond: the runtime's own timers round up to milliseconds, which would be most of a
//! run's lateness. A nudge or a slot given back ends the sleep; a lost nudge costs at most [`LONGEST_SLEEP`].

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use tracing::warn;

use super::claimer::{Claimer, RipeInLanes};
use super::flow::Look;
use super::gatekeeper::Gatekeeper;
use super::notes::{Claims, Data};
use super::shared::{Phase, Shared};
use super::slots::Offer;
use crate::domain::dispatch::Demand;
use crate::domain::ids::QueueName;
use crate::domain::lane::Lane;
use crate::domain::node_event::step_text;
use crate::domain::time::UnixMillis;
use crate::keeper::{BootInstant, BootTimer};
use crate::store::{LaneAsk, LanePoll, Met, Poll, RipeEntry};

const LONGEST_SLEEP: Duration = Duration::from_secs(1);
/// A round looks behind the heads of lanes for such a part of a tick: what becomes ripe elsewhere waits for the next round.
const WALKS: u32 = 10;

/// What is ripe in the lanes of a queue that has slots.
type Found = (Offer, RipeInLanes);

/// Polls until `stop`. A claim under way is brought to its end first: what it won is known, and runs.
pub(super) async fn run(shared: Arc<Shared>, stop: CancellationToken) {
    let mut claimer = Claimer::new(shared.clone());
    let mut gatekeeper = Gatekeeper::default();
    let timer = BootTimer::new().inspect_err(|error| warn!("No timer of our own ({error}); runs start up to 2 ms later.")).ok();
    let mut connections_made = 0;
    while !stop.is_cancelled() {
        shared.progress.ticker.back_within(Duration::ZERO);
        let sleep = round(&shared, &mut claimer, &mut gatekeeper).await;
        // A slot that went from one run to the next was not free between.
        shared.notes.slots(shared.slots.free().into_iter());
        // A server that is back after a power cut may have forgotten what it last acknowledged, the push of a file among it.
        let made = shared.store.connections_made();
        if std::mem::replace(&mut connections_made, made) != made {
            shared.reconcile_now.notify_one();
        }
        if sleep.is_zero() {
            continue;
        }
        shared.progress.ticker.back_within(sleep);
        tokio::select! {
            () = stop.cancelled() => return,
            () = rest(timer.as_ref(), sleep) => {}
            () = shared.poll_now.notified() => {}
        }
    }
}

async fn rest(timer: Option<&BootTimer>, time: Duration) {
    let until = BootInstant::now().saturating_add(time);
    let rested = match timer {
        Some(timer) => timer.until(until).await.is_ok(),
        None => false,
    };
    if !rested {
        tokio::time::sleep(time).await;
    }
}

/// Polls once and takes what it can. Gives how long nothing more is to be done: until the next run is ready, or for a tick
/// while runs are ripe that could not be taken, or nobody answered.
async fn round(shared: &Shared, claimer: &mut Claimer, gatekeeper: &mut Gatekeeper) -> Duration {
    let tick = shared.settings.tick;
    if !shared.executors.are_ready() {
        // What cannot be started here is left to nodes that can.
        shared.notes.claims(Claims::Held);
        return tick;
    }
    shared.notes.claims(Claims::Taken);
    // Before it is known what there is nothing is taken; whether Redis answers is looked at all the same.
    let mut offers = if shared.slots.has_learnt() { shared.slots.offers() } else { Vec::new() };
    let room = hold_back(shared);
    for offer in &mut offers {
        offer.slots = offer.slots.min(room);
    }
    // Entries this node had to leave must not hide those behind them.
    let ask = |lane: &Lane, limit| LaneAsk { lane: lane.clone(), limit, more: claimer.left_in(lane) };
    let lanes: Vec<LaneAsk> = offers.iter().flat_map(|offer| offer.lanes.iter().map(|lane| ask(lane, offer.slots))).collect();
    let known = shared.watch.known_now();
    let sent = BootInstant::now();
    let poll = match shared.store.list_ripe(&lanes).await {
        Ok(poll) => poll,
        Err(error) => {
            shared.weather.failed(&error, "nothing is started");
            shared.notes.redis_silent(sent);
            return tick;
        }
    };
    shared.weather.answered();
    shared.notes.redis_answered(poll.now);
    if let Some(by) = shared.redis_clock.read(poll.now, sent, BootInstant::now()) {
        warn!(by_ms = by, "Redis' clock was set {}.", step_text(by));
        shared.notes.clock_stepped(by);
    }
    shared.notes.data(state_of_data(&poll));
    shared.leases_seen.store(poll.leases, Ordering::Relaxed);
    if !shared.watch.knows(&poll, known) {
        // Data that is not what it was: nothing of it is started before that is dealt with.
        return tick;
    }
    shared.store.trust(&poll.marks.server);
    let to_gate = poll.next_gate.map(|at| at.since(poll.now).saturating_sub(poll.past_now));
    let mut next = to_gate.map_or(LONGEST_SLEEP, |time| time.min(LONGEST_SLEEP));
    match gatekeeper.open(shared, &poll.gates, &lanes).await {
        // Who was given a place is ripe now.
        Ok(1..) => next = Duration::ZERO,
        Ok(0) if poll.gates.is_empty() => {}
        Ok(0) => next = next.min(tick),
        Err(error) => {
            shared.weather.failed(&error, "what waits for others stands still");
            next = next.min(tick);
        }
    }
    let mut answers = poll.lanes.into_iter();
    let mut found: Vec<Found> = Vec::new();
    let mut first_head: Option<Duration> = None;
    let mut blocked: Vec<(QueueName, Lane)> = Vec::new();
    for offer in offers {
        let (mut in_lanes, mut slots, mut hold) = (Vec::new(), offer.slots, None);
        for (lane, answer) in offer.lanes.iter().zip(answers.by_ref()) {
            match answer {
                LanePoll::WrongType(error) => claimer.report_spoilt_lane(lane, &error),
                LanePoll::Due { ripe, next: head, room, held } => {
                    hold = hold.or(held);
                    slots = slots.min(room.unwrap_or(slots));
                    if head.is_some() || !ripe.is_empty() {
                        shared.slots.saw(lane);
                    }
                    if let Some(head) = head {
                        let ahead = head.since(poll.now).saturating_sub(poll.past_now);
                        next = next.min(ahead);
                        first_head = Some(first_head.map_or(ahead, |first| first.min(ahead)));
                    }
                    if claimer.has_blocked(lane, &ripe) {
                        blocked.push((offer.queue.clone(), lane.clone()));
                    }
                    note_wait(shared, &offer.queue, &ripe);
                    if !ripe.is_empty() {
                        in_lanes.push((lane.clone(), ripe));
                    }
                }
            }
        }
        shared.notes.queue(&offer.queue, hold.map(|hold| shared.slots.why_held(&offer.queue, hold)));
        if !in_lanes.is_empty() {
            found.push((Offer { slots, ..offer }, in_lanes));
        }
    }
    shared.progress.saw_next(first_head);
    next = next.min(share_out(shared, claimer, found, room, poll.now).await);
    next.min(take_behind(shared, claimer, &blocked, poll.now).await)
}

/// Has each queue take what it found, with the slots that its share of `room` is. Slots that one could do nothing with go to those that
/// got none. Gives how long nothing more is to be done about any.
async fn share_out(shared: &Shared, claimer: &mut Claimer, mut found: Vec<Found>, mut room: usize, now: UnixMillis) -> Duration {
    let mut next = LONGEST_SLEEP;
    while !found.is_empty() {
        let demands: Vec<Demand> = found.iter().map(|(offer, in_lanes)| demand(offer, in_lanes, claimer)).collect();
        let grants = claimer.shares.grant(room, &demands);
        let (mut without, mut unused) = (Vec::new(), 0);
        for ((offer, in_lanes), slots) in found.into_iter().zip(grants) {
            if shared.phase() != Phase::Running {
                return next;
            }
            if slots == 0 {
                // Unless one is left over, the slot it waits for wakes this node.
                without.push((offer, in_lanes));
                continue;
            }
            shared.progress.ticker.back_within(Duration::ZERO);
            match claimer.take(&offer.queue, in_lanes, slots, now).await {
                Ok(taken) => {
                    // Something else may have become ripe behind what was taken.
                    next = if taken.done > 0 { Duration::ZERO } else { next.min(shared.settings.tick) };
                    unused += slots.saturating_sub(taken.started);
                }
                Err(error) => {
                    shared.weather.failed(&error, &format!("queue {} stands still", offer.queue));
                    next = next.min(shared.settings.tick);
                }
            }
        }
        if unused == 0 {
            break;
        }
        (found, room) = (without, unused);
    }
    next
}

/// What is ripe waited for a slot until now, if all were taken before.
fn note_wait(shared: &Shared, queue: &QueueName, ripe: &[RipeEntry]) {
    let ready = ripe.first().and_then(|first| first.score.parse().ok()).and_then(UnixMillis::new);
    if let Some(ready) = ready {
        shared.notes.waits_for_slot(queue, ready);
    }
}

/// Takes what may start behind the blocked runs of these lanes, with the slots that are left. Gives how long nothing more is to be
/// done about them.
async fn take_behind(shared: &Shared, claimer: &mut Claimer, blocked: &[(QueueName, Lane)], now: UnixMillis) -> Duration {
    let mut next = LONGEST_SLEEP;
    let until = BootInstant::now().saturating_add(shared.settings.tick / WALKS);
    for (queue, lane) in blocked {
        let free = shared.slots.offers().into_iter().find(|offer| offer.queue == *queue).map_or(0, |offer| offer.slots);
        let slots = free.min(hold_back(shared));
        if slots == 0 || shared.phase() != Phase::Running {
            continue;
        }
        shared.progress.ticker.back_within(Duration::ZERO);
        match claimer.take_behind(queue, lane, slots, until, now).await {
            Ok(true) => next = Duration::ZERO,
            Ok(false) => {}
            Err(error) => {
                shared.weather.failed(&error, &format!("queue {queue} stands still"));
                next = next.min(shared.settings.tick);
            }
        }
    }
    next
}

/// Whether anything may be ripe in what was polled.
fn state_of_data(poll: &Poll) -> Data {
    match (poll.is_settling, poll.is_held || poll.marks.met == Met::No) {
        (true, _) => Data::Settles,
        (false, true) => Data::IsLookedAt,
        (false, false) => Data::IsSettled,
    }
}

/// How many runs this node may take on now, of all queues together: none while its host is past a limit or can start nothing.
fn hold_back(shared: &Shared) -> usize {
    let short = shared.executors.short_of();
    if shared.flow.look(&shared.settings.host, shared.slots.running(), short, shared.notes.now()) == Look::News {
        shared.beat_now.notify_one();
    }
    shared.notes.held(shared.flow.held().map(|held| held.why));
    if shared.flow.is_held_by_host() { 0 } else { shared.slots.room().min(shared.executors.room()) }
}

/// For how many slots a queue has ripe runs; one that could do nothing about any may be able to now.
fn demand(offer: &Offer, in_lanes: &RipeInLanes, claimer: &Claimer) -> Demand {
    let takeable = in_lanes.iter().map(|(lane, ripe)| ripe.len().saturating_sub(claimer.left_in(lane))).sum::<usize>();
    Demand { queue: offer.queue.clone(), wants: takeable.max(1).min(offer.slots), share: offer.share }
}
