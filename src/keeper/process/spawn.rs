//! The start of a job's process. Only this file and `awaited` have unsafe code.
//!
//! Invariant: the child leads its own session, dies with the keeper, and has default signal
//! dispositions and an empty mask. The child has only its three standard descriptors. The child
//! becomes exactly the named program, or reports why it does not.
//!
//! The child itself does everything that may wait for a file system, after the fork. By then the
//! child has closed everything that belongs to the keeper. So the keeper never waits, and a child
//! that hangs blocks nothing but itself.
#![allow(unsafe_code)]

use std::convert::Infallible;
use std::ffi::{CStr, CString, c_char};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::Pid;
use rustix::time::Timespec;

use super::child_setup::ChildSetup;
use super::program_file::Candidates;
use super::start_progress::{ProgressWriter, StartFailure, StartStep};

/// The waits between attempts to execute a file that is open for writing.
const TEXT_BUSY_WAITS: [Duration; 3] =
    [Duration::from_millis(10), Duration::from_millis(50), Duration::from_millis(250)];

/// The arguments and environment of the child: strings, and the null-terminated arrays of pointers
/// to them that `execve(2)` takes.
pub(crate) struct Image {
    argv: Vec<*const c_char>,
    envp: Vec<*const c_char>,
    _strings: Vec<CString>,
}

impl Image {
    /// Builds the argument vector and the environment (`NAME=value`). Fails if a string contains a
    /// zero byte.
    pub(crate) fn new(argv: &[String], env: impl Iterator<Item = String>) -> io::Result<Self> {
        let words = argv.iter().cloned().map(CString::new).collect::<Result<Vec<_>, _>>()?;
        let variables = env.map(CString::new).collect::<Result<Vec<_>, _>>()?;
        let pointers = |strings: &[CString]| {
            strings.iter().map(|s| s.as_ptr()).chain([std::ptr::null()]).collect()
        };
        let (argv, envp) = (pointers(&words), pointers(&variables));
        Ok(Self { argv, envp, _strings: words.into_iter().chain(variables).collect() })
    }

    /// Replaces the calling process by `program`. Returns the error if that fails. Safe between
    /// fork and exec: the function neither allocates nor locks.
    fn execute(&self, program: &CStr) -> Errno {
        // This calls `execve(2)` itself. The standard library's `execvp` gives a file that the
        // kernel cannot execute to `/bin/sh`. So a program of another architecture would be read as
        // a script.
        //
        // SAFETY: a system call on null-terminated arrays of C strings owned by `self`; `program`
        // is owned by the caller.
        unsafe { libc::execve(program.as_ptr(), self.argv.as_ptr(), self.envp.as_ptr()) };
        Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::IO)
    }
}

/// The parts that a child needs for its start, made ready before the fork.
pub(crate) struct SpawnPlan {
    pub(crate) image: Image,
    pub(crate) program: Candidates,
    pub(crate) becoming: ChildSetup,
    pub(crate) stdin: OwnedFd,
    pub(crate) stdout: OwnedFd,
    pub(crate) stderr: OwnedFd,
    pub(crate) teller: ProgressWriter,
}

/// Forks a child that becomes the program of `birth`, and does not wait. The child reports its
/// progress by marks ([`crate::keeper::process::start_progress::StartProgress`]).
///
/// Returns the child and the files that may be its program. The caller must be the only thread of
/// its process and outlive the child, whose death signal is tied to that thread. When the function
/// returns, the child's descriptors are closed in the calling process. Fails as `fork(2)` does.
pub(crate) fn fork_into(birth: SpawnPlan) -> io::Result<(Pid, Candidates)> {
    // SAFETY: the process has one thread, so no other thread has a lock at the fork. The child
    // makes system calls on data prepared before. It ends by becoming the program or by `_exit`, so
    // it runs and drops nothing of the keeper.
    let Some(pid) = (unsafe { fork_unheard() })? else {
        let Err(failure) = birth.begin();
        birth.teller.fail(failure);
        // SAFETY: ends the process without running anything that belongs to the keeper.
        unsafe { libc::_exit(126) }
    };
    Ok((pid, birth.program))
}

/// Forks a child whose signals all stay blocked until [`forget_signals`]. Returns `None` in the
/// child.
///
/// Until then the child has the keeper's handlers. A SIGTERM would reach one of those handlers, and
/// the program would never get the signal. Fails as `fork(2)` does.
///
/// # Safety
///
/// The child must do only what is allowed after a fork, and end by an exec or by `_exit`.
unsafe fn fork_unheard() -> io::Result<Option<Pid>> {
    let (all, mut before, size) = (u64::MAX, 0_u64, size_of::<u64>());
    // SAFETY: two system calls on values that live until the calls return, and a fork whose safety
    // the caller ensures.
    let forked = unsafe {
        libc::syscall(
            libc::SYS_rt_sigprocmask,
            libc::SIG_SETMASK,
            &raw const all,
            &raw mut before,
            size,
        );
        let pid = libc::fork();
        if pid == 0 {
            return Ok(None);
        }
        let forked = Pid::from_raw(pid.max(0)).ok_or_else(io::Error::last_os_error);
        libc::syscall(
            libc::SYS_rt_sigprocmask,
            libc::SIG_SETMASK,
            &raw const before,
            std::ptr::null::<u64>(),
            size,
        );
        forked
    };
    forked.map(Some)
}

