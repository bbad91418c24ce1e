//! The explanation why a job or a run did or did not start.

use serde::Deserialize;

use crate::dashboard::page_clock::DocumentTime;
use crate::dashboard::shown_text::ShownText;

/// The document `explanation`.
#[derive(Debug, Deserialize)]
pub(in crate::dashboard) struct ExplanationDocument {
    pub(in crate::dashboard) job: ShownText,
    pub(in crate::dashboard) findings: Vec<ExplainedFinding>,
}

/// A sentence of an explanation.
#[derive(Debug, Deserialize)]
pub(in crate::dashboard) struct ExplainedFinding {
    pub(in crate::dashboard) part: ShownText,
    pub(in crate::dashboard) sentence: ShownText,
}

/// A change of a job.
#[derive(Debug, Deserialize)]
pub(in crate::dashboard) struct AuditDocument {
    pub(in crate::dashboard) at: DocumentTime,
    what: ShownText,
    pub(in crate::dashboard) by: Option<ShownText>,
    pub(in crate::dashboard) run_id: Option<ShownText>,
    pub(in crate::dashboard) note: Option<ShownText>,
    pub(in crate::dashboard) count: Option<u64>,
    pub(in crate::dashboard) old: Option<ShownText>,
    pub(in crate::dashboard) new: Option<ShownText>,
}

impl AuditDocument {
    /// Returns the change in words.
    pub(in crate::dashboard) fn what(&self) -> String {
        self.what.in_words()
    }
}
