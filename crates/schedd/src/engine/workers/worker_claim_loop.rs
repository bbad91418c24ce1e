//! The loop that claims runs for the workers that wait at this node. One poll serves all of them.
//!
//! Invariant: while no run is ready, waiting workers cause no call to Redis, but for one that looks for
//! the runs of an earlier question with the same id. The loop polls a lane again when a change was
//! announced or counted, and when the next known run is ready.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::future::join_all;

use super::handed_claims::{HandedClaim, MOST_DEFINITION};
use super::waiting_asks::WaitingAsk;
use super::worker_ask::HandedRun;
use super::worker_claims::{ClaimedRuns, WorkerClaims, give_back, note_start, starts_once};
use crate::engine::dispatch::claimer::{ClaimParty, Claimer};
use crate::engine::dispatch::dispatcher::run_hints::RunHints;
use crate::engine::dispatch::dispatcher::{ClaimBatch, ClaimReport};
use crate::engine::dispatch::due_entry::{DueRun, well_formed};
use crate::engine::dispatch::slots::BATCH;
use crate::engine::execution::start_mark;
use crate::engine::node_context::Phase;
use schedd_core::domain::queue::lane::Lane;
use schedd_core::host::boot_clock::BootInstant;
use schedd_schedule::names::JobName;
use schedd_schedule::time::unix_millis::UnixMillis;
use schedd_store::{Claim, Claimant, DueEntry, LaneAsk, LanePoll, StoreError};

/// The longest sleep between two rounds while workers wait. A round without news calls no Redis.
const LONGEST_SLEEP: Duration = Duration::from_secs(60);
/// The most runs of one lane that a poll reads.
const MOST_READ: usize = 500;
/// The number of further runs of a lane that a poll lists, so that the definitions of the next runs
/// are read together. A worker that asks for single runs then waits for one reading in so many.
const AHEAD: usize = 25;
/// The most times that one round decides about the same run.
const DECISIONS: usize = 5;
/// The time after which a question is tried again whose turn another desk had.
const TURN: Duration = Duration::from_millis(10);
/// The maximum size of all payloads of an answer, in bytes.
const MOST_PAYLOAD_BYTES: usize = 4 * 1024 * 1024;

/// The state of the loop between its rounds.
#[derive(Default)]
struct ClaimLoop {
    hints: RunHints,
    /// The lanes that the last poll found without due runs, each with the ready time of its next run.
    /// Forgotten after each change.
    idle: HashMap<Lane, Option<BootInstant>>,
    /// True if the last round left no lane to poll for the questions that wait. Until a change, or until
    /// a run of these lanes is ready, a round then serves new questions only.
    is_settled: bool,
    /// The number of changes that were announced or counted before the last round.
    seen: u64,
    ahead: ReadAhead,
}

impl ClaimLoop {
    /// Returns when the next known run is ready in the lanes without due runs.
    fn next_ready(&self) -> Option<BootInstant> {
        self.idle.values().flatten().min().copied()
    }

    /// Takes the questions that a round has to serve: all, or the new ones and those that are over.
    fn take_asks(&mut self, claims: &WorkerClaims) -> Vec<WaitingAsk> {
        let (now, changes) = (BootInstant::now(), claims.node.wakeups.worker_news());
        if std::mem::replace(&mut self.seen, changes) != changes {
            self.idle.clear();
            self.is_settled = false;
        }
        // A lane whose next run is ready is forgotten also if no worker waits for it any more.
        if self.next_ready().is_some_and(|ready| ready <= now) {
            self.idle.retain(|_, next| next.is_none_or(|ready| ready > now));
            self.is_settled = false;
        }
        if self.is_settled {
            claims.waiting.take_new_and_over(now)
        } else {
            claims.waiting.take_all()
        }
    }
}

/// The jobs whose definitions were read for later claims.
#[derive(Default)]
struct ReadAhead {
    jobs: Vec<JobName>,
    /// True after a reading with a large definition.
    is_off: bool,
}

