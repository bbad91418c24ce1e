//! The secrets of this node, read at the moment of use (layer 2 of the layers in `src/lib.rs`).
//!
//! [`Credentials`] replaces `${credential:NAME}` in a text by the content of a file in
//! `$CREDENTIALS_DIRECTORY`. systemd puts these files there (`LoadCredential=`). [`variables`]
//! reads the files of variables for a job's process. [`RedisUrl`] reads the address of Redis.
//! [`tokens`] are the access tokens of the HTTP API.
//!
//! Invariant: nothing is cached, so a changed file takes effect at its next use, without a reload.
//! No error repeats text of a file: an error names the credential, or the file and its line.

mod credentials;
mod redis_url;
mod secret_error;
mod small_file;
pub mod tokens;

use std::collections::BTreeMap;

pub use credentials::Credentials;
pub use redis_url::RedisUrl;
pub use secret_error::SecretError;

use schedd_core::domain::job::env_file;
use schedd_core::domain::job::env_file::{Absence, EnvFile};
use schedd_core::files::Owners;

/// The user that the packaged daemon runs as.
const DAEMON: &str = "schedd";

/// Returns the variables that a job sets for its processes, as far as these variables can be read.
/// Also returns the reason for each variable or file that cannot be read.
///
/// Later files override earlier files, and `own` overrides all files. Credentials are filled in.
/// Each reason names its file or variable. A file must belong to root, to the user of this process
/// or to `job_user`, the user id of the job's processes. Fails if this node lacks the descriptors
/// or the memory to read files.
pub fn variables(
    files: &[EnvFile],
    job_user: Option<u32>,
    own: &BTreeMap<String, String>,
    credentials: &Credentials,
) -> Result<(BTreeMap<String, String>, Vec<String>), SecretError> {
    let (mut variables, mut faults) = (BTreeMap::new(), Vec::new());
    let owners = Owners::of_this_process().and(job_user);
    for file in files {
        match read_env_file(file, &owners) {
            Ok(read) => variables.extend(read),
            Err(error) if error.is_shortage() => return Err(error),
            Err(error) => faults.push(error.to_string()),
        }
    }
    for (name, text) in own {
        let fault = match credentials.fill(text) {
            Ok(value) if value.contains('\0') => {
                "the credential has the character NUL, which a variable cannot have".to_owned()
            }
            Ok(value) => {
                variables.insert(name.clone(), value);
                continue;
            }
            Err(error) if error.is_shortage() => return Err(error),
            Err(error) => error.to_string(),
        };
        // A value of this name from a file is dropped, because `own` overrides all files.
        variables.remove(name);
        faults.push(format!("env {name}: {fault}"));
    }
    Ok((variables, faults))
}

/// Returns the reason why no attempt on this host could use a file of variables. Returns `None` if
/// an attempt could use the file.
///
/// The result is also `None` for a file that is missing, or that this process may not read. An
/// attempt on another host or as another user may read such a file. The file must belong to root,
/// to the user of this process, to `job_user`, or to the user `schedd` of the packaged daemon.
pub fn fault_of(file: &EnvFile, job_user: Option<&str>) -> Option<String> {
    rustix::fs::access(file.path(), rustix::fs::Access::READ_OK).ok()?;
    let id_of = |name: &str| {
        nix::unistd::User::from_name(name).ok().flatten().map(|user| user.uid.as_raw())
    };
    let owners = Owners::of_this_process().and(job_user.and_then(id_of)).and(id_of(DAEMON));
    read_env_file(file, &owners).err().map(|error| error.to_string())
}

fn read_env_file(file: &EnvFile, owners: &Owners) -> Result<BTreeMap<String, String>, SecretError> {
    let path = file.path();
    let text = match small_file::read(path, owners) {
        Ok(text) => text,
        Err(error) if error.is_missing && file.absence() == Absence::Allowed => {
            return Ok(BTreeMap::new());
        }
        Err(error) => {
            return Err(SecretError::EnvFile {
                path: path.to_owned(),
                why: error.why,
                is_shortage: error.is_shortage,
            });
        }
    };
    env_file::parse(&text).map_err(|fault| SecretError::Line { path: path.to_owned(), fault })
}

#[cfg(test)]
mod tests;
