//! The facts of one run: what its record says, and each place where it stands.

use crate::domain::ids::{Fence, RunId};
use crate::domain::run::RunState;
use crate::domain::time::UnixMillis;

/// What a run's record says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RecordFacts {
    /// There is none: it is planned, or was forgotten.
    None,
    /// It cannot be read.
    Unreadable(String),
    /// It can.
    Known {
        /// Its state.
        state: RunState,
        /// Its last fence.
        fence: Option<Fence>,
    },
}

/// How a run's job stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// It is not known.
    Unknown,
    /// It is defined.
    Live,
    /// It is over, and its record still there.
    Ended,
}

/// Where one run stands.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools, reason = "independent places, each by its own name")]
pub struct RunFacts {
    /// The run.
    pub run: RunId,
    /// What its record says.
    pub record: RecordFacts,
    /// How its job stands.
    pub job: Standing,
    /// Whether it is its job's planned run.
    pub is_pending: bool,
    /// In how many due sets it stands.
    pub due_sets: usize,
    /// When it may start by the last of those.
    pub ready: Option<UnixMillis>,
    /// When it may start at the latest by its job's rules, if that is before.
    pub ready_by: Option<UnixMillis>,
    /// Whether there is a lease under its record's fence.
    pub is_leased: bool,
    /// The fence of another lease of it.
    pub stray: Option<Fence>,
    /// Whether it stands on the list of its job's open regular runs, or manual runs, as it is.
    pub is_open: bool,
    /// Whether it waits, for an open run of its job or at a gate.
    pub is_waiting: bool,
    /// Whether it was given a time of its own.
    pub is_spread: bool,
    /// Whether it is asked to stop.
    pub is_stopped: bool,
    /// Whether history names it: that of all, that of its job.
    pub history: [bool; 2],
    /// Whether it stands among the dead letters: of all, of its job.
    pub dead: [bool; 2],
    /// Whether it is counted among those that run in a queue.
    pub counted: CountedIn,
    /// Which of its times are kept, and why they may be.
    pub watched: Watched,
}

/// The times by which a run is to have started and ended, as `deadlines` has them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[allow(clippy::struct_excessive_bools, reason = "independent facts, each by its own name")]
pub struct Watched {
    /// Whether the time of its start is kept.
    pub start: bool,
    /// Whether the time of its end is kept.
    pub finish: bool,
    /// Whether a pause of its job holds it.
    pub is_held: bool,
    /// Whether it was skipped first behind a run that is open: it is told of if that one hangs.
    pub is_first_behind: bool,
}

/// Where a run is counted among those that run in a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CountedIn {
    /// In the queue its record names; none if that queue was not looked into.
    pub in_own: Option<bool>,
    /// In how many others.
    pub elsewhere: usize,
}

impl CountedIn {
    /// What two looks into different queues tell together.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self { in_own: self.in_own.or(other.in_own), elsewhere: self.elsewhere + other.elsewhere }
    }
}
