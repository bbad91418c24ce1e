//! What a child does to itself between fork and exec.
//!
//! Invariant: everything is made ready before the fork; here are system calls only, none of which allocates or locks. The first
//! that fails is the end of the start: no job runs in a place, or as somebody, it was not to.

use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use rustix::fs::Mode;
use rustix::io::Errno;
use rustix::process::{Gid, Pid, Resource, Rlimit, Signal, Uid};
use rustix::thread::{CapabilitySet, CapabilitySets};

use super::marks::{Failure, Step};
use super::wire::{Launch, Owner};

/// What a child is to become, beside its program.
#[derive(Debug)]
pub(super) struct Becoming {
    keeper: Pid,
    cwd: CString,
    cwd_else: Option<CString>,
    umask: Option<Mode>,
    /// Where it moves itself into its cgroup.
    door: Option<File>,
    files: Option<Rlimit>,
    nice: Option<i32>,
    user: Option<Become>,
}

/// Which directory it has entered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Entered {
    /// Its own.
    Wanted,
    /// The one for where its own is not there.
    Other,
}

/// A user, as the system calls want it.
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

    /// Becomes it for good. Groups go first, for a user without rights can change none; rights that are kept across a change of
    /// users are given up, and that there is no way back is tried.
    fn enter(&self) -> Result<(), Failure> {
        let by = |call| move |errno| Step::User(call).failed(errno);
        // So that it may open its own output anew (`/dev/stderr`), which it is not the owner of.
        for output in [rustix::stdio::stdout(), rustix::stdio::stderr()] {
            rustix::fs::fchmod(output, Mode::from_raw_mode(0o666)).map_err(by("fchmod"))?;
        }
        rustix::thread::set_thread_groups(&self.groups).map_err(by("setgroups"))?;
        rustix::thread::set_thread_res_gid(self.gid, self.gid, self.gid).map_err(by("setresgid"))?;
        rustix::thread::set_thread_res_uid(self.uid, self.uid, self.uid).map_err(by("setresuid"))?;
        let none = CapabilitySet::empty();
        let none = CapabilitySets { effective: none, permitted: none, inheritable: none };
        rustix::thread::set_capabilities(None, none).map_err(by("capset"))?;
        if self.uid.is_root() || rustix::thread::set_thread_uid(Uid::ROOT).is_ok() {
            return Err(by("setuid")(Errno::PERM));
        }
        rustix::thread::set_no_new_privs(true).map_err(by("prctl"))
    }
}

impl Becoming {
    /// Ready for a fork by the calling process, to become what `launch` says, in the cgroup behind `door`. Fails if its
    /// directory cannot be one.
    pub(super) fn new(launch: &Launch, door: Option<File>) -> io::Result<Self> {
        let named = |directory: &PathBuf| CString::new(directory.as_os_str().as_bytes());
        // More than this process may have open is more than it may allow; less is all the same "at most".
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
        })
    }

    /// Makes the calling process ready for its program but for its directory, waiting for nothing. For a child just forked.
    pub(super) fn prepare(&self) -> Result<(), Failure> {
        let exec = |errno| Step::Exec.failed(errno);
        rustix::process::setsid().map_err(exec)?;
        if let Some(door) = &self.door {
            rustix::io::write(door, b"0").map_err(|errno| Step::Cgroup.failed(errno))?;
        }
        if let Some(files) = self.files {
            rustix::process::setrlimit(Resource::Nofile, files).map_err(|errno| Step::Files.failed(errno))?;
        }
        if let Some(nice) = self.nice {
            // Refused only where this node gives way further already.
            let _ = rustix::process::setpriority_process(None, nice);
        }
        // What this node may to become other users is not its jobs'. Systems without such a set have nothing to give away.
        let _ = rustix::thread::clear_ambient_capability_set();
        // As the service manager has it: no core files unless the job asks for them.
        let core = Rlimit { current: Some(0), ..rustix::process::getrlimit(Resource::Core) };
        rustix::process::setrlimit(Resource::Core, core).map_err(exec)?;
        if let Some(user) = &self.user {
            user.enter()?;
        }
        // Only now: a change of users takes it back.
        rustix::process::set_parent_process_death_signal(Some(Signal::KILL)).map_err(exec)?;
        if rustix::process::getppid() != Some(self.keeper) {
            // The keeper died before the death signal was set: nobody would ever stop this child.
            return Err(exec(Errno::SRCH));
        }
        if let Some(umask) = self.umask {
            rustix::process::umask(umask);
        }
        Ok(())
    }

    /// Enters its directory, as its user; the other one only where there is none. May wait for a file system as long as that
    /// likes.
    pub(super) fn enter_directory(&self) -> Result<Entered, Failure> {
        let entered = match (rustix::process::chdir(&self.cwd), &self.cwd_else) {
            (Ok(()), _) => Ok(Entered::Wanted),
            (Err(errno @ (Errno::NOENT | Errno::NOTDIR)), Some(other)) => {
                rustix::process::chdir(other).map(|()| Entered::Other).map_err(|_| errno)
            }
            (Err(errno), _) => Err(errno),
        };
        entered.map_err(|errno| Step::Directory.failed(errno))
    }
}
