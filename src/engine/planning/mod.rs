//! Planning: updates jobs and their planned runs when a user, a file, a backfill, a boot, a time
//! zone or a clock changes them.

pub mod backfill_plan;
pub(crate) mod boot_plan;
pub(crate) mod far_plans;
pub mod file_change;
pub mod instances;
pub mod job_operations;
pub mod operation_error;
pub mod passed_ranges;
pub mod planting;
pub(crate) mod reconciler;
pub(crate) mod recurring_jobs;
pub(crate) mod replan;
pub mod retry_order;
pub(crate) mod unique_add;
pub(crate) mod zone_change;
