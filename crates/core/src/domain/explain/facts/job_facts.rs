//! The facts of a job for `explain`, as Redis has them.

use crate::domain::job::job_spec::JobSpec;
use schedd_schedule::time::unix_millis::UnixMillis;
use schedd_schedule::timetable::Timetable;

/// The facts of a job, as Redis has them.
#[derive(Debug, Clone)]
pub struct JobFacts {
    /// The definition and timetable of the job, or the reason why they cannot be read.
    pub definition: Result<(JobSpec, Timetable), String>,
    /// The time from which the present schedule has occurrences. Its first occurrence is later than
    /// this time.
    pub since: UnixMillis,
    /// The time before which the next run does not start, and the run or user that set this time.
    pub next_set: Option<(UnixMillis, String)>,
    /// The due time of the run that was planned for such a time, beside the schedule. `None` if there
    /// is none, or if it is due.
    pub next_run: Option<UnixMillis>,
    /// The time when the job was added, and the user who added it. `None` if not known.
    pub created: Option<(UnixMillis, Option<String>)>,
    /// The source of the job's definition.
    pub source: Source,
    /// The reason and the time of the job's end, if the job has ended. The reason is `finished` for
    /// a one-shot, or the reason for the removal of the job.
    pub ended: Option<(String, Option<UnixMillis>)>,
    /// The time when the job was paused, if the job is paused.
    pub paused_at: Option<UnixMillis>,
    /// The number of regular runs that `max_runs` still allows. `None` means any number.
    pub runs_left: Option<u32>,
    /// The due time of the job's planned regular run. `None` if no run is planned.
    pub pending: Option<UnixMillis>,
}

/// The source of a job's definition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// The jobs files that define the job, each by its source name: the name of a node, or
    /// `apply:NAME`.
    File(Vec<String>),
    /// The command `schedctl add`.
    Api,
}
