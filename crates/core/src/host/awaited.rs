//! A file descriptor that a task can wait for.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use tokio::io::Interest;
use tokio::io::unix::{AsyncFd, AsyncFdReadyGuard};

/// A descriptor that a task can wait for. The wait is sound because no other code can close or
/// replace the descriptor.
pub struct Awaited(AsyncFd<OwnedFd>);

impl Awaited {
    /// Watches `fd` until dropped. Must be called inside a runtime. Fails if the system will not
    /// watch `fd`.
    pub fn new(fd: OwnedFd) -> io::Result<Self> {
        Self::with(fd, Interest::READABLE)
    }

    /// Watches `fd`, the reading end of a pipe, only for the closing of the other end. Bytes in the
    /// pipe wake no task. Must be called inside a runtime. Fails if the system will not watch `fd`.
    pub fn until_closed(fd: OwnedFd) -> io::Result<Self> {
        Self::with(fd, Interest::PRIORITY)
    }

    fn with(fd: OwnedFd, interest: Interest) -> io::Result<Self> {
        // An `OwnedFd` is open and names one descriptor as long as it lives. It is private to this
        // type and lent only by shared reference. So it is neither closed nor replaced while it is
        // registered.
        #[expect(deprecated, reason = "the function that replaces it is unsafe")]
        AsyncFd::with_interest(fd, interest).map(Self)
    }

    /// Waits until the descriptor can be read.
    pub async fn readable(&self) -> io::Result<AsyncFdReadyGuard<'_, OwnedFd>> {
        self.0.readable().await
    }

    /// Waits until a pipe made by [`Self::until_closed`] is closed at its other end.
    pub async fn closed(&self) -> io::Result<AsyncFdReadyGuard<'_, OwnedFd>> {
        self.0.ready(Interest::PRIORITY).await
    }
}

impl AsFd for Awaited {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.get_ref().as_fd()
    }
}
