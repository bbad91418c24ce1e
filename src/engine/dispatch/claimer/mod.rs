//! Decides about each due run, and claims the runs that are to start.
//!
//! Invariants:
//! - Each claimed run is started, whatever else fails. No step that can fail lies between the
//!   answer to a claim and the start of its runs.
//! - A claim without an answer is repeated with the same token until Redis answers, as long as the
//!   claimed lease could still be used.
//! - A run that cannot be handled delays no other run, and is not handled again at every poll.

mod blocked_walk;
mod claim_call;
mod claim_plan;
mod gate_walk;
mod missed_runs;
mod quarantine_step;

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use tracing::{debug, error};

use super::definition::Definition;
use super::definitions::{Definitions, KEPT};
use super::due_entry::{Ripe, well_formed};
use super::slots::BATCH;
use crate::domain::name::names::{JobName, QueueName, RunId};
use crate::domain::queue::dispatch::{LaneTurns, Pick, Shares, WaitingRun};
use crate::domain::queue::gate::Gate;
use crate::domain::queue::lane::Lane;
use crate::domain::time::unix_millis::UnixMillis;
use crate::engine::execution::runner;
use crate::engine::node_context::{NodeContext, Phase};
use crate::keeper::BootInstant;
use crate::store::{ClaimOrder, ClaimReply, Claimant, RipeEntry, StoreError};

/// The most rounds in which one poll decides about the same run. After these rounds the run is left
/// to the next poll.
const ROUNDS: usize = 5;
/// The time for which a run is left alone after it could not be handled.
const REFUSED_FOR: Duration = Duration::from_secs(5);
/// The part of dispatch that decides about due runs and claims those that are to start.
pub(crate) struct Claimer {
    shared: Arc<NodeContext>,
    definitions: Definitions,
    /// The shares of the queues, used while this node has fewer slots than the queues want.
    pub(crate) shares: Shares,
    left: HashMap<Lane, usize>,
    /// The lanes in which blocked runs were found lately. A poll reads more runs of these lanes
    /// than there are slots.
    blocked: HashSet<Lane>,
    /// The search behind the head of each lane with blocked runs.
    walks: HashMap<Lane, blocked_walk::Walk>,
    /// The state of each queue that decides whether the most urgent or the oldest run is next.
    turns: HashMap<QueueName, LaneTurns>,
    claimant: Claimant,
    /// The later occurrences that already have a record, one for each run. The claimer looks for
    /// the next occurrence of the run's job after this time.
    occupied: HashMap<RunId, UnixMillis>,
    /// The runs that could not be handled, each with the time of the failure.
    refused: HashMap<RunId, BootInstant>,
    /// The jobs that other jobs name in `not_while`, as far as claims reported such jobs.
    shunned: HashSet<JobName>,
    /// The gates at which a run has a place or waits, in addition to the gates of its definition.
    stands_at: HashMap<RunId, Vec<Gate>>,
}

/// The due entries found in the lanes of one queue.
pub(crate) type RipeInLanes = Vec<(Lane, Vec<RipeEntry>)>;

/// A due run that is to start, with the order to claim it.
struct Planned {
    ripe: Ripe,
    order: ClaimOrder,
    definition: Arc<Definition>,
}

/// The result of handling the due entries of a queue.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Taken {
    /// The number of entries that were handled.
    pub(crate) done: usize,
    /// The number of runs that started. Each of these runs took one slot.
    pub(crate) started: usize,
}

/// The numbers of due entries of one lane by result.
#[derive(Default)]
struct Tally {
    /// The number of entries that left the due set.
    done: usize,
    /// The number of entries that stay in the due set, because they cannot be handled now.
    left: usize,
    /// The number of runs for which a claim call gave a reply.
    judged: usize,
    /// The number of runs among these that are blocked and do not start now.
    blocked: usize,
}

