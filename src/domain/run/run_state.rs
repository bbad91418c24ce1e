//! The states of a run, and the ways in which an attempt can end.
//!
//! Invariant: a run has one state. It leaves a final state only if it is a dead letter that an
//! operator tries again. Redis, JSON and tables use the names given here.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// The state of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RunState {
    /// The run is planned, or waits for a retry or at a gate.
    Scheduled,
    /// The run is claimed by a node.
    Running,
    /// Final: an attempt succeeded.
    Succeeded,
    /// Final: the last attempt failed.
    Failed,
    /// Final: the last attempt exceeded its timeout.
    TimedOut,
    /// Final: an operator, or the run that replaced it, stopped it.
    Cancelled,
    /// Final: the run was not started, for a reason recorded with it.
    Skipped,
    /// Final: the run may or may not have done its work, and must not be started again to find out.
    Lost,
}

impl RunState {
    /// All states, in the order of a run's life.
    pub const ALL: [Self; 8] = [
        Self::Scheduled,
        Self::Running,
        Self::Succeeded,
        Self::Failed,
        Self::TimedOut,
        Self::Cancelled,
        Self::Skipped,
        Self::Lost,
    ];

    /// The name of this state.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Scheduled => "scheduled",
            Self::Running => "running",
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::TimedOut => "timed_out",
            Self::Cancelled => "cancelled",
            Self::Skipped => "skipped",
            Self::Lost => "lost",
        }
    }

    /// Returns true for a state that a run leaves only if an operator tries a dead letter again.
    pub fn is_final(self) -> bool {
        !matches!(self, Self::Scheduled | Self::Running)
    }

    /// Returns true if a run in this state is a dead letter.
    pub fn is_dead(self) -> bool {
        matches!(self, Self::Failed | Self::TimedOut | Self::Lost)
    }
}

impl fmt::Display for RunState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The error for a text that is not a state of a run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("run state {0:?} is unknown: wanted scheduled, running, succeeded, failed, timed_out, cancelled, skipped or lost")]
pub struct UnknownState(pub String);

impl FromStr for RunState {
    type Err = UnknownState;

    fn from_str(word: &str) -> Result<Self, UnknownState> {
        Self::ALL.into_iter().find(|state| state.as_str() == word).ok_or_else(|| UnknownState(word.to_owned()))
    }
}

/// The end of an attempt, and the facts that go into the history with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AttemptOutcome {
    /// The kind of end.
    pub ending: Ending,
    /// The exit code of the process, if it exited with any.
    pub exit_code: Option<i32>,
    /// The signal that ended the process, if a signal did.
    pub signal: Option<i32>,
    /// The status of the HTTP answer, if an answer came.
    pub http_status: Option<u16>,
    /// A description of the fault, if no exit code or status says it: "cannot start: No such file
    /// or directory".
    pub error: Option<String>,
    /// True if processes that the job left behind had to be killed.
    pub left_processes: bool,
    /// A list of the job's limits that the node could not enforce, if there are any.
    pub not_enforced: Option<String>,
    /// The minimum wait that the answer asks for (`Retry-After`), at most 24 h.
    pub retry_after: Option<Duration>,
}

/// The kind of end of an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// The attempt succeeded.
    Succeeded,
    /// The attempt ended without success, or could not start.
    Failed,
    /// The attempt was killed at its timeout.
    TimedOut,
    /// The attempt was killed because an operator, or a run that replaces it, asked for it.
    Stopped,
    /// The attempt was killed because this node is stopping.
    ShutDown,
    /// The attempt was killed because its lease could not be renewed, and no process of it is
    /// alive. Its result is discarded.
    LeaseLost,
    /// The lease could not be renewed, and the attempt may still be at work: processes that did not
    /// die, or a request already sent.
    OutOfSight,
    /// The attempt never started: the keeper or this node refused, for a reason that is not the
    /// job's.
    NotStarted,
}

impl AttemptOutcome {
    /// An outcome without any facts besides its ending.
    pub fn bare(ending: Ending) -> Self {
        Self {
            ending,
            exit_code: None,
            signal: None,
            http_status: None,
            error: None,
            left_processes: false,
            not_enforced: None,
            retry_after: None,
        }
    }

    /// A failure described by a text.
    pub fn failed(error: impl Into<String>) -> Self {
        Self { error: Some(error.into()), ..Self::bare(Ending::Failed) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_state_reads_back_from_its_word() {
        for state in RunState::ALL {
            assert_eq!(state.as_str().parse::<RunState>(), Ok(state));
        }
        assert!("dead".parse::<RunState>().is_err());
    }
}