impl ReadAhead {
    /// Returns the number of runs to read ahead.
    fn most(&self) -> usize {
        if self.is_off { 0 } else { AHEAD }
    }

    /// Reads the definitions of `runs`. If one is missing, reads also those of the first of the `next`
    /// due runs, for the next claims.
    async fn read_definitions(
        &mut self,
        claimer: &mut Claimer,
        runs: &[DueRun],
        next: &[DueEntry],
    ) -> Result<(), StoreError> {
        let names = runs.iter().map(|due_run| due_run.run.job());
        let definitions = claimer.definitions();
        if names.clone().all(|name| definitions.get(name).is_some()) {
            return Ok(());
        }
        // Other nodes may have taken the runs of these jobs.
        for name in self.jobs.drain(..) {
            definitions.forget_once(&name);
        }
        let next = next.iter().take(self.most()).filter_map(|entry| well_formed(entry).ok());
        self.jobs = next.map(|(run, _)| run.job().clone()).collect();
        // A reading that fails may have been too large.
        self.is_off = true;
        definitions.read_missing(names.clone().chain(&self.jobs)).await?;
        let read = names.chain(&self.jobs).filter_map(|name| definitions.get(name));
        self.is_off = read.map(|job| job.record.definition.len()).max() > Some(MOST_DEFINITION);
        Ok(())
    }
}

/// A waiting worker in a round, with the runs that it has got.
struct ServedAsk {
    waiting: WaitingAsk,
    runs: Vec<HandedRun>,
    payload_bytes: usize,
    /// True if this desk, and no other, may claim runs for the question now.
    has_turn: bool,
    /// The error of a claim for the question. Redis may have carried out the claim. The worker gets the
    /// error, and asks again with the same id.
    failure: Option<StoreError>,
    /// True if another node has the question now, so that it gets no runs here.
    is_elsewhere: bool,
}

impl ServedAsk {
    fn new(waiting: WaitingAsk) -> Self {
        Self {
            waiting,
            runs: Vec::new(),
            payload_bytes: 0,
            has_turn: false,
            failure: None,
            is_elsewhere: false,
        }
    }

    /// Takes the turn of the question for this round. Returns false if another desk has it.
    fn takes_turn(&mut self) -> bool {
        self.has_turn |= self.waiting.turn.take();
        self.has_turn
    }

    fn room(&self) -> usize {
        if self.payload_bytes >= MOST_PAYLOAD_BYTES
            || !self.waiting.is_looked_up
            || self.is_elsewhere
        {
            return 0;
        }
        self.waiting.ask.most.saturating_sub(self.runs.len())
    }
}

/// Answers the waiting workers. Never returns.
pub(crate) async fn run(claims: Arc<WorkerClaims>) {
    let mut state = ClaimLoop::default();
    loop {
        let sleep = round(&claims, &mut state).await;
        tokio::select! {
            () = tokio::time::sleep(sleep) => {}
            () = claims.node.wakeups.worker_claims.notified() => {}
        }
    }
}

/// Serves the waiting workers once. Returns the time to sleep before the next round.
async fn round(claims: &WorkerClaims, state: &mut ClaimLoop) -> Duration {
    let served: Vec<ServedAsk> = state
        .take_asks(claims)
        .into_iter()
        .filter(|waiting| !waiting.is_gone())
        .map(ServedAsk::new)
        .collect();
    let again = match claims.node.phase() {
        _ if served.is_empty() => None,
        Phase::Running => serve_and_answer(claims, state, served).await,
        _ => {
            for served in served {
                served.waiting.answer(Ok(Vec::new()));
            }
            None
        }
    };
    state.is_settled = again.is_none();
    let Some(next_end) = claims.waiting.next_end() else { return LONGEST_SLEEP };
    let now = BootInstant::now();
    let next = state.next_ready().map_or(next_end, |ready| ready.min(next_end)).since(now);
    again.map_or(next, |again| again.min(next)).min(LONGEST_SLEEP)
}

