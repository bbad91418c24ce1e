//! The cgroup that the service manager delegated to this node (`Delegate=yes`), and the cgroups of
//! the node's runs in it.
//!
//! This module makes two children of the cgroup in which the process was started. `daemon` contains
//! this process and its children, because a cgroup that passes on controllers must not contain
//! processes. `runs-INCARNATION` contains one cgroup for each run. A living node locks its
//! `runs-INCARNATION`. A directory without a lock belongs to a dead node. The next start of a node
//! kills the processes in that directory and removes the directory.
//!
//! Invariant: a cgroup is changed only if systemd marked it as delegated (`user.delegate`).
//!
//! Killing the processes of a dead node does not make its runs free earlier. Only the dead node's
//! keeper may write the `ended` mark, because only that keeper knows that no run was started
//! outside a cgroup.

use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::FlockOperation;

use super::cgroup::Cgroup;
use schedd_core::domain::job::process_limits::{LimitKind, listed};

/// The longest wait until the processes that a dead node left have died.
const PATIENCE: Duration = Duration::from_secs(10);
const RUNS: &str = "runs-";
/// The name of the child cgroup that contains the node and its keeper.
const SEAT: &str = "daemon";

/// A cgroup delegated to this node, and the limits it can enforce.
#[derive(Debug)]
pub struct Delegation {
    base: Cgroup,
    runs: Cgroup,
    limits: BTreeSet<LimitKind>,
    /// The lock on the directory `runs-INCARNATION`. It shows other nodes that this node lives.
    _lock: File,
}

/// The reason why runs on this node do not get their own cgroups.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotDelegated {
    /// This host has no cgroup hierarchy of version 2, or this process is not in that hierarchy.
    #[error("this host has no version 2 cgroups")]
    None,
    /// The service manager did not delegate the cgroup to this node.
    #[error("the cgroup {0} is not delegated to schedd, wanted Delegate=yes in the systemd unit")]
    Unmarked(String),
    /// The search for the cgroup itself failed.
    #[error("the search for cgroups failed: {0}")]
    Failed(String),
    /// The cgroup is delegated, but an operation on it failed.
    #[error("the cgroup {path} of schedd cannot be used: {why}")]
    Unusable {
        /// The directory of the cgroup.
        path: String,
        /// The error of the system.
        why: String,
    },
}

impl Delegation {
    /// Takes over the delegated cgroup for the runs of `incarnation`.
    ///
    /// Moves the calling process into `daemon`, kills the processes of dead nodes, removes their
    /// cgroups, and makes the cgroup for runs. Must be called before any child is started. Blocks
    /// for some seconds at most.
    pub fn take(incarnation: &str) -> Result<Self, NotDelegated> {
        let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        let own = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        let dir = own_directory(&mounts, &own).ok_or(NotDelegated::None)?;
        let path = dir.display().to_string();
        if !is_marked(&dir) {
            return Err(NotDelegated::Unmarked(path));
        }
        Self::of(Cgroup::at(dir), incarnation)
            .map_err(|error| NotDelegated::Unusable { path, why: error.to_string() })
    }

    fn of(base: Cgroup, incarnation: &str) -> io::Result<Self> {
        match base.make(SEAT) {
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
        Cgroup::at(base.dir().join(SEAT)).write("cgroup.procs", &std::process::id().to_string())?;
        clear_up_after_the_dead(&base);
        hand_on_controllers(&base);
        let runs = base.make(&format!("{RUNS}{incarnation}"))?;
        let lock = File::open(runs.dir())?;
        rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive)?;
        let limits = hand_on_controllers(&runs);
        Ok(Self { base, runs, limits, _lock: lock })
    }

    /// Returns the limits that this cgroup can enforce.
    pub fn limits(&self) -> &BTreeSet<LimitKind> {
        &self.limits
    }

    /// Returns the reason why some limits cannot be enforced. Returns `None` if all limits can be
    /// enforced.
    pub fn lacks(&self) -> Option<String> {
        let lacking: BTreeSet<LimitKind> = LimitKind::ALL
            .into_iter()
            .filter(|kind| kind.controller().is_some() && !self.limits.contains(kind))
            .collect();
        let why = || {
            format!(
                "the cgroup {} of schedd lacks the controllers for {}",
                self.base.dir().display(),
                listed(&lacking)
            )
        };
        (!lacking.is_empty()).then(why)
    }

