//! The node of a worker within a program.

use std::sync::Arc;
use std::time::Duration;

use schedd_core::config::DaemonConfig;
use schedd_core::domain::run::excerpt::OutputBounds;
use schedd_schedule::names::NodeName;
use schedd_schedule::time::zone::Zone;
use schedd_store::Store;

use crate::attempts::Execute;
use crate::engine::{
    self, EngineSettings, Journal, Naming, NodeEngines, PresenceError, ServingChoice, WorkerServing,
};
use crate::program_host;

/// The most letters of a host's name in the name of a worker.
const HOST_LETTERS: usize = 40;

/// The settings of a node that is part of this program and takes only runs of handlers.
#[doc(hidden)]
pub struct WorkerNode {
    /// The Redis of the jobs.
    pub store: Store,
    /// The time zone for schedules without a time zone of their own.
    pub zone: Zone,
    /// The queues, slots, labels and handlers of the worker.
    pub serving: WorkerServing,
    /// The name of the node. `None` for the name of the host with a random word.
    pub name: Option<NodeName>,
    /// The time after which other nodes take over the runs if the program dies.
    pub lease: Duration,
    /// The time for which a stop waits for runs.
    pub grace: Duration,
}

impl WorkerNode {
    /// Starts the node, whose runs `executor` executes. Returns the node and its name. Fails if Redis
    /// does not answer, or another node has the name.
    #[doc(hidden)]
    pub async fn start(
        self,
        executor: Arc<dyn Execute>,
    ) -> Result<(NodeEngines, NodeName), PresenceError> {
        let Self { store, zone, serving: worker, name, lease, grace } = self;
        let host = program_host::facts();
        let wanted = name.unwrap_or_else(|| {
            let host: String = host.host.chars().take(HOST_LETTERS).collect();
            NodeName::from_host_name(&format!("{host}-{:08x}", fastrand::u32(..)))
        });
        let incarnation = format!("{:016x}", fastrand::u64(..));
        let (naming, serving) = (Naming::Asked, WorkerServing::of_node());
        let (node, started_at) =
            engine::announce(&store, &wanted, naming, &incarnation, &host, &serving).await?;
        let settings = EngineSettings {
            node: node.clone(),
            incarnation,
            started_at,
            host,
            ended_mark: None,
            tick: DaemonConfig::default().tick,
            lease,
            shutdown_grace: grace,
            output: OutputBounds::default(),
            serving: ServingChoice::default(),
            worker: Some(worker),
            no_cgroups: None,
        };
        let journal = Box::new(|_: &Store| Journal::in_memory());
        Ok((NodeEngines::start(store, executor, journal, settings, zone, None), node))
    }
}
