//! A data loss, and the records that may be gone because of the loss.

use super::run_facts::{ON_TIME, RunFacts};
use crate::domain::time::unix_millis::UnixMillis;

/// The text before the node's name at the end of the reason of a run that a journal restored.
const RESTORED: &str = "restored by the journal of ";

/// A data loss.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Loss {
    /// The time when a node noticed the loss.
    pub noticed: UnixMillis,
    /// The node that noticed the loss.
    pub by: String,
    /// The kind of loss, as a phrase.
    pub what: &'static str,
    /// The time up to which Redis still has its data. `None` if all data is gone, or if the time is
    /// not known.
    pub kept: Option<UnixMillis>,
    /// The time when the node that noticed the loss last saw Redis with all its data.
    pub whole: Option<UnixMillis>,
    /// The nodes whose journals have restored records after the loss.
    pub reported_by: Vec<String>,
}

impl Loss {
    /// Returns true if the loss may have taken the record of an occurrence at `at`.
    pub fn concerns(&self, at: UnixMillis) -> bool {
        at < self.noticed && self.kept.is_none_or(|kept| kept < at.saturating_add(ON_TIME))
    }

    /// Returns the time up to which records are gone, as far as this time is known.
    pub(crate) fn until(&self) -> UnixMillis {
        self.whole.unwrap_or(self.noticed)
    }

    /// Returns true if the record of `run` is older than the loss.
    pub(crate) fn was_before(&self, run: &RunFacts) -> bool {
        let is_restored = run.reason.as_deref().is_some_and(|reason| reason.contains(RESTORED));
        let until = self.until().max(self.kept.unwrap_or(UnixMillis::EPOCH));
        is_restored
            || run.attempts.iter().any(|attempt| attempt.started_at.is_none_or(|at| at <= until))
    }

    /// Returns true if an occurrence at `at` came due before the loss, so that its run may have
    /// executed.
    pub fn hides(&self, at: UnixMillis) -> bool {
        let until = self.whole.map_or(self.noticed, |whole| whole.saturating_add(ON_TIME));
        self.concerns(at) && at <= until
    }
}

impl RunFacts {
    /// Returns the node whose journal restored the record of this run, if a journal did.
    pub(crate) fn restored_by(&self) -> Option<&str> {
        self.reason.as_deref()?.rsplit("; ").next()?.strip_prefix(RESTORED)
    }
}
