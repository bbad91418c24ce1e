//! The start of a program without the capabilities of schedd.
//!
//! Invariant: a program started here may not become another user or signal other users' processes,
//! though schedd may. A Redis server obeys everyone who reaches its socket, and jobs can reach the
//! socket.

use std::io;
use std::thread;

use rustix::io::Errno;
use tokio::process::{Child, Command};
use tokio::runtime::Handle;

/// Starts `command` without any ambient capability of this process. The caller must be inside a
/// runtime. Fails if the start fails or the capabilities cannot be dropped.
pub(super) fn spawn_without_rights(command: &mut Command) -> io::Result<Child> {
    let runtime = Handle::try_current().map_err(io::Error::other)?;
    // Capabilities belong to a thread. The new thread ends after the start, so it can drop its
    // capabilities for good.
    let start = || {
        let _inside = runtime.enter();
        match rustix::thread::clear_ambient_capability_set() {
            // A system without ambient capabilities has none to drop.
            Ok(()) | Err(Errno::INVAL) => command.spawn(),
            Err(errno) => Err(errno.into()),
        }
    };
    thread::scope(|scope| {
        let starting =
            thread::Builder::new().name("start".to_owned()).spawn_scoped(scope, start)?;
        starting.join().unwrap_or_else(|_panic| {
            Err(io::Error::other("the thread that starts the process panicked"))
        })
    })
}
