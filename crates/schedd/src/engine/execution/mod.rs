//! Execution, from the claim to the end of a run: the attempt, its lease and its verdict.

pub(super) mod after_end;
pub(crate) mod done_check;
pub(crate) mod earlier_output;
pub(crate) mod end_recorder;
pub(crate) mod late_results;
pub(crate) mod lease_keeper;
mod next_request;
pub(crate) mod runner;
pub(crate) mod running_leases;
pub(crate) mod start_mark;
pub(crate) mod verdict;
