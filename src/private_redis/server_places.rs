//! The location of the state directory, and the places where a client searches for a private
//! server.
//!
//! Invariant: this module creates and changes nothing. Its answers depend on the environment and on
//! existing files.

use std::env;
use std::path::{Path, PathBuf};

use super::PrivateServerError;

const SYSTEM_DIR: &str = "/var/lib/schedd";

/// Returns the state directory of this daemon. The directory is `$STATE_DIRECTORY`
/// (systemd.exec(5)), else `$XDG_STATE_HOME/schedd`, else `~/.local/state/schedd`. For root without
/// HOME, the directory is `/var/lib/schedd`. The directory need not exist. Fails if the environment
/// names no such directory.
pub fn state_dir() -> Result<PathBuf, PrivateServerError> {
    Places::from_env().own().ok_or(PrivateServerError::NoStateDirectory)
}

/// Returns the state directories in which a client searches for a private server, in order.
pub(super) fn all_dirs() -> Vec<PathBuf> {
    Places::from_env().all()
}

/// Returns true if only `HOME` or `XDG_STATE_HOME` names the state directory `dir`. Then `dir` is
/// neither the directory of the systemd unit nor that of the system.
pub(super) fn is_of_user(dir: &Path) -> bool {
    dir != Path::new(SYSTEM_DIR) && unit_directory().as_deref() != Some(dir)
}

/// The values of the environment variables that name directories for state.
#[derive(Debug, Default)]
struct Places {
    state_directory: Option<PathBuf>,
    xdg_state_home: Option<PathBuf>,
    home: Option<PathBuf>,
    is_root: bool,
}

impl Places {
    fn from_env() -> Self {
        Self {
            state_directory: unit_directory(),
            xdg_state_home: absolute("XDG_STATE_HOME"),
            home: absolute("HOME"),
            is_root: rustix::process::geteuid().is_root(),
        }
    }

    fn of_user(&self) -> Option<PathBuf> {
        let xdg = self.xdg_state_home.clone();
        xdg.or_else(|| Some(self.home.as_ref()?.join(".local/state"))).map(|dir| dir.join("schedd"))
    }

    fn own(&self) -> Option<PathBuf> {
        let named = self.state_directory.clone().or_else(|| self.of_user());
        named.or_else(|| self.is_root.then(|| PathBuf::from(SYSTEM_DIR)))
    }

    fn all(&self) -> Vec<PathBuf> {
        let mut all: Vec<PathBuf> = Vec::new();
        for dir in [self.state_directory.clone(), self.of_user(), Some(PathBuf::from(SYSTEM_DIR))]
            .into_iter()
            .flatten()
        {
            if !all.contains(&dir) {
                all.push(dir);
            }
        }
        all
    }
}

/// Returns the first directory of `$STATE_DIRECTORY`, a colon-separated list set by systemd.
/// Returns `None` if the variable is not set or its first directory is not absolute.
pub(super) fn unit_directory() -> Option<PathBuf> {
    env::split_paths(&env::var_os("STATE_DIRECTORY")?).next().filter(|dir| dir.is_absolute())
}

/// Returns the value of the environment variable `variable` if it is an absolute path. The XDG Base
/// Directory Specification requires that relative paths are ignored.
pub(super) fn absolute(variable: &str) -> Option<PathBuf> {
    env::var_os(variable).map(PathBuf::from).filter(|dir| dir.is_absolute())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dir(path: &str) -> PathBuf {
        PathBuf::from(path)
    }

    #[test]
    fn the_nearest_place_is_the_daemons_own() {
        let mut places = Places {
            state_directory: Some(dir("/s")),
            xdg_state_home: Some(dir("/x")),
            home: Some(dir("/h")),
            is_root: true,
        };
        assert_eq!(places.own(), Some(dir("/s")));
        places.state_directory = None;
        assert_eq!(places.own(), Some(dir("/x/schedd")));
        places.xdg_state_home = None;
        assert_eq!(places.own(), Some(dir("/h/.local/state/schedd")));
        places.home = None;
        assert_eq!(places.own(), Some(dir("/var/lib/schedd")));
        places.is_root = false;
        assert_eq!(places.own(), None);
    }

    #[test]
    fn a_client_looks_everywhere_once() {
        let places = Places {
            state_directory: Some(dir("/var/lib/schedd")),
            home: Some(dir("/h")),
            ..Places::default()
        };
        assert_eq!(places.all(), [dir("/var/lib/schedd"), dir("/h/.local/state/schedd")]);
    }
}
