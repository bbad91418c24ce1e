//! The report of `doctor`.

use serde::Deserialize;

use crate::dashboard::shown_text::ShownText;

/// The document `report`.
#[derive(Debug, Deserialize)]
pub(in crate::dashboard) struct ReportDocument {
    pub(in crate::dashboard) ok: bool,
    redis: Vec<CheckDocument>,
    nodes: Vec<CheckDocument>,
    sources: Vec<CheckDocument>,
    consistency: Vec<CheckDocument>,
    notices: Vec<CheckDocument>,
    host: Vec<CheckDocument>,
    shards: Vec<CheckDocument>,
    pub(in crate::dashboard) findings: Vec<FindingDocument>,
}

/// The document `check`.
#[derive(Debug, Deserialize)]
pub(in crate::dashboard) struct CheckDocument {
    pub(in crate::dashboard) name: ShownText,
    pub(in crate::dashboard) text: ShownText,
    pub(in crate::dashboard) level: ShownText,
}

/// The document `finding`.
#[derive(Debug, Deserialize)]
pub(in crate::dashboard) struct FindingDocument {
    pub(in crate::dashboard) finding: ShownText,
    pub(in crate::dashboard) subject: ShownText,
    pub(in crate::dashboard) found: ShownText,
    pub(in crate::dashboard) mend: ShownText,
    pub(in crate::dashboard) fixable: bool,
}

impl ReportDocument {
    /// Returns the number of checks that warn.
    pub(in crate::dashboard) fn warnings(&self) -> usize {
        let checks = self.sections().into_iter().flat_map(|(_, checks)| checks);
        checks.filter(|check| check.level.as_str() == "warn").count()
    }

    /// Returns the sections of checks that are not empty, each with its title.
    pub(in crate::dashboard) fn sections(&self) -> Vec<(&'static str, &[CheckDocument])> {
        let sections = [
            ("Redis", self.redis.as_slice()),
            ("Nodes", &self.nodes),
            ("Files", &self.sources),
            ("Consistency", &self.consistency),
            ("Notifications", &self.notices),
            ("Shards", &self.shards),
            ("This host", &self.host),
        ];
        sections.into_iter().filter(|(_, checks)| !checks.is_empty()).collect()
    }
}