/// Serves these questions, answers those that have runs or are over, and lets the others wait. Returns
/// the time after which the lanes must be polled again although nothing changes, or `None` if no run
/// is left due.
async fn serve_and_answer(
    claims: &WorkerClaims,
    state: &mut ClaimLoop,
    mut served: Vec<ServedAsk>,
) -> Option<Duration> {
    let again = match serve(claims, state, &mut served).await {
        Ok(again) => again,
        Err(error) => {
            claims.node.outage_log.failed(&error, "workers get no runs");
            Some(claims.node.settings.tick)
        }
    };
    let now = BootInstant::now();
    for served in &served {
        // The other desks of this node serve the question now.
        if served.is_elsewhere && served.has_turn && served.runs.is_empty() {
            served.waiting.turn.give_back();
        }
    }
    let mut waiting = answer_those(served, |served| {
        !served.runs.is_empty()
            || served.failure.is_some()
            || served.is_elsewhere
            || served.waiting.until <= now
    });
    let new = waiting.iter_mut().filter(|served| {
        served.waiting.is_looked_up && !served.waiting.is_marked && !served.waiting.is_gone()
    });
    let marked = join_all(new.map(|served| begin_to_wait(claims, served))).await;
    let again = again.or(marked.contains(&false).then_some(claims.node.settings.tick));
    let waiting = answer_those(waiting, |served| !served.runs.is_empty());
    for served in &waiting {
        if served.has_turn {
            served.waiting.turn.give_back();
        }
    }
    claims.waiting.put_back(waiting.into_iter().map(|served| served.waiting).collect());
    again
}

/// Answers the questions for which `is_over` is true, and returns the others.
fn answer_those(served: Vec<ServedAsk>, is_over: impl FnMut(&ServedAsk) -> bool) -> Vec<ServedAsk> {
    let (over, waiting): (Vec<_>, Vec<_>) = served.into_iter().partition(is_over);
    for served in over {
        served.waiting.answer(served.failure.map_or(Ok(served.runs), Err));
    }
    waiting
}

/// Marks a question that found no runs as this node's, and gives it the runs that another node has
/// claimed for it meanwhile. Returns false if the question must be looked up again, because Redis did
/// not answer.
async fn begin_to_wait(claims: &WorkerClaims, served: &mut ServedAsk) -> bool {
    match claims.mark(&mut served.waiting).await {
        Ok(runs) if runs.is_empty() => {}
        Ok(runs) => {
            if served.takes_turn() {
                served.runs = runs;
            }
        }
        Err(error) => {
            claims.node.outage_log.failed(&error, "workers get no runs");
            served.waiting.is_looked_up = false;
            served.waiting.needs_mark = true;
            return false;
        }
    }
    true
}

/// Gives each new question the runs of an earlier question with the same id. A question without such
/// runs may get new runs. Returns the time after which questions must be looked up again: another desk
/// claims runs for them now, or their shard does not answer.
async fn look_up(claims: &WorkerClaims, served: &mut [ServedAsk]) -> Option<Duration> {
    let new = served.iter_mut().filter(|served| !served.waiting.is_looked_up);
    let looks = new.map(async |served| match claims.look_up(&mut served.waiting).await {
        Ok(runs) if runs.is_empty() => served.waiting.is_looked_up = true,
        Ok(runs) if served.takes_turn() => served.runs = runs,
        Ok(_) => {}
        // The question waits for runs of other places, although the shard does not answer.
        Err(_) if claims.node.store.shard_number().is_some() => {}
        Err(error) => served.failure = Some(error),
    });
    join_all(looks).await;
    let is_left = |served: &ServedAsk| {
        !served.waiting.is_looked_up && served.runs.is_empty() && served.failure.is_none()
    };
    served.iter().any(is_left).then(|| TURN.min(claims.node.settings.tick))
}

