//! Decides what becomes of each ripe run, and claims those that are to run.
//!
//! Invariant: what was won is started, whatever else fails: nothing that can fail stands between a claim's answer and the start
//! of its runs. A claim whose answer got lost is repeated with its token until Redis says what became of it, as long as the
//! lease it may have taken is worth anything. A run that cannot be dealt with holds up no other, and is not tried at every poll.

mod aside;
mod missed;

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use tracing::{debug, error};

use super::definition::Definition;
use super::definitions::{Definitions, KEPT};
use super::ripe::{Ripe, well_formed};
use super::runner;
use super::shared::{Phase, Shared};
use super::slots::BATCH;
use crate::domain::dispatch::{Pick, Shares, Turns, Waiting};
use crate::domain::gate::{Gate, gates_of};
use crate::domain::ids::{JobName, QueueName, RunId, RunKind};
use crate::domain::lane::Lane;
use crate::domain::lateness::Decision;
use crate::domain::schedule::Schedule;
use crate::domain::time::UnixMillis;
use crate::keeper::BootInstant;
use crate::store::{ClaimOrder, ClaimReply, Claimant, RipeEntry, StoreError};

/// Rounds before a run is left to the next poll.
const ROUNDS: usize = 5;
/// How long a run that could not be dealt with is left alone.
const REFUSED_FOR: Duration = Duration::from_secs(5);
/// How often a claim without an answer is asked for again once the node is to stop.
const LAST_TRIES: u32 = 3;

/// Decides and claims.
pub(super) struct Claimer {
    shared: Arc<Shared>,
    definitions: Definitions,
    /// Which queue comes next while this node has less room than they want.
    pub(super) shares: Shares,
    left: HashMap<Lane, usize>,
    /// Lanes in which runs were found lately that are not to start now: more are looked at than there are slots for.
    blocked: HashSet<Lane>,
    /// Whose turn it is in each queue.
    turns: HashMap<QueueName, Turns>,
    claimant: Claimant,
    /// Occurrences found to have a record already: their job's next is computed from the later of these.
    occupied: HashMap<RunId, UnixMillis>,
    /// Runs that could not be dealt with, and when that was found.
    refused: HashMap<RunId, BootInstant>,
    /// Jobs others are not to run beside, as far as was told.
    shunned: HashSet<JobName>,
    /// Gates a run was found to stand at beside those its job names.
    stands_at: HashMap<RunId, Vec<Gate>>,
}

/// The ripe entries of lanes of one queue.
pub(super) type RipeInLanes = Vec<(Lane, Vec<RipeEntry>)>;

/// A ripe run that is to run.
struct Planned {
    ripe: Ripe,
    order: ClaimOrder,
    definition: Arc<Definition>,
}

/// What became of ripe entries.
#[derive(Default)]
struct Tally {
    /// Gone from the due set.
    done: usize,
    /// Still in it, and nothing can be done about it now.
    left: usize,
}

