//! The errors of the private server. Each message is one line that names the fault and the remedy.

use std::io;
use std::path::{Path, PathBuf};

/// The reason why schedd has no private server.
#[derive(Debug, thiserror::Error)]
pub enum PrivateServerError {
    /// The environment names no place for a state directory.
    #[error(
        "schedd has no state directory: none of STATE_DIRECTORY, XDG_STATE_HOME and HOME is set; set one of them or give --redis URL"
    )]
    NoStateDirectory,
    /// Another daemon has locked the state directory.
    #[error("state directory {} is in use by schedd {holder}; give --redis URL to share one Redis", .dir.display())]
    InUse {
        /// The state directory that is locked.
        dir: PathBuf,
        /// The daemon that locked the directory: `pid N`.
        holder: String,
    },
    /// Another user may put data into the state directory.
    #[error(
        "the state directory is not safe: {doubt}; a user who can write there can run commands as schedd"
    )]
    Untrusted {
        /// The user or group that may write the state directory and is not that of schedd, and
        /// the remedy.
        doubt: String,
    },
    /// Neither `redis-server` nor `valkey-server` was found.
    #[error(
        "no redis-server was found; install redis-server (Debian: apt-get install redis-server) or give --redis URL"
    )]
    NoProgram,
    /// All server programs found are older than the oldest version that schedd can use.
    #[error("{} is version {found}, wanted {wanted} or newer; install a newer server or give --redis URL", .program.display())]
    TooOld {
        /// The path of a server program that is too old.
        program: PathBuf,
        /// The version of that program.
        found: String,
        /// The oldest version that schedd can use.
        wanted: &'static str,
    },
    /// A server program does not report its version.
    #[error("{} --version printed {found:?}, wanted a version; repair the installation or give --redis URL", .program.display())]
    NoVersion {
        /// The path of the server program.
        program: PathBuf,
        /// The output of the program, or the reason why it did not run.
        found: String,
    },
    /// Another process answers at the socket.
    #[error("another process ({holder}) listens at {}, wanted the redis-server that schedd started there; end that process or give --redis URL", .socket.display())]
    Foreign {
        /// The path of the socket.
        socket: PathBuf,
        /// The process that answers: `pid N`.
        holder: String,
    },
    /// The server ended before it answered.
    #[error("redis-server ended ({status}) before it answered: {last_words}; see the log file {}", .log.display())]
    Died {
        /// The exit status of the server.
        status: String,
        /// The last line of the server's log.
        last_words: String,
        /// The path of the server's log.
        log: PathBuf,
    },
    /// The server runs but does not answer.
    #[error("redis-server pid {pid} has not answered at {} for {seconds} s; see the log file {}", .socket.display(), .log.display())]
    Silent {
        /// The process id of the server.
        pid: i32,
        /// The path of the server's socket.
        socket: PathBuf,
        /// The time without an answer, in seconds.
        seconds: u64,
        /// The path of the server's log.
        log: PathBuf,
    },
    /// An operation on a file or process failed.
    #[error("cannot {what} {}: {source}", .path.display())]
    Io {
        /// The operation that failed, as a verb.
        what: &'static str,
        /// The file or directory of the failed operation.
        path: PathBuf,
        /// The error that the operating system reported.
        source: io::Error,
    },
}

/// Returns a converter for `map_err` that adds the operation and the path to a system error.
pub(super) fn io_error(
    what: &'static str,
    path: &Path,
) -> impl FnOnce(io::Error) -> PrivateServerError {
    let path = path.to_owned();
    move |source| PrivateServerError::Io { what, path, source }
}
