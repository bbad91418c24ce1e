//! Renews the leases this node has, and passes the answer of Redis to each run: go on, stop, or
//! lease lost.
//!
//! Invariant: the deadline of a run counts from a time before the run's last granted renewal was
//! sent. So the job is stopped before any other node may take over its lease, even if the answer
//! was late or lost. A lease past its deadline is never renewed.

use std::sync::Arc;

use tracing::warn;

use super::running_leases::{Lease, RunningLeases};
use crate::engine::node_context::NodeContext;
use crate::engine::status::node_health::NodeHealth;
use crate::executor::StopReason;
use crate::keeper::BootInstant;
use crate::store::{LeaseWord, StoreError};

/// The most leases renewed in one call to Redis.
const BATCH: usize = 500;

/// The loop that renews the leases of this node.
pub(crate) struct LeaseKeeper {
    pub(crate) node: Arc<NodeContext>,
    pub(crate) leases: Arc<RunningLeases>,
    pub(crate) health: Arc<NodeHealth>,
}

/// Renews all leases of this node for ever, after each third of the lease time, and sooner after a
/// failure.
pub(crate) async fn run(keeper: Arc<LeaseKeeper>) {
    let lease = keeper.node.settings.lease;
    let mut pause = lease / 3;
    loop {
        keeper.health.progress.lease_keeper.back_within(pause);
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = keeper.node.wakeups.lease_keeper.notified() => {}
        }
        pause = match renew_all(&keeper).await {
            Ok(()) => lease / 3,
            Err(error) => {
                keeper.node.outage_log.failed(&error, "leases are not renewed");
                lease / 50
            }
        };
    }
}

async fn renew_all(keeper: &LeaseKeeper) -> Result<(), StoreError> {
    #[cfg(feature = "mutants")]
    if crate::store::server::mutants::is(crate::store::server::mutants::Mutant::RenewNever) {
        return Ok(());
    }
    // A passed lease is not renewed again: that would only make other nodes wait longer for a run
    // that was stopped here.
    let now = BootInstant::now();
    let leases: Vec<Lease> = keeper
        .leases
        .all()
        .iter()
        .filter(|(_, state)| !state.has_passed(now))
        .map(|(lease, _)| lease.clone())
        .collect();
    for batch in leases.chunks(BATCH) {
        let sent = BootInstant::now();
        let words = keeper.node.store.renew_leases(keeper.node.settings.lease, batch).await?;
        let deadline = keeper.node.settings.lease_deadline(sent);
        let mut leases = keeper.leases.all();
        for (lease, word) in batch.iter().zip(words) {
            // The run may have ended since the list was made.
            let Some(entry) = leases.get_mut(lease) else { continue };
            match word {
                LeaseWord::Extended => {
                    entry.deadline.send_replace(deadline);
                }
                LeaseWord::Stop(cause) => {
                    entry.deadline.send_replace(deadline);
                    entry.stop_cause = Some(cause);
                    entry.stop.send_replace(Some(StopReason::Cancelled));
                }
                // Its end is being recorded, and Redis may already have it.
                LeaseWord::Lost if entry.deadline.is_closed() => {}
                LeaseWord::Lost => {
                    let (run, fence) = lease;
                    warn!(run = %run, fence = %fence, "The run lost its lease. This node stops the run.");
                    entry.deadline.send_replace(BootInstant::from_nanos(0));
                }
            }
        }
    }
    Ok(())
}
