//! The facts of one run: its record, and each index that names it.

use crate::domain::name::names::{Fence, RunId};
use crate::domain::run::run_state::RunState;
use crate::domain::time::unix_millis::UnixMillis;

/// The content of a run's record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RecordFacts {
    /// No record: the run is planned, or its record was deleted.
    None,
    /// An unreadable record, with the reason.
    Unreadable(String),
    /// A readable record.
    Known {
        /// The run's state.
        state: RunState,
        /// The run's last fence.
        fence: Option<Fence>,
    },
}

/// The state of a run's job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Placement {
    /// No record of the job exists.
    Unknown,
    /// The job is defined.
    Live,
    /// The job is over, and its record still exists.
    Ended,
}

/// One run, and every index that names it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools, reason = "independent places, each by its own name")]
pub struct PlacedRun {
    /// The run.
    pub run: RunId,
    /// The content of its record.
    pub record: RecordFacts,
    /// The state of its job.
    pub job: Placement,
    /// True if it is its job's planned run.
    pub is_pending: bool,
    /// The number of due sets that contain the run.
    pub due_sets: usize,
    /// The time from which it may start, by the last of these due sets.
    pub ready: Option<UnixMillis>,
    /// The latest time to which its job's rules may delay it, if that is before `ready`.
    pub ready_by: Option<UnixMillis>,
    /// True if there is a lease under its record's fence.
    pub is_leased: bool,
    /// The fence of another lease of the run.
    pub stray: Option<Fence>,
    /// True if it is in its job's list of open regular runs, or of manual runs, by its kind.
    pub is_open: bool,
    /// True if it waits, for an open run of its job or at a gate.
    pub is_waiting: bool,
    /// True if it is in the list of spread runs, so that it has a ready time of its own.
    pub is_spread: bool,
    /// True if it is asked to stop.
    pub is_stopped: bool,
    /// True for each history that names it: of all jobs, of its job.
    pub history: [bool; 2],
    /// True for each list of dead letters that names it: of all jobs, of its job.
    pub dead: [bool; 2],
    /// The queues that count it as running.
    pub counted: CountedIn,
    /// Its deadlines, and why it may have them.
    pub watched: WatchedDeadline,
}

/// The deadlines of a run in `deadlines`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[allow(clippy::struct_excessive_bools, reason = "independent facts, each by its own name")]
pub struct WatchedDeadline {
    /// True if it has a deadline to start.
    pub start: bool,
    /// True if it has a deadline to end.
    pub finish: bool,
    /// True if a pause of its job holds it.
    pub is_held: bool,
    /// True if it was skipped first behind a run that is open: its deadline reports a run that
    /// hangs.
    pub is_first_behind: bool,
}

/// The queues that count a run as running.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CountedIn {
    /// True if the queue of its record counts it; `None` if that queue was not read.
    pub in_own: Option<bool>,
    /// The number of other queues that count it.
    pub elsewhere: usize,
}

impl CountedIn {
    /// Combines the results of two readings of different queues.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self { in_own: self.in_own.or(other.in_own), elsewhere: self.elsewhere + other.elsewhere }
    }
}
