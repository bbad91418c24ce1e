//! The private `redis-server` that schedd runs if no URL is given. This module finds or starts the
//! server, adopts a running server, restarts a dead server, and ends the server.
//!
//! Invariants:
//! - A state directory has at most one daemon: the daemon keeps an exclusive lock while it runs.
//! - A state directory has at most one server: two servers would ruin the append-only file.
//! - A process is signalled only if it is proven to be this directory's server.
//! - The server outlives a daemon that dies, and the next daemon adopts it.

mod private_redis_error;
mod redis_process;
mod rights;
mod server_places;
mod server_program;
mod server_request;
mod server_socket;
mod server_supervisor;
mod state_directory;

use std::path::{Path, PathBuf};

use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

pub use private_redis_error::PrivateServerError;
pub use server_places::state_dir;
pub use server_program::ProgramSearch;
pub use server_socket::{find_socket, looked_at};
pub use state_directory::Access;

use server_supervisor::{ServerLaunch, supervise};
use state_directory::DirectoryLock;

/// A running private server. A server that dies is restarted. Dropping this value without
/// [`PrivateServer::stop`] leaves the server running, and the next daemon on the directory adopts
/// the server.
#[derive(Debug)]
pub struct PrivateServer {
    dir: PathBuf,
    socket: PathBuf,
    stopping: CancellationToken,
    supervisor: AbortOnDropHandle<()>,
}

impl PrivateServer {
    /// Locks the state directory, finds or starts its server, and returns when the server answers.
    /// The directory is created if it is missing. A large append-only file may make the start take
    /// long.
    ///
    /// Fails if another daemon has locked the directory, if there is no usable server program, or
    /// if the server does not come up.
    pub async fn start(dir: &Path, access: Access) -> Result<Self, PrivateServerError> {
        Self::start_with(dir, access, ProgramSearch::from_env()).await
    }

    /// Starts a private server like [`PrivateServer::start`], but searches for the server program
    /// in `programs`.
    pub async fn start_with(
        dir: &Path,
        access: Access,
        programs: ProgramSearch,
    ) -> Result<Self, PrivateServerError> {
        let dir = state_directory::prepare(dir, access)?;
        let lock = DirectoryLock::take(&dir).await?;
        let socket = server_socket::choose(&dir, access)?;
        let launch = ServerLaunch::new(dir.clone(), socket.clone(), access, programs);
        let server = launch.adopt_or_start().await?;
        let stopping = CancellationToken::new();
        // The task owns the lock, so the lock cannot be released while the task may still start a
        // server.
        let supervisor = tokio::spawn(supervise(server, launch, stopping.clone(), lock));
        Ok(Self { dir, socket, stopping, supervisor: AbortOnDropHandle::new(supervisor) })
    }

    /// Returns the URL of the server's socket for the `redis` crate: `unix:///path/redis.sock`.
    pub fn url(&self) -> String {
        server_socket::url(&self.socket)
    }

    /// Ends the server after the server wrote its append-only file to disk, and waits for the end.
    /// The call takes up to 10 s if the server does not react.
    pub async fn stop(mut self) {
        self.stopping.cancel();
        if let Err(error) = (&mut self.supervisor).await {
            tracing::error!(%error, "The supervisor of the private redis-server failed. The server may still be running.");
        }
        server_socket::forget_short_dir(&self.dir, &self.socket);
    }
}
