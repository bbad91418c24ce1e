//! Runs whose job is not known: the record of one tells that it was wanted, so it ends where it is read, in history.
//!
//! Invariant: a definition that was moved aside may come back, so nothing of its job ends here. Without a record nothing tells
//! that the run was ever planted: it is left to quarantine.

use super::person::{self, WishError};
use crate::domain::ids::RunId;
use crate::store::{CancelReply, Store, StoreError};

/// Ends a run that is to execute and whose job was forgotten, as `cancelled`. Whether it is over.
pub async fn end_orphan(store: &Store, run: &RunId) -> Result<bool, StoreError> {
    match store.read_run(run).await {
        Ok(Some(_)) => {}
        Err(error) if error.is_passing() => return Err(error),
        Ok(None) | Err(_) => return Ok(false),
    }
    if store.read_job(run.job()).await?.is_some() || store.is_set_aside(run.job()).await? {
        return Ok(false);
    }
    match person::cancel_run(store, run, "job removed").await {
        Ok(reply) => Ok(matches!(reply, CancelReply::Cancelled | CancelReply::Over { .. })),
        Err(WishError::Store(error)) if error.is_passing() => Err(error),
        Err(_) => Ok(false),
    }
}
