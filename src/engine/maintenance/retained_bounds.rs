//! The bounds of kept history and output, and the jobs that exceed these bounds.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use tokio::sync::Notify;

use crate::config::{HistoryConfig, OutputConfig};
use crate::domain::name::names::JobName;

const DEAD_A_JOB: usize = 1_000;
/// The number of runs, and the number of dead letters, kept of the notices of one job and kind.
/// With this bound, notices do not push job runs out of the bounds of all jobs.
const NOTICES_A_JOB: usize = 100;

/// The bounds of kept history and output.
#[derive(Clone, Default)]
pub(crate) struct RetainedBounds {
    pub(crate) history: HistoryConfig,
    pub(crate) output: OutputConfig,
}

/// The bounds of kept data from the last accepted file, and the jobs that the janitor trims at
/// once.
#[derive(Default)]
pub(crate) struct Retention {
    bounds: Mutex<RetainedBounds>,
    overfull: Mutex<BTreeSet<JobName>>,
    /// The signal that wakes the janitor, because a job exceeds its bounds.
    pub(crate) overfull_now: Notify,
}

impl Retention {
    /// Returns the bounds of kept data, from the last accepted file.
    pub(crate) fn bounds(&self) -> RetainedBounds {
        self.bounds.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn set_bounds(&self, bounds: RetainedBounds) {
        *self.bounds.lock().unwrap_or_else(PoisonError::into_inner) = bounds;
    }

    /// Asks the janitor to trim the history and output of a job at once.
    pub(crate) fn trim_soon(&self, job: &JobName) {
        self.overfull.lock().unwrap_or_else(PoisonError::into_inner).insert(job.clone());
        self.overfull_now.notify_one();
    }

    /// Returns the jobs the janitor has to trim at once, and empties the list of these jobs.
    pub(crate) fn take_overfull(&self) -> BTreeSet<JobName> {
        std::mem::take(&mut *self.overfull.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Returns the number of runs, and the number of dead letters, that are kept of `job`.
pub(crate) fn bounds_of(job: &JobName, keep_per_job: usize) -> (usize, usize) {
    if job.is_hidden() {
        (keep_per_job.min(NOTICES_A_JOB), NOTICES_A_JOB)
    } else {
        (keep_per_job, DEAD_A_JOB)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_notices_less_is_kept_than_of_what_people_wanted_done() {
        let job: JobName = "backup".parse().unwrap();
        let reported = JobName::of_notice(&job, crate::domain::job::notice::NoticeKind::Failure);
        assert_eq!((bounds_of(&job, 500), bounds_of(&reported, 500)), ((500, 1_000), (100, 100)));
        assert_eq!(bounds_of(&reported, 7), (7, 100));
    }
}
