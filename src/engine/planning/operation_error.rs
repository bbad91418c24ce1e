//! The reason why an operation on a run or job failed.

use crate::domain::name::names::{IdError, JobName};
use crate::engine::dispatch::definition::DefinitionError;
use crate::store::StoreError;

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
    /// Another client changed the job at every round.
    #[error(
        "job {0} keeps changing, because another client edits the job at the same time; try again"
    )]
    Contended(JobName),
    /// The id of a new run is not valid.
    #[error(transparent)]
    Id(#[from] IdError),
}
