//! The start of a job's process. Only this file and `reaping` have unsafe code.
//!
//! Invariant: the child leads its own session, dies with the keeper, and has default signal
//! dispositions and an empty mask. The child has only its three standard descriptors. The child
//! becomes exactly the named program, or reports why it does not.
//!
//! The child itself does everything that may wait for a file system, after the fork. By then the
//! child has closed everything that belongs to the keeper. So the keeper never waits, and a child
//! that hangs blocks nothing but itself.
//!
//! A copy of the keeper's memory would cost more than the rest of a start. So a child uses the
//! memory of the keeper itself (`CLONE_VM` of `clone(2)`) until the exec, and the keeper goes on
//! meanwhile. A child with its own user or with limits gets a copy, because what happens to its
//! memory would happen to the keeper. For example, if a cgroup exceeds its memory, the kernel kills
//! every process that uses the memory of the child.
#![allow(unsafe_code)]

use std::convert::Infallible;
use std::ffi::{CStr, CString, c_char, c_int, c_long, c_void};
use std::io;
use std::mem::{ManuallyDrop, MaybeUninit};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::Pid;
use rustix::time::Timespec;

use super::child_setup::{ChildSetup, Entered};
use super::program_file::{Candidates, WITHOUT_SHELL};
use super::start_progress::{ProgressWriter, StartFailure, StartProgress, StartStep};

/// The waits between attempts to execute a file that is open for writing.
const TEXT_BUSY_WAITS: [Duration; 3] =
    [Duration::from_millis(10), Duration::from_millis(50), Duration::from_millis(250)];

/// The signals that the keeper catches. It ignores none ([`default_signals`]).
pub(crate) const CAUGHT: [c_int; 5] =
    [libc::SIGTERM, libc::SIGINT, libc::SIGHUP, libc::SIGQUIT, libc::SIGPIPE];

/// The size of the stack of a child, in bytes. The child calls a few small functions only.
const STACK: usize = 64 * 1024;

/// True if a child may use the memory of the keeper on this kind of processor. Such a child must
/// not call the C library, which writes `errno` into that memory. On other processors,
/// [`system_call`] needs the C library.
const CAN_SHARE: bool = cfg!(any(target_arch = "x86_64", target_arch = "aarch64"));

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
        let (argv, envp) = (self.argv.as_ptr(), self.envp.as_ptr());
        let pointers = [program.as_ptr().cast(), argv.cast(), envp.cast(), std::ptr::null()];
        // SAFETY: a system call on null-terminated arrays of C strings owned by `self`; `program`
        // is owned by the caller.
        let result = unsafe { system_call(libc::SYS_execve, pointers) };
        i32::try_from(-result).map_or(Errno::IO, Errno::from_raw_os_error)
    }
}

/// The parts that a child needs for its start, made ready before the fork.
pub(crate) struct SpawnPlan {
    pub(crate) image: Image,
    pub(crate) program: Candidates,
    /// The program that is tried first, in place of a shell.
    pub(crate) direct: Option<(Image, Candidates)>,
    pub(crate) becoming: ChildSetup,
    /// The descriptors of the child. Each process closes them for itself: the child by its exec,
    /// the keeper after the fork.
    pub(crate) files: ManuallyDrop<ChildFiles>,
}

/// The descriptors of a child: its standard descriptors, and the pipe for its marks.
pub(crate) struct ChildFiles {
    pub(crate) stdin: OwnedFd,
    pub(crate) stdout: OwnedFd,
    pub(crate) stderr: OwnedFd,
    pub(crate) teller: ProgressWriter,
}

/// The memory that a child uses until its exec or its death: its plan and its stack.
struct ChildMemory {
    plan: *mut SpawnPlan,
    stack: *mut MaybeUninit<[u128; STACK / size_of::<u128>()]>,
}

impl ChildMemory {
    fn new(plan: SpawnPlan) -> Self {
        let stack = Box::into_raw(Box::new(MaybeUninit::uninit()));
        Self { plan: Box::into_raw(Box::new(plan)), stack }
    }
}

impl Drop for ChildMemory {
    fn drop(&mut self) {
        // SAFETY: both pointers came from boxes, and no other code frees them. `StartProgress`
        // drops this value only when the child no longer uses it.
        unsafe {
            drop(Box::from_raw(self.plan));
            drop(Box::from_raw(self.stack));
        }
    }
}

