//! Histories that prove the checker.

pub(crate) mod chain_self_test;
pub(crate) mod each_node_self_test;
pub(crate) mod hard_self_test;
pub(crate) mod self_test;
pub(crate) mod shared_self_test;
pub(crate) mod small_self_test;
pub(crate) mod workers_self_test;
pub(crate) mod wrong_self_test;
