//! The figures of a node for monitoring. Reading them does not call Redis.

use std::sync::Arc;

use super::node_counters::NodeCounts;
use super::node_status::StatusView;
use schedd_core::config::MetricsConfig;
use schedd_schedule::names::{NodeName, QueueName};
use schedd_schedule::time::time_histogram::TimeCounts;
use schedd_schedule::time::unix_millis::UnixMillis;

/// The figures of a node at one moment.
#[derive(Debug, Clone)]
pub struct NodeFigures {
    /// The name of the node.
    pub node: NodeName,
    /// The counts since the start of the node.
    pub counts: NodeCounts,
    /// The number of runs that the node executes.
    pub running: usize,
    /// The number of slots of each queue that the node serves, taken and free slots together.
    pub slots: Vec<(QueueName, u32)>,
    /// The durations of the calls of each script.
    pub scripts: Vec<(&'static str, TimeCounts)>,
    /// The number of connections to Redis that replaced a lost connection.
    pub reconnects: u64,
    /// True if Redis answered the last call of the node.
    pub is_redis_up: bool,
    /// The number of ms by which the clock of this host is ahead of Redis' clock.
    pub clock_offset_ms: i64,
    /// True if the keeper answers.
    pub is_keeper_up: bool,
    /// True if the present jobs file was refused.
    pub is_file_refused: bool,
    /// The time at which the node applied a jobs file last, or `None` if it applied none.
    pub file_applied_at: Option<UnixMillis>,
}

impl StatusView {
    /// Returns the present figures of the node.
    pub fn figures(&self) -> NodeFigures {
        let host_now = (self.node.settings.host.clock)().as_i64();
        NodeFigures {
            node: self.node.settings.node.clone(),
            counts: self.node.counters.counts(),
            running: self.running(),
            slots: self.slots.all().into_iter().collect(),
            scripts: self.node.store.script_times(),
            reconnects: self.node.store.reconnects(),
            is_redis_up: self.node.outage_log.trouble().is_none(),
            clock_offset_ms: host_now.saturating_sub(self.health.notes.now().as_i64()),
            is_keeper_up: self.executors.are_ready(),
            is_file_refused: self.health.problems.is_file_refused(),
            file_applied_at: self.health.applied_file.at(),
        }
    }

    /// Returns the settings of `[metrics]` in the jobs file that the node applied last.
    pub fn metrics_config(&self) -> Arc<MetricsConfig> {
        self.health.applied_file.metrics()
    }
}
