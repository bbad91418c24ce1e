//! The jobs, nodes and people that the faults hit.

pub(crate) mod adding;
pub(crate) mod chain;
pub(crate) mod each_node;
pub(crate) mod grounds;
pub(crate) mod hands;
pub(crate) mod http_store;
pub(crate) mod jobs;
pub(crate) mod keys;
pub(crate) mod plan;
pub(crate) mod pulled;
pub(crate) mod readding;
pub(crate) mod schedule;
pub(crate) mod sharing;
pub(crate) mod small;
