//! The rule of ledgers: an occurrence is told of once, by its record or by one range.
//!
//! It sees what is sure: the occurrence with a record is one of the two ends of a range; or the schedule that held is known, and the
//! range, what else the ledger tells between its ends and the records there are more than that schedule has. An occurrence told twice
//! beside one that is told nowhere is not seen.

use super::finding::{Finding, Rule, Subject};
use crate::domain::ids::{JobName, RunId};
use crate::domain::lateness::Stretch;
use crate::domain::run::RunState;

/// An occurrence with a record, and the range that tells of it again.
pub fn told_twice(run: &RunId, range: Stretch, state: RunState) -> Finding {
    let Stretch { first, last, count } = range;
    let found = format!("{run} has a record, and the ledger tells of it too, in {count} {state} from {first} to {last}");
    let subject = Subject::Job(run.job().clone());
    Finding::fixed(
        Rule::LedgerWrong,
        subject,
        found,
        "each occurrence told of once",
        "has the ledger tell of those without records only",
    )
}

/// A range with which `told` occurrences are told of between its ends, where the schedule has only `has`.
pub fn told_over(job: &JobName, range: Stretch, state: RunState, (told, has): (u64, u64)) -> Finding {
    let Stretch { first, last, count } = range;
    let found = format!(
        "from {first} to {last} its schedule has {has}, and its records and its ledger tell of {told}, {count} {state} of them in one range"
    );
    Finding::fixed(
        Rule::LedgerWrong,
        Subject::Job(job.clone()),
        found,
        "each occurrence told of once",
        "has that range tell of as many less",
    )
}
