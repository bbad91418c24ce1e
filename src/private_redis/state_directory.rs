//! The state directory: its creation, its access mode, and its lock for one daemon at a time.
//!
//! Invariant: the directory has exactly the mode of its [`Access`], whatever the caller's umask.
//! The owner of a [`DirectoryLock`] is the only daemon on the directory. The kernel releases the
//! lock with the process, so a lock is never stale.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::private_redis_error::io_error;
use super::{PrivateServerError, server_places};
use schedd_core::files;

const LOCK_FILE: &str = "schedd.lock";
const GROUP: &str = "schedd";

/// The users who may reach the private server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Only the user who runs the daemon: the directory has mode 0700, the socket has mode 0600.
    User,
    /// The user and the group `schedd`: the directory has mode 0750, the socket has mode 0660.
    /// Members of the group can run commands as the daemon's user.
    Group,
}

impl Access {
    /// Returns `Group` under a systemd unit on a host with a group `schedd`, and `User`
    /// otherwise. A systemd unit sets `$STATE_DIRECTORY`.
    pub fn from_env() -> Self {
        if server_places::unit_directory().is_some() && schedd_group().is_some() {
            Self::Group
        } else {
            Self::User
        }
    }

    fn dir_mode(self) -> u32 {
        match self {
            Self::User => 0o700,
            Self::Group => 0o750,
        }
    }

    /// Returns the mode of the socket as text for the Redis setting `unixsocketperm`, such as
    /// `600`.
    pub(super) fn socket_mode(self) -> &'static str {
        match self {
            Self::User => "600",
            Self::Group => "660",
        }
    }

    /// Gives the file `path` to the group `schedd` if this access is `Group` and the host has that
    /// group.
    pub(super) fn hand_over(self, path: &Path) -> Result<(), PrivateServerError> {
        let (Self::Group, Some(gid)) = (self, schedd_group()) else { return Ok(()) };
        let found = path.metadata().map_err(io_error("read the attributes of", path))?.gid();
        if found == gid {
            return Ok(());
        }
        std::os::unix::fs::chown(path, None, Some(gid))
            .map_err(io_error("give the group schedd access to", path))
    }

    /// Creates the directory `path`, or accepts an existing directory, and sets the mode of the
    /// directory.
    pub(super) fn make_dir(self, path: &Path) -> Result<(), PrivateServerError> {
        make_missing(path, self.dir_mode())?;
        let found =
            path.metadata().map_err(io_error("read the attributes of", path))?.mode() & 0o7777;
        if found != self.dir_mode() {
            set_mode(path, self.dir_mode())?;
        }
        self.hand_over(path)
    }
}

/// Returns the number of the group `schedd` from group(5). Returns `None` if the host has no such
/// group.
fn schedd_group() -> Option<u32> {
    let groups = fs::read("/etc/group").ok()?;
    group_number(&String::from_utf8_lossy(&groups), GROUP)
}

fn group_number(groups: &str, name: &str) -> Option<u32> {
    groups.lines().find_map(|line| {
        let mut fields = line.split(':');
        (fields.next()? == name).then_some(())?;
        fields.nth(1)?.parse().ok()
    })
}

/// Creates the state directory `dir` with its parents and returns its canonical path.
pub(super) fn prepare(dir: &Path, access: Access) -> Result<PathBuf, PrivateServerError> {
    let dir = std::path::absolute(dir).map_err(io_error("find", dir))?;
    let missing: Vec<&Path> =
        dir.ancestors().skip(1).take_while(|parent| !parent.exists()).collect();
    let parent_mode = match access {
        Access::User => 0o700,
        Access::Group => 0o755,
    };
    for parent in missing.into_iter().rev() {
        make_missing(parent, parent_mode)?;
    }
    make_missing(&dir, access.dir_mode())?;
    // A user who can write to the directory can add jobs to the data, and this process would run
    // these jobs.
    if let Some(doubt) =
        files::doubt_of_data(&dir).map_err(io_error("read the attributes of", &dir))?
    {
        return Err(PrivateServerError::Untrusted { doubt });
    }
    access.make_dir(&dir)?;
    dir.canonicalize().map_err(io_error("find", &dir))
}

fn make_missing(path: &Path, mode: u32) -> Result<(), PrivateServerError> {
    match DirBuilder::new().mode(mode).create(path) {
        // The umask may have removed bits that even the owner needs.
        Ok(()) => set_mode(path, mode),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => Ok(()),
        Err(error) => Err(io_error("make directory", path)(error)),
    }
}

pub(super) fn set_mode(path: &Path, mode: u32) -> Result<(), PrivateServerError> {
    fs::set_permissions(path, Permissions::from_mode(mode))
        .map_err(io_error("set the mode of", path))
}

/// The right to be the only daemon of a state directory. Dropping this value gives up the right.
/// The lock file contains the pid and host name of its owner.
#[derive(Debug)]
pub(super) struct DirectoryLock {
    _file: File,
}

impl DirectoryLock {
    /// Takes the lock of the state directory `dir`. The error names the owner of the lock.
    pub(super) async fn take(dir: &Path) -> Result<Self, PrivateServerError> {
        const TRIES: u32 = 10;
        const PAUSE: Duration = Duration::from_millis(20);
        let path = dir.join(LOCK_FILE);
        let mut file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path)
            .map_err(io_error("open", &path))?;
        set_mode(&path, 0o600)?;
        for _ in 0..TRIES {
            match file.try_lock() {
                Ok(()) => {
                    write_holder(&mut file).map_err(io_error("write", &path))?;
                    return Ok(Self { _file: file });
                }
                // An owner that is about to end, or has not yet written its pid, needs only
                // milliseconds.
                Err(TryLockError::WouldBlock) => tokio::time::sleep(PAUSE).await,
                Err(TryLockError::Error(error)) => return Err(io_error("lock", &path)(error)),
            }
        }
        Err(PrivateServerError::InUse { dir: dir.to_owned(), holder: read_holder(&path) })
    }
}

fn write_holder(file: &mut File) -> io::Result<()> {
    let host = rustix::system::uname();
    file.set_len(0)?;
    writeln!(file, "{}\n{}", std::process::id(), host.nodename().to_string_lossy())
}

fn read_holder(path: &Path) -> String {
    let text = fs::read_to_string(path).unwrap_or_default();
    match text.lines().next().and_then(|line| line.parse::<u32>().ok()) {
        Some(pid) => format!("pid {pid}"),
        None => "(pid unknown)".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_is_found_by_its_whole_name() {
        let groups = "root:x:0:\nschedd2:x:7:\nschedd:x:998:anna,bob\n";
        assert_eq!(group_number(groups, "schedd"), Some(998));
        assert_eq!(group_number("schedd:x\n", "schedd"), None);
        assert_eq!(group_number("root:x:0:\n", "schedd"), None);
    }
}
