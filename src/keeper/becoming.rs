//! What a child does to itself between fork and exec, and which step of it failed.
//!
//! Invariant: everything is made ready before the fork; here are system calls only, none of which allocates or locks. The first
//! that fails is the end of the start: no job runs in a place, or as somebody, it was not to.

use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt;

use rustix::fs::Mode;
use rustix::io::Errno;
use rustix::process::{Gid, Pid, Resource, Rlimit, Signal, Uid};
use rustix::thread::{CapabilitySet, CapabilitySets};

use super::wire::{Launch, Owner};

/// Which step of a start failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// The fork, the session or the exec itself.
    Exec,
    /// Moving into its cgroup.
    Cgroup,
    /// Taking its limit of open files.
    Files,
    /// Becoming its user, by this system call.
    User(&'static str),
    /// Entering its directory.
    Directory,
}

const STEPS: [Step; 11] = [
    Step::Exec,
    Step::Cgroup,
    Step::Files,
    Step::User("fchmod"),
    Step::User("setgroups"),
    Step::User("setresgid"),
    Step::User("setresuid"),
    Step::User("capset"),
    Step::User("setuid"),
    Step::User("prctl"),
    Step::Directory,
];
/// All that the standard library carries from the child to its parent is a number: the errno, and above these bits the step.
const ERRNO_BITS: u32 = 16;

impl Step {
    /// The error that says this step failed so.
    fn failed(self, errno: Errno) -> io::Error {
        let step = STEPS.iter().position(|step| *step == self).and_then(|at| i32::try_from(at).ok()).unwrap_or(0);
        io::Error::from_raw_os_error(step << ERRNO_BITS | errno.raw_os_error())
    }

    /// The step an error of a start names, and the error itself.
    pub(super) fn of(error: io::Error) -> (Self, io::Error) {
        let raw = error.raw_os_error().unwrap_or(0);
        let step = usize::try_from(raw >> ERRNO_BITS).ok().and_then(|at| STEPS.get(at)).copied();
        match step {
            Some(step) if step != Self::Exec => (step, io::Error::from_raw_os_error(raw & ((1 << ERRNO_BITS) - 1))),
            _ => (Self::Exec, error),
        }
    }
}

/// What a child is to become, beside its program.
#[derive(Debug)]
pub(super) struct Becoming {
    keeper: Pid,
    cwd: CString,
    umask: Option<Mode>,
    /// Where it moves itself into its cgroup.
    door: Option<File>,
    files: Option<Rlimit>,
    nice: Option<i32>,
    user: Option<Become>,
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
    fn enter(&self) -> io::Result<()> {
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
        // More than this process may have open is more than it may allow; less is all the same "at most".
        let most = rustix::process::getrlimit(Resource::Nofile).maximum.unwrap_or(u64::MAX);
        let files = launch.limits.files.map(|files| Some(files.min(most)));
        Ok(Self {
            keeper: rustix::process::getpid(),
            cwd: CString::new(launch.cwd.as_os_str().as_bytes())?,
            umask: launch.umask.map(|bits| Mode::from_raw_mode(bits.into())),
            door,
            files: files.map(|files| Rlimit { current: files, maximum: files }),
            nice: launch.limits.nice.map(i32::from),
            user: launch.owner.as_ref().map(Become::new),
        })
    }

    /// Makes the calling process ready for its exec. For a child just forked.
    pub(super) fn prepare(&self) -> io::Result<()> {
        rustix::process::setsid()?;
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
        rustix::process::setrlimit(Resource::Core, core)?;
        if let Some(user) = &self.user {
            user.enter()?;
        }
        // Only now: a change of users takes it back.
        rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
        if rustix::process::getppid() != Some(self.keeper) {
            // The keeper died before the death signal was set: nobody would ever stop this child.
            return Err(Errno::SRCH.into());
        }
        if let Some(umask) = self.umask {
            rustix::process::umask(umask);
        }
        rustix::process::chdir(&self.cwd).map_err(|errno| Step::Directory.failed(errno))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_and_its_errno_go_through_one_number() {
        let (step, error) = Step::of(io::Error::from_raw_os_error(Step::Directory.failed(Errno::ACCESS).raw_os_error().unwrap()));
        assert_eq!((step, error.raw_os_error()), (Step::Directory, Some(Errno::ACCESS.raw_os_error())));
        for step in STEPS {
            assert_eq!(Step::of(step.failed(Errno::PERM)).0, step);
        }
        let (step, error) = Step::of(Errno::NOENT.into());
        assert_eq!((step, error.kind()), (Step::Exec, io::ErrorKind::NotFound));
        assert_eq!(Step::of(io::Error::other("x")).0, Step::Exec);
    }
}
