//! Nodes with queues, gates and groups.

pub(crate) mod bounds;
pub(crate) mod gates_shown;
pub(crate) mod gates_shut;
pub(crate) mod lanes;
pub(crate) mod passing;
pub(crate) mod queueing;
pub(crate) mod sharing;
pub(crate) mod turns;
