//! Sets up the cgroups of this process and of its runs. The result is logged once, after the start
//! of the node, so that the first line of a failed start is its error.

use std::sync::Arc;

use tracing::info;

use schedd_keeper::{Delegation, NotDelegated};

/// The id of this start of the process, and the cgroup that the service manager delegated to the
/// process, if any.
pub(super) struct CgroupSetup {
    pub(super) incarnation: String,
    pub(super) delegation: Option<Arc<Delegation>>,
    not_delegated: Option<NotDelegated>,
}

impl CgroupSetup {
    /// Takes over the cgroup that the service manager delegated to this process, if any.
    pub(super) async fn take(incarnation: String) -> Self {
        let name = incarnation.clone();
        let taken = tokio::task::spawn_blocking(move || Delegation::take(&name)).await;
        let (delegation, not_delegated) = match taken {
            Ok(Ok(delegation)) => (Some(Arc::new(delegation)), None),
            Ok(Err(error)) => (None, Some(error)),
            Err(error) => (None, Some(NotDelegated::Failed(error.to_string()))),
        };
        Self { incarnation, delegation, not_delegated }
    }

    /// Logs which limits of jobs this node enforces.
    pub(super) fn log(&self) {
        match (&self.delegation, self.lacks()) {
            (Some(_), None) => {
                info!("Each run has its own cgroup. This node enforces all limits of jobs.");
            }
            (Some(_), Some(why)) => info!(
                "Each run has its own cgroup. This node cannot enforce all limits of jobs: {why}."
            ),
            (None, why) => {
                info!(
                    "The limits memory, cpu and pids of jobs are off: {}.",
                    why.unwrap_or_default()
                );
            }
        }
    }

    /// Returns the reason why some limits of jobs cannot be enforced. Returns `None` if this node
    /// enforces all limits.
    pub(super) fn lacks(&self) -> Option<String> {
        match (&self.delegation, &self.not_delegated) {
            (Some(delegation), _) => delegation.lacks(),
            (None, why) => why.as_ref().map(ToString::to_string),
        }
    }
}
