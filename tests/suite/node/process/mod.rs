//! The process of a node.

pub(crate) mod living;
pub(crate) mod outputs;
pub(crate) mod rolling;
pub(crate) mod rotating;
pub(crate) mod stopping;
