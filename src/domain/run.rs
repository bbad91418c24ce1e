//! A run's states and the ways an attempt can end.
//!
//! Invariant: a run has one state; a final one it leaves only if it is a dead letter that a person has tried again. The words
//! here are those in Redis, JSON and tables.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// The state of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RunState {
    /// Planned, or waiting for a retry or for a blocker.
    Scheduled,
    /// Claimed by a node.
    Running,
    /// Final: an attempt did what was wanted.
    Succeeded,
    /// Final: the last attempt failed.
    Failed,
    /// Final: the last attempt took longer than its time-out.
    TimedOut,
    /// Final: a person, or the run that replaced it, stopped it.
    Cancelled,
    /// Final: it was not started, for a reason that stands with it.
    Skipped,
    /// Final: it may or may not have done its work, and may not be started (again) to find out.
    Lost,
}

impl RunState {
    /// Every state, in the order of a run's life.
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

    /// The word for it.
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

    /// Whether a run stays in it, unless a person has a dead letter tried again.
    pub fn is_final(self) -> bool {
        !matches!(self, Self::Scheduled | Self::Running)
    }

    /// Whether a run in it is a dead letter.
    pub fn is_dead(self) -> bool {
        matches!(self, Self::Failed | Self::TimedOut | Self::Lost)
    }
}

impl fmt::Display for RunState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A word that is no state of a run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("run state {0:?} is unknown: wanted scheduled, running, succeeded, failed, timed_out, cancelled, skipped or lost")]
pub struct UnknownState(pub String);

impl FromStr for RunState {
    type Err = UnknownState;

    fn from_str(word: &str) -> Result<Self, UnknownState> {
        Self::ALL.into_iter().find(|state| state.as_str() == word).ok_or_else(|| UnknownState(word.to_owned()))
    }
}

/// How an attempt ended, and the facts that go into history beside it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// How it ended.
    pub ending: Ending,
    /// The process' exit code, if it ended by one.
    pub exit_code: Option<i32>,
    /// The signal that ended the process, if one did.
    pub signal: Option<i32>,
    /// The status of the HTTP answer, if one came.
    pub http_status: Option<u16>,
    /// What went wrong, in words, if an exit code or status does not say it: "cannot start: No such file or directory".
    pub error: Option<String>,
    /// Whether processes the job left behind had to be killed.
    pub left_processes: bool,
    /// Which limits of its job its node could not hold it to, as a list; none if there were none.
    pub not_enforced: Option<String>,
    /// How long the answer asks to be left alone (`Retry-After`), at most 24 h.
    pub retry_after: Option<Duration>,
}

/// How an attempt ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// It did what was wanted.
    Succeeded,
    /// It ended otherwise, or could not start.
    Failed,
    /// It was killed at its time-out.
    TimedOut,
    /// It was killed because a person, or a run replacing it, asked.
    Stopped,
    /// It was killed because this node is stopping.
    ShutDown,
    /// It was killed because its lease could not be held, and nothing of it is alive; its result is nobody's.
    LeaseLost,
    /// Its lease could not be held, and it may still be at work: processes that would not die, or a request already sent.
    OutOfSight,
    /// It never started: the keeper or this node refused for a reason of its own, not the job's.
    NotStarted,
}

impl Outcome {
    /// An outcome with no facts beside its ending.
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

    /// A failure told in words.
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
