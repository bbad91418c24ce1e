//! The steps for one queue in one round: which of its due runs to claim, in which order, and for
//! how many slots.
//!
//! Invariant: each entry is claimed, leaves the due set otherwise, or is counted as left there. A
//! run that does not start leaves its slot to the next run.

use std::collections::{HashSet, VecDeque};

use super::dispatch_step::{ClaimBatch, ClaimReport, DispatchStep};
use crate::engine::dispatch::due_entry::DueRun;
use crate::engine::dispatch::slots::BATCH;
use schedd_core::domain::queue::dispatch::{LaneTurns, Pick};
use schedd_core::domain::queue::lane::Lane;
use schedd_schedule::names::QueueName;
use schedd_store::DueEntry;

/// The most times that one round decides about the same run. After that, the run waits for the next
/// poll.
const PASSES: usize = 5;

/// The due runs of one lane that are decided about together, in up to [`PASSES`] passes.
struct LanePass {
    open: Vec<DueRun>,
    slots: usize,
    started: usize,
    passes: usize,
}

/// The state of one queue in one round.
pub(super) struct QueueRound {
    pub(super) queue: QueueName,
    /// The number of granted slots that no run has taken yet.
    free: usize,
    /// The counter that decides whether the most urgent or the oldest run is next.
    pub(super) turns: LaneTurns,
    /// The due runs in the order in which they are tried, each with the index of its lane.
    picks: VecDeque<Pick<(usize, DueRun)>>,
    /// The entries that are not valid runs, each with the index of its lane and the reason.
    no_runs: VecDeque<(usize, DueEntry, String)>,
    /// The lanes, each with the sum of its reports.
    pub(super) lanes: Vec<(Lane, ClaimReport)>,
    /// The number of runs to try beyond the free slots, because other nodes claim some of them.
    spare: usize,
    /// The number of runs from lanes with blocked runs that this round may still try.
    patience: usize,
    /// For each run that is tried now: true if the run was picked because it is the oldest. `None`
    /// if no runs are tried now.
    tried: Option<Vec<bool>>,
    /// The runs to try now that have not been tried yet, grouped by the index of their lane.
    together: VecDeque<(usize, Vec<DueRun>)>,
    /// The number of runs tried now that have started.
    started: usize,
    pass: Option<LanePass>,
    /// The index of the lane of the last step.
    at: usize,
}

impl QueueRound {
    pub(super) fn new(
        queue: QueueName,
        (slots, spare): (usize, usize),
        turns: LaneTurns,
        lanes: Vec<(Lane, ClaimReport)>,
        picks: Vec<Pick<(usize, DueRun)>>,
        no_runs: VecDeque<(usize, DueEntry, String)>,
    ) -> Self {
        Self {
            queue,
            free: slots,
            spare,
            turns,
            picks: picks.into(),
            no_runs,
            lanes,
            patience: BATCH,
            tried: None,
            together: VecDeque::new(),
            started: 0,
            pass: None,
            at: 0,
        }
    }

    /// Returns the next step of this queue, or `None` if no step is left. `blocked` has the lanes
    /// in which a recent claim found blocked runs.
    pub(super) fn next(&mut self, blocked: &HashSet<Lane>) -> Option<DispatchStep> {
        if let Some((at, entry, why)) = self.no_runs.pop_front() {
            self.at = at;
            return Some(DispatchStep::SetAside { lane: self.lanes[at].0.clone(), entry, why });
        }
        loop {
            if let Some(batch) = self.next_pass() {
                return Some(DispatchStep::Claim(batch));
            }
            if let Some((at, open)) = self.together.pop_front() {
                let slots = self.free.saturating_sub(self.started);
                if slots > 0 {
                    self.at = at;
                    self.pass = Some(LanePass { open, slots, started: 0, passes: 0 });
                }
                continue;
            }
            if let Some(mut tried) = self.tried.take() {
                // Runs for which no slot was free were not tried, and do not count.
                tried.truncate(self.free);
                self.free = self.free.saturating_sub(self.started);
                self.turns.note(&tried, self.started);
            }
            if self.free == 0 || self.picks.is_empty() {
                return None;
            }
            self.pick(blocked);
        }
    }

    /// Returns the next batch of runs of the present lane. `None` ends the present lane.
    fn next_pass(&mut self) -> Option<ClaimBatch> {
        let pass = self.pass.as_mut()?;
        let (lane, counts) = &mut self.lanes[self.at];
        if !pass.open.is_empty() && pass.started < pass.slots && pass.passes < PASSES {
            pass.passes += 1;
            let slots = (pass.slots - pass.started).min(BATCH);
            return Some(ClaimBatch {
                lane: lane.clone(),
                runs: std::mem::take(&mut pass.open),
                slots,
            });
        }
        counts.left += pass.open.len();
        self.started += pass.started;
        self.pass = None;
        None
    }

    /// Picks the runs to try together next, and groups them by lane.
    fn pick(&mut self, blocked: &HashSet<Lane>) {
        let is_blocked = |at: usize| blocked.contains(&self.lanes[at].0);
        // If some runs may be blocked, one call tries more runs than there are free slots.
        let least = if (0..self.lanes.len()).any(is_blocked) { BATCH } else { 0 };
        let batch = least.max(self.free.min(BATCH) + self.spare);
        let mut tried = Vec::new();
        while tried.len() < batch
            && let Some(Pick { item: (at, due_run), is_oldest }) = self.picks.pop_front()
        {
            // A round tries at most a batch of runs from lanes with blocked runs, so that many
            // blocked runs do not delay other lanes. The next poll returns the remaining runs
            // again.
            if blocked.contains(&self.lanes[at].0) {
                if self.patience == 0 {
                    continue;
                }
                self.patience -= 1;
            }
            tried.push(is_oldest);
            match self.together.iter_mut().find(|(of, _)| *of == at) {
                Some((_, runs)) => runs.push(due_run),
                None => self.together.push_back((at, vec![due_run])),
            }
        }
        (self.tried, self.started) = (Some(tried), 0);
    }

    /// Reduces the slots for the last step and the steps after it to `count`, and returns by how many.
    /// Without it, a run of less priority could take a slot that becomes free after a more urgent run
    /// found none.
    pub(super) fn limit(&mut self, count: usize) -> usize {
        let Some(pass) = &mut self.pass else { return 0 };
        let before = self.free;
        self.free = before.min(self.started + pass.started + count);
        pass.slots = pass.slots.min(pass.started + count);
        before - self.free
    }

    /// Records `report`, the result of the last step, and returns the lane of this step.
    pub(super) fn note(&mut self, report: ClaimReport) -> &Lane {
        let (lane, counts) = &mut self.lanes[self.at];
        counts.add(&report);
        if let Some(pass) = &mut self.pass {
            pass.started += report.started;
            pass.open = if report.has_no_room { Vec::new() } else { report.again };
        }
        lane
    }

    /// Returns the number of entries that left the due set.
    pub(super) fn done(&self) -> usize {
        self.lanes.iter().map(|(_, counts)| counts.done).sum()
    }

    /// Returns the number of granted slots that no run took.
    pub(super) fn unused(&self) -> usize {
        self.free
    }
}
