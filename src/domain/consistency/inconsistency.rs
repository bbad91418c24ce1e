//! The findings of the consistency check: five kinds of difference between what a record demands
//! and what Redis has, and what an operator can do about the difference.

use std::fmt;

use crate::domain::name::names::{Fence, JobName, RunId};

/// The kind of a difference between what should be in Redis and what is there, in the order of
/// repair. What cannot be read is moved aside first, so that no other repair deletes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FindingKind {
    /// A key, a member or a field cannot be read.
    Unreadable,
    /// A key has a name that schedd does not know.
    UnknownKey,
    /// Something should be in a place and is not.
    Missing,
    /// Something is in a place and should not be.
    Extra,
    /// A place has another value than it should have.
    Wrong,
}

/// The values that are right only together with many other keys: counters, and the indexes of
/// outputs. Their check reads all these keys.
const OF_MANY_KEYS: [&str; 5] =
    ["wrong:counters", "wrong:output_bytes", "wrong:output_sizes", "wrong:outputs", "wrong:fence"];

/// The place of a planned run whose due time was computed while Redis' clock was ahead.
pub(super) const DUE_TIME: &str = "due_time";
/// The place of a run whose ready time was computed while Redis' clock was ahead.
pub(super) const READY_TIME: &str = "ready_time";

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

/// A finding: a difference between what should be in Redis and what is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inconsistency {
    /// The kind of the difference.
    pub kind: FindingKind,
    /// The index, field or family of keys in which the difference is. Empty for an unknown key.
    pub place: &'static str,
    /// The job, run or key that the finding is about.
    pub subject: FindingSubject,
    /// The difference in words. The subject comes before this text.
    pub found: String,
    /// The way to repair the difference.
    pub mend: Mend,
}

impl Inconsistency {
    /// Returns a finding about `name`, a key or field in `place`, that should have the subject.
    pub(super) fn missing(
        subject: FindingSubject,
        place: &'static str,
        name: impl fmt::Display,
        why: impl fmt::Display,
    ) -> Self {
        let found = format!("should be in {name} and is not: {why}");
        Self { kind: FindingKind::Missing, place, subject, found, mend: Mend::Fix("puts it there") }
    }

    /// Returns a finding about `name`, a key or field in `place`, that should not have the subject.
    pub(super) fn extra(
        subject: FindingSubject,
        place: &'static str,
        name: impl fmt::Display,
        why: impl fmt::Display,
    ) -> Self {
        let found = format!("should not be in {name} and is: {why}");
        Self { kind: FindingKind::Extra, place, subject, found, mend: Mend::Fix("takes it out") }
    }

    /// Returns a finding about a value in `place` that should be another one. `found` gives both.
    pub(super) fn wrong(subject: FindingSubject, place: &'static str, found: String) -> Self {
        Self { kind: FindingKind::Wrong, place, subject, found, mend: Mend::Fix("sets it right") }
    }

    /// Returns a finding about data in `place` that cannot be read.
    pub(super) fn unreadable(
        subject: FindingSubject,
        place: &'static str,
        why: impl fmt::Display,
        wanted: impl fmt::Display,
    ) -> Self {
        let found = format!("cannot be read: {why}; wanted {wanted}");
        Self {
            kind: FindingKind::Unreadable,
            place,
            subject,
            found,
            mend: Mend::Fix("moves it to quarantine"),
        }
    }

    /// Returns the finding with this description of its repair.
    pub(super) fn fixed_by(self, what: &'static str) -> Self {
        Self { mend: Mend::Fix(what), ..self }
    }

    /// Returns the finding as one that only an operator can repair.
    pub(super) fn by_hand(self, advice: impl Into<String>) -> Self {
        Self { mend: Mend::Hand(advice.into()), ..self }
    }

    /// Returns the code of the finding in JSON, in tables and in logs: `KIND:PLACE`.
    pub fn code(&self) -> String {
        let kind = match self.kind {
            FindingKind::Missing => "missing",
            FindingKind::Extra => "extra",
            FindingKind::Wrong => "wrong",
            FindingKind::Unreadable => "unreadable",
            FindingKind::UnknownKey => return "unknown_key".to_owned(),
        };
        format!("{kind}:{}", self.place)
    }

    /// Returns the parts that two findings of the same problem have in common, at any moment.
    pub fn identity(&self) -> (&FindingSubject, FindingKind, &'static str) {
        (&self.subject, self.kind, self.place)
    }

    /// Returns true for a finding that arises when the clock of Redis was ahead.
    pub fn is_of_clock(&self) -> bool {
        self.kind == FindingKind::Wrong && matches!(self.place, DUE_TIME | READY_TIME)
    }
}

/// Returns true for the code of a finding whose check reads many keys at once.
pub fn is_of_many_keys(code: &str) -> bool {
    OF_MANY_KEYS.contains(&code)
}

/// Formats the finding in one line: its subject, the difference, and how to mend it.
impl fmt::Display for Inconsistency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { subject, found, .. } = self;
        write!(f, "{subject} {found}; ")?;
        match &self.mend {
            Mend::Fix(what) => write!(f, "schedctl doctor --fix {what}"),
            Mend::Hand(advice) => f.write_str(advice),
        }
    }
}
