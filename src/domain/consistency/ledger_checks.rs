//! The rule of ledgers: each occurrence is counted once, by its record or by one range.
//!
//! The check finds two kinds of faults. In the first, an occurrence with a record is one of the two
//! ends of a range. In the second, ranges and records count more occurrences between the ends of a
//! range than the schedule has there. The check finds the second fault only if the schedule of that
//! time is known. The check does not find an occurrence that is counted twice if another occurrence
//! is missing.

use super::inconsistency::{FindingSubject, Inconsistency};
use crate::domain::name::names::{JobName, RunId};
use crate::domain::run::run_state::RunState;
use crate::domain::schedule::lateness::SkippedStretch;

/// Returns the finding for an occurrence that has a record and is counted by a range too.
pub fn told_twice(run: &RunId, range: SkippedStretch, state: RunState) -> Inconsistency {
    let SkippedStretch { first, last, count } = range;
    let found =
        format!("counts {run} twice: it has a record, and the ledger counts it in {count} {state} from {first} to {last}");
    let subject = FindingSubject::Job(run.job().clone());
    Inconsistency::wrong(subject, "ledger", found).fixed_by("removes occurrences with records from the ledger")
}

/// Returns the finding for a ledger that counts `told` occurrences between the ends of `range`,
/// where the schedule has only `has`.
pub fn told_over(job: &JobName, range: SkippedStretch, state: RunState, (told, has): (u64, u64)) -> Inconsistency {
    let SkippedStretch { first, last, count } = range;
    let found = format!(
        "counts {told} occurrences from {first} to {last}, {count} {state} of them in one range, and its schedule has {has}"
    );
    let subject = FindingSubject::Job(job.clone());
    Inconsistency::wrong(subject, "ledger", found).fixed_by("reduces the range by the difference")
}
