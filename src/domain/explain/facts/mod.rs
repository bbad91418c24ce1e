//! The facts that explain a job or one of its occurrences. `engine::explaining` gathers them.

mod blocker_facts;
mod job_facts;
mod loss_facts;
mod node_facts;
mod run_facts;

pub use blocker_facts::{Blocker, Executing};
pub use job_facts::{JobFacts, Source};
pub use loss_facts::Loss;
pub use node_facts::{GONE_AFTER, NodeFacts};
pub use run_facts::{AtGate, AttemptFacts, LateNotice, ON_TIME, Passed, Place, RunFacts};

use super::schedule_then::PastSchedule;
use crate::domain::job::audit_entry::AuditEntry;
use crate::domain::job::job_spec::JobSpec;
use crate::domain::name::names::{JobName, RunId};
use crate::domain::run::run_state::RunState;
use crate::domain::schedule::schedule_form::Timetable;
use crate::domain::time::unix_millis::UnixMillis;
use crate::domain::time::wording::shown;
use crate::domain::time::zone::Zone;

/// All facts about what is asked.
#[derive(Debug, Clone)]
pub struct Facts {
    /// The name of the job.
    pub name: JobName,
    /// The time of Redis.
    pub now: UnixMillis,
    /// The zone of the job, in which findings show instants.
    pub zone: Zone,
    /// The job; none if its definition is not kept.
    pub job: Option<JobFacts>,
    /// The subject of the question.
    pub subject: Subject,
    /// The audit log of the job, oldest entry first.
    pub deeds: Vec<AuditEntry>,
    /// Earlier schedules of the job, oldest first, as far as they are kept.
    pub past: Vec<PastSchedule>,
    /// Why the audit log cannot be read, if so.
    pub deeds_error: Option<String>,
    /// Data losses, oldest first.
    pub losses: Vec<Loss>,
    /// For a job that a data loss took: when the loss was noticed, and the schedule in words.
    pub gone: Option<(UnixMillis, String)>,
    /// How many past occurrences wait for a backfill.
    pub making_up: u64,
    /// The backfill run of the occurrence asked about, and its state.
    pub made_up_by: Option<(RunId, RunState)>,
    /// The nodes, by name.
    pub nodes: Vec<NodeFacts>,
    /// The blockers of the ready run. For a job without a ready run: the pause of its queue.
    pub blockers: Vec<Blocker>,
}

/// The subject of the question.
#[derive(Debug, Clone)]
pub enum Subject {
    /// The job as it is now.
    Job {
        /// Runs that are open, waiting, spread or overdue, oldest due first; a few of each kind.
        open: Vec<RunFacts>,
        /// How many such runs are left out.
        more: u64,
        /// The run that ended last.
        last: Option<Box<RunFacts>>,
    },
    /// An occurrence with a record, or a planned one.
    Run(Box<RunFacts>),
    /// An occurrence inside a skipped range.
    Stretch {
        /// The occurrence.
        at: UnixMillis,
        /// The record of the whole range, which is that of its first occurrence.
        run: Box<RunFacts>,
    },
    /// An occurrence whose record was folded into a range of the ledger.
    Ledger {
        /// The occurrence.
        at: UnixMillis,
        /// The state in which the runs of the range ended.
        state: String,
        /// The reason, or nothing.
        reason: String,
        /// The first due time of the range.
        first: UnixMillis,
        /// The last due time of the range.
        last: UnixMillis,
        /// How many runs the range holds.
        count: u64,
        /// True if the occurrence is known to be in the range.
        is_sure: bool,
    },
    /// An occurrence older than the ledger, of which only counts are left.
    BeforeLedger {
        /// The occurrence.
        at: UnixMillis,
        /// How many runs ended in which state.
        counts: Vec<(String, u64)>,
        /// The last due time counted.
        until: UnixMillis,
    },
    /// A past occurrence without a run yet, because an earlier run of the job has not started.
    Behind {
        /// The occurrence.
        at: UnixMillis,
        /// The earlier run.
        run: Box<RunFacts>,
    },
    /// A past occurrence of the present schedule of which nothing is kept.
    Unrecorded {
        /// The occurrence.
        at: UnixMillis,
    },
    /// An occurrence to come, after the planned one.
    ToCome {
        /// The occurrence.
        at: UnixMillis,
    },
    /// An occurrence that waits for a backfill.
    ToMakeUp {
        /// The occurrence.
        at: UnixMillis,
    },
    /// An instant at which nothing was due.
    NotDue {
        /// The instant.
        at: UnixMillis,
        /// The occurrence before it.
        before: Option<UnixMillis>,
        /// The occurrence after it.
        after: Option<UnixMillis>,
    },
    /// An instant at which the job was over.
    Over {
        /// The instant.
        at: UnixMillis,
    },
    /// The last occurrence of a job that has had none.
    Never,
}

impl Facts {
    /// The instant asked about; none for the job as a whole.
    pub fn at(&self) -> Option<UnixMillis> {
        match &self.subject {
            Subject::Run(run) => Some(run.run.due()),
            Subject::Stretch { at, .. }
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

    /// The run asked about, or the run whose record stands for the occurrence.
    pub fn run(&self) -> Option<&RunFacts> {
        match &self.subject {
            Subject::Run(run) | Subject::Stretch { run, .. } | Subject::Behind { run, .. } => Some(run),
            _ => None,
        }
    }

    /// The run asked about, or the first of the job, that is ready and unclaimed.
    pub fn owed(&self) -> Option<&RunFacts> {
        match &self.subject {
            Subject::Job { open, .. } => open.iter().find(|run| run.is_owed(self.now)),
            _ => self.run().filter(|run| run.is_owed(self.now)),
        }
    }

    /// An instant in words, in the zone of the job.
    pub(super) fn shown(&self, at: UnixMillis) -> String {
        shown(at, &self.zone)
    }

    /// The definition and timetable of the job; none if they are not kept or cannot be read.
    pub(super) fn definition(&self) -> Option<&(JobSpec, Timetable)> {
        self.job.as_ref()?.definition.as_ref().ok()
    }

    /// When and by whom the job was added, if that was after the instant asked about. None if the
    /// facts speak of an older job of the same name.
    pub(super) fn added_later(&self) -> Option<(UnixMillis, Option<String>)> {
        let (Subject::NotDue { at, before: None, .. } | Subject::Unrecorded { at }) = self.subject else { return None };
        let job = self.job.as_ref()?;
        let (added, by) = job.created.clone().filter(|(added, _)| *added > at)?;
        let is_older = self.deeds.iter().any(|deed| deed.at <= at);
        // A file adds its jobs again after a data loss; journals know the jobs that schedctl added.
        let is_lost = self.losses.iter().any(|loss| loss.concerns(at)) && (job.source != Source::Api || self.gone.is_some());
        (!is_older && !is_lost).then_some((added, by))
    }

    /// The newest entry of this kind in the audit log, up to `until`.
    pub(super) fn deed_before(&self, what: &str, until: UnixMillis) -> Option<&AuditEntry> {
        self.deeds.iter().rev().find(|deed| deed.what == what && deed.at <= until)
    }
}
