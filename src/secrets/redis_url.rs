//! The address of Redis, which may hold a password or refer to one.

use std::path::PathBuf;

use super::small_file::{self, Writers};
use super::{Credentials, SecretError};

/// Where the address is written.
#[derive(Clone, PartialEq, Eq)]
pub enum RedisUrl {
    /// Here.
    Text(String),
    /// In this file.
    File(PathBuf),
}

impl RedisUrl {
    /// The address as it is now, with its credentials in place. It is secret. Reads files.
    pub fn read(&self, credentials: &Credentials) -> Result<String, SecretError> {
        let file = match self {
            Self::Text(text) => return credentials.fill_address(text),
            Self::File(file) => file,
        };
        let fail = |why: String| SecretError::UrlFile { path: file.clone(), why };
        let text = small_file::read(file, Writers::Any).map_err(|error| fail(error.why))?;
        match text.trim() {
            "" => Err(fail("it is empty, wanted the address of a Redis".to_owned())),
            text => credentials.fill_address(text),
        }
    }
}
