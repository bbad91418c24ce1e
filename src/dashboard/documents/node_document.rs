//! A node, as `nodes` has it.

use serde::Deserialize;

use crate::dashboard::page_clock::DocumentTime;
use crate::dashboard::shown_text::ShownText;

/// The document `node`.
#[derive(Debug, Deserialize)]
pub(in crate::dashboard) struct NodeDocument {
    pub(in crate::dashboard) name: ShownText,
    pub(in crate::dashboard) state: ShownText,
    pub(in crate::dashboard) started_at: Option<DocumentTime>,
    pub(in crate::dashboard) last_seen: Option<DocumentTime>,
    pub(in crate::dashboard) config_error: Option<ShownText>,
    pub(in crate::dashboard) host: ShownText,
    pub(in crate::dashboard) version: ShownText,
    pub(in crate::dashboard) pid: u64,
    pub(in crate::dashboard) running: Option<u64>,
    pub(in crate::dashboard) clock_offset_ms: Option<i64>,
    pub(in crate::dashboard) queues: Option<Vec<ShownText>>,
    pub(in crate::dashboard) labels: Vec<ShownText>,
    pub(in crate::dashboard) at_limit: Option<NodeLimitDocument>,
    pub(in crate::dashboard) differs: Vec<DifferingJobDocument>,
}

/// The reason why a node starts no runs.
#[derive(Debug, Deserialize)]
pub(in crate::dashboard) struct NodeLimitDocument {
    pub(in crate::dashboard) reason: ShownText,
    pub(in crate::dashboard) since: DocumentTime,
}

/// A job that the files of other nodes define differently.
#[derive(Debug, Deserialize)]
pub(in crate::dashboard) struct DifferingJobDocument {
    pub(in crate::dashboard) job: ShownText,
}
