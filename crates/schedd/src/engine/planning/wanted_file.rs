//! The latest content of this node's jobs file.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use schedd_core::config::StoredJob;
use schedd_schedule::names::JobName;
use schedd_store::{Section, SectionText};

/// The choice of whether a file without any job removes all its earlier jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Removal {
    /// The jobs are removed, because an operator asked to apply this empty file.
    Allowed,
    /// The jobs stay, because the file may have been emptied by accident.
    Refused,
}

/// The part of this node's jobs file that Redis stores: its jobs, queues and groups.
#[derive(Debug, Clone)]
pub(crate) struct WantedJobs {
    pub(crate) jobs: Arc<BTreeMap<JobName, StoredJob>>,
    pub(crate) sections: BTreeMap<Section, SectionText>,
    pub(crate) removal: Removal,
}

/// The latest content of the jobs file, or nothing before a file has been read.
#[derive(Default)]
pub(crate) struct WantedFile {
    wanted: Mutex<Option<WantedJobs>>,
    /// True if the file was read again since the last log line about applying the file.
    pub(super) is_new: AtomicBool,
}

impl WantedFile {
    pub(crate) fn set(&self, wanted: WantedJobs) {
        *self.wanted.lock().unwrap_or_else(PoisonError::into_inner) = Some(wanted);
        self.is_new.store(true, Ordering::Release);
    }

    /// Returns true if a jobs file has been read.
    pub(crate) fn is_reported(&self) -> bool {
        self.get().is_some()
    }

    /// Returns the number of jobs in the file, or `None` before a file has been read.
    pub(crate) fn jobs(&self) -> Option<usize> {
        self.get().map(|wanted| wanted.jobs.len())
    }

    pub(super) fn get(&self) -> Option<WantedJobs> {
        self.wanted.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
