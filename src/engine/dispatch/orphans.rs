//! Runs whose job is not known. A run with a record was planted once, so it ends in history where
//! it is found.
//!
//! Invariant: no run ends here whose definition is in quarantine, because that may be restored. A
//! run without a record may never have been planted, and is left to quarantine.

use crate::domain::name::names::RunId;
use crate::engine::planning::job_operations;
use crate::engine::planning::job_operations::OperationError;
use crate::store::{CancelReply, Store, StoreError};

/// Ends a planned run as `cancelled` if its job was forgotten. Returns true if the run is over.
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
