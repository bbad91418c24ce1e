//! Gates in Redis: who holds a place, who waits, and which lanes they wait in.

pub(crate) mod gate_calls;
pub(crate) mod gate_check;
pub(crate) mod gate_lanes;
pub(crate) mod gated_jobs;
pub(crate) mod lane_takers;
