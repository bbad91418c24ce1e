//! The entries of a job's audit log: changes to the job or to its runs.

use schedd_schedule::time::unix_millis::UnixMillis;

/// An entry of the audit log of a job. The newest 100 entries of a job are kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditEntry {
    /// The time of the change, by Redis' clock.
    pub at: UnixMillis,
    /// The kind of the change: a constant of this type, such as `added`, or a kind of a newer
    /// version of schedd.
    pub what: String,
    /// The author of the change, as `user@host`, `file of NODE` or `schedd on NODE`. `None` if not
    /// known.
    pub by: Option<String>,
    /// The run that was changed. `None` unless the change concerned a single run.
    pub run: Option<String>,
    /// The note of the author, in one line. `None` if the author wrote none.
    pub note: Option<String>,
    /// The number of changed runs. `None` unless the change concerned several runs.
    pub count: Option<u64>,
    /// The schedule before the change and the schedule after the change. `None` if the schedule
    /// stayed the same.
    pub schedules: Option<(String, String)>,
    /// The due times of the first and the last dropped run. `None` unless the change dropped the
    /// waiting runs of a backfill.
    pub dues: Option<(UnixMillis, UnixMillis)>,
}

impl AuditEntry {
    /// The kind of a change that added the job.
    pub const ADDED: &'static str = "added";
    /// The kind of a change that edited the definition of the job.
    pub const EDITED: &'static str = "edited";
    /// The kind of a change that removed the job.
    pub const REMOVED: &'static str = "removed";
    /// The kind of a change that paused the job.
    pub const PAUSED: &'static str = "paused";
    /// The kind of a change that resumed the job.
    pub const RESUMED: &'static str = "resumed";
    /// The kind of a change that cancelled a run or asked a run to stop.
    pub const RUN_CANCELLED: &'static str = "run cancelled";
    /// The kind of a change that requested a run by hand.
    pub const RUN_ASKED: &'static str = "run asked for";
    /// The kind of a change that requested a backfill of past occurrences.
    pub const BACKFILL_ASKED: &'static str = "backfill asked for";
    /// The kind of a change that dropped the waiting runs of a backfill.
    pub const BACKFILL_DROPPED: &'static str = "backfill given up";
    /// The kind of a change that retried a dead letter.
    pub const RUN_RETRIED: &'static str = "run retried";
    /// The kind of a change that deleted dead letters for good.
    pub const LETTERS_PURGED: &'static str = "dead letters purged";
}
