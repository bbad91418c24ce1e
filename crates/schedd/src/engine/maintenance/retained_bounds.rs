//! The limits of kept history and output, and the jobs that exceed these limits.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use tokio::sync::Notify;

use schedd_core::config::{HistoryConfig, OutputConfig};
use schedd_schedule::names::JobName;

const DEAD_A_JOB: usize = 1_000;
/// The most ended runs, and the most dead letters, that are kept for notices of one kind about one
/// job. Without this limit, notices could push the runs of jobs out of the history.
const NOTICES_A_JOB: usize = 100;

/// The limits of kept history and output.
#[derive(Clone, Default)]
pub(crate) struct RetainedBounds {
    pub(crate) history: HistoryConfig,
    pub(crate) output: OutputConfig,
}

/// The limits of kept data from the last accepted file, and the jobs that the janitor is to trim at
/// once.
#[derive(Default)]
pub(crate) struct Retention {
    bounds: Mutex<RetainedBounds>,
    overfull: Mutex<BTreeSet<JobName>>,
    /// The signal that wakes the janitor when a job exceeds its limits.
    pub(crate) overfull_now: Notify,
}

impl Retention {
    /// Returns the limits of kept data from the last accepted file.
    pub(crate) fn bounds(&self) -> RetainedBounds {
        self.bounds.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn set_bounds(&self, bounds: RetainedBounds) {
        *self.bounds.lock().unwrap_or_else(PoisonError::into_inner) = bounds;
    }

    /// Adds `job` to the jobs that the janitor trims at once, and wakes the janitor.
    pub(crate) fn trim_soon(&self, job: &JobName) {
        self.overfull.lock().unwrap_or_else(PoisonError::into_inner).insert(job.clone());
        self.overfull_now.notify_one();
    }

    /// Removes and returns the jobs that the janitor is to trim at once.
    pub(crate) fn take_overfull(&self) -> BTreeSet<JobName> {
        std::mem::take(&mut *self.overfull.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Returns the most ended runs, and the most dead letters, that are kept of `job`.
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
        let reported =
            JobName::of_notice(&job, schedd_core::domain::job::notice::NoticeKind::Failure);
        assert_eq!((bounds_of(&job, 500), bounds_of(&reported, 500)), ((500, 1_000), (100, 100)));
        assert_eq!(bounds_of(&reported, 7), (7, 100));
    }
}
