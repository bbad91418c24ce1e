//! The credentials of this process, by name.

use std::fmt::Write as _;
use std::path::PathBuf;

use super::SecretError;
use super::small_file;
use crate::domain::reference;
use crate::files::Owners;

/// Where credentials are found: one file each, named as they are. Clones are the same.
#[derive(Debug, Clone, Default)]
pub struct Credentials {
    directory: Option<PathBuf>,
}

impl Credentials {
    /// Those given to this process, in `$CREDENTIALS_DIRECTORY`.
    pub fn of_this_process() -> Self {
        let directory = std::env::var_os("CREDENTIALS_DIRECTORY").filter(|value| !value.is_empty());
        Self { directory: directory.map(PathBuf::from) }
    }

    /// Those in that directory.
    pub fn within(directory: PathBuf) -> Self {
        Self { directory: Some(directory) }
    }

    /// The text with every `${credential:NAME}` replaced by what that credential holds now, and every `$${` by `${`. Reads files, so
    /// not to be called where nothing may wait. What comes back is secret: not for logs, messages or Redis.
    pub fn fill(&self, text: &str) -> Result<String, SecretError> {
        reference::fill(text, |name| self.value(name))
    }

    /// The address of a Redis with its credentials in place: a text that is one reference and nothing else is the whole address,
    /// in any other they stand for a user or a password, and are percent-encoded as those have to be.
    pub(super) fn fill_address(&self, text: &str) -> Result<String, SecretError> {
        if reference::is_all_of(text) {
            return self.fill(text).map(|address| address.trim().to_owned());
        }
        reference::fill(text, |name| self.value(name).map(|value| percent_encoded(&value)))
    }

    /// What a credential holds, without the line end behind it that an editor leaves there.
    fn value(&self, name: &str) -> Result<String, SecretError> {
        let Some(directory) = &self.directory else {
            return Err(SecretError::NoDirectory { name: name.to_owned() });
        };
        let path = directory.join(name);
        let read = small_file::read(&path, &Owners::of_this_process());
        let mut value = read.map_err(|error| SecretError::Credential { name: name.to_owned(), path, why: error.why })?;
        if value.ends_with('\n') {
            value.pop();
            if value.ends_with('\r') {
                value.pop();
            }
        }
        Ok(value)
    }
}

/// All but the characters that mean themselves everywhere in an address (RFC 3986, 2.3).
fn percent_encoded(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            // Writing to a String cannot fail.
            let _ = write!(encoded, "%{byte:02X}");
        }
    }
    encoded
}
