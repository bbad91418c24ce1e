//! What somebody did to a job, or to one of its runs.

use super::time::UnixMillis;

/// One deed. Of a job the newest 100 are kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Deed {
    /// When, by Redis' clock.
    pub at: UnixMillis,
    /// What: one of the words below, or one a newer schedd writes.
    pub what: String,
    /// Who, as `user@host`, `file of NODE` or `schedd on NODE`; none if that is not known.
    pub by: Option<String>,
    /// The run it was done to, if it was one.
    pub run: Option<String>,
    /// To how many runs, if it was done to several at once.
    pub count: Option<u64>,
    /// Of a change of the schedule: what it was and what it became.
    pub schedules: Option<(String, String)>,
    /// Of a backfill that was given up: the first and last due time of what had waited.
    pub dues: Option<(UnixMillis, UnixMillis)>,
}

impl Deed {
    /// The job was made.
    pub const ADDED: &'static str = "added";
    /// Its definition was changed.
    pub const EDITED: &'static str = "edited";
    /// It was taken out.
    pub const REMOVED: &'static str = "removed";
    /// It was paused.
    pub const PAUSED: &'static str = "paused";
    /// It was resumed.
    pub const RESUMED: &'static str = "resumed";
    /// A run was cancelled, or asked to stop.
    pub const RUN_CANCELLED: &'static str = "run cancelled";
    /// A run was asked for by hand.
    pub const RUN_ASKED: &'static str = "run asked for";
    /// Past occurrences are to be made up for.
    pub const BACKFILL_ASKED: &'static str = "backfill asked for";
    /// Those of them that waited are not.
    pub const BACKFILL_DROPPED: &'static str = "backfill given up";
    /// A dead letter was tried again.
    pub const RUN_RETRIED: &'static str = "run retried";
    /// Dead letters were forgotten for good.
    pub const LETTERS_PURGED: &'static str = "dead letters purged";
}
