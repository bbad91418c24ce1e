//! The ticker: polls for due runs, and sleeps until the next run is ready.
//!
//! Redis alone decides what is due. A poll returns Redis' time and the ready time of the head of
//! each lane. This node's monotonic clock only measures the sleep between two polls, to the
//! microsecond. The timers of the async runtime round up to milliseconds, which would be most of a
//! run's lateness. A nudge or a freed slot ends the sleep. A lost nudge costs at most
//! [`LONGEST_SLEEP`].

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use tracing::warn;

use super::claimer::{Claimer, RipeInLanes};
use super::gatekeeper::Gatekeeper;
use super::node_limits::LimitLook;
use super::slots::Offer;
use crate::domain::name::names::QueueName;
use crate::domain::queue::dispatch::Demand;
use crate::domain::queue::lane::Lane;
use crate::domain::run::node_event::step_text;
use crate::domain::time::unix_millis::UnixMillis;
use crate::engine::node_context::{NodeContext, Phase};
use crate::engine::status::event_notes::{Claims, NoteData};
use crate::keeper::{BootInstant, BootTimer};
use crate::store::{LaneAsk, LanePoll, Met, Poll, RipeEntry};

const LONGEST_SLEEP: Duration = Duration::from_secs(1);
/// The divisor of a tick that gives the longest time a round spends on searches behind the heads of
/// lanes. During these searches, runs that become due in other lanes wait for the next round.
const WALKS: u32 = 10;

/// The due runs in the lanes of a queue that has slots.
type Found = (Offer, RipeInLanes);

