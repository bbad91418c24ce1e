//! The settings of a node: its identity, its intervals, and the choices of flags and environment.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use crate::domain::name::names::{Label, NodeName, QueueName};
use crate::domain::queue::lane_serving::Serving;
use crate::domain::time::unix_millis::UnixMillis;
use crate::keeper::{BootInstant, OutputBounds};

/// The settings of a node, which stay the same until the node stops.
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
    /// node's jobs are gone.
    pub ended_mark: Option<PathBuf>,
    /// The longest wait between two polls of Redis while runs are due.
    pub tick: Duration,
    /// The time for which a lease lasts unless the node renews it.
    pub lease: Duration,
    /// The time for which runs may go on after a stop of the node was requested.
    pub shutdown_grace: Duration,
    /// The bounds of the output kept of each attempt.
    pub output: OutputBounds,
    /// The queues and labels from flags or the environment, which take precedence over the jobs
    /// file.
    pub serving: ServingChoice,
    /// The reason why runs have no cgroups of their own, or why their cgroups lack some limits.
    /// `None` if each run has a cgroup with all limits.
    pub no_cgroups: Option<String>,
}

impl EngineSettings {
    /// Returns the time until which this node may use a lease that a call sent at `sent` took or
    /// renewed. This deadline comes a tenth of the lease time before any other node may take the
    /// lease over.
    pub(crate) fn lease_deadline(&self, sent: BootInstant) -> BootInstant {
        sent.saturating_add(self.lease.saturating_sub(self.lease / 10))
    }
}

/// The queues and labels that flags or the environment give a node. For a field that is `None`, the
/// node's file decides.
#[derive(Debug, Clone, Default)]
pub struct ServingChoice {
    /// The queues the node serves.
    pub queues: Option<BTreeSet<QueueName>>,
    /// The labels the node carries.
    pub labels: Option<BTreeSet<Label>>,
}

impl ServingChoice {
    /// Returns the queues and labels the node serves. `file` supplies those that neither flags nor
    /// the environment set.
    pub fn over(&self, file: &Serving) -> Serving {
        Serving {
            queues: self.queues.clone().or_else(|| file.queues.clone()),
            labels: self.labels.clone().unwrap_or_else(|| file.labels.clone()),
        }
    }
}

/// The facts about the host of this process.
#[derive(Debug, Clone)]
pub struct HostFacts {
    /// The name of the host.
    pub host: String,
    /// The id of the present boot of the host (`/proc/sys/kernel/random/boot_id`).
    pub boot_id: String,
    /// Returns true if a process with the given process id is alive on this host. The answer
    /// distinguishes a killed predecessor from a live process.
    pub is_alive: fn(u32) -> bool,
    /// Returns the time by the host's clock. This time is reported beside Redis' time, and no
    /// decision uses it.
    pub clock: fn() -> UnixMillis,
    /// Returns the load average of one minute, or `None` if it is not known.
    pub load: fn() -> Option<f64>,
    /// Returns the memory free for this process, in bytes, or `None` if it is not known.
    pub free_memory: fn() -> Option<u64>,
}
