//! The consistency check of a namespace: what its keys must say of each other, and the findings
//! where they disagree.
//!
//! It takes facts of one job or run, read at one moment, and returns findings.
//! It does no I/O, so that the command line, every node and the tests judge alike.
//! A finding says what was found, what was wanted and how to repair it.

mod counts;
mod field;
mod finding;
mod gate;
mod job;
mod key;
mod ledger;
mod places;
mod run;
mod stretch;
mod text;
mod unique;

pub use counts::{CountFacts, SizeFacts, judge_counts};
pub use field::{BadField, bad_fields, has_judged_fields, judge_field, shown};
pub use finding::{Finding, Mend, Rule, Subject};
pub use gate::{GateFacts, judge_gate};
pub use job::{JobFacts, PendingFacts, Plan, judge_job, unreadable_job};
pub use key::{
    FAMILIES, KeyFacts, Known, Member, SINGLE_KEYS, bad_entries, judge_key, judge_member, judge_outputs, known_key, member_bytes,
    unknown_lane,
};
pub use ledger::{told_over, told_twice};
pub use places::{CountedIn, RecordFacts, RunFacts, Standing, Watched};
pub use run::judge_run;
pub use stretch::{StretchFacts, judge_stretch};
pub use text::{has_judged_text, judge_text};
pub use unique::{UniqueFacts, judge_unique};

/// The score in the index of jobs for a job without a next due time.
const PARKED: i64 = super::time::UnixMillis::END;
