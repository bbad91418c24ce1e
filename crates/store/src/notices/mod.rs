//! Notices and deadlines of runs in Redis.

pub(crate) mod failed_notices;
pub(crate) mod notice_records;
pub(crate) mod run_deadlines;
