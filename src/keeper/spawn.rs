//! The one place with unsafe code: starting a job's process, and waiting on a bare descriptor.
//!
//! Invariant: the child leads a session of its own, dies with the keeper, has default signal dispositions and an empty mask,
//! has no descriptor but its three, and becomes exactly the program named, or the start fails with the errno of why not.
#![allow(unsafe_code)]

use std::ffi::{CString, c_char};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use tokio::io::unix::{AsyncFd, AsyncFdReadyGuard};

use super::becoming::Becoming;

/// What the child becomes: strings and the null-terminated arrays of pointers to them that `execve(2)` wants.
struct Image {
    program: CString,
    argv: Vec<*const c_char>,
    envp: Vec<*const c_char>,
    _strings: Vec<CString>,
}

// SAFETY: the pointers lead to the heap blocks of `_strings`, which is owned beside them, never changed and dropped with them.
unsafe impl Send for Image {}
// SAFETY: as above; nothing is written through a shared reference.
unsafe impl Sync for Image {}

impl Image {
    fn new(program: &Path, argv: &[String], env: impl Iterator<Item = String>) -> io::Result<Self> {
        let words = argv.iter().cloned().map(CString::new).collect::<Result<Vec<_>, _>>()?;
        let variables = env.map(CString::new).collect::<Result<Vec<_>, _>>()?;
        let pointers = |strings: &[CString]| strings.iter().map(|s| s.as_ptr()).chain([std::ptr::null()]).collect();
        let (argv, envp) = (pointers(&words), pointers(&variables));
        let program = CString::new(program.as_os_str().as_bytes())?;
        Ok(Self { program, argv, envp, _strings: words.into_iter().chain(variables).collect() })
    }
}

impl Image {
    /// Turns the process into it; the error if that cannot be. For a child between fork and exec: neither allocates nor locks.
    fn execute(&self) -> io::Error {
        // `sigaction(2)` itself, for the C library hides two signals that a parent may have left ignored; and `execve(2)`
        // itself, for the standard library's `execvp` gives a file the kernel cannot execute to `/bin/sh`, so a program of
        // another architecture would be read as a script.
        //
        // SAFETY: each of these only makes a system call on values that live until the call returns: `rt_sigaction` with a
        // number it may refuse and zeros that are longer than its structure and mean the default, `close_range` with flags
        // only, `execve` with null-terminated arrays of C strings owned by `self`.
        unsafe {
            for signal in 1..=64 {
                let default = [0_u64; 8];
                let none = std::ptr::null::<u64>();
                libc::syscall(libc::SYS_rt_sigaction, signal, default.as_ptr(), none, size_of::<u64>());
            }
            libc::syscall(libc::SYS_close_range, 3_u32, u32::MAX, libc::CLOSE_RANGE_CLOEXEC);
            libc::execve(self.program.as_ptr(), self.argv.as_ptr(), self.envp.as_ptr());
        }
        io::Error::last_os_error()
    }
}

/// Starts `program` with that argument vector and environment (`NAME=value`), as `becoming` says and with `stdin`; its output
/// comes by pipes. The caller is the only thread of its process and outlives the child, whose death signal is tied to that
/// thread. Fails with the errno of `fork` or `execve`, or of a step of `becoming` ([`super::becoming::Step::of`]).
pub(super) fn spawn(
    program: &Path,
    argv: &[String],
    env: impl Iterator<Item = String>,
    becoming: Becoming,
    stdin: Stdio,
) -> io::Result<Child> {
    let image = Image::new(program, argv, env)?;
    let mut command = Command::new(program);
    command.stdin(stdin).stdout(Stdio::piped()).stderr(Stdio::piped());
    let become_the_job = move || {
        becoming.prepare()?;
        Err(image.execute())
    };
    // SAFETY: the closure makes system calls only, see above; the process has one thread, so no lock can be held at the fork.
    unsafe { command.pre_exec(become_the_job) };
    command.spawn()
}

/// A descriptor that can be waited for. It never gives the descriptor away, which is what makes it sound.
pub(super) struct Awaited(AsyncFd<OwnedFd>);

impl Awaited {
    /// Watches `fd` until dropped. Must be called inside a runtime. Fails if the system will not watch it.
    pub(super) fn new(fd: OwnedFd) -> io::Result<Self> {
        // SAFETY: an `OwnedFd` is open and names one descriptor as long as it lives; it is private to this type, which lends
        // it only by shared reference, so it is neither closed nor replaced while it is registered.
        Ok(Self(unsafe { AsyncFd::register(fd) }?))
    }

    /// Waits until it can be read.
    pub(super) async fn readable(&self) -> io::Result<AsyncFdReadyGuard<'_, OwnedFd>> {
        self.0.readable().await
    }
}

impl AsFd for Awaited {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.get_ref().as_fd()
    }
}
