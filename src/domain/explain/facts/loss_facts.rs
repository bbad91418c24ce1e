//! A data loss, and which records it may have taken.

use super::run_facts::{ON_TIME, RunFacts};
use crate::domain::time::unix_millis::UnixMillis;

/// Ends the reason of a run that a journal restored.
const RESTORED: &str = "restored by the journal of ";

/// A data loss.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Loss {
    /// When a node noticed it.
    pub noticed: UnixMillis,
    /// The node that noticed it.
    pub by: String,
    /// The kind of loss, in words.
    pub what: &'static str,
    /// The time up to which Redis still has its data; none if all is gone, or if that is not known.
    pub kept: Option<UnixMillis>,
    /// When that node last saw Redis with all its data.
    pub whole: Option<UnixMillis>,
    /// The nodes whose journals have restored what they knew.
    pub told_by: Vec<String>,
}

impl Loss {
    /// True if the record of an occurrence at `at` may be gone.
    pub fn concerns(&self, at: UnixMillis) -> bool {
        at < self.noticed && self.kept.is_none_or(|kept| kept < at.saturating_add(ON_TIME))
    }

    /// The time up to which records are gone, as far as that is known.
    pub(crate) fn until(&self) -> UnixMillis {
        self.whole.unwrap_or(self.noticed)
    }

    /// True if the record of `run` is older than the loss.
    pub(crate) fn was_before(&self, run: &RunFacts) -> bool {
        let is_restored = run.reason.as_deref().is_some_and(|reason| reason.contains(RESTORED));
        let until = self.until().max(self.kept.unwrap_or(UnixMillis::EPOCH));
        is_restored || run.attempts.iter().any(|attempt| attempt.started_at.is_none_or(|at| at <= until))
    }

    /// True if an occurrence at `at` came due before the loss, so that it may have run.
    pub fn hides(&self, at: UnixMillis) -> bool {
        let until = self.whole.map_or(self.noticed, |whole| whole.saturating_add(ON_TIME));
        self.concerns(at) && at <= until
    }
}

impl RunFacts {
    /// The node whose journal restored this record, if one did.
    pub(crate) fn restored_by(&self) -> Option<&str> {
        self.reason.as_deref()?.rsplit("; ").next()?.strip_prefix(RESTORED)
    }
}
