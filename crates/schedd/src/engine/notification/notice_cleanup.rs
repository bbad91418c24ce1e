//! Forgets the hidden jobs that delivered the notices of a removed job. A hidden job first delivers
//! the notices that are left.
//!
//! Invariant: a hidden job stays while it has a notice to deliver, or a failed notice that may be
//! retried. If a node stops during the cleanup, the janitor later forgets the hidden job by its
//! age.

use schedd_core::domain::job::notice::NoticeKind;
use schedd_schedule::names::JobName;
use schedd_store::{Store, StoreError};

/// Forgets the idle hidden jobs of the job `subject` if that job was removed. A job that finished
/// keeps its hidden jobs for as long as its own record is kept.
pub(crate) async fn forget_if_removed(store: &Store, subject: &JobName) -> Result<(), StoreError> {
    let is_removed = store
        .read_job(subject)
        .await?
        .is_none_or(|job| !job.is_live() && job.ended.as_deref() != Some("finished"));
    if is_removed { forget_of_removed(store, subject).await } else { Ok(()) }
}

/// Forgets the hidden jobs of the removed job `removed` that have no notice left to deliver.
pub(crate) async fn forget_of_removed(store: &Store, removed: &JobName) -> Result<(), StoreError> {
    store.forget_idle_jobs(&NoticeKind::ALL.map(|kind| JobName::of_notice(removed, kind))).await
}
