//! The ticker: polls for due runs, and sleeps until the next run is ready.
//!
//! Redis alone decides which runs are due: a poll returns Redis' time, and the ready time of the
//! first run of each lane. The monotonic clock of this node only measures the sleep between two
//! polls, to the microsecond. The timers of the async runtime are not precise enough, because they
//! round up to milliseconds. A nudge or a freed slot ends the sleep early. If a nudge is lost, the
//! sleep lasts at most [`LONGEST_SLEEP`].
//!
//! After a poll without due runs, the next polls only read the clock and the counters of changes.
//! The lanes are polled again when a counter has moved, when the next known run is ready, after a
//! nudge, and at the latest after [`LONGEST_QUIET`]. So an idle node costs Redis the same for any
//! number of lanes and jobs.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use tracing::warn;

use super::abandoned_claims::AbandonedClaims;
use super::claimer::Claimer;
use super::definitions::ZoneReadings;
use super::dispatcher::{
    ClaimBatch, ClaimReport, DispatchPace, DispatchStep, Dispatcher, FoundQueue,
};
use super::gatekeeper::Gatekeeper;
use super::lane_pages::{LanePage, LanePages};
use super::lane_search::{LaneSearch, SearchBounds};
use super::node_limits::{LimitLook, NodeLimits};
use super::node_slots::RoundResult;
use super::slots::{BATCH, Offer};
use crate::engine::execution::runner::Runner;
use crate::engine::node_context::{NodeContext, Phase};
use crate::engine::status::event_notes::{Claims, NoteData};
use crate::engine::status::node_health::NodeHealth;
use schedd_core::domain::run::node_event::step_text;
use schedd_core::host::boot_clock::{BootInstant, BootTimer};
use schedd_schedule::names::QueueName;
use schedd_schedule::time::unix_millis::UnixMillis;
use schedd_store::{DueEntry, LanePoll, Met, Poll, PollTrace, StoreError};

const LONGEST_SLEEP: Duration = Duration::from_secs(1);
/// The longest time without a poll of the lanes. Only a poll of the lanes finds runs that were
/// added without a change of the counters, for example by another version of schedd.
const LONGEST_QUIET: Duration = Duration::from_secs(60);
/// The longest time for which a claim waits for more free slots while most slots are taken.
const LONGEST_GATHERING: Duration = Duration::from_millis(4);
/// The part of a tick (one tenth) that a round spends at most on searches past blocked runs. Runs
/// that become due in other lanes wait during these searches.
const WALKS: u32 = 10;

/// The loop that polls for due runs.
pub(crate) struct Ticker {
    pub(crate) node: Arc<NodeContext>,
    pub(crate) limits: Arc<NodeLimits>,
    pub(crate) health: Arc<NodeHealth>,
    pub(crate) abandoned: Arc<AbandonedClaims>,
    pub(crate) zone_readings: Arc<ZoneReadings>,
    pub(crate) runner: Arc<Runner>,
}

/// The parts of dispatch that the ticker calls one after the other.
struct DispatchParts {
    dispatcher: Dispatcher,
    claimer: Claimer,
    search: LaneSearch,
    gatekeeper: Gatekeeper,
    pages: LanePages,
    quiet: Option<Quiet>,
    /// The result of the present round so far.
    result: RoundResult,
}

/// The result of a poll of the lanes that found nothing to do now.
struct Quiet {
    trace: PollTrace,
    /// The time of the next run or gate check. `None` if none is planned.
    next: Option<UnixMillis>,
    until: BootInstant,
}

/// The lanes that a poll has read.
struct FoundLanes {
    /// The queues with due runs.
    queues: Vec<FoundQueue>,
    /// The ready time of the next run. `None` if no run is planned in these lanes.
    next: Option<UnixMillis>,
    /// True if no run is due and each lane could be read.
    is_quiet: bool,
    /// True if a lane has no due run, so that the next poll reads other lanes instead of it.
    has_idle: bool,
}

