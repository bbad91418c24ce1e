//! Findings: what disagrees, in words that tell an operator what to do.

use std::fmt;

use crate::domain::name::names::{Fence, JobName, RunId};

/// A rule of the consistency check. [`ConsistencyRule::as_str`] gives its word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ConsistencyRule {
    /// A recurring job that is live and not paused has a planned run. A live one-shot has its run.
    Unplanned,
    /// A planned run is in the due set of its queue, and in no other.
    NotDue,
    /// A planned run has not executed yet.
    PlannedOver,
    /// A planned run is the first occurrence to come that has no end.
    PlannedFar,
    /// A run's ready time is not later than its job's rules allow.
    ReadyFar,
    /// A paused job has a held run and no planned run.
    PausedPlanned,
    /// An ended job has no planned run and is in the list of ended jobs.
    EndedWrong,
    /// The index of jobs has each job at its next due time.
    JobIndex,
    /// An index names only jobs that exist.
    UnknownJob,
    /// A file's list names only jobs that exist.
    Listed,
    /// A run waits only for a run that exists.
    Blocked,
    /// A definition is readable.
    Definition,
    /// A running run has a lease.
    NoLease,
    /// A lease belongs to a run that is running under its fence.
    StrayLease,
    /// A due run is still to run.
    DueWrong,
    /// A run is in one due set only.
    DueTwice,
    /// A due run belongs to a job that exists.
    DueUnknown,
    /// A scheduled run is due or waits.
    Nowhere,
    /// An open run is running or will be tried again; a running regular run is open.
    OpenWrong,
    /// A waiting run is still to run, and is not due at the same time.
    WaitingWrong,
    /// The runs at a gate are those whose records name it, and waiting runs wait for a holder.
    GateWrong,
    /// A missed run with a ready time of its own is due.
    SpreadWrong,
    /// The list of backfills names exactly the jobs with occurrences to backfill.
    BackfillWrong,
    /// The list of jobs with gates names each such job that has a planned run.
    GatedWrong,
    /// An occurrence with an end of its own is not counted by a skipped range too.
    StretchWrong,
    /// An occurrence with a record is not counted by the ledger too.
    LedgerWrong,
    /// A job with a `delay` has a planned run or an open run, not both.
    PlannedBeside,
    /// Only runs that are not over are asked to stop.
    StopWrong,
    /// Only runs that may yet start or end have deadlines.
    DeadlineWrong,
    /// History names all runs that are over, and no others.
    HistoryWrong,
    /// The lists of dead letters name all runs that failed, timed out or were lost, and no others.
    DeadWrong,
    /// A queue counts exactly the runs that are running in it.
    RunningWrong,
    /// A run's record is readable.
    Record,
    /// A set of runs or jobs has only such members, with valid times as scores.
    Entry,
    /// A field of a hash is readable.
    Field,
    /// A key with a single text has a text of its form.
    Text,
    /// A counter equals what it counts.
    Count,
    /// The last fence is a number, and not lower than any fence in use.
    Fence,
    /// Each kept output is in the indexes, and the indexes name only kept outputs.
    OutputWrong,
    /// Each unique key is held by a job, or will be deleted.
    UniqueWrong,
    /// Nodes know each lane with due runs.
    LaneUnknown,
    /// Every key has a name that schedd knows.
    UnknownKey,
    /// Every key has the type of its family.
    WrongType,
    /// No key expires, except those that may.
    Expires,
}

impl ConsistencyRule {
    /// The rules that a Redis clock that was ahead breaks.
    pub const OF_CLOCKS: [Self; 2] = [Self::PlannedFar, Self::ReadyFar];

    /// The rules that need many keys at once.
    pub const OF_MANY_KEYS: [Self; 3] = [Self::Count, Self::Fence, Self::OutputWrong];

