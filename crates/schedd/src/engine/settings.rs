//! The settings of a node: its identity, its intervals, and the choices made by flags and
//! environment.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;

use schedd_core::domain::queue::lane::{Lane, Priority};
use schedd_core::domain::queue::lane_serving::{HandlerChoice, Serving};
use schedd_core::domain::run::excerpt::OutputBounds;
use schedd_core::host::boot_clock::BootInstant;
use schedd_schedule::names::{Label, NodeName, QueueName};
use schedd_schedule::time::unix_millis::UnixMillis;

/// The settings of a node that do not change until the node stops.
#[derive(Debug, Clone)]
pub struct EngineSettings {
    /// The name of the node.
    pub node: NodeName,
    /// The id of this start of the node. Each start has a new id.
    pub incarnation: String,
    /// Redis' time at the start of the node.
    pub started_at: UnixMillis,
    /// The facts about the host on which the node runs.
    pub host: HostFacts,
    /// The path of the file in which the keeper of this node records that all processes of the
    /// node's jobs have ended. `None` if no file is used.
    pub ended_mark: Option<PathBuf>,
    /// The longest wait between two polls of Redis while runs are due.
    pub tick: Duration,
    /// The time for which a lease lasts without a renewal.
    pub lease: Duration,
    /// The time for which running jobs may continue after a stop of the node was requested.
    pub shutdown_grace: Duration,
    /// The limits of the output that is kept of each attempt.
    pub output: OutputBounds,
    /// The queues and labels that flags or the environment set. They take precedence over the jobs
    /// file.
    pub serving: ServingChoice,
    /// The queues and handlers of a worker of the Rust library. `None` for a daemon.
    pub worker: Option<WorkerServing>,
    /// The reason why runs have no cgroups, or why their cgroups do not enforce all limits. `None`
    /// if each run has a cgroup with all limits.
    pub no_cgroups: Option<String>,
}

impl EngineSettings {
    /// Returns the time until which this node may use a lease, if the call that took or renewed the
    /// lease was sent at `sent`. This is a tenth of the lease time before another node may take
    /// over the lease.
    pub(crate) fn lease_deadline(&self, sent: BootInstant) -> BootInstant {
        sent.saturating_add(self.lease.saturating_sub(self.lease / 10))
    }
}

/// The queues and labels that flags or the environment set for a node. If a field is `None`, the
/// node's file decides.
#[derive(Debug, Clone, Default)]
pub struct ServingChoice {
    /// The queues the node serves.
    pub queues: Option<BTreeSet<QueueName>>,
    /// The labels the node carries.
    pub labels: Option<BTreeSet<Label>>,
}

impl ServingChoice {
    /// Returns the queues and labels that `node` serves. The values in `file` apply where flags and
    /// environment set none. The name of the node is always a label.
    pub fn over(&self, file: &Serving, node: &NodeName) -> Serving {
        let mut labels = self.labels.clone().unwrap_or_else(|| file.labels.clone());
        labels.insert(Label::of_node(node));
        let queues = self.queues.clone().or_else(|| file.queues.clone());
        Serving { queues, labels, handlers: None }
    }
}

/// The queues that a worker within a program serves, with the slots of each, and its handlers. It
/// executes no other runs.
#[derive(Debug, Clone)]
pub struct WorkerServing {
    /// The most runs of each queue at once.
    pub slots: BTreeMap<QueueName, u32>,
    /// The labels of the program, for jobs that require them.
    pub labels: BTreeSet<Label>,
    /// The handlers of the program.
    pub handlers: HandlerChoice,
}

impl WorkerServing {
    /// Returns the lanes that the worker serves.
    pub fn serving(&self) -> Serving {
        Serving {
            queues: Some(self.slots.keys().cloned().collect()),
            labels: self.labels.clone(),
            handlers: Some(self.handlers.clone()),
        }
    }

    /// Returns the queues that the node of the worker serves for runs without a handler: none.
    pub fn of_node() -> Serving {
        Serving { queues: Some(BTreeSet::new()), ..Serving::default() }
    }

    /// Returns the lanes of the worker's handlers without a priority or labels. They are polled
    /// before Redis lists them, so that the first run of a handler starts at once.
    pub(crate) fn first_lanes(&self) -> BTreeSet<Lane> {
        let HandlerChoice::Only(handlers) = &self.handlers else { return BTreeSet::new() };
        let of_queue = |queue: &QueueName| {
            let lane = Lane::new(queue.clone(), Priority::default(), BTreeSet::new());
            handlers.iter().map(move |name| lane.clone().for_handler(Some(name.clone())))
        };
        self.slots.keys().flat_map(of_queue).collect()
    }
}

/// The facts about the host of this process.
#[derive(Debug, Clone)]
pub struct HostFacts {
    /// The name of the host.
    pub host: String,
    /// The id of the present boot of the host (from `/proc/sys/kernel/random/boot_id`).
    pub boot_id: String,
    /// Returns true if a schedd with the given process id is alive on this host. A node uses this
    /// to find out whether an earlier node of its name was killed.
    pub is_alive: fn(u32) -> bool,
    /// Returns the time by the host's clock. Only its difference from Redis' time is reported, and
    /// no decision depends on it.
    pub clock: fn() -> UnixMillis,
    /// Returns the load average of one minute, or `None` if the load is unknown.
    pub load: fn() -> Option<f64>,
    /// Returns the free memory for this process in bytes, or `None` if it is unknown.
    pub free_memory: fn() -> Option<u64>,
}