/// Polls until `stop` is cancelled. A claim under way is finished first, so that the runs of this
/// claim are known and start.
pub(crate) async fn run(shared: Arc<NodeContext>, stop: CancellationToken) {
    let mut claimer = Claimer::new(shared.clone());
    let mut gatekeeper = Gatekeeper::default();
    let timer = BootTimer::new().inspect_err(|error| warn!("No precise timer ({error}); runs start up to 2 ms later.")).ok();
    let mut connections_made = 0;
    while !stop.is_cancelled() {
        shared.progress.ticker.back_within(Duration::ZERO);
        let sleep = round(&shared, &mut claimer, &mut gatekeeper).await;
        // A slot that went from one run to the next was not free between.
        shared.notes.slots(shared.slots.free().into_iter());
        // A server that returns after a power cut may have lost its last acknowledged writes, such
        // as a jobs file.
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

/// Polls once and claims the due runs for which this node has slots. Returns the time to sleep
/// before the next poll. It is the time until the next run is ready. If Redis did not answer or due
/// runs could not be claimed, it is a tick.
async fn round(shared: &NodeContext, claimer: &mut Claimer, gatekeeper: &mut Gatekeeper) -> Duration {
    let tick = shared.settings.tick;
    if !shared.executors.are_ready() {
        // Nodes that can start runs claim them.
        shared.notes.claims(Claims::Held);
        return tick;
    }
    shared.notes.claims(Claims::Taken);
    // Nothing is claimed before queues and lanes are known. The poll still shows whether Redis
    // answers.
    let mut offers = if shared.slots.has_learnt() { shared.slots.offers() } else { Vec::new() };
    let room = hold_back(shared);
    for offer in &mut offers {
        offer.slots = offer.slots.min(room);
    }
    // Entries this node had to leave must not hide the entries behind them.
    let ask = |lane: &Lane, limit| LaneAsk { lane: lane.clone(), limit, more: claimer.left_in(lane) };
    let lanes: Vec<LaneAsk> = offers.iter().flat_map(|offer| offer.lanes.iter().map(|lane| ask(lane, offer.slots))).collect();
    let known = shared.watch.known_now();
    let sent = BootInstant::now();
    let poll = match shared.store.list_ripe(&lanes).await {
        Ok(poll) => poll,
        Err(error) => {
            shared.weather.failed(&error, "this node starts no runs");
            shared.notes.redis_silent(sent);
            return tick;
        }
    };
    shared.weather.answered();
    shared.notes.redis_answered(poll.now);
    if let Some(by) = shared.redis_clock.read(poll.now, sent, BootInstant::now()) {
        warn!(by_ms = by, "The clock of Redis was set {}.", step_text(by));
        shared.notes.clock_stepped(by);
    }
    shared.notes.data(state_of_data(&poll));
    shared.leases_seen.store(poll.leases, Ordering::Relaxed);
    if !shared.watch.knows(&poll, known) {
        // The data has changed: nothing is started before that is resolved.
        return tick;
    }
    shared.store.trust(&poll.marks.server);
    let to_gate = poll.next_gate.map(|at| at.since(poll.now).saturating_sub(poll.past_now));
    let mut next = to_gate.map_or(LONGEST_SLEEP, |time| time.min(LONGEST_SLEEP));
    match gatekeeper.open(shared, &poll.gates, &lanes).await {
        // A run that was given a place is due now.
        Ok(1..) => next = Duration::ZERO,
        Ok(0) if poll.gates.is_empty() => {}
        Ok(0) => next = next.min(tick),
        Err(error) => {
            shared.weather.failed(&error, "runs that wait at gates do not start");
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

/// Claims the due runs found in each queue, within the queue's share of `room`. Slots that a queue
/// did not use go to queues that got none. Returns the time for which no more runs can be claimed.
async fn share_out(
    shared: &NodeContext,
    claimer: &mut Claimer,
    mut found: Vec<Found>,
    mut room: usize,
    now: UnixMillis,
) -> Duration {
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
                // Unless a slot is left over, the next freed slot wakes this node.
                without.push((offer, in_lanes));
                continue;
            }
            shared.progress.ticker.back_within(Duration::ZERO);
            match claimer.take(&offer.queue, in_lanes, slots, now).await {
                Ok(taken) => {
                    // Other runs may have become due behind the claimed ones.
                    next = if taken.done > 0 { Duration::ZERO } else { next.min(shared.settings.tick) };
                    unused += slots.saturating_sub(taken.started);
                }
                Err(error) => {
                    shared.weather.failed(&error, &format!("no run of queue {} starts", offer.queue));
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

/// Notes that the due runs of `queue` waited for a slot until now, if all slots were taken before.
fn note_wait(shared: &NodeContext, queue: &QueueName, ripe: &[RipeEntry]) {
    let ready = ripe.first().and_then(|first| first.score.parse().ok()).and_then(UnixMillis::new);
    if let Some(ready) = ready {
        shared.notes.waits_for_slot(queue, ready);
    }
}

/// Claims runs behind the blocked runs of these lanes, with the slots that are left. Returns the
/// time for which no more runs can be claimed.
async fn take_behind(shared: &NodeContext, claimer: &mut Claimer, blocked: &[(QueueName, Lane)], now: UnixMillis) -> Duration {
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
                shared.weather.failed(&error, &format!("no run of queue {queue} starts"));
                next = next.min(shared.settings.tick);
            }
        }
    }
    next
}

/// Returns the state of the polled data, which decides whether any run can be due.
fn state_of_data(poll: &Poll) -> NoteData {
    match (poll.is_settling, poll.is_held || poll.marks.met == Met::No) {
        (true, _) => NoteData::Settles,
        (false, true) => NoteData::IsLookedAt,
        (false, false) => NoteData::IsSettled,
    }
}

/// Returns how many runs this node may take on now, of all queues together. Returns 0 while the
/// node's host is past a limit or no run can be started.
fn hold_back(shared: &NodeContext) -> usize {
    let short = shared.executors.short_of();
    if shared.flow.look(&shared.settings.host, shared.slots.running(), short, shared.notes.now()) == LimitLook::News {
        shared.beat_now.notify_one();
    }
    shared.notes.held(shared.flow.held().map(|held| held.why));
    if shared.flow.is_held_by_host() { 0 } else { shared.slots.room().min(shared.executors.room()) }
}

/// Returns the number of slots a queue wants for its due runs. The number is at least one, because
/// runs that could not be handled before may be possible now.
fn demand(offer: &Offer, in_lanes: &RipeInLanes, claimer: &Claimer) -> Demand {
    let takeable = in_lanes.iter().map(|(lane, ripe)| ripe.len().saturating_sub(claimer.left_in(lane))).sum::<usize>();
    Demand { queue: offer.queue.clone(), wants: takeable.max(1).min(offer.slots), share: offer.share }
}
