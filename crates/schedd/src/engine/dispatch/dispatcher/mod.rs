//! The dispatcher: decides which due runs a node claims next, and how many due entries a poll
//! reads.
//!
//! The dispatcher is pure: it reads no clock, calls no Redis and never waits. It gets the result of
//! a poll, and returns step by step which runs to claim. The result of each step decides the next
//! step.
//!
//! - [`dispatch_step`] has the values that enter and leave the dispatcher
//! - [`queue_round`] has the steps for one queue in one round
//! - [`walk_progress`] is the progress of a search past blocked runs
//! - [`run_hints`] has facts about runs from earlier replies of Redis
//!
//! Invariants:
//! - A run that can be neither claimed nor skipped delays no other run, and is not tried again at
//!   every poll.
//! - Slots that a queue did not use go to queues that got no slots.

mod dispatch_step;
mod queue_round;
pub(crate) mod run_hints;
pub(crate) mod walk_progress;

use std::collections::{HashMap, HashSet, VecDeque};

use super::due_entry::{DueRun, well_formed};
use super::slots::{BATCH, Offer};
pub(crate) use dispatch_step::{
    ClaimBatch, ClaimReport, DispatchPace, DispatchStep, FoundBehind, FoundQueue,
};
use queue_round::QueueRound;
use run_hints::RunHints;
use schedd_core::domain::queue::dispatch::{Demand, LaneTurns, Shares, WaitingRun};
use schedd_core::domain::queue::lane::Lane;
use schedd_core::host::boot_clock::BootInstant;
use schedd_schedule::names::QueueName;
use schedd_store::{DueEntry, LaneAsk};
use walk_progress::LaneWalk;

/// The most lanes of which a poll reads the runs of several claim calls, so that Redis answers each poll
/// in a few milliseconds.
const FEW_LANES: usize = 20;

/// The lane in which the present round claims runs past the blocked runs at its head.
struct Behind {
    lane: Lane,
    /// The number of entries that stayed at the head of the lane.
    left: usize,
    is_by_gate: bool,
    /// True if the search reached the last due run of the lane.
    is_through: bool,
}

/// One round: the queues with due runs, and the slots for these runs.
#[derive(Default)]
struct Round {
    /// The queues whose runs are still to be claimed in this round, each with the slots granted to
    /// it.
    granted: VecDeque<(FoundQueue, usize)>,
    /// The queues that got no slot.
    without: Vec<FoundQueue>,
    /// The number of granted slots that no run took.
    unused: usize,
    current: Option<QueueRound>,
    behind: Option<Behind>,
    /// The lanes whose runs past the blocked head are still to be searched.
    blocked: VecDeque<(QueueName, Lane)>,
    pace: DispatchPace,
}

/// The state from which a node decides which due runs to claim.
#[derive(Default)]
pub(crate) struct Dispatcher {
    /// The share of each queue, used while the queues want more slots than this node has.
    shares: Shares,
    /// The counter of each queue that decides whether the most urgent or the oldest run is next.
    turns: HashMap<QueueName, LaneTurns>,
    /// The number of due entries of each lane that could be neither claimed nor removed.
    left: HashMap<Lane, usize>,
    /// The number of runs of each lane that other nodes may claim between a poll and the claim.
    gone: HashMap<Lane, usize>,
    /// The lanes in which a recent claim found blocked runs.
    blocked: HashSet<Lane>,
    /// The progress of the search in each lane with blocked runs.
    walks: HashMap<Lane, LaneWalk>,
    /// Facts about runs that earlier replies of Redis gave.
    pub(crate) hints: RunHints,
    round: Round,
}

impl Dispatcher {
    /// Returns the poll requests for the lanes of `offers`. Entries that recently could be neither
    /// claimed nor removed are still at the head of their lane. The request for this lane reads
    /// that many entries more, so that it also finds later entries.
    ///
    /// A request usually reads the runs for several claim calls. It reads at most `BATCH` runs, those
    /// for one call, if the poll has many lanes. It does so too while other nodes claim runs of the
    /// same lane, because they would claim many runs of a longer list before this node.
    pub(crate) fn asks(&self, offers: &[Offer]) -> Vec<LaneAsk> {
        let has_many = offers.iter().map(|offer| offer.lanes.len()).sum::<usize>() > FEW_LANES;
        let ask = |lane: &Lane, slots: usize| {
            let is_short = has_many || self.gone_in(lane) > 0;
            let limit = if is_short { slots.min(BATCH) } else { slots };
            LaneAsk { lane: lane.clone(), limit, more: self.left_in(lane) }
        };
        offers
            .iter()
            .flat_map(|offer| offer.lanes.iter().map(move |lane| ask(lane, offer.slots)))
            .collect()
    }

