//! The states of a run, and the ends of an attempt.
//!
//! Invariant: a run leaves a final state only if it is a dead letter and an operator retries it.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use super::resource_use::ResourceUse;

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
    /// Final: the run was stopped by an operator, or by the run that replaced it.
    Cancelled,
    /// Final: the run was not started, for a reason in its record.
    Skipped,
    /// Final: it is not known if the run has done its work, and another attempt could do the work
    /// twice.
    Lost,
}

impl RunState {
    /// All states: first the two that are not final, then the final states.
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

    /// Returns the name of this state in Redis, JSON and tables.
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

    /// Returns true for a final state, which a run leaves only if an operator retries a dead
    /// letter.
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

/// The error for a text that is not the name of a state. The value is the text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "run state {0:?} is unknown: wanted scheduled, running, succeeded, failed, timed_out, cancelled, skipped or lost"
)]
pub struct UnknownState(pub String);

impl FromStr for RunState {
    type Err = UnknownState;

    fn from_str(word: &str) -> Result<Self, UnknownState> {
        Self::ALL
            .into_iter()
            .find(|state| state.as_str() == word)
            .ok_or_else(|| UnknownState(word.to_owned()))
    }
}

/// The end of an attempt, with the facts for the run's record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AttemptOutcome {
    /// The way in which the attempt ended.
    pub ending: Ending,
    /// The exit code of the process, if any.
    pub exit_code: Option<i32>,
    /// The signal that ended the process, if any.
    pub signal: Option<i32>,
    /// The status of the HTTP answer, if any.
    pub http_status: Option<u16>,
    /// The error, such as "cannot start: No such file or directory". `None` if an exit code or
    /// status describes the failure.
    pub error: Option<String>,
    /// True if the keeper had to kill processes that the attempt left running.
    pub left_processes: bool,
    /// The job's limits that the node could not enforce, such as `memory, cpu`, if any.
    pub not_enforced: Option<String>,
    /// The minimum wait before a retry, by the header field `Retry-After` of the answer. At most
    /// 24 h.
    pub retry_after: Option<Duration>,
    /// The choice of a handler or a worker about the next attempt. `None` leaves it to the job's rules.
    pub asked: Option<AskedNext>,
    /// The text by which the attempt sets the time of the job's next run: a time or a duration. The
    /// error is the reason why the text is not understood.
    pub next: Option<Result<String, String>>,
    /// The resources that the processes of the attempt used. `None` for a request.
    pub resources: Option<ResourceUse>,
}

/// The choice of a handler or a worker about the next attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AskedNext {
    /// The run gets no further attempt, because its handler or worker says that none can succeed.
    NoRetry,
    /// The next attempt starts after this wait, if the job's rules allow another attempt.
    RetryIn(Duration),
    /// The same attempt starts again after this wait. This is no failure.
    Again(Duration),
}

/// The way in which an attempt ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// The attempt succeeded.
    Succeeded,
    /// The attempt ended without success, or could not start.
    Failed,
    /// The attempt was killed at its timeout.
    TimedOut,
    /// The attempt was killed because an operator or a later run of the job stopped it.
    Stopped,
    /// The attempt was killed because its node is stopping.
    ShutDown,
    /// The attempt was killed because its lease could not be renewed. No process of the attempt is
    /// alive. Its result is discarded, because another node may have claimed the run.
    LeaseLost,
    /// The lease could not be renewed, and the attempt may still be running. Some of its processes
    /// did not end, or its request was already sent.
    MaybeAlive,
    /// The attempt did not start, because of a problem of the keeper or the node, not of the job.
    NotStarted,
}

impl AttemptOutcome {
    /// Returns an outcome with this ending and with all other fields empty.
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
            asked: None,
            next: None,
            resources: None,
        }
    }

    /// Returns the outcome of a failed attempt with this error.
    pub fn failed(error: impl Into<String>) -> Self {
        Self { error: Some(error.into()), ..Self::bare(Ending::Failed) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_state_reads_back_from_its_name() {
        for state in RunState::ALL {
            assert_eq!(state.as_str().parse::<RunState>(), Ok(state));
        }
        assert!("dead".parse::<RunState>().is_err());
    }
}
