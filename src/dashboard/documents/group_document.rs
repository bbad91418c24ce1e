//! A group, as `groups` has it.

use serde::Deserialize;

use crate::dashboard::page_clock::DocumentTime;
use crate::dashboard::page_link::{job_path, run_path};
use crate::dashboard::shown_text::ShownText;

/// The document `group`.
#[derive(Debug, Deserialize)]
pub(in crate::dashboard) struct GroupDocument {
    pub(in crate::dashboard) name: ShownText,
    pub(in crate::dashboard) mode: ShownText,
    pub(in crate::dashboard) declared: bool,
    pub(in crate::dashboard) turn: Option<ShownText>,
    pub(in crate::dashboard) since: Option<DocumentTime>,
    pub(in crate::dashboard) not_before: Option<DocumentTime>,
    pub(in crate::dashboard) running: Vec<ShownText>,
    pub(in crate::dashboard) waiting: u64,
    pub(in crate::dashboard) next_turn: Option<DocumentTime>,
    pub(in crate::dashboard) members: Vec<MemberDocument>,
}

/// A member of a group.
#[derive(Debug, Deserialize)]
pub(in crate::dashboard) struct MemberDocument {
    pub(in crate::dashboard) job: ShownText,
    pub(in crate::dashboard) next_due: Option<DocumentTime>,
}

impl MemberDocument {
    /// Returns the path of the page of the job.
    pub(in crate::dashboard) fn path(&self) -> String {
        job_path(self.job.as_str())
    }
}

impl GroupDocument {
    /// Returns the running runs: the path of the page, and the id.
    pub(in crate::dashboard) fn runs(&self) -> Vec<(String, &ShownText)> {
        self.running.iter().map(|run| (run_path(run.as_str()), run)).collect()
    }
}
