//! The facts of a node for `explain`.

use std::time::Duration;

use crate::domain::queue::lane_serving::Serving;
use crate::domain::run::node_event::NodeEvent;
use schedd_schedule::time::unix_millis::UnixMillis;

/// The time without a heartbeat after which a node counts as gone.
pub const GONE_AFTER: Duration = Duration::from_secs(15);

/// The facts of a node, from its records in Redis.
#[derive(Debug, Clone)]
pub struct NodeFacts {
    /// The name of the node.
    pub name: String,
    /// The time of the node's last heartbeat. `None` if the node ended by a regular stop.
    pub last_seen: Option<UnixMillis>,
    /// The time when the present process of the node started, if the node is running.
    pub started_at: Option<UnixMillis>,
    /// The queues and labels that the node serves, if the node is running.
    pub serving: Option<Serving>,
    /// The queues, handlers and labels of the workers that ask the node for runs, if it is running.
    pub workers: Vec<Serving>,
    /// True if the present content of the node's jobs file is invalid, so the node does not use it.
    /// `None` if the node is not running.
    pub refuses_file: Option<bool>,
    /// The events of the node around the time that the user asks about, oldest first.
    pub events: Vec<NodeEvent>,
    /// True if Redis no longer has the events before the first of `events`.
    pub is_cut: bool,
}
