//! Where this process, and the runs it starts, stand among the cgroups of the host; said once in the log.

use std::sync::Arc;

use tracing::info;

use crate::keeper::{Delegation, NotDelegated};

/// What there is, for one incarnation.
pub(super) struct Rooms {
    pub(super) incarnation: String,
    pub(super) delegation: Option<Arc<Delegation>>,
    not_delegated: Option<NotDelegated>,
}

impl Rooms {
    /// Takes what the service manager delegated, if it did.
    pub(super) async fn take(incarnation: String) -> Self {
        let name = incarnation.clone();
        let taken = tokio::task::spawn_blocking(move || Delegation::take(&name)).await;
        let (delegation, not_delegated) = match taken {
            Ok(Ok(delegation)) => (Some(Arc::new(delegation)), None),
            Ok(Err(error)) => (None, Some(error)),
            Err(error) => (None, Some(NotDelegated::Failed(error.to_string()))),
        };
        let rooms = Self { incarnation, delegation, not_delegated };
        match (&rooms.delegation, rooms.lacks()) {
            (Some(_), None) => info!("Each run has a cgroup of its own; all limits of jobs are enforced."),
            (Some(_), Some(why)) => info!("Each run has a cgroup of its own; not all limits of jobs are enforced: {why}."),
            (None, why) => {
                info!("Runs have no cgroups; limits of memory, cpu and pids are not enforced: {}.", why.unwrap_or_default());
            }
        }
        rooms
    }

    /// Why not all limits of jobs can be enforced; none if they can.
    pub(super) fn lacks(&self) -> Option<String> {
        match (&self.delegation, &self.not_delegated) {
            (Some(delegation), _) => delegation.lacks(),
            (None, why) => why.as_ref().map(ToString::to_string),
        }
    }
}