    /// Returns the number of due runs of `lane` to read in addition to the free slots. This is the
    /// number of runs that could be neither claimed nor removed after the last poll, plus the
    /// number that other nodes may claim first, plus `BATCH` if the lane has blocked runs.
    fn left_in(&self, lane: &Lane) -> usize {
        let blocked = if self.blocked.contains(lane) { BATCH } else { 0 };
        self.left.get(lane).copied().unwrap_or(0) + self.gone_in(lane) + blocked
    }

    /// Returns the number of runs of `lane` that other nodes may claim between a poll and the claim.
    fn gone_in(&self, lane: &Lane) -> usize {
        self.gone.get(lane).copied().unwrap_or(0)
    }

    /// Begins a round with the due entries that a poll found. The node may start at most `capacity`
    /// runs in this round.
    pub(crate) fn begin_round(&mut self, found: Vec<FoundQueue>, capacity: usize) {
        self.round = Round::default();
        for queue in &found {
            for (lane, due_run) in &queue.lanes {
                if self.blocked.contains(lane) && due_run.len() >= BATCH {
                    self.round.blocked.push_back((queue.queue.clone(), lane.clone()));
                } else {
                    self.walks.remove(lane);
                }
            }
        }
        self.grant(found, capacity);
    }

    fn grant(&mut self, found: Vec<FoundQueue>, capacity: usize) {
        let demands: Vec<Demand> = found.iter().map(|queue| self.demand(queue)).collect();
        let grants = self.shares.grant(capacity, &demands);
        self.round.granted = found.into_iter().zip(grants).collect();
    }

    /// Returns the number of slots a queue wants for its due runs. At least one, because a run that
    /// could not start before may start now.
    fn demand(&self, found: &FoundQueue) -> Demand {
        let takeable: usize = found
            .lanes
            .iter()
            .map(|(lane, due_run)| {
                // The runs that other nodes may claim count too, because those nodes may claim none.
                due_run.len().saturating_sub(self.left_in(lane) - self.gone_in(lane))
            })
            .sum();
        Demand {
            queue: found.queue.clone(),
            wants: takeable.max(1).min(found.slots),
            share: found.share,
        }
    }

    /// Returns the next step of the round at `now`, or `None` if the round is over. The caller must
    /// have passed the result of the previous step to `note`.
    pub(crate) fn next(&mut self, now: BootInstant) -> Option<DispatchStep> {
        loop {
            if let Some(current) = &mut self.round.current {
                if let Some(step) = current.next(&self.blocked) {
                    return Some(step);
                }
                self.finish_queue();
            } else if let Some((found, slots)) = self.round.granted.pop_front() {
                if slots == 0 {
                    // A queue without granted slots gets slots only if another queue leaves some
                    // unused in this round.
                    self.round.without.push(found);
                } else {
                    self.round.current = Some(self.open(found.queue, found.lanes, slots, now));
                }
            } else if self.round.unused == 0 || self.round.without.is_empty() {
                return None;
            } else {
                let (found, capacity) = (
                    std::mem::take(&mut self.round.without),
                    std::mem::take(&mut self.round.unused),
                );
                self.grant(found, capacity);
            }
        }
    }

    fn open(
        &mut self,
        queue: QueueName,
        found: Vec<(Lane, Vec<DueEntry>)>,
        slots: usize,
        now: BootInstant,
    ) -> QueueRound {
        let (mut lanes, mut waiting, mut no_runs) =
            (Vec::with_capacity(found.len()), Vec::new(), VecDeque::new());
        // The entries met so far. Without them, a run listed in two lanes would be started twice.
        let mut met = HashSet::new();
        for (at, (lane, entries)) in found.into_iter().enumerate() {
            let mut counts = ClaimReport::default();
            for entry in entries {
                if !met.insert(entry.member.clone()) {
                    continue;
                }
                match well_formed(&entry) {
                    Ok((run, _)) if self.hints.is_refused(&run, now) => counts.left += 1,
                    Ok((run, ready)) => {
                        let priority = lane.priority();
                        #[cfg(feature = "mutants")]
                        let priority = schedd_store::server::mutants::priority(priority);
                        waiting.push(WaitingRun {
                            priority,
                            ready,
                            item: (at, DueRun::new(run, entry)),
                        });
                    }
                    Err(why) => no_runs.push_back((at, entry, why)),
                }
            }
            lanes.push((lane, counts));
        }
        let turns = self.turns.get(&queue).copied().unwrap_or_default();
        let picks = turns.order(waiting);
        let spare = lanes.iter().map(|(lane, _)| self.gone_in(lane)).max().unwrap_or(0);
        QueueRound::new(queue, (slots, spare), turns, lanes, picks, no_runs)
    }

    /// Records that only `count` slots are free for the step that `next` returned last, because other
    /// engines of the node took slots since the round began. The queue gets no more in this round.
    pub(crate) fn limit(&mut self, count: usize) {
        if let Some(current) = &mut self.round.current {
            let lost = current.limit(count);
            self.shares.take_back(&current.queue, lost);
        }
    }

