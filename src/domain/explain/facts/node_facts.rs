//! The facts of a node, as Redis has them.

use std::time::Duration;

use crate::domain::queue::lane_serving::Serving;
use crate::domain::run::node_event::NodeEvent;
use crate::domain::time::unix_millis::UnixMillis;

/// The time after which a node that was not seen counts as gone.
pub const GONE_AFTER: Duration = Duration::from_secs(15);

/// The facts of a node, as Redis has them.
#[derive(Debug, Clone)]
pub struct NodeFacts {
    /// The name of the node.
    pub name: String,
    /// The time when the node was last seen. `None` if the node stopped in order.
    pub last_seen: Option<UnixMillis>,
    /// The time when the present process of the node started, if the node is running.
    pub started_at: Option<UnixMillis>,
    /// The queues and labels that the node serves, if the node is running.
    pub serving: Option<Serving>,
    /// True if the node refuses the present content of its jobs file. `None` if the node is not
    /// running.
    pub refuses_file: Option<bool>,
    /// The node events around the time in question, oldest first.
    pub events: Vec<NodeEvent>,
    /// True if events older than those in `events` were dropped.
    pub is_cut: bool,
}
