//! The status of a node for its service manager (systemd). Reading the status does not call Redis.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::node_health::NodeHealth;
use crate::attempts::Execute;
use crate::engine::dispatch::node_limits::NodeLimits;
use crate::engine::dispatch::slots::Slots;
use crate::engine::execution::running_leases::RunningLeases;
use crate::engine::node_context::{NodeContext, Phase};
use crate::engine::planning::wanted_file::WantedFile;
use schedd_core::host::boot_clock::BootInstant;

/// A view of a running node, usable from any thread without waiting.
#[derive(Clone)]
pub struct StatusView {
    pub(crate) node: Arc<NodeContext>,
    pub(crate) leases: Arc<RunningLeases>,
    pub(crate) health: Arc<NodeHealth>,
    pub(crate) wanted: Arc<WantedFile>,
    pub(crate) limits: Arc<NodeLimits>,
    pub(crate) slots: Slots,
    pub(crate) executors: Arc<dyn Execute>,
    /// The views of the shards that the node serves, by their numbers.
    pub(crate) shards: Arc<Mutex<BTreeMap<u32, StatusView>>>,
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
    /// The time until the next run in the node's lanes is ready, or `None` if no run is planned
    /// there.
    pub next: Option<Duration>,
    /// The present problem, if any: Redis is out of reach, or the file was refused.
    pub trouble: Option<String>,
}

impl StatusView {
    /// Returns the name of a stuck loop: the ticker or the lease keeper, if its heartbeat is
    /// overdue by more than `by`. Returns `None` for a stopping node, because its loops end and
    /// each wait of a stop is limited.
    pub fn stuck(&self, by: Duration) -> Option<&'static str> {
        if self.node.phase() != Phase::Running {
            return None;
        }
        let own = self.health.progress.stuck(BootInstant::now(), by);
        own.or_else(|| self.shards().values().find_map(|shard| shard.stuck(by)))
    }

    /// Returns the reason why the node claims no runs now: it is stopping, Redis is out of reach, a
    /// loop is stuck, or no process can be started. A node that runs as many runs as its limits
    /// allow has no reason.
    pub fn why_no_claims(&self) -> Option<String> {
        const STUCK: Duration = Duration::from_secs(10);
        if self.node.phase() != Phase::Running {
            return Some("the node is stopping".to_owned());
        }
        let stuck = self.stuck(STUCK).map(|part| format!("the {part} is stuck"));
        self.node.outage_log.trouble().or(stuck).or_else(|| self.limits.shortage())
    }

    /// Returns the present status of the node.
    pub fn status(&self) -> NodeStatus {
        let of_file = Some(self.health.problems.text()).filter(|error| !error.is_empty());
        NodeStatus {
            is_stopping: self.node.phase() != Phase::Running,
            jobs: self.wanted.jobs(),
            running: self.running(),
            next: self.next(),
            trouble: self
                .node
                .outage_log
                .trouble()
                .or(of_file)
                .or_else(|| self.shards().iter().find_map(trouble_of_shard)),
        }
    }

    /// Returns the number of runs that the node executes, for all shards together.
    pub(super) fn running(&self) -> usize {
        let of_shards = self.shards().values().map(|shard| shard.leases.all().len()).sum::<usize>();
        self.leases.all().len() + of_shards
    }

    fn next(&self) -> Option<Duration> {
        let now = BootInstant::now();
        let of_shards = self.shards();
        let of_shards = of_shards.values().filter_map(|shard| shard.health.progress.next(now));
        self.health.progress.next(now).into_iter().chain(of_shards).min()
    }

    fn shards(&self) -> BTreeMap<u32, Self> {
        self.shards.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

fn trouble_of_shard((shard, view): (&u32, &StatusView)) -> Option<String> {
    Some(format!("shard {shard}: {}", view.node.outage_log.trouble()?))
}