    /// Records `report`, the result of the step that `next` returned last.
    pub(crate) fn note(&mut self, report: ClaimReport) {
        let Some(current) = &mut self.round.current else { return };
        let has_blocked = report.blocked > 0;
        let lane = current.note(report);
        if has_blocked {
            self.blocked.insert(lane.clone());
        }
    }

    /// Ends the round for the queue whose last step failed with the result `report`, and returns
    /// the queue. The slots of this queue are not given to other queues. Returns `None` if no step
    /// was under way.
    pub(crate) fn give_up(&mut self, report: ClaimReport) -> Option<QueueName> {
        self.note(report);
        let current = self.round.current.take()?;
        self.turns.insert(current.queue.clone(), current.turns);
        self.round.pace = self.round.pace.max(DispatchPace::NextTick);
        if let Some(behind) = self.round.behind.take() {
            self.note_behind(behind, None);
        }
        Some(current.queue)
    }

    fn finish_queue(&mut self) {
        let Some(current) = self.round.current.take() else { return };
        let (done, unused) = (current.done(), current.unused());
        self.turns.insert(current.queue, current.turns);
        for (lane, counts) in current.lanes {
            if counts.judged > 0 && counts.blocked == 0 {
                self.blocked.remove(&lane);
            }
            // Twice as many runs may go between the next poll and claim. The number falls slowly,
            // because nodes do not claim at the same time in each round.
            let fallen = self.gone_in(&lane).saturating_sub(1);
            let gone = (2 * counts.gone).max(fallen).min(2 * BATCH);
            self.gone.insert(lane.clone(), gone);
            self.left.insert(lane, counts.left);
        }
        let pace = match self.round.behind.take() {
            Some(behind) => self.note_behind(behind, Some(done)),
            None if done > 0 => DispatchPace::AtOnce,
            None => DispatchPace::NextTick,
        };
        self.round.unused += unused;
        self.round.pace = self.round.pace.max(pace);
    }

    /// Returns the next lane whose runs past the blocked head are to be searched, with its queue.
    /// Returns `None` if no such lane is left.
    pub(crate) fn next_blocked(&mut self) -> Option<(QueueName, Lane)> {
        loop {
            let (queue, lane) = self.round.blocked.pop_front()?;
            if self.blocked.contains(&lane) {
                return Some((queue, lane));
            }
        }
    }

    /// Returns the progress of the search in `lane` past its blocked head. The search starts from
    /// the beginning if none is under way. It also does so if the last search left out runs and the
    /// pause after it is over.
    pub(crate) fn take_walk(&mut self, lane: &Lane, now: BootInstant) -> LaneWalk {
        self.walks.remove(lane).filter(|walk| !walk.is_to_begin_again(now)).unwrap_or_default()
    }

    /// Begins to claim the runs that a search in `lane` found past its blocked head, in up to
    /// `slots` slots. `walk` is the new progress of this search.
    pub(crate) fn begin_behind(
        &mut self,
        (queue, lane): (QueueName, Lane),
        walk: LaneWalk,
        found: FoundBehind,
        slots: usize,
        now: BootInstant,
    ) {
        let is_through = walk.arrived.is_some();
        self.walks.insert(lane.clone(), walk);
        let FoundBehind { runs, is_by_gate } = found;
        if runs.is_empty() {
            if !is_through {
                self.round.pace = DispatchPace::AtOnce;
            }
            return;
        }
        self.round.without.clear();
        self.round.behind =
            Some(Behind { lane: lane.clone(), left: self.left_in(&lane), is_by_gate, is_through });
        self.round.current = Some(self.open(queue, vec![(lane, runs)], slots, now));
    }

    /// Ends the claiming of runs past the blocked head of a lane, and returns when the next round
    /// may follow. `done` is the number of entries that left the due set, or `None` after a
    /// failure. The lane still counts as a lane with blocked runs.
    fn note_behind(&mut self, behind: Behind, done: Option<usize>) -> DispatchPace {
        let Behind { lane, left, is_by_gate, is_through } = behind;
        if let Some(walk) = self.walks.get_mut(&lane) {
            walk.is_by_entries |= is_by_gate && done.is_none_or(|done| done == 0);
        }
        self.blocked.insert(lane.clone());
        let after = self.left.entry(lane).or_default();
        *after = (*after).max(left.saturating_sub(BATCH));
        if done.is_some_and(|done| done > 0 || !is_through) {
            DispatchPace::AtOnce
        } else {
            DispatchPace::Idle
        }
    }

    /// Returns the time at which another round may claim more runs.
    pub(crate) fn pace(&self) -> DispatchPace {
        self.round.pace
    }
}

#[cfg(test)]
mod dispatcher_tests;
