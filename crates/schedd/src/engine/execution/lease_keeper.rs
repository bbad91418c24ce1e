//! Renews the leases of this node, and passes the answer of Redis to each run: continue, stop, or
//! lease lost.
//!
//! Invariant: the length of a lease is counted from the instant before its last granted renewal was
//! sent. So the job is stopped before another node may take over its lease, even if the answer was
//! late or lost. A lease is never renewed after its end.

use std::sync::Arc;

use tracing::warn;

use super::running_leases::{Lease, RunningLeases};
use crate::attempts::StopReason;
use crate::engine::node_context::NodeContext;
use crate::engine::status::node_health::NodeHealth;
use schedd_core::host::boot_clock::BootInstant;
use schedd_store::{LeaseWord, StoreError};

/// The most leases renewed in one call to Redis.
const BATCH: usize = 500;

/// The loop that renews the leases of this node.
pub(crate) struct LeaseKeeper {
    pub(crate) node: Arc<NodeContext>,
    pub(crate) leases: Arc<RunningLeases>,
    pub(crate) health: Arc<NodeHealth>,
}

/// Renews all leases of this node at each third of the lease time, and sooner after a failure.
/// Never returns.
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
    if schedd_store::server::mutants::is(schedd_store::server::mutants::Mutant::RenewNever) {
        return Ok(());
    }
    // A lease whose end has passed is not renewed. Its job was stopped here, and a renewal would
    // only delay the recovery by another node.
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
            // The run may have ended after the list of leases was made.
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
                // The end of this run is being recorded, and Redis may already have recorded it.
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
