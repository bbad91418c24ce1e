//! The errors of the private server. Each message is one line that names the fault and the remedy.

use std::io;
use std::path::{Path, PathBuf};

/// The reason why there is no private server.
#[derive(Debug, thiserror::Error)]
pub enum PrivateServerError {
    /// The environment names no place for state.
    #[error(
        "no place for a state directory: found neither STATE_DIRECTORY, XDG_STATE_HOME nor HOME; set one or give --redis URL"
    )]
    NoStateDirectory,
    /// Another daemon has locked the directory.
    #[error("state directory {} is in use by schedd {holder}; give --redis URL to share one Redis", .dir.display())]
    InUse {
        /// The state directory.
        dir: PathBuf,
        /// The daemon that locked it: `pid N`.
        holder: String,
    },
    /// Another user may put data into the directory.
    #[error("state directory: {doubt}; whoever owns it can run commands here")]
    Untrusted {
        /// The other user, and the remedy.
        doubt: String,
    },
    /// Neither `redis-server` nor `valkey-server` was found.
    #[error("no redis-server found; install redis-server (Debian: apt-get install redis-server) or give --redis URL")]
    NoProgram,
    /// All server programs found are older than schedd needs.
    #[error("{} is version {found}, wanted {wanted} or newer; install a newer one or give --redis URL", .program.display())]
    TooOld {
        /// The program.
        program: PathBuf,
        /// The version found.
        found: String,
        /// The oldest usable version.
        wanted: &'static str,
    },
    /// A server program does not report its version.
    #[error("{} --version answered {found:?}, wanted a version; mend its installation or give --redis URL", .program.display())]
    NoVersion {
        /// The program.
        program: PathBuf,
        /// The output of the program, or the reason why it did not run.
        found: String,
    },
    /// Another process answers at the socket.
    #[error("{} is served by {holder}, not by this directory's redis-server; end that or give --redis URL", .socket.display())]
    Foreign {
        /// The socket.
        socket: PathBuf,
        /// The process that answers: `pid N`.
        holder: String,
    },
    /// The server ended before it answered.
    #[error("redis-server ended before it answered ({status}): {last_words}; its log is {}", .log.display())]
    Died {
        /// The exit status.
        status: String,
        /// The last line of the server's log.
        last_words: String,
        /// The path of the log.
        log: PathBuf,
    },
    /// The server runs but does not answer.
    #[error("redis-server pid {pid} does not answer at {} for {seconds} s; look at {}", .socket.display(), .log.display())]
    Silent {
        /// The process id.
        pid: i32,
        /// The socket.
        socket: PathBuf,
        /// The time without an answer, in seconds.
        seconds: u64,
        /// The path of the server's log.
        log: PathBuf,
    },
    /// An operation on a file or process failed.
    #[error("cannot {what} {}: {source}", .path.display())]
    Io {
        /// The operation, a verb.
        what: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
}

/// Returns a converter for `map_err` that adds the operation and the path.
pub(super) fn io_error(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> PrivateServerError {
    let path = path.to_owned();
    move |source| PrivateServerError::Io { what, path, source }
}
