//! The supervisor of a state directory's server. The supervisor adopts or starts the server, waits
//! until the server serves, and restarts a server that dies.
//!
//! Invariant: a server is started only if no server of this directory runs. Only a stop of the
//! supervisor ends a server. The stop works in every phase, even while the server loads.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;

use super::private_redis_error::io_error;
use super::redis_process::{Server, log_path};
use super::server_request;
use super::server_request::Answer;
use super::state_directory::DirectoryLock;
use super::{Access, PrivateServerError, ProgramSearch, server_socket};

const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// The time after which a running server counts as steady. If a steady server dies, the pause
/// before the next start is short again.
const STEADY_AFTER: Duration = Duration::from_secs(10);
const SILENCE_LIMIT: Duration = Duration::from_secs(30);

/// The settings for starting the server of a state directory. They can be used any number of times.
#[derive(Debug)]
pub(super) struct ServerLaunch {
    dir: PathBuf,
    socket: PathBuf,
    access: Access,
    programs: ProgramSearch,
}

impl ServerLaunch {
    pub(super) fn new(
        dir: PathBuf,
        socket: PathBuf,
        access: Access,
        programs: ProgramSearch,
    ) -> Self {
        Self { dir, socket, access, programs }
    }

    /// Returns a serving server: the server that an earlier daemon left running, or else a new
    /// server.
    pub(super) async fn adopt_or_start(&self) -> Result<Server, PrivateServerError> {
        if let Some(mut server) = Server::listening(&self.dir, &self.socket).await? {
            match self.until_serving(&mut server).await {
                Ok(()) => {
                    tracing::info!(pid = server.pid(), socket = %self.socket.display(), "Adopted a running private redis-server.");
                    return Ok(server);
                }
                // The adopted server was about to end. A new server is started below.
                Err(PrivateServerError::Died { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        let mut server = self.start().await?;
        match self.until_serving(&mut server).await {
            Ok(()) => Ok(server),
            Err(error) => {
                server.end(&self.socket).await;
                Err(error)
            }
        }
    }

    /// Starts a server, after ending an unreachable server of this directory. The started server
    /// may not serve yet.
    async fn start(&self) -> Result<Server, PrivateServerError> {
        if let Some(lost) = Server::recorded(&self.dir)? {
            tracing::warn!(
                pid = lost.pid(),
                "A private redis-server has lost its socket. schedd ends that server."
            );
            lost.end(&self.socket).await;
        }
        let program = self.programs.find().await?;
        match fs::remove_file(&self.socket) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(io_error("remove", &self.socket)(error));
            }
            _ => {}
        }
        server_socket::renew_short_dir(&self.dir, &self.socket, self.access)?;
        let server = Server::spawn(&program, &self.dir, &self.socket, self.access)?;
        tracing::info!(pid = server.pid(), socket = %self.socket.display(), "Started a private {}.", program.display());
        Ok(server)
    }

    /// Waits until the server serves, however long the server loads. Fails if the server ends or is
    /// silent for 30 s.
    async fn until_serving(&self, server: &mut Server) -> Result<(), PrivateServerError> {
        const QUICK: Duration = Duration::from_secs(1);
        const NEWS_EVERY: Duration = Duration::from_secs(5);
        let started = Instant::now();
        let mut last_heard = started;
        let mut last_news = started;
        loop {
            tokio::select! {
                biased;
                status = server.ended() => return Err(self.died(status)),
                answer = server_request::ping(&self.socket) => match answer {
                    Ok(Answer::Serving) => return self.access.hand_over(&self.socket),
                    Ok(Answer::Loading) => last_heard = Instant::now(),
                    Err(_) => {}
                },
            }
            if last_heard.elapsed() > SILENCE_LIMIT {
                return Err(PrivateServerError::Silent {
                    pid: server.pid(),
                    socket: self.socket.clone(),
                    seconds: SILENCE_LIMIT.as_secs(),
                    log: log_path(&self.dir),
                });
            }
            if last_news.elapsed() > NEWS_EVERY {
                last_news = Instant::now();
                tracing::info!(
                    pid = server.pid(),
                    waited_s = started.elapsed().as_secs(),
                    "schedd waits until the private redis-server answers."
                );
            }
            let pause = if started.elapsed() < QUICK {
                Duration::from_millis(5)
            } else {
                Duration::from_millis(100)
            };
            tokio::time::sleep(pause).await;
        }
    }

    fn died(&self, status: String) -> PrivateServerError {
        let log = log_path(&self.dir);
        let last_words = last_line(&log);
        PrivateServerError::Died { status, last_words, log }
    }
}

fn last_line(log: &Path) -> String {
    let text = fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let line =
        text.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("the log is empty");
    line.chars().filter(|c| !c.is_control()).take(200).collect()
}

/// Watches `server` until `stopping`, and restarts the server whenever the server dies. The lock of
/// the directory is kept during that time.
pub(super) async fn supervise(
    mut server: Server,
    launch: ServerLaunch,
    stopping: CancellationToken,
    _lock: DirectoryLock,
) {
    let mut pause = FIRST_PAUSE;
    let mut since = Instant::now();
    loop {
        tokio::select! {
            () = stopping.cancelled() => return server.end(&launch.socket).await,
            status = server.ended() => {
                if since.elapsed() > STEADY_AFTER {
                    pause = FIRST_PAUSE;
                }
                tracing::error!(pid = server.pid(), "The private redis-server ended ({status}): {}. schedd restarts the server in {} ms.",
                    last_line(&log_path(&launch.dir)), pause.as_millis());
            }
        }
        server = loop {
            tokio::select! {
                () = stopping.cancelled() => return,
                () = tokio::time::sleep(pause) => {}
            }
            pause = (pause * 2).min(LONGEST_PAUSE);
            match launch.start().await {
                Ok(started) => break started,
                Err(error) => {
                    tracing::error!(
                        "schedd cannot restart the private redis-server: {error}. schedd tries again in {} ms.",
                        pause.as_millis()
                    );
                }
            }
        };
        since = Instant::now();
        let failure = tokio::select! {
            () = stopping.cancelled() => None,
            ready = launch.until_serving(&mut server) => ready.err(),
        };
        if let Some(error) = failure {
            tracing::error!("{error}");
        }
    }
}
