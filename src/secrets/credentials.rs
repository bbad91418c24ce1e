//! The credentials of this process, by name.

use std::fmt::Write as _;
use std::path::PathBuf;

use super::secret_error::SecretError;
use super::small_file;
use schedd_core::domain::job::secret_reference;
use schedd_core::files::Owners;

/// The directory of the credentials, with one file for each credential. The name of a credential is
/// the name of its file. Clones use the same directory.
#[derive(Debug, Clone, Default)]
pub struct Credentials {
    directory: Option<PathBuf>,
}

impl Credentials {
    /// Returns the credentials given to this process in the directory `$CREDENTIALS_DIRECTORY`.
    pub fn of_this_process() -> Self {
        let directory = std::env::var_os("CREDENTIALS_DIRECTORY").filter(|value| !value.is_empty());
        Self { directory: directory.map(PathBuf::from) }
    }

    /// Returns the credentials in the directory `directory`.
    pub fn within(directory: PathBuf) -> Self {
        Self { directory: Some(directory) }
    }

    /// Returns `text` with every `${credential:NAME}` replaced by the present value of that
    /// credential, and every `$${` replaced by `${`.
    ///
    /// This method reads files, so it may block. The result is secret and must not appear in logs,
    /// messages or Redis.
    pub fn fill(&self, text: &str) -> Result<String, SecretError> {
        secret_reference::fill(text, |name| self.value(name))
    }

    /// Returns the address of a Redis server with its credentials filled in.
    ///
    /// If `text` is only `${credential:NAME}`, the value of the credential is the whole address. In
    /// any other text a credential is a user or a password and is percent-encoded.
    pub(super) fn fill_address(&self, text: &str) -> Result<String, SecretError> {
        if secret_reference::is_all_of(text) {
            return self.fill(text).map(|address| address.trim().to_owned());
        }
        secret_reference::fill(text, |name| self.value(name).map(|value| percent_encoded(&value)))
    }

    /// Returns the value of the credential `name`, without the line end that an editor adds to the
    /// file.
    fn value(&self, name: &str) -> Result<String, SecretError> {
        let Some(directory) = &self.directory else {
            return Err(SecretError::NoDirectory { name: name.to_owned() });
        };
        let path = directory.join(name);
        let read = small_file::read(&path, &Owners::of_this_process());
        let mut value = read.map_err(|error| SecretError::Credential {
            name: name.to_owned(),
            path,
            why: error.why,
            is_shortage: error.is_shortage,
        })?;
        if value.ends_with('\n') {
            value.pop();
            if value.ends_with('\r') {
                value.pop();
            }
        }
        Ok(value)
    }
}

/// Returns `text` with percent-encoding. The characters that need no encoding anywhere in an
/// address stay (RFC 3986, 2.3).
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
