//! Nodes in Redis: their records and events, and the marks of Redis' clock.

pub(crate) mod clock_marks;
pub(crate) mod node_events;
pub(crate) mod node_records;
