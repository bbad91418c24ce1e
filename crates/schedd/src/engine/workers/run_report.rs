//! The report of a worker about a run, and the proof that the worker has the run.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use schedd_core::domain::run::run_progress::RunProgress;
use schedd_schedule::names::{Fence, RunId};

/// The proof that a worker has a run: the fence of the claim, and the id of the worker's question.
/// A later claim of the run has another fence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunToken {
    /// The shard of the run; `None` for a run of the namespace itself.
    pub(super) shard: Option<u32>,
    pub(super) fence: Fence,
    pub(super) ask: String,
}

impl RunToken {
    pub(super) fn new(shard: Option<u32>, fence: Fence, ask: &str) -> Self {
        Self { shard, fence, ask: ask.to_owned() }
    }

    /// Returns the fence of the claim.
    pub fn fence(&self) -> u64 {
        self.fence.as_u64()
    }
}

impl fmt::Display for RunToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(shard) = self.shard {
            write!(f, "{shard}-")?;
        }
        write!(f, "{}.{}", self.fence.as_u64(), self.ask)
    }
}

/// The error for a text that is no token of a run.
#[derive(Debug, thiserror::Error)]
#[error("no token of a run, wanted the token in the answer to the claim")]
pub struct RunTokenError;

impl FromStr for RunToken {
    type Err = RunTokenError;

    fn from_str(text: &str) -> Result<Self, RunTokenError> {
        let (fence, ask) = text.split_once('.').ok_or(RunTokenError)?;
        let (shard, fence) = match fence.split_once('-') {
            Some((shard, fence)) => (Some(shard.parse().map_err(|_| RunTokenError)?), fence),
            None => (None, fence),
        };
        let fence = fence.parse().ok().and_then(Fence::new).ok_or(RunTokenError)?;
        Ok(Self::new(shard, fence, ask))
    }
}

/// A run of which a worker reports.
#[derive(Debug, Clone)]
pub struct ReportedRun {
    /// The run.
    pub run: RunId,
    /// The proof that the worker has the run.
    pub token: RunToken,
    /// The report of the worker.
    pub report: Report,
}

/// The report of a worker about a run.
#[derive(Debug, Clone)]
pub enum Report {
    /// The worker goes on.
    Alive {
        /// How far the work is. `None` leaves the last report as it is.
        progress: Option<RunProgress>,
    },
    /// The work is done.
    Complete {
        /// The output of the work.
        output: String,
    },
    /// The attempt failed.
    Fail {
        /// The reason in words.
        error: String,
        /// The output of the work.
        output: String,
        /// False if no further attempt can succeed. `None` and true leave this to the job's rules.
        retry: Option<bool>,
        /// The wait before the next attempt. `None` leaves this to the job's rules.
        retry_in: Option<Duration>,
    },
    /// The worker gives the run back. This is no failure, and the next attempt has the same number.
    Release {
        /// The wait before the run is due again.
        delay: Duration,
        /// True if the work has begun. Then an at-most-once run ends as lost, because it must not begin
        /// again.
        has_begun: bool,
    },
}

/// The answer to a report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WorkerReply {
    /// The report was recorded. For [`Report::Alive`]: the lease was renewed for this time.
    Ok(Option<Duration>),
    /// The worker shall stop the work, and then report its end. The lease was renewed.
    Cancel(Duration),
    /// The worker no longer has the run.
    Lost,
    /// The worker no longer has the run, and its report changed nothing.
    Stale,
    /// No such run is known, or its queue is not one of the caller.
    Unknown,
    /// The report was not recorded, because the shard of the run does not answer. The worker shall
    /// report again.
    Again,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_reads_back_and_any_other_text_is_refused() {
        for shard in [None, Some(3)] {
            let token = RunToken::new(shard, Fence::new(7).unwrap(), "abc.d-e");
            assert_eq!(token.to_string().parse::<RunToken>().unwrap(), token);
        }
        for bad in ["", "7", "x.abc", "-1.abc", "x-1.abc", "99999999999999999999.abc"] {
            assert!(bad.parse::<RunToken>().is_err(), "{bad}");
        }
    }
}
