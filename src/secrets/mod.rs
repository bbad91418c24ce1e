//! Layer 2: the secrets of this node, read in the moment of use.
//!
//! [`Credentials`] puts `${credential:NAME}` into a text, from the files systemd gives its service in `$CREDENTIALS_DIRECTORY`
//! (`LoadCredential=`), [`variables`] reads what a job's process is given beyond what its definition says, and [`RedisUrl`] where
//! Redis is.
//!
//! Invariant: nothing is kept, so a file that was changed counts from the next use on, without a reload. No error repeats a word of
//! a file: it names the credential, or the file and its line.

mod credentials;
mod redis_url;
mod small_file;

use std::collections::BTreeMap;
use std::path::PathBuf;

pub use credentials::Credentials;
pub use redis_url::RedisUrl;

use crate::domain::env_file::{self, Absence, EnvFile, LineError};
use crate::domain::reference::ReferenceError;
use crate::files::Owners;

/// The user the packaged daemon runs as.
const DAEMON: &str = "schedd";

/// Why a secret cannot be had.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SecretError {
    /// This process was given no credentials.
    #[error(
        "credential {name} is not there: CREDENTIALS_DIRECTORY is not set; wanted LoadCredential={name}:/PATH in the unit, or that \
         variable set to the directory it is in"
    )]
    NoDirectory {
        /// Which was wanted.
        name: String,
    },
    /// A credential that cannot be read.
    #[error("credential {name} cannot be used: {}: {why}", path.display())]
    Credential {
        /// Which was wanted.
        name: String,
        /// Where it was looked for.
        path: PathBuf,
        /// In words.
        why: String,
    },
    /// A file of variables that cannot be read.
    #[error("env_file {} cannot be used: {why}", path.display())]
    EnvFile {
        /// Which one.
        path: PathBuf,
        /// In words.
        why: String,
    },
    /// A file of variables with a faulty line.
    #[error("env_file {}: {fault}", path.display())]
    Line {
        /// Which one.
        path: PathBuf,
        /// Where in it.
        fault: LineError,
    },
    /// A file with the address of Redis that cannot be read.
    #[error("url_file {} cannot be used: {why}", path.display())]
    UrlFile {
        /// Which one.
        path: PathBuf,
        /// In words.
        why: String,
    },
    /// A text with a faulty reference.
    #[error(transparent)]
    Reference(#[from] ReferenceError),
}

/// The variables a job says its processes get, as far as they can be had: what `files` hold, a later one before an earlier, and above
/// them `own`, with its credentials in place. With why the others cannot be had; each names the file or variable it is about. A file
/// may also belong to `job_user`, as whom the processes run.
pub fn variables(
    files: &[EnvFile],
    job_user: Option<u32>,
    own: &BTreeMap<String, String>,
    credentials: &Credentials,
) -> (BTreeMap<String, String>, Vec<String>) {
    let (mut variables, mut faults) = (BTreeMap::new(), Vec::new());
    let owners = Owners::of_this_process().and(job_user);
    for file in files {
        match read_env_file(file, &owners) {
            Ok(read) => variables.extend(read),
            Err(error) => faults.push(error.to_string()),
        }
    }
    for (name, text) in own {
        let fault = match credentials.fill(text) {
            Ok(value) if value.contains('\0') => "its credential holds the character NUL, which no variable can".to_owned(),
            Ok(value) => {
                variables.insert(name.clone(), value);
                continue;
            }
            Err(error) => error.to_string(),
        };
        // What a file says under that name is not what was wanted.
        variables.remove(name);
        faults.push(format!("env {name}: {fault}"));
    }
    (variables, faults)
}

/// Why no attempt here could use a file of variables; none if one could, and of one that is not there or that this process may not
/// read, which says nothing of others. It may also belong to `job_user`, or to the user `schedd`, as whom the daemon may run.
pub fn fault_of(file: &EnvFile, job_user: Option<&str>) -> Option<String> {
    rustix::fs::access(file.path(), rustix::fs::Access::READ_OK).ok()?;
    let id_of = |name: &str| nix::unistd::User::from_name(name).ok().flatten().map(|user| user.uid.as_raw());
    let owners = Owners::of_this_process().and(job_user.and_then(id_of)).and(id_of(DAEMON));
    read_env_file(file, &owners).err().map(|error| error.to_string())
}

fn read_env_file(file: &EnvFile, owners: &Owners) -> Result<BTreeMap<String, String>, SecretError> {
    let path = file.path();
    let text = match small_file::read(path, owners) {
        Ok(text) => text,
        Err(error) if error.is_missing && file.absence() == Absence::Allowed => return Ok(BTreeMap::new()),
        Err(error) => return Err(SecretError::EnvFile { path: path.to_owned(), why: error.why }),
    };
    env_file::parse(&text).map_err(|fault| SecretError::Line { path: path.to_owned(), fault })
}

#[cfg(test)]
mod tests;
