//! The facts of one run: its record, and each index that names the run.

use crate::domain::name::names::{Fence, RunId};
use crate::domain::run::run_state::RunState;
use crate::domain::time::unix_millis::UnixMillis;

/// The content of a run's record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RecordFacts {
    /// There is no record: the run is planned, or its record was deleted.
    None,
    /// The record is unreadable. The text gives the reason.
    Unreadable(String),
    /// The record is readable.
    Known {
        /// The state of the run in its record.
        state: RunState,
        /// The last fence of the run in its record.
        fence: Option<Fence>,
    },
}

/// The condition of the job that a run belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Placement {
    /// The job has no record.
    Unknown,
    /// The job is defined.
    Live,
    /// The job is over, and its record still exists.
    Ended,
}

/// The facts of one run: its record, and every index that names the run.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools, reason = "independent places, each by its own name")]
pub struct PlacedRun {
    /// The id of the run.
    pub run: RunId,
    /// The content of the run's record.
    pub record: RecordFacts,
    /// The condition of the run's job.
    pub job: Placement,
    /// True if the run is the planned run of its job.
    pub is_pending: bool,
    /// The number of due sets that contain the run.
    pub due_sets: usize,
    /// The time from which the run may start, by the last of the due sets that contain the run.
    pub ready: Option<UnixMillis>,
    /// The latest time to which the rules of the job may delay the run, if this time is before
    /// `ready`.
    pub ready_by: Option<UnixMillis>,
    /// True if the run has a lease with the fence in its record.
    pub is_leased: bool,
    /// The fence of a lease of the run that is not the fence in its record.
    pub stray: Option<Fence>,
    /// True if the run is in its job's list of open runs. Regular runs and manual runs have
    /// separate lists.
    pub is_open: bool,
    /// True if the run waits for an open run of its job, or waits at a gate.
    pub is_waiting: bool,
    /// True if the run is in the list of spread runs. Such a run has a ready time of its own.
    pub is_spread: bool,
    /// True if the run is asked to stop.
    pub is_stopped: bool,
    /// True for each history that names the run: first the history of all jobs, then of its job.
    pub history: [bool; 2],
    /// True for each list of dead letters that names the run: first the list of all jobs, then of
    /// its job.
    pub dead: [bool; 2],
    /// The queues that count the run as running.
    pub counted: CountedIn,
    /// The deadlines of the run, and the reasons why the run may have deadlines.
    pub watched: WatchedDeadline,
}

/// The entries of a run in the key `deadlines`, and the reasons why the run may have such entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[allow(clippy::struct_excessive_bools, reason = "independent facts, each by its own name")]
pub struct WatchedDeadline {
    /// True if the run has a deadline to start.
    pub start: bool,
    /// True if the run has a deadline to end.
    pub finish: bool,
    /// True if the run is held because its job is paused.
    pub is_held: bool,
    /// True if the run was the first to be skipped because of a run that is still open. The
    /// deadline of such a run reports that the open run hangs.
    pub is_first_behind: bool,
}

/// The queues that count a run as running.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CountedIn {
    /// True if the queue in the run's record counts the run as running. `None` if that queue was
    /// not read.
    pub in_own: Option<bool>,
    /// The number of other queues that count the run as running.
    pub elsewhere: usize,
}

impl CountedIn {
    /// Combines these facts with the facts from a reading of different queues.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self { in_own: self.in_own.or(other.in_own), elsewhere: self.elsewhere + other.elsewhere }
    }
}
