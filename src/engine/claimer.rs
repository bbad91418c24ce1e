//! Decides what becomes of each ripe run, and claims those that are to run.
//!
//! Invariant: what was won is started, whatever else fails: nothing that can fail stands between a claim's answer and the start
//! of its runs. A claim whose answer got lost is repeated with its token until Redis says what became of it, as long as the
//! lease it may have taken is worth anything. A run that cannot be dealt with holds up no other, and is not tried at every poll.

mod aside;
mod behind;
mod by_gate;
mod calling;
mod missed;
mod ordering;

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
use crate::domain::gate::Gate;
use crate::domain::ids::{JobName, QueueName, RunId};
use crate::domain::lane::Lane;
use crate::domain::time::UnixMillis;
use crate::keeper::BootInstant;
use crate::store::{ClaimOrder, ClaimReply, Claimant, RipeEntry, StoreError};

/// Rounds before a run is left to the next poll.
const ROUNDS: usize = 5;
/// How long a run that could not be dealt with is left alone.
const REFUSED_FOR: Duration = Duration::from_secs(5);
/// Decides and claims.
pub(super) struct Claimer {
    shared: Arc<Shared>,
    definitions: Definitions,
    /// Which queue comes next while this node has less room than they want.
    pub(super) shares: Shares,
    left: HashMap<Lane, usize>,
    /// Lanes in which runs were found lately that are not to start now: more are looked at than there are slots for.
    blocked: HashSet<Lane>,
    /// How far those were walked through behind their heads.
    walks: HashMap<Lane, behind::Walk>,
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

/// What was taken of the ripe entries of a queue.
#[derive(Debug, Clone, Copy)]
pub(super) struct Taken {
    /// How many it could do something about.
    pub(super) done: usize,
    /// How many began: so many slots it took.
    pub(super) started: usize,
}

/// What became of ripe entries.
#[derive(Default)]
struct Tally {
    /// Gone from the due set.
    done: usize,
    /// Still in it, and nothing can be done about it now.
    left: usize,
    /// Judged by a claim.
    judged: usize,
    /// Of those, so many are not to start now.
    blocked: usize,
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
            walks: HashMap::new(),
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

    /// Deals with ripe entries of the lanes of `queue`: starts what is to run, skips what is missed, puts aside what is no run.
    pub(super) async fn take(
        &mut self,
        queue: &QueueName,
        found: RipeInLanes,
        slots: usize,
        now: UnixMillis,
    ) -> Result<Taken, StoreError> {
        let mut tallies: Vec<(Lane, Tally)> = Vec::with_capacity(found.len());
        let mut waiting = Vec::new();
        // A run named twice would be claimed once, and started twice.
        let mut met = HashSet::new();
        for (at, (lane, entries)) in found.into_iter().enumerate() {
            let mut tally = Tally::default();
            for entry in entries {
                if !met.insert(entry.member.clone()) {
                    continue;
                }
                match well_formed(&entry) {
                    Ok((run, _)) if self.is_refused(&run) => tally.left += 1,
                    Ok((run, ready)) => {
                        let priority = lane.priority();
                        #[cfg(feature = "mutants")]
                        let priority = crate::store::mutants::priority(priority);
                        waiting.push(Waiting { priority, ready, item: (at, Ripe::new(run, entry)) });
                    }
                    Err(why) => self.put_aside(&lane, &entry, &why, &mut tally).await?,
                }
            }
            tallies.push((lane, tally));
        }
        let turns = self.turns.get(queue).copied().unwrap_or_default();
        let mut picks: VecDeque<_> = turns.order(waiting).into();
        let mut free = slots;
        let mut patience = BATCH;
        // What did not start leaves its slot to the next in turn.
        while free > 0 && !picks.is_empty() && self.shared.phase() == Phase::Running {
            // Where runs were met lately that are not to start now, more are judged in one call than there are slots for.
            let batch = if tallies.iter().any(|(lane, _)| self.blocked.contains(lane)) { BATCH.max(free) } else { free };
            let mut together: Vec<(usize, Vec<Ripe>)> = Vec::new();
            let mut tried = Vec::new();
            while tried.len() < batch
                && let Some(Pick { item: (at, ripe), is_oldest }) = picks.pop_front()
            {
                // Of lanes with such runs no more than a batch in one round, the next poll shows the others again: what may start in
                // other lanes does not wait behind a mass for longer than that takes.
                if tallies.get(at).is_some_and(|(lane, _)| self.blocked.contains(lane)) {
                    if patience == 0 {
                        continue;
                    }
                    patience -= 1;
                }
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
        let mut taken = Taken { done: 0, started: slots - free };
        for (lane, tally) in tallies {
            taken.done += tally.done;
            if tally.judged > 0 && tally.blocked == 0 {
                self.blocked.remove(&lane);
            }
            self.left.insert(lane, tally.left);
        }
        Ok(taken)
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
            let (mut orphans, mut aside, mut is_held) = (Vec::new(), Vec::new(), false);
            if !planned.is_empty() {
                let sent = BootInstant::now();
                let replies = self.claim(lane, slots - started, &planned).await?;
                tally.judged += replies.len();
                let blocked = replies.iter().filter(|reply| matches!(reply, ClaimReply::Blocked(_))).count();
                if blocked > 0 {
                    tally.blocked += blocked;
                    self.blocked.insert(lane.clone());
                }
                let mut unlisted = Vec::new();
                for (planned, reply) in planned.into_iter().zip(replies) {
                    if matches!(reply, ClaimReply::Claimed(_) | ClaimReply::Blocked(_)) {
                        unlisted.extend(by_gate::entry_of_once(&planned.definition, lane));
                    }
                    match self.settle(planned, reply, sent) {
                        Settled::Started => (started, tally.done) = (started + 1, tally.done + 1),
                        Settled::Done => tally.done += 1,
                        Settled::Left => tally.left += 1,
                        Settled::Full => {}
                        Settled::Held => is_held = true,
                        Settled::Again(ripe) => open.push(ripe),
                        Settled::Orphan(entry) => orphans.push(entry),
                        Settled::Aside(entry, why) => aside.push((entry, why)),
                    }
                }
                self.unlist_gated(lane, &unlisted).await;
            }
            for entry in orphans {
                self.end_orphan(lane, &entry, tally).await?;
            }
            for (entry, why) in aside {
                self.put_aside(lane, &entry, why, tally).await?;
            }
            if is_held {
                open.clear();
            }
        }
        tally.left += open.len();
        Ok(started)
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
                // What it was by the definition before: of this one it may be the planned run.
                Settled::Again(Ripe { is_owed: false, ..ripe })
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
            ClaimReply::Foreign => Settled::Aside(ripe.entry, "its job does not plan it"),
            ClaimReply::Spoilt => Settled::Aside(ripe.entry, "its record has a state that no run has"),
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
    /// It goes to quarantine, for this reason.
    Aside(RipeEntry, &'static str),
}
