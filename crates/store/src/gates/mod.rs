//! Gates in Redis: the runs that have a place, the runs that wait, and the lanes of waiting runs.

pub(crate) mod gate_calls;
pub(crate) mod gate_check;
pub(crate) mod gate_lanes;
pub(crate) mod gated_jobs;
pub(crate) mod lane_takers;
