//! The steps that a child process takes itself between fork and exec.
//!
//! Invariant: everything is prepared before the fork. The code here only makes system calls, and
//! neither allocates nor locks. The first step that fails ends the start, so no job runs in a wrong
//! place or as a wrong user.

use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use rustix::fs::Mode;
use rustix::io::Errno;
use rustix::process::{Gid, Pid, Resource, Rlimit, Signal, Uid};
use rustix::thread::{CapabilitySet, CapabilitySets};

use super::start_progress::{StartFailure, StartStep};
use crate::protocol::keeper_messages::{LaunchOrder, Owner};
use schedd_core::domain::job::process_limits::Limits;

/// The setup of a child process before it executes its program: cgroup, limits, user, directory.
#[derive(Debug)]
pub(crate) struct ChildSetup {
    keeper: Pid,
    cwd: CString,
    cwd_else: Option<CString>,
    umask: Option<Mode>,
    /// The file through which the child moves itself into its cgroup.
    door: Option<File>,
    files: Option<Rlimit>,
    nice: Option<i32>,
    user: Option<Become>,
    is_plain: bool,
}

/// The directory that a child process entered: the wanted directory or its replacement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Entered {
    /// The child entered the directory `cwd` of the job.
    Wanted,
    /// The child entered the alternative directory `cwd_else`, because `cwd` is missing.
    Other,
}

/// A user that a child becomes: its ids in the types of the system calls.
#[derive(Debug)]
struct Become {
    uid: Uid,
    gid: Gid,
    groups: Vec<Gid>,
}

impl Become {
    fn new(owner: &Owner) -> Self {
        let Owner { uid, gid, groups } = owner;
        let groups = groups.iter().copied().map(Gid::from_raw).collect();
        Self { uid: Uid::from_raw(*uid), gid: Gid::from_raw(*gid), groups }
    }

    /// Makes the calling process run as this user, without a way back to the old user.
    ///
    /// Groups are set first, because a user without rights cannot change them. Capabilities that
    /// survive a change of users are dropped. An attempt to become root again must fail.
    fn enter(&self) -> Result<(), StartFailure> {
        let by = |call| move |errno| StartStep::User(call).failed(errno);
        // The job's user does not own the output, but the job may open its output again
        // (`/dev/stderr`).
        for output in [rustix::stdio::stdout(), rustix::stdio::stderr()] {
            rustix::fs::fchmod(output, Mode::from_raw_mode(0o666)).map_err(by("fchmod"))?;
        }
        rustix::thread::set_thread_groups(&self.groups).map_err(by("setgroups"))?;
        rustix::thread::set_thread_res_gid(self.gid, self.gid, self.gid)
            .map_err(by("setresgid"))?;
        rustix::thread::set_thread_res_uid(self.uid, self.uid, self.uid)
            .map_err(by("setresuid"))?;
        let none = CapabilitySet::empty();
        let none = CapabilitySets { effective: none, permitted: none, inheritable: none };
        rustix::thread::set_capabilities(None, none).map_err(by("capset"))?;
        if self.uid.is_root() || rustix::thread::set_thread_uid(Uid::ROOT).is_ok() {
            return Err(by("setuid")(Errno::PERM));
        }
        rustix::thread::set_no_new_privs(true).map_err(by("prctl"))
    }
}

impl ChildSetup {
    /// Prepares the setup that `launch` describes, for a child forked later. `door` is the file
    /// through which the child enters its cgroup.
    ///
    /// Fails if a directory's name contains a zero byte.
    pub(crate) fn new(launch: &LaunchOrder, door: Option<File>) -> io::Result<Self> {
        let named = |directory: &PathBuf| CString::new(directory.as_os_str().as_bytes());
        // A process cannot allow more open files than it has itself. A lower limit also fulfils "at
        // most".
        let most = rustix::process::getrlimit(Resource::Nofile).maximum.unwrap_or(u64::MAX);
        let files = launch.limits.files.map(|files| Some(files.min(most)));
        Ok(Self {
            keeper: rustix::process::getpid(),
            cwd: named(&launch.cwd)?,
            cwd_else: launch.cwd_else.as_ref().map(named).transpose()?,
            umask: launch.umask.map(|bits| Mode::from_raw_mode(bits.into())),
            door,
            files: files.map(|files| Rlimit { current: files, maximum: files }),
            nice: launch.limits.nice.map(i32::from),
            user: launch.owner.as_ref().map(Become::new),
            is_plain: launch.owner.is_none() && launch.limits == Limits::default(),
        })
    }

    /// Returns true if the child may use the memory of the keeper: it has neither its own user nor
    /// limits. For any other child, the kernel may restrict or kill every process that uses its
    /// memory.
    pub(crate) fn may_share_memory(&self) -> bool {
        self.is_plain
    }

    /// Applies the setup to the calling process, except the directory. Never waits. Only a child
    /// just forked may call this function.
    pub(crate) fn prepare(&self) -> Result<(), StartFailure> {
        let exec = |errno| StartStep::Exec.failed(errno);
        rustix::process::setsid().map_err(exec)?;
        if let Some(door) = &self.door {
            rustix::io::write(door, b"0").map_err(|errno| StartStep::Cgroup.failed(errno))?;
        }
        if let Some(files) = self.files {
            rustix::process::setrlimit(Resource::Nofile, files)
                .map_err(|errno| StartStep::Files.failed(errno))?;
        }
        if let Some(nice) = self.nice {
            // The kernel refuses this only if the node already has a lower priority.
            let _ = rustix::process::setpriority_process(None, nice);
        }
        // The node's capability to become other users must not pass to its jobs. Systems without an
        // ambient set have nothing to drop.
        let _ = rustix::thread::clear_ambient_capability_set();
        // No core files are written unless the job raises the limit itself, as under systemd.
        let core = Rlimit { current: Some(0), ..rustix::process::getrlimit(Resource::Core) };
        rustix::process::setrlimit(Resource::Core, core).map_err(exec)?;
        if let Some(user) = &self.user {
            user.enter()?;
        }
        // Set only now, because a change of users clears the death signal.
        rustix::process::set_parent_process_death_signal(Some(Signal::KILL)).map_err(exec)?;
        if rustix::process::getppid() != Some(self.keeper) {
            // The keeper died before the death signal was set. Nothing would ever stop this child,
            // so the start fails.
            return Err(exec(Errno::SRCH));
        }
        if let Some(umask) = self.umask {
            rustix::process::umask(umask);
        }
        Ok(())
    }

    /// Enters the job's directory, with the rights of the job's user. Enters the alternative
    /// directory only if the wanted directory is missing. May wait for a file system without limit.
    pub(crate) fn enter_directory(&self) -> Result<Entered, StartFailure> {
        let entered = match (rustix::process::chdir(&self.cwd), &self.cwd_else) {
            (Ok(()), _) => Ok(Entered::Wanted),
            (Err(errno @ (Errno::NOENT | Errno::NOTDIR)), Some(other)) => {
                rustix::process::chdir(other).map(|()| Entered::Other).map_err(|_| errno)
            }
            (Err(errno), _) => Err(errno),
        };
        entered.map_err(|errno| StartStep::Directory.failed(errno))
    }
}
