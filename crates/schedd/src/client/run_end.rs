//! The end of a run.

use std::time::SystemTime;

use schedd_core::domain::run::run_state::RunState;
use schedd_store::RunRecord;

use crate::instants::system_time;

/// The way in which a run ended.
///
/// ```
/// # use schedd::RunOutcome;
/// assert_eq!(RunOutcome::TimedOut.to_string(), "timed_out");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum RunOutcome {
    /// An attempt succeeded.
    Succeeded,
    /// The last attempt failed.
    Failed,
    /// The last attempt exceeded its timeout.
    TimedOut,
    /// The run was stopped by an operator, or replaced by another run.
    Cancelled,
    /// The run was not started.
    Skipped,
    /// It is not known if the run has done its work.
    Lost,
}

impl std::fmt::Display for RunOutcome {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let state = match self {
            Self::Succeeded => RunState::Succeeded,
            Self::Failed => RunState::Failed,
            Self::TimedOut => RunState::TimedOut,
            Self::Cancelled => RunState::Cancelled,
            Self::Skipped => RunState::Skipped,
            Self::Lost => RunState::Lost,
        };
        state.fmt(f)
    }
}

/// The end of a run, as [`Client::wait`](crate::Client::wait) returns it.
///
/// ```
/// fn describe(end: &schedd::RunEnd) -> String {
///     format!("{}: {} after {} attempts", end.run, end.outcome, end.attempt)
/// }
/// # let _ = describe;
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RunEnd {
    /// The id of the run.
    pub run: String,
    /// The way in which the run ended.
    pub outcome: RunOutcome,
    /// The number of the last attempt. 0 if there was none.
    pub attempt: u32,
    /// The error of the last attempt. `None` if there was no error.
    pub error: Option<String>,
    /// The reason for the outcome, such as `overlap`, if the outcome does not say it.
    pub reason: Option<String>,
    /// The time of the end.
    pub at: Option<SystemTime>,
}

impl RunEnd {
    /// Returns the end of the run of `record`. Returns `None` if the run has not ended.
    pub(super) fn of(record: &RunRecord) -> Option<Self> {
        let outcome = match record.state {
            RunState::Scheduled | RunState::Running => return None,
            RunState::Succeeded => RunOutcome::Succeeded,
            RunState::Failed => RunOutcome::Failed,
            RunState::TimedOut => RunOutcome::TimedOut,
            RunState::Cancelled => RunOutcome::Cancelled,
            RunState::Skipped => RunOutcome::Skipped,
            RunState::Lost => RunOutcome::Lost,
        };
        Some(Self {
            run: record.run.to_string(),
            outcome,
            attempt: record.attempt,
            error: record.error.clone(),
            reason: record.reason.clone(),
            at: record.finished_at.map(system_time),
        })
    }

    /// Returns true if the run succeeded.
    ///
    /// ```
    /// # schedd::testing::block_on(async |bench| {
    /// # let client = bench.client();
    /// # use schedd::{Add, Run, Worker};
    /// # use std::time::Duration;
    /// # let worker = Worker::on(client.clone()).handle("ok", async |(): (), _: Run| Ok(())).start().await?;
    /// let added = client.add(Add::to("ok", &())).await?;
    /// let run = added.job().run.as_deref().unwrap();
    /// let end = client.wait(run, Duration::from_secs(30)).await?.unwrap();
    /// assert!(end.is_success());
    /// # worker.stop().await;
    /// # Ok(())
    /// # });
    /// ```
    pub fn is_success(&self) -> bool {
        self.outcome == RunOutcome::Succeeded
    }
}
