//! Starting a program without the rights of the service.
//!
//! Invariant: what is started here may not become other users or signal their processes, though schedd may: a server obeys
//! whoever reaches its socket, and those are its jobs too.

use std::io;
use std::thread;

use rustix::io::Errno;
use tokio::process::{Child, Command};
use tokio::runtime::Handle;

/// Starts `command`, which gets none of the ambient capabilities of this process. Must be called inside a runtime. Fails as a
/// start does, and if they cannot be given up.
pub(super) fn spawn_without_rights(command: &mut Command) -> io::Result<Child> {
    let runtime = Handle::try_current().map_err(io::Error::other)?;
    // Capabilities are a thread's. One that ends with the start needs none given back, for which it would have to keep them.
    let start = || {
        let _inside = runtime.enter();
        match rustix::thread::clear_ambient_capability_set() {
            // A system without such a set has none to give away.
            Ok(()) | Err(Errno::INVAL) => command.spawn(),
            Err(errno) => Err(errno.into()),
        }
    };
    thread::scope(|scope| {
        let starting = thread::Builder::new().name("start".to_owned()).spawn_scoped(scope, start)?;
        starting.join().unwrap_or_else(|_panic| Err(io::Error::other("the thread that was to start it panicked")))
    })
}
