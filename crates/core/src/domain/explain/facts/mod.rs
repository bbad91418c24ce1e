//! The facts that explain a job or one of its occurrences. `engine::explanation` gathers these
//! facts.

mod blocker_facts;
mod chain_facts;
mod job_facts;
mod loss_facts;
mod node_facts;
mod run_facts;

pub use blocker_facts::{Blocker, Executing};
pub use chain_facts::ChainFacts;
pub use job_facts::{JobFacts, Source};
pub use loss_facts::Loss;
pub use node_facts::{GONE_AFTER, NodeFacts};
pub use run_facts::{AtGate, AttemptFacts, LateNotice, ON_TIME, Passed, Place, RunFacts};

use super::schedule_then::PastSchedule;
use crate::domain::job::audit_entry::AuditEntry;
use crate::domain::job::job_spec::JobSpec;
use crate::domain::run::run_state::RunState;
use schedd_schedule::names::{JobName, RunId};
use schedd_schedule::time::unix_millis::UnixMillis;
use schedd_schedule::time::wording::{shown, shown_elsewhere};
use schedd_schedule::time::zone::Zone;
use schedd_schedule::timetable::Timetable;

/// All facts for the answer of `explain` about a job, run or occurrence.
#[derive(Debug, Clone)]
pub struct Facts {
    /// The name of the job.
    pub name: JobName,
    /// The present time by the clock of Redis.
    pub now: UnixMillis,
    /// The zone of the job.
    pub zone: Zone,
    /// The zone of the reader, in which findings show times.
    pub local: Zone,
    /// The facts of the job. `None` if Redis has no definition of the job.
    pub job: Option<JobFacts>,
    /// The job, run, occurrence or time that the user asks about.
    pub subject: Subject,
    /// The audit log of the job, oldest entry first.
    pub audit_log: Vec<AuditEntry>,
    /// The earlier schedules of the job, oldest first, as far as Redis keeps them.
    pub past: Vec<PastSchedule>,
    /// The reason why the audit log cannot be read. `None` if the audit log can be read.
    pub audit_log_error: Option<String>,
    /// The data losses, oldest first.
    pub losses: Vec<Loss>,
    /// The time when a node noticed that a data loss removed the job, and the job's schedule as
    /// text. `None` if no data loss removed the job.
    pub gone: Option<(UnixMillis, String)>,
    /// The number of occurrences in a requested backfill whose run has not started.
    pub making_up: u64,
    /// The backfill run of the occurrence that the user asks about, with its state. `None` if there
    /// is no such run.
    pub made_up_by: Option<(RunId, RunState)>,
    /// The nodes, in the order of their names.
    pub nodes: Vec<NodeFacts>,
    /// The occurrence that waits for parents. `None` if the subject waits for none.
    pub chain: Option<ChainFacts>,
    /// The parents of the job that no longer exist.
    pub lost_parents: Vec<JobName>,
    /// The blockers of the ready run. For a job without a ready run, only the pause of its queue.
    pub blockers: Vec<Blocker>,
}

/// The job, run, occurrence or time that the user asks about.
#[derive(Debug, Clone)]
pub enum Subject {
    /// The job as a whole, at the present time.
    Job {
        /// The first few runs of the job that have not ended, in the order of their due times.
        open: Vec<RunFacts>,
        /// The number of runs that have not ended and are not in `open`.
        more: u64,
        /// The run of the job that ended last. `None` if no ended run is kept.
        last: Option<Box<RunFacts>>,
    },
    /// A run that has a record or is planned.
    Run(Box<RunFacts>),
    /// An occurrence inside a skipped range.
    InRange {
        /// The time of the occurrence.
        at: UnixMillis,
        /// The run of the first occurrence of the skipped range. Its record is for the whole range.
        run: Box<RunFacts>,
    },
    /// An occurrence in a range of the ledger. Its record is no longer kept.
    Ledger {
        /// The time of the occurrence.
        at: UnixMillis,
        /// The state in which the runs of the ledger range ended.
        state: String,
        /// The reason why the runs ended in `state`. Empty if no reason was recorded.
        reason: String,
        /// The due time of the first run in the ledger range.
        first: UnixMillis,
        /// The due time of the last run in the ledger range.
        last: UnixMillis,
        /// The number of runs in the ledger range.
        count: u64,
        /// True if it is certain that the ledger range contains the occurrence.
        is_sure: bool,
    },
    /// An occurrence that is older than the ledger. Only the number of runs in each state is kept.
    BeforeLedger {
        /// The time of the occurrence.
        at: UnixMillis,
        /// The states in which runs ended, each with the number of such runs.
        counts: Vec<(String, u64)>,
        /// The last due time that the numbers in `counts` include.
        until: UnixMillis,
    },
    /// A past occurrence without a run yet, because an earlier run of the job has not started.
    Behind {
        /// The time of the occurrence.
        at: UnixMillis,
        /// The earlier run, which has not started.
        run: Box<RunFacts>,
    },
    /// A past occurrence of the present schedule for which Redis has no record.
    Unrecorded {
        /// The time of the occurrence.
        at: UnixMillis,
    },
    /// A future occurrence, later than the planned run.
    ToCome {
        /// The time of the occurrence.
        at: UnixMillis,
    },
    /// An occurrence that waits for a backfill.
    ToMakeUp {
        /// The time of the occurrence.
        at: UnixMillis,
    },
    /// A time at which no run of the job was due.
    NotDue {
        /// The time that the user asks about.
        at: UnixMillis,
        /// The last occurrence before `at`.
        before: Option<UnixMillis>,
        /// The first occurrence after `at`.
        after: Option<UnixMillis>,
    },
    /// A time at which the job had already ended.
    Over {
        /// The time that the user asks about.
        at: UnixMillis,
    },
    /// The user asks about the last occurrence, but the job has had none yet.
    Never,
}

