//! The question that `schedctl explain` answers.

use schedd_schedule::names::RunId;
use schedd_schedule::time::unix_millis::UnixMillis;

/// The question that a user asks about a job or run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ask {
    /// The question about the present state of the job.
    Job,
    /// The question about the last occurrence of the job.
    Last,
    /// The question about the occurrence of the job at this time.
    At(UnixMillis),
    /// The question about this run.
    Run(RunId),
}
