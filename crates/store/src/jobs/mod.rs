//! Jobs in Redis: their records, edits, pauses, removals, backfills, unique keys and earlier
//! schedules.

pub(crate) mod audit_log;
pub(crate) mod backfills;
pub(crate) mod boot_runs;
pub(crate) mod job_adds;
pub(crate) mod job_edits;
pub(crate) mod job_records;
pub(crate) mod job_removal;
pub(crate) mod job_sources;
pub(crate) mod job_summaries;
pub(crate) mod job_switch;
pub(crate) mod rev;
pub(crate) mod schedule_versions;
pub(crate) mod unique_keys;
