//! The check of skipped ranges: a range does not count an occurrence that has its own record.

use super::inconsistency::{FindingSubject, Inconsistency};
use schedd_schedule::lateness::SkippedRange;
use schedd_schedule::names::RunId;

/// The skipped range in a record, and the largest valid range.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SkippedRangeFacts {
    /// The run of the first occurrence of the skipped range. The record of this run has the range.
    pub run: RunId,
    /// The range in the record.
    pub written: SkippedRange,
    /// The largest valid range: it counts only the occurrences without a record of their own.
    pub possible: SkippedRange,
}

/// Returns the finding for a skipped range that counts too many occurrences. A range that counts
/// fewer may be correct, because old records are deleted.
pub fn judge_skipped_range(facts: &SkippedRangeFacts) -> Option<Inconsistency> {
    let SkippedRangeFacts { run, written, possible } = facts;
    if written.count <= possible.count {
        return None;
    }
    let found = format!(
        "has a skipped range of {count} occurrences from {first} to {last}, \
         but the number of these occurrences without a record of their own is {possible}",
        count = written.count,
        first = written.first,
        last = written.last,
        possible = possible.count
    );
    let subject = FindingSubject::Run(run.clone(), None);
    Some(
        Inconsistency::wrong(subject, "skipped_range", found)
            .fixed_by("reduces the skipped range to the occurrences without a record"),
    )
}
