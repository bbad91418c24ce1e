//! The search for a server program: a `redis-server` or `valkey-server` that is new enough.
//!
//! Invariant: a found program is an executable file. It reports a version that schedd supports.

use std::env;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use tokio::process::Command;

use super::PrivateServerError;
use super::rights::spawn_without_rights;

/// The directories searched for server programs, in order.
#[derive(Debug, Clone)]
pub struct ProgramSearch {
    dirs: Vec<PathBuf>,
}

struct Kind {
    name: &'static str,
    oldest: (u32, u32),
    oldest_text: &'static str,
}

const KINDS: [Kind; 2] = [
    Kind { name: "redis-server", oldest: (7, 0), oldest_text: "7.0" },
    Kind { name: "valkey-server", oldest: (7, 2), oldest_text: "7.2" },
];

impl ProgramSearch {
    /// Returns a search of `$PATH` and then of the directories where packages put servers. A user's
    /// `$PATH` may lack these directories.
    pub fn from_env() -> Self {
        let path = env::var_os("PATH").unwrap_or_default();
        let usual = ["/usr/bin", "/usr/local/bin", "/usr/sbin"].map(PathBuf::from);
        Self {
            dirs: env::split_paths(&path).filter(|dir| dir.is_absolute()).chain(usual).collect(),
        }
    }

    /// Returns a search of the directories `dirs` only.
    pub fn only_in(dirs: Vec<PathBuf>) -> Self {
        Self { dirs }
    }

    /// Returns the path of the first usable server program. If there is no usable program, the
    /// error describes the first unusable program found.
    pub(super) async fn find(&self) -> Result<PathBuf, PrivateServerError> {
        let mut first_refusal = None;
        for dir in &self.dirs {
            for kind in &KINDS {
                let program = dir.join(kind.name);
                if !is_executable(&program) {
                    continue;
                }
                match check_version(&program, kind).await {
                    Ok(()) => return Ok(program),
                    Err(refusal) => {
                        first_refusal.get_or_insert(refusal);
                    }
                }
            }
        }
        Err(first_refusal.unwrap_or(PrivateServerError::NoProgram))
    }
}

fn is_executable(program: &Path) -> bool {
    program.metadata().is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

async fn check_version(program: &Path, kind: &Kind) -> Result<(), PrivateServerError> {
    const PATIENCE: Duration = Duration::from_secs(10);
    let mut asking = Command::new(program);
    asking
        .arg("--version")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .kill_on_drop(true);
    let answer = async { spawn_without_rights(&mut asking)?.wait_with_output().await };
    let said = match tokio::time::timeout(PATIENCE, answer).await {
        Ok(Ok(output)) => String::from_utf8_lossy(&output.stdout).into_owned(),
        Ok(Err(error)) => error.to_string(),
        Err(_elapsed) => "nothing".to_owned(),
    };
    let first_line = said.lines().next().unwrap_or_default();
    match version_in(first_line) {
        Some((numbers, _)) if numbers >= kind.oldest => Ok(()),
        Some((_, found)) => Err(PrivateServerError::TooOld {
            program: program.to_owned(),
            found: found.to_owned(),
            wanted: kind.oldest_text,
        }),
        None => Err(PrivateServerError::NoVersion {
            program: program.to_owned(),
            found: first_line.chars().filter(|c| !c.is_control()).take(80).collect(),
        }),
    }
}

/// Returns the version number and its text from a line such as `Redis server v=7.0.15
/// sha=00000000:0 malloc=...`.
fn version_in(line: &str) -> Option<((u32, u32), &str)> {
    let version = line.split_whitespace().find_map(|word| word.strip_prefix("v="))?;
    let mut parts = version.split('.');
    let numbers = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
    Some((numbers, version))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_read_from_what_servers_print() {
        assert_eq!(
            version_in("Redis server v=7.0.15 sha=00000000:0 malloc=jemalloc-5.3.0"),
            Some(((7, 0), "7.0.15"))
        );
        assert_eq!(version_in("Valkey server v=8.1.0 sha=0:0"), Some(((8, 1), "8.1.0")));
        for line in ["", "Redis server version 2.4", "v=", "v=seven.1", "Redis server v=7"] {
            assert_eq!(version_in(line), None, "{line:?}");
        }
    }
}
