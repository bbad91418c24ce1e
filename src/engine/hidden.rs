//! The hidden jobs of a job that was taken out: what they have to tell is still told, then they go.
//!
//! Invariant: none goes that has a notice to tell, or one that failed for good and may be tried again. Whoever is cut off half-way
//! leaves one behind as any job that ended; the janitor forgets those by their age.

use crate::domain::ids::JobName;
use crate::domain::notice::NoticeKind;
use crate::store::{Store, StoreError};

/// Forgets the hidden jobs of `told` that have nothing left to tell, if that job was taken out. One that came to its own end keeps
/// them as long as it is kept itself.
pub(super) async fn forget_if_removed(store: &Store, told: &JobName) -> Result<(), StoreError> {
    let is_removed = store.read_job(told).await?.is_none_or(|job| !job.is_live() && job.ended.as_deref() != Some("finished"));
    if is_removed { forget_of_removed(store, told).await } else { Ok(()) }
}

/// Forgets the hidden jobs of `removed` that have nothing left to tell.
pub(super) async fn forget_of_removed(store: &Store, removed: &JobName) -> Result<(), StoreError> {
    store.forget_idle_jobs(&NoticeKind::ALL.map(|kind| JobName::of_notice(removed, kind))).await
}
