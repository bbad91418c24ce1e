//! Chains: jobs that run when other jobs, their parents, have ended.

pub mod chain_end;
pub mod chain_graph;
pub mod parents;
