//! The values that go into the dispatcher and come out of it: found entries, steps and results.

use crate::domain::name::names::QueueName;
use crate::domain::queue::lane::Lane;
use crate::domain::queue::queue_rules::Share;
use crate::engine::dispatch::due_entry::DueRun;
use crate::store::DueEntry;

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

/// The due runs that a search found behind the blocked runs of a lane.
#[derive(Debug, Clone)]
pub(crate) struct FoundBehind {
    pub(crate) runs: Vec<DueEntry>,
    /// True if the runs were found by gate, and not by walking the lane.
    pub(crate) is_by_gate: bool,
}

/// The next step of a round.
#[derive(Debug)]
pub(crate) enum DispatchStep {
    /// The entry is no run, for the reason `why`. It goes to quarantine.
    SetAside { lane: Lane, entry: DueEntry, why: String },
    /// The runs are to be decided about and claimed.
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

/// The result of a step.
#[derive(Debug, Default)]
pub(crate) struct ClaimReport {
    /// The number of runs that started. Each of these runs took one slot.
    pub(crate) started: usize,
    /// The number of entries that left the due set.
    pub(crate) done: usize,
    /// The number of entries that stay in the due set, because they cannot be handled now.
    pub(crate) left: usize,
    /// The number of runs for which the claim call gave a reply.
    pub(crate) judged: usize,
    /// The number of runs among these that are blocked and do not start now.
    pub(crate) blocked: usize,
    /// True if the queue lets no further run start now.
    pub(crate) has_no_room: bool,
    /// The runs to decide about again, because their job or its records changed meanwhile.
    pub(crate) again: Vec<DueRun>,
}

/// How soon another round may claim more runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) enum DispatchPace {
    /// No run waits that this node could claim.
    #[default]
    Idle,
    /// Due runs could not be claimed. A tick later, they may be possible.
    NextTick,
    /// More runs may have become due behind the claimed runs.
    AtOnce,
}
