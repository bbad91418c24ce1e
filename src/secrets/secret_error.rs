//! The reasons why a secret cannot be read.

use std::path::PathBuf;

use schedd_core::domain::job::env_file::LineError;
use schedd_core::domain::job::secret_reference::ReferenceError;

/// The reason why a secret cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SecretError {
    /// This process has no directory of credentials.
    #[error(
        "credential {name} is missing: CREDENTIALS_DIRECTORY is not set, wanted LoadCredential={name}:/PATH in the unit, or \
         CREDENTIALS_DIRECTORY set to the directory of the credential"
    )]
    NoDirectory {
        /// The name of the wanted credential.
        name: String,
    },
    /// A credential cannot be read.
    #[error("credential {name} cannot be used: {}: {why}", path.display())]
    Credential {
        /// The name of the wanted credential.
        name: String,
        /// The file of the credential.
        path: PathBuf,
        /// The reason why the file cannot be read, as text.
        why: String,
        /// True if this node lacks the descriptors or the memory to read any file.
        is_shortage: bool,
    },
    /// A file of environment variables cannot be read.
    #[error("env_file {} cannot be used: {why}", path.display())]
    EnvFile {
        /// The file of variables.
        path: PathBuf,
        /// The reason why the file cannot be read, as text.
        why: String,
        /// True if this node lacks the descriptors or the memory to read any file.
        is_shortage: bool,
    },
    /// A file of environment variables has a faulty line.
    #[error("env_file {}: {fault}", path.display())]
    Line {
        /// The file of variables.
        path: PathBuf,
        /// The number of the line and its fault.
        fault: LineError,
    },
    /// A file with the address of Redis cannot be read.
    #[error("url_file {} cannot be used: {why}", path.display())]
    UrlFile {
        /// The file with the address of Redis.
        path: PathBuf,
        /// The reason why the file cannot be read, as text.
        why: String,
    },
    /// A text has a faulty reference to a credential.
    #[error(transparent)]
    Reference(#[from] ReferenceError),
}

impl SecretError {
    /// Returns true if this node lacks the descriptors or the memory to read any secret.
    pub fn is_shortage(&self) -> bool {
        matches!(
            self,
            Self::Credential { is_shortage: true, .. } | Self::EnvFile { is_shortage: true, .. }
        )
    }
}