impl Claimer {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        let claimant = Claimant {
            node: shared.settings.node.clone(),
            incarnation: shared.settings.incarnation.clone(),
            lease: shared.settings.lease,
        };
        let definitions = Definitions::new(shared.clone());
        Self {
            shared,
            definitions,
            shares: Shares::default(),
            turns: HashMap::new(),
            left: HashMap::new(),
            blocked: HashSet::new(),
            claimant,
            occupied: HashMap::new(),
            refused: HashMap::new(),
            shunned: HashSet::new(),
            stands_at: HashMap::new(),
        }
    }

    /// How many ripe runs of `lane` are to be looked at beyond those there are slots for: those this node could do nothing about
    /// at its last look, and a batch where it met some that are not to start now.
    pub(super) fn left_in(&self, lane: &Lane) -> usize {
        let blocked = if self.blocked.contains(lane) { BATCH } else { 0 };
        self.left.get(lane).copied().unwrap_or(0) + blocked
    }

    /// A key of a lane or its queue holds something else than it is to.
    pub(super) fn report_spoilt_lane(&self, lane: &Lane, error: &StoreError) {
        if self.shared.said.is_news(&format!("spoilt lane {lane}")) {
            error!(queue = %lane, "{error}; nothing of this lane runs until then.");
        }
    }

    /// Deals with ripe entries of the lanes of `queue`: starts what is to run, skips what is missed, puts aside what is no run. Gives
    /// how many it could do something about.
    pub(super) async fn take(
        &mut self,
        queue: &QueueName,
        found: RipeInLanes,
        slots: usize,
        now: UnixMillis,
    ) -> Result<usize, StoreError> {
        let mut tallies: Vec<(Lane, Tally)> = Vec::with_capacity(found.len());
        let mut waiting = Vec::new();
        for (at, (lane, entries)) in found.into_iter().enumerate() {
            let mut tally = Tally::default();
            for entry in entries {
                match well_formed(&entry) {
                    Ok((run, _)) if self.is_refused(&run) => tally.left += 1,
                    Ok((run, ready)) => {
                        waiting.push(Waiting { priority: lane.priority(), ready, item: (at, Ripe::new(run, entry)) });
                    }
                    Err(why) => self.put_aside(&lane, &entry, &why, &mut tally).await?,
                }
            }
            tallies.push((lane, tally));
        }
        let turns = self.turns.get(queue).copied().unwrap_or_default();
        let mut picks: VecDeque<_> = turns.order(waiting).into();
        let mut free = slots;
        // What did not start leaves its slot to the next in turn.
        while free > 0 && !picks.is_empty() && self.shared.phase() == Phase::Running {
            // Where runs were met lately that are not to start now, more are judged in one call than there are slots for.
            let batch = if tallies.iter().any(|(lane, _)| self.blocked.contains(lane)) { BATCH.max(free) } else { free };
            let mut together: Vec<(usize, Vec<Ripe>)> = Vec::new();
            let mut tried = Vec::new();
            for Pick { item: (at, ripe), is_oldest } in picks.drain(..batch.min(picks.len())) {
                tried.push(is_oldest);
                match together.iter_mut().find(|(of, _)| *of == at) {
                    Some((_, runs)) => runs.push(ripe),
                    None => together.push((at, vec![ripe])),
                }
            }
            let mut started = 0;
            for (at, runs) in together {
                let Some((lane, tally)) = tallies.get_mut(at) else { continue };
                let left = free.saturating_sub(started);
                if left > 0 {
                    started += self.take_from(lane, runs, left, now, tally).await?;
                }
            }
            // Of those beyond the slots some were not tried.
            tried.truncate(free);
            free = free.saturating_sub(started);
            self.turns.entry(queue.clone()).or_default().note(&tried, started);
        }
        let mut done = 0;
        for (lane, tally) in tallies {
            done += tally.done;
            self.left.insert(lane, tally.left);
        }
        Ok(done)
    }

    /// Deals with ripe runs of one lane and starts at most `slots` of them. How many were started.
    async fn take_from(
        &mut self,
        lane: &Lane,
        mut open: Vec<Ripe>,
        slots: usize,
        now: UnixMillis,
        tally: &mut Tally,
    ) -> Result<usize, StoreError> {
        let mut started = 0;
        for _ in 0..ROUNDS {
            if open.is_empty() || started >= slots || self.shared.phase() != Phase::Running {
                break;
            }
            let (planned, again) = self.decide(lane, open, now, tally).await?;
            open = again;
            let (mut orphans, mut foreign, mut is_held) = (Vec::new(), Vec::new(), false);
            if !planned.is_empty() {
                let sent = BootInstant::now();
                let replies = self.claim(lane, slots - started, &planned).await?;
                if replies.iter().any(|reply| matches!(reply, ClaimReply::Blocked(_))) {
                    self.blocked.insert(lane.clone());
                } else {
                    self.blocked.remove(lane);
                }
                for (planned, reply) in planned.into_iter().zip(replies) {
                    match self.settle(planned, reply, sent) {
                        Settled::Started => (started, tally.done) = (started + 1, tally.done + 1),
                        Settled::Done => tally.done += 1,
                        Settled::Left => tally.left += 1,
                        Settled::Full => {}
                        Settled::Held => is_held = true,
                        Settled::Again(ripe) => open.push(ripe),
                        Settled::Orphan(entry) => orphans.push(entry),
                        Settled::Foreign(entry) => foreign.push(entry),
                    }
                }
            }
            for entry in orphans {
                self.end_orphan(lane, &entry, tally).await?;
            }
            for entry in foreign {
                self.put_aside(lane, &entry, "its job does not plan it", tally).await?;
            }
            if is_held {
                open.clear();
            }
        }
        tally.left += open.len();
        Ok(started)
    }

    /// Makes an order of each run that is to run; skips the others. Gives also those to be decided again.
    async fn decide(
        &mut self,
        lane: &Lane,
        open: Vec<Ripe>,
        now: UnixMillis,
        tally: &mut Tally,
    ) -> Result<(Vec<Planned>, Vec<Ripe>), StoreError> {
        let unusable = self.definitions.read_missing(open.iter().map(|ripe| ripe.run.job())).await?;
        let (mut planned, mut again) = (Vec::new(), Vec::new());
        // Taken before any is dealt with: one forgotten on the way is not unknown for those behind.
        let definitions: Vec<_> = open.iter().map(|ripe| self.definitions.get(ripe.run.job())).collect();
        for (mut ripe, definition) in open.into_iter().zip(definitions) {
            let Some(definition) = definition else {
                if unusable.contains(ripe.run.job()) {
                    self.refuse(ripe.run);
                    tally.left += 1;
                } else {
                    self.end_orphan(lane, &ripe.entry, tally).await?;
                }
                continue;
            };
            let mut successor = None;
            let mut overlap = definition.spec.overlap_on_time();
            if !ripe.run.is_manual() && !ripe.is_owed {
                let mut dealt = Dealt::ToClaim;
                match self.judge(&definition, &ripe.run, now) {
                    Decision::Run { successor: next, is_missed } => {
                        successor = next;
                        let is_alone = matches!(definition.spec.schedule, Schedule::Delay(_));
                        if is_missed
                            && !is_alone
                            && let Some(within) = definition.spec.catch_up.spread
                        {
                            dealt = self.spread(&definition, &ripe.run, within, now).await?;
                        }
                        if is_missed {
                            overlap = definition.spec.overlap_when_missed();
                        }
                    }
                    Decision::Skip { last, count, successor: next } => {
                        dealt = self.skip(&definition, &ripe.run, last, count, next).await?;
                    }
                }
                match dealt {
                    Dealt::Done => {
                        tally.done += 1;
                        continue;
                    }
                    Dealt::Again => {
                        again.push(ripe);
                        continue;
                    }
                    Dealt::Left => {
                        tally.left += 1;
                        continue;
                    }
                    Dealt::Owed => (ripe.is_owed, overlap, successor) = (true, definition.spec.overlap_when_missed(), None),
                    Dealt::ToClaim => {}
                }
            } else if ripe.run.kind() == RunKind::Backfill {
                overlap = definition.spec.overlap_when_backfilled();
            } else if ripe.is_owed {
                overlap = definition.spec.overlap_when_missed();
            }
            let order = ClaimOrder {
                run: ripe.run.clone(),
                rev: definition.record.rev.clone(),
                overlap,
                max_age: definition.spec.catch_up.max_age,
                latest_start: definition.latest_start(&ripe.run),
                max_runs: definition.spec.shape.max_runs,
                successor: successor.map(|due| definition.planned(due)),
                job_lane: definition.record.lane.clone(),
                gates: gates_of(ripe.run.job(), &definition.spec, self.shunned.contains(ripe.run.job())),
                stands_at: self.stands_at.remove(&ripe.run).unwrap_or_default(),
                per_key: definition.spec.per_key,
            };
            planned.push(Planned { ripe, order, definition });
        }
        Ok((planned, again))
    }

    /// Claims, and asks again with the same token while no answer comes: the call may have been done.
    async fn claim(&self, lane: &Lane, slots: usize, planned: &[Planned]) -> Result<Vec<ClaimReply>, StoreError> {
        let token = super::planting::token();
        let orders: Vec<ClaimOrder> = planned.iter().map(|planned| planned.order.clone()).collect();
        let answer = self.claim_by(&token, lane, slots, &orders).await;
        if answer.is_err() {
            self.shared.abandoned.note(&token, orders.iter().map(|order| &order.run));
        }
        answer
    }

    async fn claim_by(
        &self,
        token: &str,
        lane: &Lane,
        slots: usize,
        orders: &[ClaimOrder],
    ) -> Result<Vec<ClaimReply>, StoreError> {
        let give_up = BootInstant::now().saturating_add(self.shared.settings.lease / 2);
        let mut last_tries = LAST_TRIES;
        loop {
            let error = match self.shared.store.claim_runs_within(slots, &self.claimant, lane, token, orders).await {
                // Whether the server in its place knows of a call before is for a poll to find out.
                Err(error @ StoreError::Replaced { .. }) => return Err(error),
                Err(error) if error.is_passing() && BootInstant::now() < give_up => error,
                other => return other,
            };
            if self.shared.phase() != Phase::Running {
                if last_tries == 0 {
                    return Err(error);
                }
                last_tries -= 1;
            }
            self.shared.weather.failed(&error, "what a claim won is not known");
            tokio::time::sleep(self.shared.settings.tick.max(Duration::from_millis(50))).await;
        }
    }

    /// Acts on one reply. Neither waits nor fails: a run won stands behind each that was not.
    fn settle(&mut self, planned: Planned, reply: ClaimReply, sent: BootInstant) -> Settled {
        let Planned { ripe, order, definition } = planned;
        match reply {
            ClaimReply::Claimed(claim) => {
                self.occupied.remove(&ripe.run);
                self.shared.watch.journal().claimed(claim.fence.as_u64());
                if definition.record.is_once {
                    // There are the most of these, and what is due once is not asked for again.
                    self.definitions.forget(ripe.run.job());
                }
                runner::start(&self.shared, definition, claim, self.shared.deadline(sent));
                Settled::Started
            }
            ClaimReply::Full => Settled::Full,
            ClaimReply::Stale => {
                self.definitions.forget(ripe.run.job());
                Settled::Again(ripe)
            }
            ClaimReply::Occupied => {
                if let Some(next) = &order.successor {
                    self.note_occupied(&ripe.run, next.run.due());
                }
                Settled::Again(ripe)
            }
            ClaimReply::Shunned => {
                if self.shunned.len() > KEPT {
                    self.shunned.clear();
                }
                self.shunned.insert(ripe.run.job().clone());
                Settled::Again(ripe)
            }
            ClaimReply::StandsAt(gates) => {
                if self.stands_at.len() > KEPT {
                    self.stands_at.clear();
                }
                self.stands_at.insert(ripe.run.clone(), gates);
                Settled::Again(ripe)
            }
            ClaimReply::Orphan => Settled::Orphan(ripe.entry),
            ClaimReply::Foreign => Settled::Foreign(ripe.entry),
            ClaimReply::WrongType(error) => {
                self.definitions.report_unusable(ripe.run.job(), &error.to_string());
                self.refuse(ripe.run);
                Settled::Left
            }
            ClaimReply::Blocked(how) => {
                debug!(run = %ripe.run, ?how, "Not started.");
                Settled::Done
            }
            ClaimReply::Gone => Settled::Done,
            // It stays where it is, and a poll shows it again when its queue has room.
            ClaimReply::Held => Settled::Held,
            ClaimReply::Early => Settled::Left,
        }
    }

    fn note_occupied(&mut self, run: &RunId, until: UnixMillis) {
        if self.occupied.len() > KEPT {
            self.occupied.clear();
        }
        self.occupied.insert(run.clone(), until);
    }

    fn refuse(&mut self, run: RunId) {
        if self.refused.len() > KEPT {
            self.refused.clear();
        }
        self.refused.insert(run, BootInstant::now());
    }

    /// Whether a run is one found lately that cannot be dealt with.
    fn is_refused(&mut self, run: &RunId) -> bool {
        let Some(at) = self.refused.get(run) else { return false };
        let is_refused = BootInstant::now().since(*at) < REFUSED_FOR;
        if !is_refused {
            self.refused.remove(run);
        }
        is_refused
    }
}

/// What became of a run that was judged.
enum Dealt {
    /// It is to be claimed.
    ToClaim,
    /// It is to be claimed, and nothing is planted for it: it is not its job's pending run.
    Owed,
    /// Skipped, or spread.
    Done,
    /// To be judged again.
    Again,
    /// It cannot be dealt with, and is left alone for a while.
    Left,
}

/// What became of one order.
enum Settled {
    Started,
    Done,
    Left,
    /// There was no slot left for it: it is met again.
    Full,
    Held,
    Again(Ripe),
    Orphan(RipeEntry),
    Foreign(RipeEntry),
}
