//! Ends orphans: due runs whose job has no record. An orphan with a run record was once planned, so
//! it ends as `cancelled` and stays in history.
//!
//! Invariant: a run whose job definition is in quarantine is not ended, because the definition may
//! be restored. A run without a run record may be invalid, so it is left to quarantine.

use crate::engine::planning::job_operations;
use crate::engine::planning::job_operations::OperationError;
use schedd_schedule::names::RunId;
use schedd_store::{CancelReply, Store, StoreError};

/// Ends a planned run as `cancelled` if its job no longer has a record in Redis. Returns true if
/// the run has ended.
pub async fn end_orphan(store: &Store, run: &RunId) -> Result<bool, StoreError> {
    match store.read_run(run).await {
        Ok(Some(_)) => {}
        Err(error) if error.is_passing() => return Err(error),
        Ok(None) | Err(_) => return Ok(false),
    }
    if store.read_job(run.job()).await?.is_some() || store.is_set_aside(run.job()).await? {
        return Ok(false);
    }
    match job_operations::cancel_run(store, run, "job removed").await {
        Ok(reply) => Ok(matches!(reply, CancelReply::Cancelled | CancelReply::Over { .. })),
        Err(OperationError::Store(error)) if error.is_passing() => Err(error),
        Err(_) => Ok(false),
    }
}
