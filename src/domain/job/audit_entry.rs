//! Changes that somebody made to a job or to a run of it, as recorded in the audit log.

use crate::domain::time::unix_millis::UnixMillis;

/// An entry of the audit log of a job. The newest 100 entries of a job are kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditEntry {
    /// The time of the change, by Redis' clock.
    pub at: UnixMillis,
    /// The kind of the change: one of the constants below, or a kind that a newer schedd wrote.
    pub what: String,
    /// The author, as `user@host`, `file of NODE` or `schedd on NODE`. `None` if the author is not
    /// known.
    pub by: Option<String>,
    /// The run that was changed, if the change concerned a single run.
    pub run: Option<String>,
    /// The number of runs, if the change concerned several runs at once.
    pub count: Option<u64>,
    /// The schedule before and after, if the schedule changed.
    pub schedules: Option<(String, String)>,
    /// The first and last due time of the dropped runs, if a backfill was dropped.
    pub dues: Option<(UnixMillis, UnixMillis)>,
}

impl AuditEntry {
    /// The job was added.
    pub const ADDED: &'static str = "added";
    /// The definition of the job was changed.
    pub const EDITED: &'static str = "edited";
    /// The job was removed.
    pub const REMOVED: &'static str = "removed";
    /// The job was paused.
    pub const PAUSED: &'static str = "paused";
    /// The job was resumed.
    pub const RESUMED: &'static str = "resumed";
    /// A run was cancelled, or asked to stop.
    pub const RUN_CANCELLED: &'static str = "run cancelled";
    /// A run was requested by hand.
    pub const RUN_ASKED: &'static str = "run asked for";
    /// A backfill of past occurrences was requested.
    pub const BACKFILL_ASKED: &'static str = "backfill asked for";
    /// The waiting runs of a backfill were dropped.
    pub const BACKFILL_DROPPED: &'static str = "backfill given up";
    /// A dead letter was tried again.
    pub const RUN_RETRIED: &'static str = "run retried";
    /// Dead letters were deleted for good.
    pub const LETTERS_PURGED: &'static str = "dead letters purged";
}
