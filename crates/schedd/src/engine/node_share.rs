//! The parts that the engines of one node share.

use std::sync::Arc;

use super::dispatch::node_slots::NodeSlots;
use super::status::node_counters::NodeCounters;

/// The parts that the engines of one node share. Clones have the same parts.
#[derive(Clone, Default)]
pub(super) struct NodeShare {
    pub(super) slots: Arc<NodeSlots>,
    pub(super) counters: Arc<NodeCounters>,
}