/// Starts a child that becomes the program of `plan`, and does not wait. The child reports its
/// progress by marks, which `progress` reads.
///
/// Returns the child, and the descriptor that becomes readable once the child is dead
/// (`pidfd_open(2)`). The caller must be the only thread of its process and outlive the child,
/// whose death signal is tied to that thread. When the function returns, the child's descriptors
/// are closed in the calling process. Fails as `clone(2)` does.
pub(crate) fn spawn(plan: SpawnPlan, progress: &mut StartProgress) -> io::Result<(Pid, OwnedFd)> {
    let shared = if CAN_SHARE && plan.becoming.may_share_memory() { libc::CLONE_VM } else { 0 };
    let memory = ChildMemory::new(plan);
    // SAFETY: the child reads the plan and writes its stack, and nothing else of this process. It
    // makes system calls without the C library, so it also writes no `errno`. No other code touches
    // the memory. `progress` frees it when the child has closed the pipe of its marks, and never if
    // nobody waits for that. A child closes this pipe by its exec or its death, when it has already
    // given up the memory. A child with a copy of the memory needs less.
    //
    // The copy of `files` is dropped once, because the field itself never is.
    unsafe {
        let started = clone_with_blocked_signals(&memory, shared);
        drop(ManuallyDrop::into_inner(std::ptr::read(&raw const (*memory.plan).files)));
        if started.is_ok() {
            progress.keep(memory);
        }
        started
    }
}

/// Calls `clone(2)` with `flags` for a child whose signals all stay blocked until its exec. The
/// child runs [`begin`].
///
/// Until the exec the child has the keeper's handlers. A SIGTERM would reach one of those handlers,
/// and the program would never get the signal. Fails as `clone(2)` does.
///
/// # Safety
///
/// With `CLONE_VM`, `memory` must stay as it is until the exec or the death of the child.
unsafe fn clone_with_blocked_signals(
    memory: &ChildMemory,
    flags: c_int,
) -> io::Result<(Pid, OwnedFd)> {
    let (all, mut before, size) = (u64::MAX, 0_u64, size_of::<u64>());
    let mut pidfd: c_int = -1;
    // SAFETY: system calls on values that live until the calls return. The stack grows down from
    // the end of its array.
    unsafe {
        let set_mask = libc::SYS_rt_sigprocmask;
        libc::syscall(set_mask, libc::SIG_SETMASK, &raw const all, &raw mut before, size);
        let (stack, plan) = (memory.stack.add(1).cast(), memory.plan.cast());
        let flags = flags | libc::CLONE_PIDFD | libc::SIGCHLD;
        let pid = libc::clone(begin, stack, flags, plan, &raw mut pidfd);
        let started = Pid::from_raw(pid.max(0)).ok_or_else(io::Error::last_os_error);
        let none = std::ptr::null_mut::<u64>();
        libc::syscall(set_mask, libc::SIG_SETMASK, &raw const before, none, size);
        Ok((started?, OwnedFd::from_raw_fd(pidfd)))
    }
}

/// The life of a child: it becomes the program of its plan, or ends with code 126.
extern "C" fn begin(plan: *mut c_void) -> c_int {
    // SAFETY: `spawn` passes its plan, which lives as long as the child needs it.
    let plan = unsafe { &*plan.cast::<SpawnPlan>() };
    let Err(failure) = plan.begin();
    plan.files.teller.fail(failure);
    126
}

impl SpawnPlan {
    /// Executes the program in the child, and returns only if that failed. Only a child just forked
    /// may call this function. The function neither allocates nor locks, and does not use the C
    /// library.
    fn begin(&self) -> Result<Infallible, StartFailure> {
        let exec = |errno| StartStep::Exec.failed(errno);
        let ChildFiles { stdin, stdout, stderr, teller } = &*self.files;
        // The keeper's own three descriptors are open, so none of these has a number below 3.
        rustix::stdio::dup2_stdin(stdin).map_err(exec)?;
        rustix::stdio::dup2_stdout(stdout).map_err(exec)?;
        rustix::stdio::dup2_stderr(stderr).map_err(exec)?;
        self.becoming.prepare()?;
        close_all_but(teller.as_fd());
        teller.begin(StartStep::Directory, 0);
        let place = self.becoming.enter_directory()?;
        if let (Some((image, program)), Entered::Wanted) = (&self.direct, place) {
            let search = |number| teller.begin(StartStep::Search, WITHOUT_SHELL | number);
            if let Ok((number, file)) = program.find(place, search) {
                teller.begin(StartStep::Exec, WITHOUT_SHELL | number);
                unblock_signals();
                // The shell then says why this failed.
                image.execute(file);
            }
        }
        let (number, file) =
            self.program.find(place, |number| teller.begin(StartStep::Search, number))?;
        teller.begin(StartStep::Exec, number);
        unblock_signals();
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

/// Makes a system call, and returns its result or the negative number of its error.
///
/// # Safety
///
/// The arguments must be valid for the call.
unsafe fn system_call(number: c_long, arguments: [*const c_void; 4]) -> c_long {
    let [first, second, third, fourth] = arguments;
    // SAFETY: the caller ensures that the arguments are valid. The registers are those of
    // `syscall(2)`.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        let result;
        std::arch::asm!(
            "syscall",
            inlateout("rax") number => result,
            in("rdi") first, in("rsi") second, in("rdx") third, in("r10") fourth,
            lateout("rcx") _, lateout("r11") _,
            options(nostack),
        );
        result
    }
    // SAFETY: as above.
    #[cfg(target_arch = "aarch64")]
    unsafe {
        let result: *const c_void;
        std::arch::asm!(
            "svc 0",
            in("x8") number,
            inlateout("x0") first => result,
            in("x1") second, in("x2") third, in("x3") fourth,
            options(nostack),
        );
        result.addr().cast_signed() as c_long
    }
    // SAFETY: as above.
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    match unsafe { libc::syscall(number, first, second, third, fourth) } {
        -1 => -c_long::from(io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO)),
        result => result,
    }
}

