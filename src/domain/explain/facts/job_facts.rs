//! A job as it is kept.

use crate::domain::job::job_spec::JobSpec;
use crate::domain::schedule::schedule_form::Timetable;
use crate::domain::time::unix_millis::UnixMillis;

/// A job as it is kept.
#[derive(Debug, Clone)]
pub struct JobFacts {
    /// Its definition and timetable, or why they cannot be read.
    pub definition: Result<(JobSpec, Timetable), String>,
    /// When its schedule began to hold.
    pub since: UnixMillis,
    /// When it was added, and by whom.
    pub created: Option<(UnixMillis, Option<String>)>,
    /// The source of its definition.
    pub source: Source,
    /// How and when it ended, if it has: `finished`, or why it was removed.
    pub ended: Option<(String, Option<UnixMillis>)>,
    /// When it was paused, if it is.
    pub paused_at: Option<UnixMillis>,
    /// How many regular runs may still begin; none = any number.
    pub runs_left: Option<u32>,
    /// The due time of its planned regular run.
    pub pending: Option<UnixMillis>,
}

/// The source of a job's definition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// The files of these nodes.
    File(Vec<String>),
    /// `schedctl add`.
    Api,
}
