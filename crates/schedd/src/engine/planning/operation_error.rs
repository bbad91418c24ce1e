//! The reason why an operation on a run or job failed.

use crate::engine::dispatch::definition::DefinitionError;
use schedd_schedule::names::{IdError, JobName};
use schedd_store::StoreError;

/// The reason why an operation on a run or job failed.
#[derive(Debug, Clone, thiserror::Error)]
pub enum OperationError {
    /// An error of the store.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The stored definition of the job cannot be used.
    #[error("job {name}: the stored definition cannot be used: {why}")]
    Definition {
        /// The name of the job.
        name: JobName,
        /// The reason why the definition cannot be used.
        why: DefinitionError,
    },
    /// The operation gave up after several tries. In each try, another client changed the job
    /// between the read of the job and the write.
    #[error(
        "job {0} keeps changing, because another client edits the job at the same time; try again"
    )]
    Contended(JobName),
    /// The id of a new run is not valid.
    #[error(transparent)]
    Id(#[from] IdError),
}
