//! Planning: updates jobs and their planned runs when a user, a file, a backfill, a boot, a time
//! zone or a clock changes them.

pub mod backfill_plan;
pub(crate) mod boot_plan;
pub(crate) mod corrections;
pub mod file_change;
pub mod instances;
pub mod job_operations;
pub mod next_time;
pub mod operation_error;
pub mod passed_ranges;
pub mod planting;
pub(crate) mod reconciler;
pub(crate) mod recurring_jobs;
pub mod retry_order;
pub(crate) mod unique_add;
pub(crate) mod wanted_file;