/// Looks for earlier questions with the same ids, polls the lanes for which workers wait, and claims
/// their due runs. Returns the time after which the lanes must be polled again although nothing
/// changes, or `None` if no run is left due.
async fn serve(
    claims: &WorkerClaims,
    state: &mut ClaimLoop,
    served: &mut [ServedAsk],
) -> Result<Option<Duration>, StoreError> {
    let mut lanes = claims.slots.lanes_of_workers();
    lanes.retain(|lane| {
        !state.idle.contains_key(lane)
            && served.iter().any(|served| served.waiting.ask.serving.takes(lane))
    });
    if lanes.is_empty() {
        return Ok(look_up(claims, served).await);
    }
    lanes.sort_by(|a, b| (a.queue(), b.priority()).cmp(&(b.queue(), a.priority())));
    let asks: Vec<LaneAsk> = lanes
        .iter()
        .map(|lane| {
            let takers = served.iter().filter(|served| served.waiting.ask.serving.takes(lane));
            let most: usize = takers.map(|served| served.waiting.ask.most).sum();
            let more = state.hints.refused_count().min(BATCH) + state.ahead.most();
            LaneAsk { more, ..LaneAsk::new(lane.clone(), most.min(MOST_READ)) }
        })
        .collect();
    let known = claims.loss_watch.known_now();
    let sent = BootInstant::now();
    claims.polls.fetch_add(1, Ordering::Relaxed);
    let (poll, look_again) =
        tokio::join!(claims.node.store.list_due(&asks), look_up(claims, served));
    let poll = poll?;
    claims.node.outage_log.answered();
    if !claims.loss_watch.knows(&poll, known) {
        return Ok(Some(claims.node.settings.tick));
    }
    claims.node.store.trust(&poll.marks.server);
    let mut again = look_again;
    for (lane, answer) in lanes.into_iter().zip(poll.lanes) {
        let mut claimer = claims.claimer.lock().await;
        match answer {
            LanePoll::WrongType(error) => claimer.report_wrong_type(&lane, &error),
            LanePoll::Due { due, next, no_room, .. } if due.is_empty() && no_room.is_none() => {
                let ready = |at: UnixMillis| {
                    sent.saturating_add(at.since(poll.now).saturating_sub(poll.past_now))
                };
                state.idle.insert(lane, next.map(ready));
            }
            LanePoll::Due { due, no_room, .. } => {
                claims.slots.saw(&lane);
                state.idle.remove(&lane);
                // The end of a run of a full queue is announced. A rate limit is only a time.
                again = again.or(Some(claims.node.settings.tick));
                if no_room.is_some() {
                    continue;
                }
                let lane_runs = LaneRuns { lane: &lane, due: due.into_iter(), now: poll.now };
                let known = (&mut state.hints, &mut state.ahead);
                let handed = hand_out(claims, &mut claimer, known, lane_runs, served);
                if handed.await? == TurnOfAll::IsElsewhere {
                    again = Some(TURN.min(claims.node.settings.tick));
                }
            }
        }
    }
    Ok(again)
}

/// The due runs of a lane, as a poll found them.
struct LaneRuns<'l> {
    lane: &'l Lane,
    due: std::vec::IntoIter<DueEntry>,
    now: UnixMillis,
}

/// The place of the turns of the questions that a lane serves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TurnOfAll {
    /// Each question had its turn here.
    WasHere,
    /// Another desk has the turn of a question now.
    IsElsewhere,
}

/// Claims due runs of a lane for the workers that take them, the worker that asked first comes first.
async fn hand_out(
    claims: &WorkerClaims,
    claimer: &mut Claimer,
    (hints, ahead): (&mut RunHints, &mut ReadAhead),
    mut found: LaneRuns<'_>,
    served: &mut [ServedAsk],
) -> Result<TurnOfAll, StoreError> {
    let (lane, mut turns) = (found.lane, TurnOfAll::WasHere);
    for served in served.iter_mut().filter(|served| served.waiting.ask.serving.takes(lane)) {
        if !served.takes_turn() {
            turns = TurnOfAll::IsElsewhere;
            continue;
        }
        while served.room() > 0 {
            let mut runs = Vec::new();
            for entry in found.due.by_ref() {
                match well_formed(&entry) {
                    Ok((run, _)) if hints.is_refused(&run, BootInstant::now()) => {}
                    Ok((run, _)) => runs.push(DueRun::new(run, entry)),
                    Err(why) => {
                        claimer.set_aside(lane, &entry, &why, &mut ClaimReport::default()).await?;
                    }
                }
                if runs.len() == served.room().min(BATCH) {
                    break;
                }
            }
            if runs.is_empty() {
                return Ok(turns);
            }
            ahead.read_definitions(claimer, &runs, found.due.as_slice()).await?;
            if claim(claims, claimer, hints, (lane, runs, found.now), served).await? {
                return Ok(turns);
            }
        }
    }
    Ok(turns)
}

