//! The rule of skipped ranges: an occurrence with an end of its own is not counted as skipped too.

use super::inconsistency::{FindingSubject, Inconsistency};
use crate::domain::name::names::RunId;
use crate::domain::schedule::lateness::SkippedRange;

/// The skipped range in a record, and the largest range that the record could have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SkippedRangeFacts {
    /// The run of the first occurrence of the range, whose record contains the range.
    pub run: RunId,
    /// The range in the record.
    pub written: SkippedRange,
    /// The largest range that the record could have. Occurrences with records of their own are left
    /// out.
    pub possible: SkippedRange,
}

/// Returns the finding for a skipped range that counts too many occurrences. A range that counts
/// too few may be right, because old records are deleted.
pub fn judge_skipped_range(facts: &SkippedRangeFacts) -> Option<Inconsistency> {
    let SkippedRangeFacts { run, written, possible } = facts;
    if written.count <= possible.count {
        return None;
    }
    let found = format!(
        "counts {} occurrences from {} to {} as skipped, and only {} of them have no end of their own",
        written.count, written.first, written.last, possible.count
    );
    let subject = FindingSubject::Run(run.clone(), None);
    Some(Inconsistency::wrong(subject, "skipped_range", found).fixed_by("reduces it to these"))
}