    /// The rule's word, as in JSON and tables.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Unplanned => "unplanned",
            Self::NotDue => "not_due",
            Self::PlannedOver => "planned_over",
            Self::PlannedFar => "planned_far",
            Self::ReadyFar => "ready_far",
            Self::PausedPlanned => "paused_planned",
            Self::EndedWrong => "ended_wrong",
            Self::JobIndex => "job_index",
            Self::UnknownJob => "unknown_job",
            Self::Listed => "listed",
            Self::Blocked => "blocked",
            Self::Definition => "definition",
            Self::NoLease => "no_lease",
            Self::StrayLease => "stray_lease",
            Self::DueWrong => "due_wrong",
            Self::DueTwice => "due_twice",
            Self::DueUnknown => "due_unknown",
            Self::Nowhere => "nowhere",
            Self::OpenWrong => "open_wrong",
            Self::WaitingWrong => "waiting_wrong",
            Self::GateWrong => "gate_wrong",
            Self::SpreadWrong => "spread_wrong",
            Self::BackfillWrong => "backfill_wrong",
            Self::GatedWrong => "gated_wrong",
            Self::StretchWrong => "stretch_wrong",
            Self::LedgerWrong => "ledger_wrong",
            Self::PlannedBeside => "planned_beside",
            Self::StopWrong => "stop_wrong",
            Self::DeadlineWrong => "deadline_wrong",
            Self::HistoryWrong => "history_wrong",
            Self::DeadWrong => "dead_wrong",
            Self::RunningWrong => "running_wrong",
            Self::Record => "record",
            Self::Entry => "entry",
            Self::Field => "field",
            Self::Text => "text",
            Self::Count => "count",
            Self::Fence => "fence",
            Self::OutputWrong => "output_wrong",
            Self::UniqueWrong => "unique_wrong",
            Self::LaneUnknown => "lane_unknown",
            Self::UnknownKey => "unknown_key",
            Self::WrongType => "wrong_type",
            Self::Expires => "expires",
        }
    }
}

/// The subject of a finding, which is read again before the finding is reported.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FindingSubject {
    /// A job.
    Job(JobName),
    /// A run, with the fence of a lease under which it was found.
    Run(RunId, Option<Fence>),
    /// A key, by its whole name as shown.
    Key(String),
}

impl fmt::Display for FindingSubject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Job(name) => write!(f, "job {name}"),
            Self::Run(run, _) => write!(f, "run {run}"),
            Self::Key(key) => write!(f, "key {key}"),
        }
    }
}

/// The way to repair a finding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Mend {
    /// A repair by `doctor --fix`.
    Fix(&'static str),
    /// Advice for an operator.
    Hand(String),
}

/// A disagreement between keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inconsistency {
    /// The rule that is broken.
    pub rule: ConsistencyRule,
    /// The job, run or key it is about.
    pub subject: FindingSubject,
    /// The state that was found.
    pub found: String,
    /// The state that was wanted.
    pub wanted: &'static str,
    /// The repair of the disagreement.
    pub mend: Mend,
}

impl Inconsistency {
    /// Returns true if `other` is the same problem, seen at another moment.
    pub fn is_same(&self, other: &Self) -> bool {
        self.rule == other.rule && self.subject == other.subject
    }

    pub(super) fn fixed(
        rule: ConsistencyRule,
        subject: FindingSubject,
        found: impl Into<String>,
        wanted: &'static str,
        fix: &'static str,
    ) -> Self {
        Self { rule, subject, found: found.into(), wanted, mend: Mend::Fix(fix) }
    }

    pub(super) fn by_hand(
        rule: ConsistencyRule,
        subject: FindingSubject,
        found: impl Into<String>,
        wanted: &'static str,
        advice: impl Into<String>,
    ) -> Self {
        Self { rule, subject, found: found.into(), wanted, mend: Mend::Hand(advice.into()) }
    }
}

/// Subject, found, wanted and how to mend it, in one line.
impl fmt::Display for Inconsistency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { subject, found, wanted, .. } = self;
        write!(f, "{subject}: {found}; wanted {wanted}; ")?;
        match &self.mend {
            Mend::Fix(what) => write!(f, "schedctl doctor --fix {what}"),
            Mend::Hand(advice) => f.write_str(advice),
        }
    }
}
