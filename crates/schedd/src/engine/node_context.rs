//! The context of a node: the handles that every loop of the node uses.

use std::sync::{Arc, Mutex, PoisonError};

use super::settings::EngineSettings;
use super::status::node_counters::NodeCounters;
use super::status::outage_log::OutageLog;
use super::traces::Traces;
use super::wakeups::Wakeups;
use super::workers::asking_workers::AskingWorkers;
use schedd_store::Store;

/// The handles that every loop of a node uses. `node_parts.rs` gives a loop its other handles.
pub(crate) struct NodeContext {
    pub(crate) store: Store,
    pub(crate) settings: EngineSettings,
    pub(crate) outage_log: OutageLog,
    pub(crate) wakeups: Wakeups,
    /// The counters for monitoring, which all engines of the node share.
    pub(crate) counters: Arc<NodeCounters>,
    pub(crate) traces: Traces,
    /// The workers that ask this node for runs.
    pub(crate) asking: AskingWorkers,
    phase: Mutex<Phase>,
}

/// The phase of a node. A node never returns to an earlier phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) enum Phase {
    /// The node claims and executes runs.
    #[default]
    Running,
    /// The node claims nothing more. Running jobs go on.
    Draining,
    /// The node stops running jobs.
    Aborting,
}

impl Phase {
    /// Returns the name of the phase, as `schedctl nodes` shows it.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Draining => "draining",
            Self::Aborting => "aborting",
        }
    }
}

impl NodeContext {
    pub(crate) fn new(store: Store, settings: EngineSettings, counters: Arc<NodeCounters>) -> Self {
        let traces = Traces::from_env(&store, &settings.node);
        Self {
            store,
            settings,
            outage_log: OutageLog::default(),
            wakeups: Wakeups::default(),
            counters,
            traces,
            asking: AskingWorkers::default(),
            phase: Mutex::default(),
        }
    }

    pub(crate) fn phase(&self) -> Phase {
        *self.phase.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn enter(&self, phase: Phase) {
        *self.phase.lock().unwrap_or_else(PoisonError::into_inner) = phase;
        self.wakeups.presence.notify_one();
        self.wakeups.note_worker_news();
    }
}
