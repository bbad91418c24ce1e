//! Why there is no private server: each message is one line that says what is wrong and how to mend it.

use std::io;
use std::path::{Path, PathBuf};

/// Why the private server could not be had.
#[derive(Debug, thiserror::Error)]
pub enum PrivateServerError {
    /// The environment names no place for state.
    #[error(
        "no place for a state directory: found neither STATE_DIRECTORY, XDG_STATE_HOME nor HOME; set one or give --redis URL"
    )]
    NoStateDirectory,
    /// Another daemon holds the directory.
    #[error("state directory {} is in use by schedd {holder}; give --redis URL to share one Redis", .dir.display())]
    InUse {
        /// The state directory.
        dir: PathBuf,
        /// The daemon that holds it: `pid N`.
        holder: String,
    },
    /// Somebody else may put data into the directory.
    #[error("state directory: {doubt}; whoever owns it can run commands here")]
    Untrusted {
        /// Who, and what mends it.
        doubt: String,
    },
    /// Neither `redis-server` nor `valkey-server` was found.
    #[error("no redis-server found; install redis-server (Debian: apt-get install redis-server) or give --redis URL")]
    NoProgram,
    /// The only server programs found are older than schedd needs.
    #[error("{} is version {found}, wanted {wanted} or newer; install a newer one or give --redis URL", .program.display())]
    TooOld {
        /// The program.
        program: PathBuf,
        /// Its version.
        found: String,
        /// The oldest version that will do.
        wanted: &'static str,
    },
    /// A server program that does not tell its version.
    #[error("{} --version answered {found:?}, wanted a version; mend its installation or give --redis URL", .program.display())]
    NoVersion {
        /// The program.
        program: PathBuf,
        /// What it printed, or why it did not run.
        found: String,
    },
    /// Something else answers at our socket.
    #[error("{} is served by {holder}, not by this directory's redis-server; end that or give --redis URL", .socket.display())]
    Foreign {
        /// The socket.
        socket: PathBuf,
        /// Who answers: `pid N`.
        holder: String,
    },
    /// The server ended before it answered.
    #[error("redis-server ended before it answered ({status}): {last_words}; its log is {}", .log.display())]
    Died {
        /// How it ended.
        status: String,
        /// The last line of its log.
        last_words: String,
        /// Its log.
        log: PathBuf,
    },
    /// The server runs but does not answer.
    #[error("redis-server pid {pid} does not answer at {} for {seconds} s; look at {}", .socket.display(), .log.display())]
    Silent {
        /// Its process.
        pid: i32,
        /// Where it was asked.
        socket: PathBuf,
        /// How long, in seconds.
        seconds: u64,
        /// Its log.
        log: PathBuf,
    },
    /// A file or process could not be dealt with.
    #[error("cannot {what} {}: {source}", .path.display())]
    Io {
        /// What was tried: a verb.
        what: &'static str,
        /// With which file or directory.
        path: PathBuf,
        /// What the system answered.
        source: io::Error,
    },
}

/// Names what was tried and with which path; for `map_err`.
pub(super) fn io_error(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> PrivateServerError {
    let path = path.to_owned();
    move |source| PrivateServerError::Io { what, path, source }
}