/// Polls until `stop` is cancelled. Before it returns, it finishes a claim under way and starts the
/// claimed runs.
pub(crate) async fn run(ticker: Arc<Ticker>, stop: CancellationToken) {
    let (abandoned, health) = (ticker.abandoned.clone(), ticker.health.clone());
    let mut parts = DispatchParts {
        dispatcher: Dispatcher::default(),
        claimer: Claimer::new(
            ticker.node.clone(),
            ticker.runner.loss_watch.clone(),
            abandoned,
            health.clone(),
            ticker.zone_readings.clone(),
            ticker.runner.clone(),
        ),
        search: LaneSearch { node: ticker.node.clone(), health },
        gatekeeper: Gatekeeper::default(),
        pages: LanePages::default(),
        quiet: None,
        result: RoundResult::default(),
    };
    let timer = BootTimer::new()
        .inspect_err(|error| {
            warn!(
                "The precise timer of Linux is not available: {error}. Runs start up to 2 ms late."
            );
        })
        .ok();
    let mut connections_made = 0;
    while !stop.is_cancelled() {
        ticker.health.progress.ticker.back_within(Duration::ZERO);
        let looked = ticker.runner.slots.of_node().freed();
        parts.result = RoundResult::default();
        let sleep = round(&ticker, &mut parts).await;
        ticker.runner.slots.note_round(looked, parts.result);
        // Slots are recorded after the round, so that a slot reused within a round never counts as
        // free.
        ticker.health.notes.slots(ticker.runner.slots.free().into_iter());
        // After a new connection, the jobs file is applied again. The server may have lost its last
        // writes in a power cut.
        let made = ticker.node.store.connections_made();
        if std::mem::replace(&mut connections_made, made) != made {
            ticker.node.wakeups.reconciler.notify_one();
        }
        if sleep.is_zero() {
            gather(&ticker, timer.as_ref()).await;
            continue;
        }
        ticker.health.progress.ticker.back_within(sleep);
        tokio::select! {
            () = stop.cancelled() => return,
            () = rest(timer.as_ref(), sleep) => {}
            () = ticker.node.wakeups.ticker.notified() => parts.quiet = None,
        }
    }
}

