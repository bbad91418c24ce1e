//! The recognition of errors caused by a lack of file descriptors or memory, and not by the file or
//! user that was looked up.

use std::fs::File;
use std::io;

use rustix::io::Errno;

/// The number of file descriptors that must be free. With fewer, this process counts as short of
/// descriptors. A library may use several descriptors at the same time. Other threads may use the
/// last free descriptors for a moment.
const FREE: usize = 16;

/// Returns true if `error` means that this process or this host lacks descriptors or memory.
pub fn is_shortage(error: &io::Error) -> bool {
    let errno = Errno::from_io_error(error);
    errno.is_some_and(|errno| matches!(errno, Errno::MFILE | Errno::NFILE | Errno::NOMEM))
}

/// Tries to open [`FREE`] files. Returns the error if this process lacks the descriptors. Returns
/// `None` if enough descriptors are free.
///
/// Some functions of the C library (look-ups of hosts and users) hide this error and report that
/// nothing was found. So this function is called after such a function failed.
pub fn lack_of_descriptors() -> Option<io::Error> {
    let opened: Result<Vec<File>, io::Error> = (0..FREE).map(|_| File::open("/dev/null")).collect();
    opened.err().filter(is_shortage)
}
