//! The rule of stretches: an occurrence that has an end of its own is not told as skipped too.

use super::finding::{Finding, Rule, Subject};
use crate::domain::ids::RunId;
use crate::domain::lateness::Stretch;

/// What the record of a stretch tells, and what it could.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StretchFacts {
    /// Its first occurrence, whose record it is.
    pub run: RunId,
    /// What it tells.
    pub told: Stretch,
    /// The most it could tell: its occurrences without those that have records of their own.
    pub possible: Stretch,
}

/// What does not agree in one stretch. One that tells of fewer than it could may be right: records are trimmed.
pub fn judge_stretch(facts: &StretchFacts) -> Option<Finding> {
    let StretchFacts { run, told, possible } = facts;
    if told.count <= possible.count {
        return None;
    }
    let found = format!(
        "it tells {} occurrences from {} to {} as skipped, and only {} of those have no end of their own",
        told.count, told.first, told.last, possible.count
    );
    let subject = Subject::Run(run.clone(), None);
    Some(Finding::fixed(Rule::StretchWrong, subject, found, "each occurrence told of once", "has it tell of those only"))
}
