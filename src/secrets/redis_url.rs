//! The address of Redis, which may contain a password or a reference to a credential.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use super::credentials::Credentials;
use super::secret_error::SecretError;
use super::small_file;
use schedd_core::config::{RedisConfig, with_parameters};
use schedd_core::files::Owners;

/// The source of the address of Redis.
#[derive(Clone, PartialEq, Eq)]
pub struct RedisUrl {
    place: Place,
    /// The parameters that are added to the address, or empty.
    parameters: String,
}

#[derive(Clone, PartialEq, Eq)]
enum Place {
    /// The text of the address itself.
    Text(String),
    /// A file that contains the address.
    File(PathBuf),
}

impl RedisUrl {
    /// Returns the source for an address that is given as text.
    pub fn of_text(url: String) -> Self {
        Self { place: Place::Text(url), parameters: String::new() }
    }

    /// Returns the source that the section `[redis]` of a file names, or `None` if it names none.
    pub fn of_file(redis: &RedisConfig) -> Option<Self> {
        let place = match (&redis.url, &redis.url_file) {
            (Some(url), _) => Place::Text(url.clone()),
            (None, Some(file)) => Place::File(file.clone()),
            (None, None) => return None,
        };
        Some(Self { place, parameters: redis.parameters.clone() })
    }

    /// Returns the path of the file with the address, if every user on the host can read the file.
    /// Returns `None` for another file, and for an address that is not in a file.
    pub fn open_file(&self) -> Option<&Path> {
        let Place::File(file) = &self.place else { return None };
        let mode = std::fs::metadata(file).ok()?.permissions().mode();
        (mode & 0o004 != 0).then_some(file)
    }

    /// Returns the present address with its credentials filled in. The result is secret. The call
    /// reads files and may block.
    pub fn read(&self, credentials: &Credentials) -> Result<String, SecretError> {
        let url = match &self.place {
            Place::Text(text) => credentials.fill_address(text)?,
            Place::File(file) => {
                let fail = |why: String| SecretError::UrlFile { path: file.clone(), why };
                let text = small_file::read(file, &Owners::of_this_process())
                    .map_err(|error| fail(error.why))?;
                match text.trim() {
                    "" => {
                        let why = "the file is empty, wanted the URL of a Redis server";
                        return Err(fail(why.to_owned()));
                    }
                    text => credentials.fill_address(text)?,
                }
            }
        };
        Ok(with_parameters(url, &self.parameters))
    }
}
