//! The mark that an at-most-once run may have started. A run with the mark never starts again.
//!
//! Invariant: the attempt begins after the mark is in Redis, on as many replicas as the address of
//! Redis demands, and in the journal of this host.

use crate::engine::node_context::NodeContext;
use crate::engine::recovery::journal::ClaimedRun;
use schedd_schedule::names::RunId;
use schedd_store::{Claim, RunRecord, StoreError};

/// Waits until enough replicas have the records of these claims. Such a record is the mark in Redis.
/// Returns at once if `durability` is not `replicated`.
pub(crate) async fn await_replicas(
    node: &NodeContext,
    claims: &[&Claim],
) -> Result<(), StoreError> {
    if claims.is_empty() || !node.store.is_replicated() {
        return Ok(());
    }
    let runs: Vec<RunId> = claims.iter().map(|claim| claim.run.clone()).collect();
    // The server that has the records now is the server whose replicas must have them.
    let (records, on_replicas) = node.store.replicated(node.store.read_runs(&runs)).await?;
    let has_claim = |(claim, record): (&&Claim, Result<Option<RunRecord>, StoreError>)| match record
    {
        Ok(Some(record)) => record.fence == Some(claim.fence),
        _ => false,
    };
    if claims.iter().zip(records).all(has_claim) {
        return on_replicas;
    }
    Err(StoreError::Replaced { address: node.store.address().to_owned() })
}

/// Returns the mark as a line of the journal.
pub(crate) fn line_of(claim: &Claim) -> ClaimedRun {
    ClaimedRun {
        run: claim.run.to_string(),
        queue: claim.lane.as_str().to_owned(),
        attempt: claim.attempt,
        fence: claim.fence.as_u64(),
        at: claim.claimed_at.as_i64(),
    }
}
