//! The check of ledgers. Each occurrence must be counted once, by its record or by one skipped
//! range.
//!
//! The check finds two kinds of faults. First, an occurrence with a record may also be the start or
//! end of a skipped range. Second, the ranges and records of a period may count more occurrences
//! than the schedule has there.
//!
//! To find the second fault, the check needs the schedule version of that period. The check misses
//! an occurrence that is counted twice if another occurrence of the period is not counted at all.

use super::inconsistency::{FindingSubject, Inconsistency};
use crate::domain::run::run_state::RunState;
use schedd_schedule::lateness::SkippedRange;
use schedd_schedule::names::{JobName, RunId};

/// Returns the finding for an occurrence that has a record and that a skipped range also counts.
pub fn counted_twice(run: &RunId, range: SkippedRange, state: RunState) -> Inconsistency {
    let SkippedRange { first, last, count } = range;
    let found = format!(
        "counts run {run} twice: the run has a record, and a range of the ledger also counts the run ({state}, {count} occurrences from {first} to {last})"
    );
    let subject = FindingSubject::Job(run.job().clone());
    Inconsistency::wrong(subject, "ledger", found)
        .fixed_by("removes from the ledger the occurrences that still have a record of their own")
}

/// Returns the finding for a ledger that counts `total` occurrences between the ends of `range`,
/// although the schedule has only `scheduled` occurrences there.
pub fn ledger_excess(
    job: &JobName,
    range: SkippedRange,
    state: RunState,
    (total, scheduled): (u64, u64),
) -> Inconsistency {
    let SkippedRange { first, last, count } = range;
    let found = format!(
        "has {total} occurrences in its ledger from {first} to {last} \
         (one range counts {count} as {state}), but its schedule has {scheduled} in that time"
    );
    let subject = FindingSubject::Job(job.clone());
    Inconsistency::wrong(subject, "ledger", found).fixed_by("reduces the range by the difference")
}
