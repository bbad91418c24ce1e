//! The reading of a dead child's exit status together with the resources that the child used.
#![allow(unsafe_code)]

use std::mem::MaybeUninit;

use rustix::process::Pid;

use schedd_core::domain::run::resource_use::ResourceUse;

/// The number of bytes that the kernel counts as one block (`getrusage(2)`).
const BLOCK: u64 = 512;

/// Reaps the dead child `pid`. Returns the resources of the child and of those descendants for
/// which it waited, or `None` if the child was reaped before. Does not wait.
///
/// The peak memory is that of the largest single process. Linux also counts the memory that the
/// child had before its exec, which is the memory of the keeper.
pub(crate) fn reap(pid: Pid) -> Option<ResourceUse> {
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: a system call that writes `usage`, which lives until the call returns. A null status
    // is allowed by `wait4(2)`.
    let reaped = unsafe {
        libc::wait4(
            pid.as_raw_nonzero().get(),
            std::ptr::null_mut(),
            libc::WNOHANG,
            usage.as_mut_ptr(),
        )
    };
    if reaped <= 0 {
        return None;
    }
    // SAFETY: all bytes are zero or written by the kernel, and each field is a whole number.
    let usage = unsafe { usage.assume_init() };
    let number = |count: libc::c_long| u64::try_from(count).unwrap_or(0);
    let micros = |time: libc::timeval| {
        number(time.tv_sec).saturating_mul(1_000_000).saturating_add(number(time.tv_usec))
    };
    Some(ResourceUse {
        user_us: micros(usage.ru_utime),
        system_us: micros(usage.ru_stime),
        peak_kib: number(usage.ru_maxrss),
        read_bytes: number(usage.ru_inblock).saturating_mul(BLOCK),
        written_bytes: number(usage.ru_oublock).saturating_mul(BLOCK),
    })
}
