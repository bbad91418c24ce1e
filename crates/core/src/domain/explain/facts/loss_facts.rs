//! A data loss of Redis, and the records that may be missing because of the loss.

use super::run_facts::{ON_TIME, RunFacts};
use schedd_schedule::time::unix_millis::UnixMillis;

/// The text before the name of the node in the reason of a run whose record a journal restored.
const RESTORED: &str = "restored by the journal of ";

/// A data loss of Redis.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Loss {
    /// The time when a node noticed the loss.
    pub noticed: UnixMillis,
    /// The node that noticed the loss.
    pub by: String,
    /// The kind of loss, as a phrase for a sentence.
    pub what: &'static str,
    /// The time of the newest data that Redis still has. `None` if all data is lost, or if the time
    /// is not known.
    pub kept: Option<UnixMillis>,
    /// The last time at which the node `by` saw Redis with all its data. `None` if not known.
    pub whole: Option<UnixMillis>,
    /// The nodes that have finished restoring records from their journals after the loss.
    pub reported_by: Vec<String>,
}

impl Loss {
    /// Returns true if Redis may have lost the record of an occurrence at `at`.
    pub fn concerns(&self, at: UnixMillis) -> bool {
        at < self.noticed && self.kept.is_none_or(|kept| kept < at.saturating_add(ON_TIME))
    }

    /// Returns the end of the period whose records may be lost. This is the last time at which
    /// Redis had all its data, or else the time when the loss was noticed.
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

    /// Returns true if the run of an occurrence at `at` may have executed before the loss, and its
    /// record may be lost.
    pub fn hides(&self, at: UnixMillis) -> bool {
        let until = self.whole.map_or(self.noticed, |whole| whole.saturating_add(ON_TIME));
        self.concerns(at) && at <= until
    }
}

impl RunFacts {
    /// Returns the node whose journal restored the record of this run. Returns `None` if the record
    /// was not restored.
    pub(crate) fn restored_by(&self) -> Option<&str> {
        self.reason.as_deref()?.rsplit("; ").next()?.strip_prefix(RESTORED)
    }
}