impl Claimer {
    pub(crate) fn new(shared: Arc<NodeContext>) -> Self {
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

    /// Returns how many due runs of `lane` to read beyond the free slots. The number covers the
    /// runs that the last poll could not handle, plus a batch if blocked runs were found.
    pub(crate) fn left_in(&self, lane: &Lane) -> usize {
        let blocked = if self.blocked.contains(lane) { BATCH } else { 0 };
        self.left.get(lane).copied().unwrap_or(0) + blocked
    }

    /// Logs that a key of a lane, or of the lane's queue, has the wrong type.
    pub(crate) fn report_spoilt_lane(&self, lane: &Lane, error: &StoreError) {
        if self.shared.said.is_news(&format!("spoilt lane {lane}")) {
            error!(queue = %lane, "{error}. No run of this lane starts until the key is repaired.");
        }
    }

    /// Handles due entries of the lanes of `queue`: starts runs, skips missed occurrences, and
    /// quarantines entries that are no runs.
    pub(crate) async fn take(
        &mut self,
        queue: &QueueName,
        found: RipeInLanes,
        slots: usize,
        now: UnixMillis,
    ) -> Result<Taken, StoreError> {
        let mut tallies: Vec<(Lane, Tally)> = Vec::with_capacity(found.len());
        let mut waiting = Vec::new();
        // A run listed twice would be claimed once and started twice.
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
                        let priority = crate::store::server::mutants::priority(priority);
                        waiting.push(WaitingRun { priority, ready, item: (at, Ripe::new(run, entry)) });
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
        // A run that did not start leaves its slot to the next in turn.
        while free > 0 && !picks.is_empty() && self.shared.phase() == Phase::Running {
            // In lanes with blocked runs, one call judges more runs than there are slots.
            let batch = if tallies.iter().any(|(lane, _)| self.blocked.contains(lane)) { BATCH.max(free) } else { free };
            let mut together: Vec<(usize, Vec<Ripe>)> = Vec::new();
            let mut tried = Vec::new();
            while tried.len() < batch
                && let Some(Pick { item: (at, ripe), is_oldest }) = picks.pop_front()
            {
                // One round tries at most a batch of runs from lanes with blocked runs. The next
                // poll shows the rest again. So a mass of blocked runs delays runs of other lanes
                // only briefly.
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
            // Some of the runs beyond the slots were not tried.
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

    /// Handles due runs of one lane and starts at most `slots` of them. Returns the number started.
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
                        unlisted.extend(gate_walk::entry_of_once(&planned.definition, lane));
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

    /// Handles the reply to one order. This function neither waits nor fails, because later replies
    /// may have claimed runs that must start.
    fn settle(&mut self, planned: Planned, reply: ClaimReply, sent: BootInstant) -> Settled {
        let Planned { ripe, order, definition } = planned;
        match reply {
            ClaimReply::Claimed(claim) => {
                self.occupied.remove(&ripe.run);
                self.shared.watch.journal().claimed(claim.fence.as_u64());
                if definition.record.is_once {
                    // One-shots are most of the definitions, and a one-shot is not read again after
                    // its claim.
                    self.definitions.forget(ripe.run.job());
                }
                runner::start(&self.shared, definition, claim, sent);
                Settled::Started
            }
            ClaimReply::Full => Settled::Full,
            ClaimReply::Stale => {
                self.definitions.forget(ripe.run.job());
                // `is_owed` was found with the old definition. By the new definition the run may be
                // the planned one.
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
            ClaimReply::Foreign => Settled::Aside(ripe.entry, "the job does not plan this run"),
            ClaimReply::Spoilt => Settled::Aside(ripe.entry, "the record of the run has an unknown state"),
            ClaimReply::WrongType(error) => {
                self.definitions.report_unusable(ripe.run.job(), &error.to_string());
                self.refuse(ripe.run);
                Settled::Left
            }
            ClaimReply::Blocked(how) => {
                debug!(run = %ripe.run, ?how, "The run was not started.");
                Settled::Done
            }
            ClaimReply::Gone => Settled::Done,
            // The run stays in its lane. A poll shows it again when its queue lets runs start.
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

    /// Returns true if an attempt to handle `run` failed within the last `REFUSED_FOR`.
    fn is_refused(&mut self, run: &RunId) -> bool {
        let Some(at) = self.refused.get(run) else { return false };
        let is_refused = BootInstant::now().since(*at) < REFUSED_FOR;
        if !is_refused {
            self.refused.remove(run);
        }
        is_refused
    }
}

/// The result of handling the reply to one order.
enum Settled {
    Started,
    Done,
    Left,
    /// No slot was left for the run. A later poll shows the run again.
    Full,
    Held,
    Again(Ripe),
    Orphan(RipeEntry),
    /// The entry goes to quarantine, for the reason given.
    Aside(RipeEntry, &'static str),
}
