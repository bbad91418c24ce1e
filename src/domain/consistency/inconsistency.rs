//! The findings of the consistency check: which keys disagree, and what an operator can do about
//! it.

use std::fmt;

use crate::domain::name::names::{Fence, JobName, RunId};

/// A rule of the consistency check. [`ConsistencyRule::as_str`] gives the name of the rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ConsistencyRule {
    /// The rule that a live, recurring job that is not paused has a planned run. A live one-shot
    /// has its only run.
    Unplanned,
    /// The rule that a planned run is in the due set of its own queue, and in no other due set.
    NotDue,
    /// The rule that a planned run has not executed yet.
    PlannedOver,
    /// The rule that a planned run is the first future occurrence that has not ended yet.
    PlannedFar,
    /// The rule that a run's ready time is not later than the rules of its job allow.
    ReadyFar,
    /// The rule that a paused job has a held run and no planned run.
    PausedPlanned,
    /// The rule that an ended job has no planned run and is in the list of ended jobs.
    EndedWrong,
    /// The rule that the index of jobs has each job at its next due time.
    JobIndex,
    /// The rule that an index names only jobs that exist.
    UnknownJob,
    /// The rule that the list of a file names only jobs that exist.
    Listed,
    /// The rule that a run waits only for a run that exists.
    Blocked,
    /// The rule that the definition of a job is readable.
    Definition,
    /// The rule that a running run has a lease.
    NoLease,
    /// The rule that a lease belongs to a run that is running under the fence of the lease.
    StrayLease,
    /// The rule that a run in a due set has not ended and still has to run.
    DueWrong,
    /// The rule that a run is in only one due set.
    DueTwice,
    /// The rule that a run in a due set belongs to a job that exists.
    DueUnknown,
    /// The rule that a scheduled run is in a due set or waits.
    Nowhere,
    /// The rule that an open run is running or will have another attempt. A running regular run is
    /// in the list of open runs.
    OpenWrong,
    /// The rule that a waiting run still has to run and is in no due set.
    WaitingWrong,
    /// The rule that the runs at a gate are the runs whose records name the gate. Runs wait at the
    /// gate only for a holder.
    GateWrong,
    /// The rule that a missed run with a ready time of its own is in a due set.
    SpreadWrong,
    /// The rule that the list of backfills names exactly the jobs with occurrences to backfill.
    BackfillWrong,
    /// The rule that the list of jobs with gates names each job that has gates and a planned run.
    GatedWrong,
    /// The rule that no skipped range counts an occurrence whose run has an end of its own.
    StretchWrong,
    /// The rule that the ledger does not count an occurrence that has a record.
    LedgerWrong,
    /// The rule that a job with a `delay` has a planned run or an open run, but not both.
    PlannedBeside,
    /// The rule that only runs that have not ended are asked to stop.
    StopWrong,
    /// The rule that only runs that may still start or end have deadlines.
    DeadlineWrong,
    /// The rule that the history names all ended runs, and no other runs.
    HistoryWrong,
    /// The rule that the lists of dead letters name all runs that failed, timed out or were lost,
    /// and no other runs.
    DeadWrong,
    /// The rule that a queue counts exactly its running runs as running.
    RunningWrong,
    /// The rule that the record of a run is readable.
    Record,
    /// The rule that a set of runs or jobs has only runs or jobs as members, with valid times as
    /// scores.
    Entry,
    /// The rule that each field of a hash is readable.
    Field,
    /// The rule that a key with a single text has a text of the right form.
    Text,
    /// The rule that each counter equals the number of things that the counter counts.
    Count,
    /// The rule that the last fence is a number, and not lower than any fence in use.
    Fence,
    /// The rule that each kept output is in the indexes of outputs, and that these indexes name
    /// only kept outputs.
    OutputWrong,
    /// The rule that each unique key has a job as its holder, or will be deleted.
    UniqueWrong,
    /// The rule that the list of lanes, which nodes read, names each lane with due runs.
    LaneUnknown,
    /// The rule that every key in the namespace has a name that schedd knows.
    UnknownKey,
    /// The rule that every key has the Redis type of its family.
    WrongType,
    /// The rule that no key expires, except the keys of families that may expire.
    Expires,
}

impl ConsistencyRule {
    /// The rules that fail after the clock of Redis was ahead.
    pub const OF_CLOCKS: [Self; 2] = [Self::PlannedFar, Self::ReadyFar];

    /// The rules whose check reads many keys at once.
    pub const OF_MANY_KEYS: [Self; 3] = [Self::Count, Self::Fence, Self::OutputWrong];

    /// Returns the name of the rule in JSON and in tables.
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

/// The subject of a finding. The check reads this subject again before the finding is reported.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FindingSubject {
    /// A job with this name.
    Job(JobName),
    /// A run. For a finding about a lease, the fence is the fence of this lease.
    Run(RunId, Option<Fence>),
    /// A Redis key, by its full name in the form for a message.
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

/// The way to repair the problem of a finding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Mend {
    /// A description of the repair that `doctor --fix` makes.
    Fix(&'static str),
    /// A text that advises the operator what to do by hand.
    Hand(String),
}

/// A finding: a disagreement between keys in Redis.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inconsistency {
    /// The rule that the keys break.
    pub rule: ConsistencyRule,
    /// The job, run or key that the finding is about.
    pub subject: FindingSubject,
    /// A description of the state that the check found.
    pub found: String,
    /// A description of the state that the rule wants.
    pub wanted: &'static str,
    /// The way to repair the disagreement.
    pub mend: Mend,
}

impl Inconsistency {
    /// Returns true if `other` is the same problem as this finding, at another moment.
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

/// Formats the finding in one line: its subject, what was found, what was wanted, and how to mend
/// it.
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
