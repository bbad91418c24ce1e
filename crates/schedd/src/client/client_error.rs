//! The reason why a call of the client failed.

use schedd_store::{AddressError, StoreError};

use crate::engine::planning::job_operations::OperationError;
use crate::engine::planning::planting::PlantingError;

/// The reason why a call of [`Client`](crate::Client) or [`Worker`](crate::Worker) failed.
///
/// ```
/// # use schedd::ClientError;
/// fn is_outage(error: &ClientError) -> bool {
///     matches!(error, ClientError::Unreachable(_))
/// }
/// # let _ = is_outage;
/// ```
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// A value cannot be used. Nothing was changed.
    #[error("{0}")]
    Invalid(String),
    /// The named job or run does not exist.
    #[error("{0}")]
    NotFound(String),
    /// The request does not fit the present state of a job, a run or a name.
    #[error("{0}")]
    Conflict(String),
    /// Redis cannot be reached. A call that changes jobs may have been carried out.
    #[error("{0}")]
    Unreachable(String),
    /// The change was made, but a failover of Redis may lose it, because too few replicas have it.
    #[error("{0}")]
    NotReplicated(String),
    /// Redis answers, but cannot be used, or has wrong data.
    #[error("{0}")]
    Failed(String),
}

impl From<StoreError> for ClientError {
    fn from(error: StoreError) -> Self {
        let text = error.to_string();
        match error {
            StoreError::NotReplicated { .. } => Self::NotReplicated(text),
            StoreError::SeveralPlaces { .. } => Self::Conflict(text),
            error if error.is_passing() => Self::Unreachable(text),
            _ => Self::Failed(text),
        }
    }
}

impl From<AddressError> for ClientError {
    fn from(error: AddressError) -> Self {
        Self::Invalid(error.to_string())
    }
}

impl From<PlantingError> for ClientError {
    fn from(error: PlantingError) -> Self {
        match error {
            PlantingError::Store(error) => error.into(),
            PlantingError::Parents(..) => Self::Invalid(error.to_string()),
            PlantingError::Zone(error) => Self::Failed(error.to_string()),
            PlantingError::Contended(_)
            | PlantingError::Elsewhere { .. }
            | PlantingError::NoLane { .. } => Self::Conflict(error.to_string()),
        }
    }
}

impl From<OperationError> for ClientError {
    fn from(error: OperationError) -> Self {
        match error {
            OperationError::Store(error) => error.into(),
            OperationError::Contended(_) => Self::Conflict(error.to_string()),
            OperationError::Definition { .. } | OperationError::Id(_) => {
                Self::Failed(error.to_string())
            }
        }
    }
}