impl SpawnPlan {
    /// Executes the program in the child, and returns only if that failed. Only a child just forked
    /// may call this function. The function neither allocates nor locks.
    fn begin(&self) -> Result<Infallible, StartFailure> {
        let exec = |errno| StartStep::Exec.failed(errno);
        forget_signals();
        // The keeper's own three descriptors are open, so none of these has a number below 3.
        rustix::stdio::dup2_stdin(&self.stdin).map_err(exec)?;
        rustix::stdio::dup2_stdout(&self.stdout).map_err(exec)?;
        rustix::stdio::dup2_stderr(&self.stderr).map_err(exec)?;
        self.becoming.prepare()?;
        close_all_but(self.teller.as_fd());
        self.teller.begin(StartStep::Directory, 0);
        let place = self.becoming.enter_directory()?;
        let (number, file) =
            self.program.find(place, |number| self.teller.begin(StartStep::Search, number))?;
        self.teller.begin(StartStep::Exec, number);
        let mut waits = TEXT_BUSY_WAITS.iter();
        loop {
            let errno = self.image.execute(file);
            match waits.next() {
                Some(wait) if errno == Errno::TXTBSY => {
                    let wait = Timespec { tv_sec: 0, tv_nsec: i64::from(wait.subsec_nanos()) };
                    let _ = rustix::thread::nanosleep(&wait);
                }
                _ => return Err(Candidates::why_not(file, errno)),
            }
        }
    }
}

/// Resets all signals of the calling process to their default action and unblocks them.
fn forget_signals() {
    // This calls `sigaction(2)` itself, because the C library hides two signals that a parent may
    // have left ignored.
    //
    // SAFETY: each call only makes a system call on values that live until it returns.
    // `rt_sigaction` gets a number it may refuse, and zeros that are longer than its structure and
    // mean the default. `rt_sigprocmask` gets an empty set.
    unsafe {
        let (none, size) = (std::ptr::null::<u64>(), size_of::<u64>());
        for signal in 1..=64 {
            let default = [0_u64; 8];
            libc::syscall(libc::SYS_rt_sigaction, signal, default.as_ptr(), none, size);
        }
        let empty = 0_u64;
        libc::syscall(libc::SYS_rt_sigprocmask, libc::SIG_SETMASK, &raw const empty, none, size);
    }
}

/// Closes all descriptors above the first three, except `kept`. An old kernel cannot close them in
/// one call. There the exec closes the descriptors that the keeper opened.
fn close_all_but(kept: BorrowedFd<'_>) {
    let kept = u32::try_from(kept.as_raw_fd()).unwrap_or(3);
    for (first, last) in [(3, kept.saturating_sub(1)), (kept.saturating_add(1), u32::MAX)] {
        if first <= last {
            // SAFETY: a system call on numbers. This process is a child between fork and exec,
            // which ends by an exec or by `_exit`. So it never uses the owners of the descriptors
            // again.
            unsafe { libc::syscall(libc::SYS_close_range, first, last, 0_u32) };
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::AtomicBool;

    use rustix::pipe::{PipeFlags, pipe_with};
    use rustix::process::{Signal, WaitId, WaitIdOptions};

    use super::*;

    fn held_back() -> String {
        let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
        status.lines().find(|line| line.starts_with("SigBlk")).unwrap().to_owned()
    }

    #[test]
    fn a_signal_sent_right_after_the_fork_ends_the_child_although_its_parent_catches_it() {
        let before = held_back();
        signal_hook::flag::register(signal_hook::consts::SIGUSR2, Arc::new(AtomicBool::new(false)))
            .unwrap();
        let (wait, go) = pipe_with(PipeFlags::CLOEXEC).unwrap();
        // SAFETY: the child makes system calls only, and ends by `_exit`.
        let Some(child) = (unsafe { fork_unheard() }).unwrap() else {
            // Waits as long as a busy host makes the test wait.
            let _ = rustix::io::read(&wait, &mut [0]);
            forget_signals();
            // SAFETY: ends the process without running anything of the test.
            unsafe { libc::_exit(0) }
        };
        assert_eq!(held_back(), before);
        rustix::process::kill_process(child, Signal::USR2).unwrap();
        rustix::io::write(&go, b"0").unwrap();
        let status =
            rustix::process::waitid(WaitId::Pid(child), WaitIdOptions::EXITED).unwrap().unwrap();
        assert_eq!(status.terminating_signal(), Some(signal_hook::consts::SIGUSR2));
    }
}
