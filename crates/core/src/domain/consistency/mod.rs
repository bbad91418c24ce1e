//! The consistency check of a namespace. It compares indexes with records and returns a finding for
//! each difference.
//!
//! The caller reads the facts of a job, run or key at one moment. The check itself does no I/O, so
//! `schedctl`, each node and the tests use the same check.

mod chain_checks;
mod count_checks;
mod field_checks;
mod gate_checks;
mod inconsistency;
mod job_checks;
mod key_checks;
mod ledger_checks;
mod range_checks;
mod run_differences;
mod run_places;
mod text_checks;
mod unique_checks;

pub use chain_checks::{ChainPlaces, judge_chain};
pub use count_checks::{CountFacts, SizeFacts, judge_counts};
pub use field_checks::{BadField, bad_fields, has_judged_fields, judge_field, shown};
pub use gate_checks::{GateFacts, judge_gate};
pub use inconsistency::{FindingKind, FindingSubject, Inconsistency, Mend, is_of_many_keys};
pub use job_checks::{JobPlaces, PendingFacts, PlannedRun, judge_job, unreadable_job};
pub use key_checks::{
    FAMILIES, KeyFacts, KnownNames, Member, SINGLE_KEYS, bad_entries, family_of, judge_key,
    judge_member, judge_outputs, known_key, member_bytes, unknown_lane,
};
pub use ledger_checks::{counted_twice, ledger_excess};
pub use range_checks::{SkippedRangeFacts, judge_skipped_range};
pub use run_differences::{RunRepair, judge_run};
pub use run_places::{PlacedRun, RecordFacts, RunPlace};
pub use text_checks::{has_judged_text, judge_text};
pub use unique_checks::{UniqueFacts, judge_unique};
