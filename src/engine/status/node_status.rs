//! The status of a node, available without asking Redis. The service manager that watches the
//! process uses the status.

use std::sync::Arc;
use std::time::Duration;

use crate::engine::node_context::{NodeContext, Phase};
use crate::engine::planning::reconciler::WantedJob;
use crate::keeper::BootInstant;

/// A view of a running node, usable from any thread without waiting.
#[derive(Clone)]
pub struct Glance {
    shared: Arc<NodeContext>,
    wish: Arc<WantedJob>,
}

/// The status of a node at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeStatus {
    /// True if the node is stopping.
    pub is_stopping: bool,
    /// The number of jobs in the node's file, or `None` if the node has no file.
    pub jobs: Option<usize>,
    /// The number of runs that the node executes.
    pub running: usize,
    /// The time until the next run in the node's lanes is ready, or `None` if there is no such run.
    pub next: Option<Duration>,
    /// The present problem, if any: Redis is away, or the file was refused.
    pub trouble: Option<String>,
}

impl Glance {
    pub(crate) fn new(shared: Arc<NodeContext>, wish: Arc<WantedJob>) -> Self {
        Self { shared, wish }
    }

    /// Returns the name of a loop that the node depends on and that is overdue by more than `by`. A
    /// stopping node returns `None`: its loops end, and every wait of a stop has an end of its own.
    pub fn stuck(&self, by: Duration) -> Option<&'static str> {
        if self.shared.phase() == Phase::Running { self.shared.progress.stuck(BootInstant::now(), by) } else { None }
    }

    /// Returns the present status of the node.
    pub fn standing(&self) -> NodeStatus {
        let shared = &self.shared;
        let of_file = Some(shared.config_error()).filter(|error| !error.is_empty());
        NodeStatus {
            is_stopping: shared.phase() != Phase::Running,
            jobs: self.wish.jobs(),
            running: shared.holdings.all().len(),
            next: shared.progress.next(BootInstant::now()),
            trouble: shared.weather.trouble().or(of_file),
        }
    }
}
