//! The values that enter and leave the dispatcher: found entries, steps and results.

use crate::engine::dispatch::due_entry::DueRun;
use schedd_core::domain::queue::lane::Lane;
use schedd_core::domain::queue::queue_rules::Share;
use schedd_schedule::names::QueueName;
use schedd_store::DueEntry;

/// The due entries that a poll found in the lanes of one queue.
#[derive(Debug, Clone)]
pub(crate) struct FoundQueue {
    pub(crate) queue: QueueName,
    pub(crate) share: Share,
    /// The number of runs that this node may claim from the queue.
    pub(crate) slots: usize,
    /// The lanes with due entries, most urgent first.
    pub(crate) lanes: Vec<(Lane, Vec<DueEntry>)>,
}

/// The due runs that a search found in a lane after the blocked runs at its head.
#[derive(Debug, Clone)]
pub(crate) struct FoundBehind {
    pub(crate) runs: Vec<DueEntry>,
    /// True if the runs were found by their gates. False if they were found by reading the lane.
    pub(crate) is_by_gate: bool,
}

/// The next step of a dispatch round.
#[derive(Debug)]
pub(crate) enum DispatchStep {
    /// The entry is not a valid run, for the reason `why`, and goes to quarantine.
    SetAside { lane: Lane, entry: DueEntry, why: String },
    /// The runs of the batch are to be decided about and claimed.
    Claim(ClaimBatch),
}

/// Due runs of one lane that are decided about together.
#[derive(Debug)]
pub(crate) struct ClaimBatch {
    pub(crate) lane: Lane,
    pub(crate) runs: Vec<DueRun>,
    /// The most runs of the batch that may start.
    pub(crate) slots: usize,
}

/// The result of a step for the dispatcher: numbers of entries, and runs to decide about again.
#[derive(Debug, Default)]
pub(crate) struct ClaimReport {
    /// The number of runs that started. Each of these runs took one slot.
    pub(crate) started: usize,
    /// The number of entries that left the due set.
    pub(crate) done: usize,
    /// The number of entries that stay in the due set because they could be neither claimed nor
    /// removed.
    pub(crate) left: usize,
    /// The number of runs in `done` that another node claimed first.
    pub(crate) gone: usize,
    /// The number of runs to which the claim call gave a reply.
    pub(crate) judged: usize,
    /// The number of runs in `judged` that are blocked and do not start now.
    pub(crate) blocked: usize,
    /// True if the queue lets no more runs start now.
    pub(crate) has_no_room: bool,
    /// The runs that need another decision, because their job or its records changed meanwhile.
    pub(crate) again: Vec<DueRun>,
}

impl ClaimReport {
    /// Adds the numbers of entries in `more`.
    pub(super) fn add(&mut self, more: &Self) {
        self.started += more.started;
        self.done += more.done;
        self.left += more.left;
        self.gone += more.gone;
        self.judged += more.judged;
        self.blocked += more.blocked;
    }
}

/// The time at which another round may claim more runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) enum DispatchPace {
    /// No run is due that this node could claim.
    #[default]
    Idle,
    /// Some due runs could not be claimed, and are tried again one tick later.
    NextTick,
    /// More runs may be due after the claimed runs, so the next round follows at once.
    AtOnce,
}
