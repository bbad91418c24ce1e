//! Planning: keeps jobs and their planned runs right after edits, file changes, backfills, boots,
//! and changes of zones and clocks.

pub mod backfill_plan;
pub(crate) mod boot_plan;
pub(crate) mod far_plans;
pub mod file_change;
pub mod job_operations;
pub mod operation_error;
pub mod passed_ranges;
pub mod planting;
pub(crate) mod reconciler;
pub(crate) mod replan;
pub mod retry_order;
pub(crate) mod unique_add;
pub(crate) mod zone_change;