/// Returns a number as an argument of a system call.
fn number(value: usize) -> *const c_void {
    std::ptr::without_provenance(value)
}

/// Resets all signals of the calling process to their default action and unblocks them.
pub(crate) fn default_signals() {
    // All numbers, because the C library hides two signals that a parent may have left ignored.
    reset(1..=64);
}

/// Gives the signals that the keeper catches their default action, and unblocks all signals.
fn unblock_signals() {
    reset(CAUGHT);
}

fn reset(signals: impl IntoIterator<Item = c_int>) {
    let (default, empty, size) = ([0_u64; 8], 0_u64, number(size_of::<u64>()));
    let none = std::ptr::null();
    // SAFETY: each call only makes a system call on values that live until it returns.
    // `rt_sigaction` gets a number it may refuse, and zeros that are longer than its structure and
    // mean the default. `rt_sigprocmask` gets an empty set.
    unsafe {
        for signal in signals {
            let signal = number(usize::try_from(signal).unwrap_or(0));
            system_call(libc::SYS_rt_sigaction, [signal, default.as_ptr().cast(), none, size]);
        }
        let how = number(usize::try_from(libc::SIG_SETMASK).unwrap_or(0));
        system_call(libc::SYS_rt_sigprocmask, [how, (&raw const empty).cast(), none, size]);
    }
}

/// Closes all descriptors above the first three, except `kept`. An old kernel lacks the call
/// (`close_range(2)`), and closes nothing here. The exec then closes the descriptors that the
/// keeper opened.
fn close_all_but(kept: BorrowedFd<'_>) {
    let kept = usize::try_from(kept.as_raw_fd()).unwrap_or(3);
    for (first, last) in [(3, kept.saturating_sub(1)), (kept.saturating_add(1), u32::MAX as usize)]
    {
        if first <= last {
            // SAFETY: a system call on numbers. This process is a child between fork and exec,
            // which ends by an exec or by `_exit`. So it never uses the owners of the descriptors
            // again.
            unsafe {
                system_call(
                    libc::SYS_close_range,
                    [number(first), number(last), std::ptr::null(), std::ptr::null()],
                )
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::AtomicBool;

    use rustix::process::{Signal, WaitId, WaitIdOptions};

    use super::*;
    use crate::process::start_progress::marks;
    use crate::protocol::keeper_messages::LaunchOrder;

    fn held_back() -> String {
        let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
        status.lines().find(|line| line.starts_with("SigBlk")).unwrap().to_owned()
    }

    #[tokio::test(flavor = "current_thread")]
    async fn a_signal_sent_right_after_the_fork_ends_the_child_although_its_parent_catches_it() {
        let before = held_back();
        signal_hook::flag::register(libc::SIGHUP, Arc::new(AtomicBool::new(false))).unwrap();
        let launch: LaunchOrder = serde_json::from_value(serde_json::json!({
            "run": "a@5", "fence": 1, "argv": ["sleep", "1000"], "env": {}, "cwd": "/",
            "timeout": {"secs": 1, "nanos": 0}, "kill_grace": {"secs": 1, "nanos": 0},
            "deadline": 0, "margin": {"secs": 1, "nanos": 0},
        }))
        .unwrap();
        let null = || OwnedFd::from(std::fs::File::open("/dev/null").unwrap());
        let (mut progress, teller) = marks().unwrap();
        let files = ChildFiles { stdin: null(), stdout: null(), stderr: null(), teller };
        let plan = SpawnPlan {
            image: Image::new(&launch.argv, std::iter::empty()).unwrap(),
            program: Candidates::of(&launch).unwrap(),
            direct: None,
            becoming: ChildSetup::new(&launch, None).unwrap(),
            files: ManuallyDrop::new(files),
        };
        let (child, _exit) = spawn(plan, &mut progress).unwrap();
        rustix::process::kill_process(child, Signal::HUP).unwrap();
        assert_eq!(held_back(), before);
        let status =
            rustix::process::waitid(WaitId::Pid(child), WaitIdOptions::EXITED).unwrap().unwrap();
        assert_eq!(status.terminating_signal(), Some(libc::SIGHUP));
    }
}
