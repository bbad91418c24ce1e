//! A node as Redis knows it.

use std::time::Duration;

use crate::domain::queue::lane_serving::Serving;
use crate::domain::run::node_event::NodeEvent;
use crate::domain::time::unix_millis::UnixMillis;

/// A node unseen for this long counts as gone.
pub const GONE_AFTER: Duration = Duration::from_secs(15);

/// A node.
#[derive(Debug, Clone)]
pub struct NodeFacts {
    /// Its name.
    pub name: String,
    /// When it was last seen; none if it stopped in order.
    pub last_seen: Option<UnixMillis>,
    /// When its present process started, if it runs.
    pub started_at: Option<UnixMillis>,
    /// The queues and labels it serves, if it runs.
    pub serving: Option<Serving>,
    /// True if it refuses its jobs file as that is now; none if it does not run.
    pub refuses_file: Option<bool>,
    /// Its node events around the time asked about, oldest first.
    pub events: Vec<NodeEvent>,
    /// True if older events were dropped.
    pub is_cut: bool,
}
