//! The process of a private server, started by this daemon or an earlier daemon. This module
//! starts, recognises, signals and awaits the process.
//!
//! Invariant: a [`Server`] is proven to be the server of its state directory. No signal can reach
//! another process that reuses its pid. The server is a child of this process, or is signalled by a
//! pidfd that was opened before the proof.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions, Permissions};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{
    Pid, PidfdFlags, Signal, geteuid, kill_process, pidfd_open, pidfd_send_signal,
};
use tokio::process::{Child, Command};

use super::private_redis_error::io_error;
use super::rights::spawn_without_rights;
use super::{Access, PrivateServerError, server_request};

const PID_FILE: &str = "redis.pid";
const LOG_FILE: &str = "redis.log";
const MAX_LOG_BYTES: u64 = 1 << 20;
/// The interval between two checks that an adopted process still runs. The process is polled,
/// because waiting for its raw descriptor would need unsafe code.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// A process that is proven to be the server of a state directory.
#[derive(Debug)]
pub(super) struct Server {
    pid: Pid,
    hold: Hold,
}

#[derive(Debug)]
enum Hold {
    Child(Child),
    Adopted(OwnedFd),
}

/// Returns the path of the server's log in the state directory `dir`.
pub(super) fn log_path(dir: &Path) -> PathBuf {
    dir.join(LOG_FILE)
}

impl Server {
    /// Starts `program` as the server of the state directory `dir`. The server does not answer yet.
    pub(super) fn spawn(
        program: &Path,
        dir: &Path,
        socket: &Path,
        access: Access,
    ) -> Result<Self, PrivateServerError> {
        // The shell sets the umask and closes descriptors that schedd's own caller left open. The
        // shell writes its pid before it becomes the server, so the next daemon can always find a
        // running server.
        const BECOME_SERVER: &str = "umask 077; echo $$ >\"$1\"; shift; \
            exec \"$@\" 3>&- 4>&- 5>&- 6>&- 7>&- 8>&- 9>&-";
        let log = open_log(dir)?;
        let log_again = log.try_clone().map_err(io_error("open", &log_path(dir)))?;
        let mut command = Command::new("/bin/sh");
        command
            .args(["-c", BECOME_SERVER, "sh"])
            .arg(dir.join(PID_FILE))
            .arg(program)
            .args(arguments(dir, socket, access))
            .current_dir(dir)
            // A server of version 7.2 or later stops if the environment names a locale that the
            // host lacks.
            .env("LC_ALL", "C")
            // These variables of systemd are for schedd, not for its server.
            .env_remove("NOTIFY_SOCKET")
            .env_remove("CREDENTIALS_DIRECTORY")
            .stdin(Stdio::null())
            .stdout(log)
            .stderr(log_again)
            // A Ctrl-C for schedd must not reach the server, which must end last.
            .process_group(0);
        let child = spawn_without_rights(&mut command).map_err(io_error("start", program))?;
        let raw = child.id().and_then(|id| i32::try_from(id).ok());
        match raw.and_then(Pid::from_raw) {
            Some(pid) => Ok(Self { pid, hold: Hold::Child(child) }),
            None => Err(io_error("start", program)(io::Error::other(
                "the new process has no process id",
            ))),
        }
    }

    /// Returns the server that listens at `socket`, if any. Fails if the listening process is not
    /// the server of the state directory `dir`.
    pub(super) async fn listening(
        dir: &Path,
        socket: &Path,
    ) -> Result<Option<Self>, PrivateServerError> {
        let Some(raw) =
            server_request::listener(socket).await.map_err(io_error("connect to", socket))?
        else {
            return Ok(None);
        };
        let foreign = || PrivateServerError::Foreign {
            socket: socket.to_owned(),
            holder: if raw == 0 {
                "a process of another container".to_owned()
            } else {
                format!("pid {raw}")
            },
        };
        let pid = Pid::from_raw(raw).ok_or_else(foreign)?;
        let Some(handle) =
            hold(pid).map_err(io_error("watch the redis-server of the directory", dir))?
        else {
            return Ok(None);
        };
        if serves(pid, dir) {
            Ok(Some(Self { pid, hold: Hold::Adopted(handle) }))
        } else {
            Err(foreign())
        }
    }

    /// Returns the last started server of the state directory `dir` if the server still runs, even
    /// if its socket was removed.
    pub(super) fn recorded(dir: &Path) -> Result<Option<Self>, PrivateServerError> {
        let text = fs::read_to_string(dir.join(PID_FILE)).unwrap_or_default();
        let Some(pid) = text.trim().parse().ok().filter(|pid| *pid > 0).and_then(Pid::from_raw)
        else {
            return Ok(None);
        };
        let Some(handle) =
            hold(pid).map_err(io_error("watch the redis-server of the directory", dir))?
        else {
            return Ok(None);
        };
        Ok(serves(pid, dir).then_some(Self { pid, hold: Hold::Adopted(handle) }))
    }

