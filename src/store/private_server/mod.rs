//! The `redis-server` schedd keeps for itself when no URL is given: found or started, adopted, watched and ended here.
//!
//! Invariants: one state directory has at most one daemon (an exclusive lock for the daemon's life) and at most one server
//! (two would ruin the append-only file); no process is signalled that is not proven to be this directory's server; the
//! server outlives a daemon that dies, and the next daemon adopts it.

mod ask;
mod directory;
mod error;
mod places;
mod program;
mod rights;
mod server;
mod socket;
mod supervisor;

use std::path::{Path, PathBuf};

use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

pub use directory::Access;
pub use error::PrivateServerError;
pub use places::{find_socket, looked_at, state_dir};
pub use program::ProgramSearch;

use directory::DirectoryLock;
use supervisor::{Launch, supervise};

/// A running private server, restarted when it dies. Dropped without [`PrivateServer::stop`], the server is left running and
/// the next daemon on the directory adopts it.
#[derive(Debug)]
pub struct PrivateServer {
    dir: PathBuf,
    socket: PathBuf,
    stopping: CancellationToken,
    supervisor: AbortOnDropHandle<()>,
}

impl PrivateServer {
    /// Takes the state directory (creating it), finds or starts its server and returns when that answers; a large
    /// append-only file may make this long. Fails when another daemon holds the directory, when there is no usable server
    /// program, and when the server does not come up.
    pub async fn start(dir: &Path, access: Access) -> Result<Self, PrivateServerError> {
        Self::start_with(dir, access, ProgramSearch::from_env()).await
    }

    /// As [`PrivateServer::start`], with the server program looked for where `programs` says.
    pub async fn start_with(dir: &Path, access: Access, programs: ProgramSearch) -> Result<Self, PrivateServerError> {
        let dir = directory::prepare(dir, access)?;
        let lock = DirectoryLock::take(&dir).await?;
        let socket = socket::choose(&dir, access)?;
        let launch = Launch::new(dir.clone(), socket.clone(), access, programs);
        let server = launch.adopt_or_start().await?;
        let stopping = CancellationToken::new();
        // The lock goes with the task, so that it cannot be given up while the task may still start a server.
        let supervisor = tokio::spawn(supervise(server, launch, stopping.clone(), lock));
        Ok(Self { dir, socket, stopping, supervisor: AbortOnDropHandle::new(supervisor) })
    }

    /// The URL of the server for the `redis` crate: `unix:///path/redis.sock`.
    pub fn url(&self) -> String {
        socket::url(&self.socket)
    }

    /// Ends the server, its append-only file written to the disk, and waits for its end; up to 10 s if it does not obey.
    pub async fn stop(mut self) {
        self.stopping.cancel();
        if let Err(error) = (&mut self.supervisor).await {
            tracing::error!(%error, "The supervisor of the private redis-server failed; the server may still run.");
        }
        socket::forget_short_dir(&self.dir, &self.socket);
    }
}
