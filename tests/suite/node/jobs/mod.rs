//! Nodes whose jobs change.

pub(crate) mod answers;
pub(crate) mod catching_up;
pub(crate) mod chaining;
pub(crate) mod debouncing;
pub(crate) mod done_check;
pub(crate) mod each_node;
pub(crate) mod editing;
pub(crate) mod next_times;
pub(crate) mod readding;
pub(crate) mod rebooting;
pub(crate) mod reloading;
pub(crate) mod retrying;
pub(crate) mod shaping;
mod tracing;
