//! A run, as a list of runs has it.

use std::time::Duration;

use serde::Deserialize;

use crate::dashboard::page_clock::DocumentTime;
use crate::dashboard::page_link::{job_path, run_path};
use crate::dashboard::shown_text::ShownText;
use schedd_schedule::time::wording::span;

/// The document `run`.
#[derive(Debug, Deserialize)]
pub(in crate::dashboard) struct RunDocument {
    pub(in crate::dashboard) run_id: ShownText,
    pub(in crate::dashboard) job: ShownText,
    pub(in crate::dashboard) kind: ShownText,
    pub(in crate::dashboard) queue: ShownText,
    pub(in crate::dashboard) due: DocumentTime,
    pub(in crate::dashboard) state: ShownText,
    pub(in crate::dashboard) attempt: u32,
    pub(in crate::dashboard) node: Option<ShownText>,
    pub(in crate::dashboard) started_at: Option<DocumentTime>,
    pub(in crate::dashboard) finished_at: Option<DocumentTime>,
    pub(in crate::dashboard) late_ms: Option<u64>,
    pub(in crate::dashboard) duration_ms: Option<u64>,
    pub(in crate::dashboard) waited_ms: Option<u64>,
    pub(in crate::dashboard) recorded_after_ms: Option<u64>,
    pub(in crate::dashboard) reason: Option<ShownText>,
    pub(in crate::dashboard) next: Option<ShownText>,
    pub(in crate::dashboard) by: Option<ShownText>,
    pub(in crate::dashboard) note: Option<ShownText>,
    pub(in crate::dashboard) left_processes: bool,
    pub(in crate::dashboard) not_enforced: Option<ShownText>,
    pub(in crate::dashboard) skipped_count: Option<u64>,
}

impl RunDocument {
    /// Returns the path of the run's page, without the path before all routes.
    pub(in crate::dashboard) fn path(&self) -> String {
        run_path(self.run_id.as_str())
    }

    /// Returns the path of the page of the run's job.
    pub(in crate::dashboard) fn job_path(&self) -> String {
        job_path(self.job.as_str())
    }

    /// Returns the time from due to the first start, as text.
    pub(in crate::dashboard) fn late(&self) -> Option<String> {
        self.late_ms.map(millis)
    }

    /// Returns the duration of the last attempt, as text.
    pub(in crate::dashboard) fn took(&self) -> Option<String> {
        self.duration_ms.map(millis)
    }

    /// Returns the time from ready to the first start, as text.
    pub(in crate::dashboard) fn waited(&self) -> Option<String> {
        self.waited_ms.map(millis)
    }
}

/// Returns a duration as text.
pub(in crate::dashboard) fn millis(ms: u64) -> String {
    span(Duration::from_millis(ms))
}