/// Waits for a moment while most slots are taken, so that the next claim takes runs for several free
/// slots in one call. The caller has found more due runs than free slots.
async fn gather(ticker: &Ticker, timer: Option<&BootTimer>) {
    let until = BootInstant::now().saturating_add(LONGEST_GATHERING);
    while ticker.runner.slots.is_nearly_full() {
        let left = until.since(BootInstant::now());
        if left.is_zero() {
            return;
        }
        tokio::select! {
            () = rest(timer, left) => return,
            () = ticker.node.wakeups.ticker.notified() => {}
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

/// Polls once, and claims the due runs for which this node has slots. Returns the time to sleep
/// before the next poll: until the next run is ready, or one tick after a failure.
async fn round(ticker: &Ticker, parts: &mut DispatchParts) -> Duration {
    let tick = ticker.node.settings.tick;
    if !ticker.runner.executors.are_ready() {
        // This node cannot start runs now, so due runs are left to other nodes.
        ticker.health.notes.claims(Claims::Suspended);
        return tick;
    }
    ticker.health.notes.claims(Claims::Taken);
    let capacity = hold_back(ticker);
    if let Some(quiet) = parts.quiet.take().filter(|_| capacity > 0) {
        let sent = BootInstant::now();
        match short_poll(ticker, &quiet, sent).await {
            Ok(None) => {}
            Ok(Some(sleep)) => {
                // At the ready time of the next run, the lanes are polled at once.
                parts.quiet = Some(quiet).filter(|_| sleep == LONGEST_SLEEP);
                return sleep;
            }
            Err(error) => return no_answer(ticker, &error, sent),
        }
    }
    // Before queues and lanes are known, the poll asks for no lanes. It still shows whether Redis
    // answers.
    let mut offers =
        if ticker.runner.slots.has_learnt() { ticker.runner.slots.offers() } else { Vec::new() };
    for offer in &mut offers {
        offer.slots = offer.slots.min(capacity);
    }
    let has_room = capacity > 0 && !offers.is_empty() && offers.iter().all(|offer| offer.slots > 0);
    parts.result.waits = !has_room;
    let known = ticker.runner.loss_watch.known_now();
    let sent = BootInstant::now();
    let LanePage { offers, is_whole } = parts.pages.page(offers, sent);
    let lanes = parts.dispatcher.asks(&offers);
    let poll = match ticker.node.store.list_due(&lanes).await {
        Ok(poll) => poll,
        Err(error) => return no_answer(ticker, &error, sent),
    };
    ticker.node.outage_log.answered();
    is_step(ticker, poll.now, sent);
    ticker.health.notes.data(state_of_data(&poll));
    ticker.runner.leases.note_of_all_nodes(poll.leases);
    if !ticker.runner.loss_watch.knows(&poll, known) {
        // The data in Redis was lost or replaced. Nothing starts before the recovery has ended.
        return tick;
    }
    ticker.node.store.trust(&poll.marks.server);
    ticker.node.wakeups.note_poll(poll.trace.as_ref());
    let is_settled = state_of_data(&poll) == NoteData::IsSettled;
    let is_calm = is_settled && poll.gates.is_empty();
    // What opening the gates changes is counted after this poll.
    let proof = poll.trace.as_ref().filter(|_| is_settled);
    let is_forgotten = parts.pages.note_poll(poll.now, proof, sent);
    let is_whole = is_whole && !is_forgotten;
    let to_gate = poll.next_gate.map(|at| at.since(poll.now).saturating_sub(poll.past_now));
    let mut next = to_gate.map_or(LONGEST_SLEEP, |time| time.min(LONGEST_SLEEP));
    let served = if poll.gates.is_empty() { Vec::new() } else { ticker.runner.slots.offers() };
    match parts.gatekeeper.open(&ticker.node, &poll.gates, &served).await {
        // A run that got a place at its gate is due now.
        Ok(1..) => next = Duration::ZERO,
        Ok(0) if poll.gates.is_empty() => {}
        Ok(0) => next = next.min(tick),
        Err(error) => {
            ticker.node.outage_log.failed(&error, "runs that wait at gates do not start");
            next = next.min(tick);
        }
    }
    let found = read_lanes(ticker, parts, offers, poll.lanes, (poll.now, poll.past_now));
    if let Some(head) = found.next {
        next = next.min(head.since(poll.now).saturating_sub(poll.past_now));
    }
    let first = found.next.into_iter().chain(poll.next_gate).min();
    let is_quiet = is_calm && has_room && is_whole && found.is_quiet;
    if !is_whole {
        next = next.min(if found.has_idle || is_forgotten { Duration::ZERO } else { tick });
    }
    parts.claimer.read_definitions(&found.queues).await;
    parts.dispatcher.begin_round(found.queues, capacity);
    work(ticker, parts, poll.now).await;
    if claim_behind(ticker, parts, poll.now).await.is_err() {
        next = next.min(tick);
    }
    let pace = parts.dispatcher.pace();
    parts.result.waits |= pace == DispatchPace::NextTick;
    match pace {
        DispatchPace::AtOnce => Duration::ZERO,
        DispatchPace::NextTick => next.min(tick),
        DispatchPace::Idle => {
            let until = BootInstant::now().saturating_add(LONGEST_QUIET);
            parts.quiet = poll
                .trace
                .filter(|_| is_quiet && next == LONGEST_SLEEP)
                .map(|trace| Quiet { trace, next: first, until });
            next
        }
    }
}

/// Asks Redis whether the lanes must be polled, and returns `None` if so. The lanes must be polled
/// if the data has changed since their last poll, or a run is due. Otherwise returns the time to
/// sleep before the next poll.
async fn short_poll(
    ticker: &Ticker,
    quiet: &Quiet,
    sent: BootInstant,
) -> Result<Option<Duration>, StoreError> {
    if sent >= quiet.until {
        return Ok(None);
    }
    let Some(found) = ticker.node.store.short_poll(&quiet.trace).await? else { return Ok(None) };
    ticker.node.outage_log.answered();
    if is_step(ticker, found.now, sent) || !found.is_unchanged {
        return Ok(None);
    }
    ticker.runner.loss_watch.saw_again(found.now);
    let ahead = quiet.next.map(|next| next.since(found.now).saturating_sub(found.past_now));
    if ahead.is_some_and(|ahead| ahead.is_zero()) {
        return Ok(None);
    }
    ticker.health.progress.saw_next(ahead);
    Ok(Some(ahead.unwrap_or(LONGEST_SLEEP).min(LONGEST_SLEEP)))
}

/// Records that Redis did not answer the poll that was sent at `sent`. Returns the time to sleep
/// before the next poll.
fn no_answer(ticker: &Ticker, error: &StoreError, sent: BootInstant) -> Duration {
    ticker.node.outage_log.failed(error, "this node starts no runs");
    ticker.health.notes.redis_silent(sent);
    ticker.node.settings.tick
}

/// Records `now`, the time by Redis' clock in the answer to a request that was sent at `sent`.
/// Returns true if the clock has stepped since the last poll.
fn is_step(ticker: &Ticker, now: UnixMillis, sent: BootInstant) -> bool {
    ticker.health.notes.redis_answered(now);
    let step = ticker.health.redis_clock.read(now, sent, BootInstant::now());
    if let Some(by) = step {
        warn!(by_ms = by, "The clock of Redis was set {}.", step_text(by));
        ticker.health.notes.clock_stepped(by);
        ticker.node.wakeups.deadline_watch.notify_one();
    }
    step.is_some()
}

/// Returns the due entries that a poll found, by queue, and the ready time of the next run. Also
/// records the state of each queue for the node events.
///
/// `offers` are the polled queues, and `answers` the answers for their lanes. `now` is Redis' time
/// of the answers, and `past_now` the time passed since.
fn read_lanes(
    ticker: &Ticker,
    parts: &mut DispatchParts,
    offers: Vec<Offer>,
    answers: Vec<LanePoll>,
    (now, past_now): (UnixMillis, Duration),
) -> FoundLanes {
    let (mut found, mut next, mut is_quiet) = (Vec::new(), None::<UnixMillis>, true);
    let mut has_idle = false;
    let mut answers = answers.into_iter();
    for Offer { queue, lanes, mut slots, share } in offers {
        let (mut in_lanes, mut hold) = (Vec::new(), None);
        for (lane, answer) in lanes.into_iter().zip(answers.by_ref()) {
            match answer {
                LanePoll::WrongType(error) => {
                    is_quiet = false;
                    parts.pages.forget(&lane);
                    parts.claimer.report_wrong_type(&lane, &error);
                }
                LanePoll::Due { due, next: head, capacity, no_room } => {
                    if due.is_empty() && no_room.is_none() {
                        has_idle |= parts.pages.note_next(&lane, head);
                    } else {
                        is_quiet = false;
                        parts.pages.forget(&lane);
                    }
                    if !due.is_empty() || no_room.is_some() {
                        ticker.runner.slots.saw_due_runs(&queue);
                    }
                    hold = hold.or(no_room);
                    slots = slots.min(capacity.unwrap_or(slots));
                    if head.is_some() || !due.is_empty() {
                        ticker.runner.slots.saw(&lane);
                    }
                    next = next.into_iter().chain(head).min();
                    note_wait(ticker, &queue, &due);
                    if !due.is_empty() {
                        in_lanes.push((lane, due));
                    }
                }
            }
        }
        ticker
            .health
            .notes
            .queue(&queue, hold.map(|hold| ticker.runner.slots.why_no_room(&queue, hold)));
        if !in_lanes.is_empty() {
            found.push(FoundQueue { queue, share, slots, lanes: in_lanes });
        }
    }
    let next = next.into_iter().chain(parts.pages.first_after(now)).min();
    ticker.health.progress.saw_next(next.map(|head| head.since(now).saturating_sub(past_now)));
    FoundLanes { queues: found, next, is_quiet, has_idle }
}

/// Records that due runs of `queue` wait for a slot, and since when. Only time in which all slots
/// of `queue` were taken counts.
fn note_wait(ticker: &Ticker, queue: &QueueName, due: &[DueEntry]) {
    let ready = due.first().and_then(|first| first.score.parse().ok()).and_then(UnixMillis::new);
    if let Some(ready) = ready {
        ticker.health.notes.waits_for_slot(queue, ready);
    }
}

/// Carries out the steps of the dispatcher until its round is over or this node stops claiming.
async fn work(ticker: &Ticker, parts: &mut DispatchParts, now: UnixMillis) {
    let DispatchParts { dispatcher, claimer, result, .. } = parts;
    while ticker.node.phase() == Phase::Running
        && let Some(step) = dispatcher.next(BootInstant::now())
    {
        ticker.health.progress.ticker.back_within(Duration::ZERO);
        let mut report = ClaimReport::default();
        let done = match step {
            DispatchStep::Claim(batch) => {
                let reserved = ticker.runner.slots.reserve(batch.lane.queue(), batch.slots);
                if reserved.count() < batch.slots {
                    dispatcher.limit(reserved.count());
                }
                if reserved.count() == 0 {
                    Ok(())
                } else {
                    let batch = ClaimBatch { slots: reserved.count(), ..batch };
                    claimer.claim(batch, now, &mut dispatcher.hints, &mut report).await
                }
            }
            DispatchStep::SetAside { lane, entry, why } => {
                claimer.set_aside(&lane, &entry, &why, &mut report).await
            }
        };
        result.started += report.started;
        match done {
            Ok(()) => dispatcher.note(report),
            Err(error) => {
                if let Some(queue) = dispatcher.give_up(report) {
                    ticker
                        .node
                        .outage_log
                        .failed(&error, &format!("no run of queue {queue} starts"));
                }
            }
        }
    }
}

/// Claims runs past the blocked runs that the round found, for the slots that are left. Returns an
/// error if a lane could not be searched.
async fn claim_behind(
    ticker: &Ticker,
    parts: &mut DispatchParts,
    now: UnixMillis,
) -> Result<(), ()> {
    let mut result = Ok(());
    let until = BootInstant::now().saturating_add(ticker.node.settings.tick / WALKS);
    while let Some((queue, lane)) = parts.dispatcher.next_blocked() {
        let free = ticker
            .runner
            .slots
            .offers()
            .into_iter()
            .find(|offer| offer.queue == queue)
            .map_or(0, |offer| offer.slots);
        let slots = free.min(hold_back(ticker));
        if slots == 0 || ticker.node.phase() != Phase::Running {
            continue;
        }
        ticker.health.progress.ticker.back_within(Duration::ZERO);
        let walk = parts.dispatcher.take_walk(&lane, BootInstant::now());
        let bounds = SearchBounds { most: slots.min(BATCH), until, now };
        match parts.search.search(&lane, walk, bounds).await {
            Ok((walk, found)) => {
                parts.dispatcher.begin_behind(
                    (queue, lane),
                    walk,
                    found,
                    slots,
                    BootInstant::now(),
                );
                work(ticker, parts, now).await;
            }
            Err(error) => {
                ticker.node.outage_log.failed(&error, &format!("no run of queue {queue} starts"));
                result = Err(());
            }
        }
    }
    result
}

/// Returns whether the data in Redis is complete, is being restored after a data loss, or is being
/// examined on a new server. Runs start only if the data is complete.
fn state_of_data(poll: &Poll) -> NoteData {
    match (poll.is_restoring, poll.is_on_new_server || poll.marks.met == Met::No) {
        (true, _) => NoteData::Settles,
        (false, true) => NoteData::IsLookedAt,
        (false, false) => NoteData::IsSettled,
    }
}

/// Returns the number of further runs that this node may start, for all queues together. Returns 0
/// while the host exceeds a limit or no run can be started.
fn hold_back(ticker: &Ticker) -> usize {
    let short = ticker.runner.executors.short_of();
    if ticker.limits.look(
        &ticker.node.settings.host,
        ticker.runner.slots.running(),
        short,
        ticker.health.notes.now(),
    ) == LimitLook::News
    {
        ticker.node.wakeups.presence.notify_one();
    }
    ticker.health.notes.at_limit(ticker.limits.at_limit().map(|limit| limit.why));
    if ticker.limits.is_limited_by_host() {
        0
    } else {
        ticker.runner.slots.capacity().min(ticker.runner.executors.capacity())
    }
}
