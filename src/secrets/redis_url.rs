//! The address of Redis, which may contain a password or a reference to a credential.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use super::credentials::Credentials;
use super::secret_error::SecretError;
use super::small_file;
use schedd_core::files::Owners;

/// The source of the address of Redis.
#[derive(Clone, PartialEq, Eq)]
pub enum RedisUrl {
    /// The text of the address itself.
    Text(String),
    /// A file that contains the address.
    File(PathBuf),
}

impl RedisUrl {
    /// Returns the path of the file with the address, if every user on the host can read the file.
    /// Returns `None` for another file, and for an address that is not in a file.
    pub fn open_file(&self) -> Option<&Path> {
        let Self::File(file) = self else { return None };
        let mode = std::fs::metadata(file).ok()?.permissions().mode();
        (mode & 0o004 != 0).then_some(file)
    }

    /// Returns the present address with its credentials filled in. The result is secret. The call
    /// reads files and may block.
    pub fn read(&self, credentials: &Credentials) -> Result<String, SecretError> {
        let file = match self {
            Self::Text(text) => return credentials.fill_address(text),
            Self::File(file) => file,
        };
        let fail = |why: String| SecretError::UrlFile { path: file.clone(), why };
        let text =
            small_file::read(file, &Owners::of_this_process()).map_err(|error| fail(error.why))?;
        match text.trim() {
            "" => Err(fail("the file is empty, wanted the URL of a Redis server".to_owned())),
            text => credentials.fill_address(text),
        }
    }
}
