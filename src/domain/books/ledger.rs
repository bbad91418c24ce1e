//! The rule of ledgers: an occurrence that has a record is not told of by a range too.
//!
//! It sees what is sure: the occurrence is one of the two ends of a range; or the schedule that held is known, and the range, what
//! else the ledger tells between its ends and the records there are more than that schedule has. An occurrence told twice beside one that
//! is told nowhere is not seen, nor one whose record only the dead letters name.

use super::finding::{Finding, Rule, Subject};
use crate::domain::ids::RunId;
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
