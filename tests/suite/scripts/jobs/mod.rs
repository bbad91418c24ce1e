//! The scripts of a job.

pub(crate) mod applying;
pub(crate) mod audit_log;
pub(crate) mod backfilling;
pub(crate) mod backlogs;
pub(crate) mod cancelling;
pub(crate) mod former;
pub(crate) mod next_times;
pub(crate) mod pausing;
pub(crate) mod rebooting;
pub(crate) mod removing;
pub(crate) mod retrying;
pub(crate) mod sections;
pub(crate) mod uniques;
