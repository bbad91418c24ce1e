//! What does not agree, told so that a person knows what to do.

use std::fmt;

use crate::domain::ids::{Fence, JobName, RunId};

/// A rule of the books, by the word it is known by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Rule {
    /// A recurring job that is neither paused nor over has a planned run, and a one-shot that is not over has its run.
    Unplanned,
    /// A planned run stands in its queue's due set, in one.
    NotDue,
    /// A planned run has not been executed yet.
    PlannedOver,
    /// A planned run is the first occurrence still to come that has no end.
    PlannedFar,
    /// A run that is to start again, or when it can, waits no longer than its job's rules have it wait.
    ReadyFar,
    /// A paused job has a held run and none planned.
    PausedPlanned,
    /// A job that is over has nothing planned and stands among those that ended.
    EndedWrong,
    /// The index of jobs says when each comes next.
    JobIndex,
    /// An index names only jobs that are there.
    UnknownJob,
    /// A file's list names only jobs that are there.
    Listed,
    /// A run waits only for one that is there.
    Blocked,
    /// A definition can be read.
    Definition,
    /// A run that executes has a lease.
    NoLease,
    /// A lease belongs to a run that executes under its fence.
    StrayLease,
    /// What is due is to run.
    DueWrong,
    /// A run is due in one queue.
    DueTwice,
    /// What is due is the run of a job that is there.
    DueUnknown,
    /// A run that is planned is due or waits.
    Nowhere,
    /// An open run executes or is to be tried again; a regular one that executes is open.
    OpenWrong,
    /// What waits is to run, and is not due at the same time.
    WaitingWrong,
    /// At a gate stand those whose records say so, and they wait for somebody.
    GateWrong,
    /// A missed run that was given a time of its own is due.
    SpreadWrong,
    /// The list of backfills names the jobs with something to be made up for.
    BackfillWrong,
    /// The list of jobs with gates names those with a planned run.
    GatedWrong,
    /// An occurrence that has an end of its own is not told as skipped too.
    StretchWrong,
    /// An occurrence that has a record is not told of by the ledger too.
    LedgerWrong,
    /// A job that comes again after each run has a planned run or an open one.
    PlannedBeside,
    /// Only runs that are not over are asked to stop.
    StopWrong,
    /// A time to have started or ended by is kept only of runs that may yet do so.
    DeadlineWrong,
    /// History names runs that are over, and all of them.
    HistoryWrong,
    /// Dead letters are runs that failed, timed out or were lost, and all of them.
    DeadWrong,
    /// What is counted as running in a queue executes there, and is all that does.
    RunningWrong,
    /// A run's record can be read.
    Record,
    /// A set of runs or jobs holds those only, at instants there are.
    Entry,
    /// A field of a hash can be read.
    Field,
    /// A key that holds one text says what it is for.
    Text,
    /// A counter is what it counts.
    Count,
    /// The last fence is a number and no lower than any in use.
    Fence,
    /// A kept output stands in the index, and the index names kept outputs.
    OutputWrong,
    /// A unique key is held by a job, or goes.
    UniqueWrong,
    /// A lane with runs in it is one that nodes know.
    LaneUnknown,
    /// Every key is one schedd knows.
    UnknownKey,
    /// A key holds what its name says.
    WrongType,
    /// No key goes by itself.
    Expires,
}

impl Rule {
    /// What is planned by a clock of Redis that was ahead.
    pub const OF_CLOCKS: [Self; 2] = [Self::PlannedFar, Self::ReadyFar];

    /// Those that only many keys together tell.
    pub const OF_MANY_KEYS: [Self; 3] = [Self::Count, Self::Fence, Self::OutputWrong];

    /// Its word, as in JSON and tables.
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

/// What a finding is about, and what is looked at again before it is told.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Subject {
    /// A job.
    Job(JobName),
    /// A run, with the fence of a lease it was found under.
    Run(RunId, Option<Fence>),
    /// A key, by its whole name as shown.
    Key(String),
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Job(name) => write!(f, "job {name}"),
            Self::Run(run, _) => write!(f, "run {run}"),
            Self::Key(key) => write!(f, "key {key}"),
        }
    }
}

/// How a finding is mended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Mend {
    /// `doctor --fix` does this.
    Fix(&'static str),
    /// A person does this.
    Hand(String),
}

/// Something that does not agree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The rule that is broken.
    pub rule: Rule,
    /// What it is about.
    pub subject: Subject,
    /// What was found.
    pub found: String,
    /// What was wanted.
    pub wanted: &'static str,
    /// How it is mended.
    pub mend: Mend,
}

impl Finding {
    /// Whether `other` is the same trouble, seen at another moment.
    pub fn is_same(&self, other: &Self) -> bool {
        self.rule == other.rule && self.subject == other.subject
    }

    pub(super) fn fixed(rule: Rule, subject: Subject, found: impl Into<String>, wanted: &'static str, fix: &'static str) -> Self {
        Self { rule, subject, found: found.into(), wanted, mend: Mend::Fix(fix) }
    }

    pub(super) fn by_hand(
        rule: Rule,
        subject: Subject,
        found: impl Into<String>,
        wanted: &'static str,
        advice: impl Into<String>,
    ) -> Self {
        Self { rule, subject, found: found.into(), wanted, mend: Mend::Hand(advice.into()) }
    }
}

/// Subject, found, wanted and how to mend it, in one line.
impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { subject, found, wanted, .. } = self;
        write!(f, "{subject}: {found}; wanted {wanted}; ")?;
        match &self.mend {
            Mend::Fix(what) => write!(f, "schedctl doctor --fix {what}"),
            Mend::Hand(advice) => f.write_str(advice),
        }
    }
}
