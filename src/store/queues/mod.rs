//! Queues and lanes in Redis, and the numbers about them.

pub(crate) mod counters;
pub(crate) mod lane_index;
pub(crate) mod queue_settings;
pub(crate) mod stats;