impl Facts {
    /// Returns the time that the user asks about. Returns `None` for a question about the job as a
    /// whole.
    pub fn at(&self) -> Option<UnixMillis> {
        match &self.subject {
            Subject::Run(run) => Some(run.run.due()),
            Subject::InRange { at, .. }
            | Subject::Ledger { at, .. }
            | Subject::BeforeLedger { at, .. }
            | Subject::Behind { at, .. }
            | Subject::Unrecorded { at }
            | Subject::ToCome { at }
            | Subject::ToMakeUp { at }
            | Subject::Over { at }
            | Subject::NotDue { at, .. } => Some(*at),
            Subject::Job { .. } | Subject::Never => None,
        }
    }

    /// Returns the run that the user asks about. For an occurrence in a skipped range, returns the
    /// run whose record has the range. For an occurrence that has no run yet because an earlier run
    /// has not started, returns the earlier run. Returns `None` for any other question.
    pub fn run(&self) -> Option<&RunFacts> {
        match &self.subject {
            Subject::Run(run) | Subject::InRange { run, .. } | Subject::Behind { run, .. } => {
                Some(run)
            }
            _ => None,
        }
    }

    /// Returns the run that the user asks about if the run is ready and not claimed. For a question
    /// about the job as a whole, returns the first such open run. Returns `None` if there is no
    /// such run.
    pub fn owed(&self) -> Option<&RunFacts> {
        match &self.subject {
            Subject::Job { open, .. } => open.iter().find(|run| run.is_owed(self.now)),
            _ => self.run().filter(|run| run.is_owed(self.now)),
        }
    }

    /// Formats the time `at` in the zone of the reader.
    pub(super) fn shown(&self, at: UnixMillis) -> String {
        shown(at, &self.local)
    }

    /// Formats the time `at` in the zone of the reader, with the time in the zone of the job if the
    /// schedule follows a clock that shows another time.
    pub fn shown_for_job(&self, at: UnixMillis) -> String {
        let goes_by_clocks =
            self.definition().is_some_and(|(spec, _)| spec.schedule.goes_by_clocks());
        let elsewhere = goes_by_clocks.then(|| shown_elsewhere(at, &self.local, &self.zone));
        match elsewhere.flatten() {
            Some(elsewhere) => format!("{} ({elsewhere})", self.shown(at)),
            None => self.shown(at),
        }
    }

    /// Returns the definition and timetable of the job. Returns `None` if the definition is missing
    /// or unreadable.
    pub fn definition(&self) -> Option<&(JobSpec, Timetable)> {
        self.job.as_ref()?.definition.as_ref().ok()
    }

    /// Returns the time when the job was added and the user who added it, if that was after the
    /// time that the user asks about. Returns `None` otherwise, and if an older job of this name
    /// may have existed at that time.
    pub(super) fn added_later(&self) -> Option<(UnixMillis, Option<String>)> {
        let (Subject::NotDue { at, before: None, .. } | Subject::Unrecorded { at }) = self.subject
        else {
            return None;
        };
        let job = self.job.as_ref()?;
        let (added, by) = job.created.clone().filter(|(added, _)| *added > at)?;
        let is_older = self.audit_log.iter().any(|entry| entry.at <= at);
        // After a data loss, a node adds the jobs of its file again, so the job may be older. A job
        // that schedctl added may be older only if a journal shows that Redis lost the job.
        let is_lost = self.losses.iter().any(|loss| loss.concerns(at))
            && (job.source != Source::Api || self.gone.is_some());
        (!is_older && !is_lost).then_some((added, by))
    }

    /// Returns the newest entry of the kind `what` in the audit log that is not later than `until`.
    pub(super) fn entry_before(&self, what: &str, until: UnixMillis) -> Option<&AuditEntry> {
        self.audit_log.iter().rev().find(|entry| entry.what == what && entry.at <= until)
    }
}