    /// Returns the cgroup `runs-INCARNATION`, which contains one cgroup for each run.
    pub(crate) fn runs(&self) -> &Cgroup {
        &self.runs
    }
}

/// Returns the cgroup `daemon` of the node itself, which has the same parent as `runs`.
pub(crate) fn seat_beside(runs: &Cgroup) -> Option<Cgroup> {
    Some(Cgroup::at(runs.dir().parent()?.join(SEAT)))
}

impl Drop for Delegation {
    fn drop(&mut self) {
        // The removal fails if a process is still alive in the cgroup. The next start kills that
        // process.
        let _ = self.runs.remove();
    }
}

/// Enables controllers for the children of `cgroup`. Returns the limits that the enabled
/// controllers can enforce.
fn hand_on_controllers(cgroup: &Cgroup) -> BTreeSet<LimitKind> {
    let handed_on = |kind: &LimitKind| {
        kind.controller().is_some_and(|controller| {
            cgroup.write("cgroup.subtree_control", &format!("+{controller}")).is_ok()
        })
    };
    // No limit needs this controller, but it counts the bytes that runs read and write.
    let _ = cgroup.write("cgroup.subtree_control", "+io");
    LimitKind::ALL.into_iter().filter(handed_on).collect()
}

/// Kills the processes that dead nodes left behind, and removes the cgroups of these nodes.
fn clear_up_after_the_dead(base: &Cgroup) {
    for runs in base.children() {
        let is_runs =
            runs.dir().file_name().is_some_and(|name| name.to_string_lossy().starts_with(RUNS));
        let Some(lock) = File::open(runs.dir()).ok().filter(|_| is_runs) else { continue };
        if rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive).is_err() {
            continue;
        }
        let count = runs.pids().len();
        if count > 0 {
            tracing::warn!(cgroup = %runs.dir().display(), processes = count, "A dead schedd left job processes behind. This schedd kills them.");
        }
        if !runs.clear(PATIENCE) {
            tracing::error!(cgroup = %runs.dir().display(), "Some job processes of a dead schedd could not be killed.");
        }
        runs.remove();
    }
}

/// Returns the directory of this process' cgroup of version 2, from `/proc/self/mountinfo` and
/// `/proc/self/cgroup`.
fn own_directory(mounts: &str, own: &str) -> Option<PathBuf> {
    let own = Path::new(own.lines().find_map(|line| line.strip_prefix("0::"))?);
    mounts.lines().find_map(|line| {
        let (place, kind) = line.split_once(" - ")?;
        let mut fields = place.split(' ').skip(3);
        let (root, mount) = (fields.next()?, fields.next()?);
        kind.starts_with("cgroup2 ")
            .then(|| Some(Path::new(mount).join(own.strip_prefix(root).ok()?)))?
    })
}

/// Returns true if the service manager marked the cgroup as delegated.
fn is_marked(dir: &Path) -> bool {
    // An old service manager sets `trusted.delegate`, which only root can read.
    ["user.delegate", "trusted.delegate"].into_iter().any(|name| {
        let mut value = [0_u8; 8];
        rustix::fs::getxattr(dir, name, &mut value)
            .is_ok_and(|length| value.get(..length) == Some(b"1"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cgroup_of_version_2_is_found_where_it_is_mounted() {
        let hybrid = "41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n\
                      32 31 0:29 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu\n";
        let found = |mounts, own| own_directory(mounts, own).map(|dir| dir.display().to_string());
        let own = "9:name=systemd:/x\n0::/system.slice/schedd.service\n";
        assert_eq!(
            found(hybrid, own).as_deref(),
            Some("/sys/fs/cgroup/unified/system.slice/schedd.service")
        );
        let bound = "30 23 0:26 /box /sys/fs/cgroup rw - cgroup2 cgroup rw\n";
        assert_eq!(found(bound, "0::/box/a\n").as_deref(), Some("/sys/fs/cgroup/a"));
        assert_eq!(found(bound, "0::/else\n"), None);
        assert_eq!(found("", own), None);
        assert_eq!(found(hybrid, "9:name=systemd:/x\n"), None);
    }

    #[test]
    fn what_is_not_marked_is_not_touched() {
        assert!(!is_marked(Path::new("/")) && !is_marked(Path::new("/no/such/cgroup")));
    }
}
