//! A data loss of Redis, as `data-loss` has it.

use serde::Deserialize;

use crate::dashboard::page_clock::DocumentTime;
use crate::dashboard::shown_text::ShownText;

/// The document `data loss`.
#[derive(Debug, Deserialize)]
pub(in crate::dashboard) struct LossDocument {
    pub(in crate::dashboard) noticed_at: Option<DocumentTime>,
    pub(in crate::dashboard) noticed_by: ShownText,
    pub(in crate::dashboard) what: ShownText,
    pub(in crate::dashboard) last_complete_at: Option<DocumentTime>,
    pub(in crate::dashboard) restored: u64,
    pub(in crate::dashboard) lost: u64,
    pub(in crate::dashboard) data_until: Option<DocumentTime>,
    pub(in crate::dashboard) jobs_gone: u64,
    pub(in crate::dashboard) jobs_gone_exact: bool,
    pub(in crate::dashboard) gone: Vec<GoneJobDocument>,
    pub(in crate::dashboard) reported_by: Vec<ShownText>,
}

/// A job that was lost.
#[derive(Debug, Deserialize)]
pub(in crate::dashboard) struct GoneJobDocument {
    pub(in crate::dashboard) job: ShownText,
    pub(in crate::dashboard) schedule: ShownText,
}
