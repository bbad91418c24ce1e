//! Runs in Redis: from the due set through the claim to the end.

pub(crate) mod catch_up_spread;
pub(crate) mod change_counts;
pub(crate) mod claims;
pub(crate) mod dead_letter_retry;
pub(crate) mod due_poll;
pub(crate) mod lane_walk;
pub(crate) mod lease_renewal;
pub(crate) mod placement;
pub(crate) mod plain_runs;
pub(crate) mod run_cancellation;
pub(crate) mod run_ends;
pub(crate) mod successor;
pub(crate) mod view_mark;
#[cfg(feature = "mutants")]
pub(crate) mod zrem_first;
