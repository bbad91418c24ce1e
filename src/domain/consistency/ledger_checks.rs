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
use crate::domain::schedule::lateness::SkippedRange;

/// Returns the finding for an occurrence that has a record and is counted by a range too.
pub fn counted_twice(run: &RunId, range: SkippedRange, state: RunState) -> Inconsistency {
    let SkippedRange { first, last, count } = range;
    let found = format!(
        "counts {run} twice: it has a record, and the ledger counts it in {count} {state} from {first} to {last}"
    );
    let subject = FindingSubject::Job(run.job().clone());
    Inconsistency::wrong(subject, "ledger", found)
        .fixed_by("removes occurrences with records from the ledger")
}

/// Returns the finding for a ledger that counts `total` occurrences between the ends of `range`,
/// where the schedule has only `has`.
pub fn ledger_excess(
    job: &JobName,
    range: SkippedRange,
    state: RunState,
    (total, has): (u64, u64),
) -> Inconsistency {
    let SkippedRange { first, last, count } = range;
    let found = format!(
        "counts {total} occurrences from {first} to {last}, {count} {state} of them in one range, and its schedule has {has}"
    );
    let subject = FindingSubject::Job(job.clone());
    Inconsistency::wrong(subject, "ledger", found).fixed_by("reduces the range by the difference")
}
