//! Nodes in Redis: their records and events, and times in Redis that lie in the future.

pub(crate) mod clock_marks;
pub(crate) mod live_instances;
pub(crate) mod node_events;
pub(crate) mod node_records;
