//! The findings of the consistency check: differences between the expected and the actual data in
//! Redis, each with its repair.

use std::fmt;

use schedd_schedule::names::{Fence, JobName, RunId};

/// The kind of a finding, in the order of repair. Unreadable data is moved to quarantine first, so
/// that no other repair deletes the data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FindingKind {
    /// A key, a member or a field cannot be read.
    Unreadable,
    /// A key has a name that schedd does not know.
    UnknownKey,
    /// A job, run or key should be in an index and is not.
    Missing,
    /// A job, run or key should not be in an index and is.
    Extra,
    /// A value differs from the value that it should have.
    Wrong,
}

/// The codes of findings for which the check must read many keys: counters, and the indexes of
/// outputs.
const OF_MANY_KEYS: [&str; 5] =
    ["wrong:counters", "wrong:output_bytes", "wrong:output_sizes", "wrong:outputs", "wrong:fence"];

/// The `place` of a finding about a due time that is later than the next occurrence of the
/// schedule. A node computed such a time while the clock of Redis was ahead.
pub(super) const DUE_TIME: &str = "due_time";
/// The `place` of a finding about a ready time that is later than the rules of the job allow. A
/// node computed such a time while the clock of Redis was ahead.
pub(super) const READY_TIME: &str = "ready_time";

/// The job, run or key that a finding is about. Before the check reports the finding, it reads the
/// data of this subject a second time.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FindingSubject {
    /// A job with this name.
    Job(JobName),
    /// A run. In a finding about a lease, the fence is the fence of the lease.
    Run(RunId, Option<Fence>),
    /// The full name of a Redis key, with `\xNN` for each byte that is not text.
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

/// The way to repair a finding: by `doctor --fix`, or by an operator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Mend {
    /// `doctor --fix` repairs the problem. The text continues "schedctl doctor --fix", such as
    /// "adds the missing entry".
    Fix(&'static str),
    /// Only an operator can repair the problem. The text is the advice to the operator.
    Hand(String),
}

/// A finding: a difference between the expected and the actual data in Redis.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inconsistency {
    /// The kind of the difference.
    pub kind: FindingKind,
    /// The name of the index, field or family of keys with the difference, such as `jobs`. Empty
    /// for an unknown key.
    pub place: &'static str,
    /// The job, run or key that the finding is about.
    pub subject: FindingSubject,
    /// The difference in words, as a text that continues the name of the subject.
    pub found: String,
    /// The way to repair the difference.
    pub mend: Mend,
}

impl Inconsistency {
    /// Returns a finding that describes the difference as `found`. Its `mend` is the repair that
    /// `doctor --fix` makes for this kind, such as "adds the missing entry".
    pub(super) fn new(
        kind: FindingKind,
        subject: FindingSubject,
        place: &'static str,
        found: impl Into<String>,
    ) -> Self {
        let fix = match kind {
            FindingKind::Missing => "adds the missing entry",
            FindingKind::Extra => "removes the wrong entry",
            FindingKind::Wrong => "corrects the value",
            FindingKind::Unreadable | FindingKind::UnknownKey => "moves the key to quarantine",
        };
        Self { kind, place, subject, found: found.into(), mend: Mend::Fix(fix) }
    }

    /// Returns the finding for a subject that is missing in the index `name`. `place` is the name
    /// of this index in [`Self::code`]. `why` is a clause with the reason.
    pub(super) fn missing(
        subject: FindingSubject,
        place: &'static str,
        name: impl fmt::Display,
        why: impl fmt::Display,
    ) -> Self {
        let found = format!("should be in the index {name}, because {why}, but is not there");
        Self::new(FindingKind::Missing, subject, place, found)
    }

    /// Returns the finding for a subject that should not be in the index `name`. `place` is the
    /// name of this index in [`Self::code`]. `why` is a clause with the reason.
    pub(super) fn extra(
        subject: FindingSubject,
        place: &'static str,
        name: impl fmt::Display,
        why: impl fmt::Display,
    ) -> Self {
        let found = format!("should not be in the index {name}, because {why}, but is there");
        Self::new(FindingKind::Extra, subject, place, found)
    }

    /// Returns the finding for a wrong value in the index or field `place`. `found` gives the
    /// actual and the expected value.
    pub(super) fn wrong(subject: FindingSubject, place: &'static str, found: String) -> Self {
        Self::new(FindingKind::Wrong, subject, place, found)
    }

    /// Returns the finding for unreadable data in the field or family of keys `place`. `why` is the
    /// reason, and `wanted` is the valid form.
    pub(super) fn unreadable(
        subject: FindingSubject,
        place: &'static str,
        why: impl fmt::Display,
        wanted: impl fmt::Display,
    ) -> Self {
        let found = format!("cannot be read: {why}; wanted {wanted}");
        Self::new(FindingKind::Unreadable, subject, place, found)
    }

    /// Returns this finding with `what` as its repair by `doctor --fix`.
    pub(super) fn fixed_by(self, what: &'static str) -> Self {
        Self { mend: Mend::Fix(what), ..self }
    }

    /// Returns this finding with `advice` for an operator in place of a repair by `doctor --fix`.
    pub(super) fn by_hand(self, advice: impl Into<String>) -> Self {
        Self { mend: Mend::Hand(advice.into()), ..self }
    }

    /// Returns the code of the finding for JSON, tables and logs, such as `missing:jobs`: the kind
    /// and the `place`.
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

    /// Returns the subject, the kind and the `place` of the finding. A later check that finds the
    /// same problem gives the same three values.
    pub fn identity(&self) -> (&FindingSubject, FindingKind, &'static str) {
        (&self.subject, self.kind, self.place)
    }

    /// Returns true if the finding is about a due or ready time that was computed while the clock
    /// of Redis was ahead.
    pub fn is_of_clock(&self) -> bool {
        self.kind == FindingKind::Wrong && matches!(self.place, DUE_TIME | READY_TIME)
    }
}

/// Returns true if `code` is the code of a finding for which the check must read many keys, such as
/// `wrong:counters`.
pub fn is_of_many_keys(code: &str) -> bool {
    OF_MANY_KEYS.contains(&code)
}

/// Formats the finding in one line: its subject, the difference, and the repair.
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