    /// Returns the process id of the server.
    pub(super) fn pid(&self) -> i32 {
        self.pid.as_raw_nonzero().get()
    }

    /// Waits for the end of the server and returns its exit status in words. A caller may drop this
    /// future and call the function again.
    pub(super) async fn ended(&mut self) -> String {
        match &mut self.hold {
            Hold::Child(child) => match child.wait().await {
                Ok(status) => status.to_string(),
                Err(error) => error.to_string(),
            },
            Hold::Adopted(handle) => {
                while runs(handle) {
                    tokio::time::sleep(LOOK_EVERY).await;
                }
                "exit status unknown".to_owned()
            }
        }
    }

    /// Ends the server and waits for its end. First sends SHUTDOWN at `socket`. Sends SIGTERM if
    /// the server does not listen there or does not react. Sends SIGKILL after 10 s.
    pub(super) async fn end(mut self, socket: &Path) {
        const PATIENCE: Duration = Duration::from_secs(5);
        let listens =
            matches!(server_request::listener(socket).await, Ok(Some(pid)) if pid == self.pid());
        if !listens || server_request::shut_down(socket).await.is_err() {
            self.signal(Signal::TERM);
        }
        for signal in [Signal::TERM, Signal::KILL] {
            if tokio::time::timeout(PATIENCE, self.ended()).await.is_ok() {
                return;
            }
            tracing::warn!(
                pid = self.pid(),
                "The private redis-server has not ended. schedd sends it {signal:?}."
            );
            self.signal(signal);
        }
        self.ended().await;
    }

    fn signal(&self, signal: Signal) {
        let sent = match &self.hold {
            // The pid of a child that was waited for may already belong to another process.
            Hold::Child(child) if child.id().is_none() => return,
            Hold::Child(_) => kill_process(self.pid, signal),
            Hold::Adopted(handle) => pidfd_send_signal(handle, signal),
        };
        if let Err(error) = sent
            && error != rustix::io::Errno::SRCH
        {
            tracing::warn!(pid = self.pid(), %error, "schedd cannot send a signal to the private redis-server.");
        }
    }
}

fn hold(pid: Pid) -> io::Result<Option<OwnedFd>> {
    match pidfd_open(pid, PidfdFlags::empty()) {
        Ok(handle) => Ok(Some(handle)),
        Err(rustix::io::Errno::SRCH) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Returns true if the process behind the pidfd `handle` still runs. A pidfd becomes readable when
/// its process ends (`pidfd_open(2)`).
fn runs(handle: &OwnedFd) -> bool {
    let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
    !matches!(poll(&mut [PollFd::new(handle, PollFlags::IN)], Some(&at_once)), Ok(1..))
}

/// Returns true if `pid` is the server of the state directory `dir`. Such a process has the user of
/// this process, the name of a server program, and `dir` as its working directory.
fn serves(pid: Pid, dir: &Path) -> bool {
    let process = PathBuf::from(format!("/proc/{}", pid.as_raw_nonzero()));
    let named = fs::read_to_string(process.join("comm"))
        .is_ok_and(|name| ["redis-server", "valkey-server"].contains(&name.trim()));
    let ours = process.metadata().is_ok_and(|meta| meta.uid() == geteuid().as_raw());
    let here = match (process.join("cwd").metadata(), dir.metadata()) {
        (Ok(cwd), Ok(dir)) => (cwd.dev(), cwd.ino()) == (dir.dev(), dir.ino()),
        _ => false,
    };
    named && ours && here
}

fn open_log(dir: &Path) -> Result<File, PrivateServerError> {
    let path = log_path(dir);
    let open = || {
        let log = OpenOptions::new().append(true).create(true).open(&path)?;
        log.set_permissions(Permissions::from_mode(0o600))?;
        if log.metadata()?.len() > MAX_LOG_BYTES {
            log.set_len(0)?;
        }
        Ok(log)
    };
    open().map_err(io_error("open", &path))
}

/// Returns the arguments of the server, which are its whole configuration. With
/// `appendfsync everysec`, a killed process loses nothing, and a power failure loses about a second
/// at most.
fn arguments(dir: &Path, socket: &Path, access: Access) -> Vec<OsString> {
    let log = log_path(dir);
    let settings: [(&str, &Path); 13] = [
        ("--port", Path::new("0")),
        ("--unixsocket", socket),
        ("--unixsocketperm", Path::new(access.socket_mode())),
        ("--dir", dir),
        ("--appendonly", Path::new("yes")),
        ("--appendfsync", Path::new("everysec")),
        ("--aof-use-rdb-preamble", Path::new("yes")),
        ("--save", Path::new("")),
        // A full server must refuse new data, not drop jobs.
        ("--maxmemory-policy", Path::new("noeviction")),
        ("--daemonize", Path::new("no")),
        ("--supervised", Path::new("no")),
        ("--logfile", &log),
        ("--enable-protected-configs", Path::new("no")),
    ];
    settings
        .iter()
        .flat_map(|(name, value)| [OsString::from(name), value.as_os_str().to_owned()])
        .collect()
}
