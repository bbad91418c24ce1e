//! The run that follows another run of its job.

use schedd_schedule::names::{JobName, RunId};
use schedd_schedule::time::unix_millis::UnixMillis;

/// The run that becomes its job's next planned run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Successor {
    /// The id of the successor, which contains its due time.
    pub run: RunId,
    /// The time from which the successor may be claimed.
    pub ready: UnixMillis,
}

impl Successor {
    /// Returns the regular run of `job` that is due at `due` and ready at the same time.
    pub fn on_time(job: &JobName, due: UnixMillis) -> Self {
        Self { run: RunId::regular(job.clone(), due), ready: due }
    }
}