/// Claims these due runs of a lane for one worker. Returns true if the queue has no more room.
async fn claim(
    claims: &WorkerClaims,
    claimer: &mut Claimer,
    hints: &mut RunHints,
    (lane, mut runs, now): (&Lane, Vec<DueRun>, UnixMillis),
    served: &mut ServedAsk,
) -> Result<bool, StoreError> {
    let ask = served.waiting.ask.clone();
    // Runs beyond the room of an answer stay due, and a later question gets them.
    let mut bytes = served.payload_bytes;
    runs.retain(|due| {
        let has_room = bytes < MOST_PAYLOAD_BYTES;
        let job = claimer.definitions().get(due.run.job());
        bytes += job.map_or(0, |job| job.record.definition.len());
        has_room
    });
    if claims.pauses_at_most_once() {
        let definitions = claimer.definitions();
        runs.retain(|due| !definitions.get(due.run.job()).is_some_and(|job| starts_once(&job)));
    }
    let known = claims.loss_watch.known_now();
    let got = Arc::new(ClaimedRuns::default());
    claimer.claim_for(ClaimParty {
        claimant: Claimant {
            holder: ask.holder(),
            incarnation: claims.node.settings.incarnation.clone(),
            lease: ask.lease,
            claim_note: Some((
                served.waiting.turn.writer(served.waiting.is_marked),
                ask.noted_for(),
            )),
        },
        token: Some(ask.id.clone()),
        starter: got.clone(),
    });
    let mut has_no_room = false;
    for _ in 0..DECISIONS {
        let batch = ClaimBatch { lane: lane.clone(), runs, slots: served.room() };
        let mut report = ClaimReport::default();
        let outcome = claimer.claim(batch, now, hints, &mut report).await;
        let (taken, void) = claims.sort_out(&served.waiting, got.take()).await;
        served.is_elsewhere |= !void.is_empty();
        for (_, claim, _) in void {
            tokio::spawn(give_back(claims.node.clone(), claim, ask.lease));
        }
        let marked: Vec<&Claim> =
            taken.iter().filter(|(job, ..)| starts_once(job)).map(|(_, claim, _)| claim).collect();
        let on_replicas = Box::pin(start_mark::await_replicas(&claims.node, &marked)).await;
        for (definition, claim, sent) in taken {
            if let Err(error) = &on_replicas
                && starts_once(&definition)
            {
                claims.refuse_at_most_once(error);
                tokio::spawn(give_back(claims.node.clone(), claim, ask.lease));
                continue;
            }
            let run = claims.handed_run(&definition, &claim, &ask.id, ask.lease);
            let is_small = definition.record.definition.len() <= MOST_DEFINITION;
            served.payload_bytes += run.payload.len();
            served.runs.push(run);
            note_start(claims, &definition, &claim, &ask.holder()).await;
            // The report of the worker needs the definition again, even that of a one-shot.
            if is_small {
                claims.handed.add(HandedClaim { claim, definition, ask: ask.clone(), sent, known });
            } else {
                claimer.definitions().keep(claim.run.job().clone(), definition);
            }
        }
        if let Err(error) = outcome {
            served.failure = Some(error.clone());
            return Err(error);
        }
        has_no_room |= report.has_no_room;
        runs = report.again;
        if runs.is_empty() || has_no_room {
            break;
        }
    }
    Ok(has_no_room)
}
