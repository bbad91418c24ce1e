//! One server process, started by this daemon or by one before it: spawned, recognised, signalled, awaited.
//!
//! Invariant: a [`Server`] is a process that is proven to be the server of its state directory and is held so that its pid
//! cannot come to mean another (our child, or a pidfd opened before the proof).

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions, Permissions};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, geteuid, kill_process, pidfd_open, pidfd_send_signal};
use tokio::process::{Child, Command};

use super::error::io_error;
use super::rights::spawn_without_rights;
use super::{Access, PrivateServerError, ask};

const PID_FILE: &str = "redis.pid";
const LOG_FILE: &str = "redis.log";
const MAX_LOG_BYTES: u64 = 1 << 20;
/// An adopted process is looked at again and again, since registering a bare descriptor with the runtime takes unsafe code.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// The server's process.
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

/// The server's log.
pub(super) fn log_path(dir: &Path) -> PathBuf {
    dir.join(LOG_FILE)
}

impl Server {
    /// Starts `program` as the server of `dir`; it does not answer yet.
    pub(super) fn spawn(program: &Path, dir: &Path, socket: &Path, access: Access) -> Result<Self, PrivateServerError> {
        // The shell sets the umask, closes what schedd's own caller left open, and writes the pid down before the server
        // exists, so that there is no moment in which a server runs that the next daemon could not find.
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
            // A locale of the environment that the host does not have stops a server of 7.2 and later.
            .env("LC_ALL", "C")
            // What systemd gives its service is not for a server of the service.
            .env_remove("NOTIFY_SOCKET")
            .env_remove("CREDENTIALS_DIRECTORY")
            .stdin(Stdio::null())
            .stdout(log)
            .stderr(log_again)
            // A Ctrl-C for schedd must not reach the server: it is to end last.
            .process_group(0);
        let child = spawn_without_rights(&mut command).map_err(io_error("start", program))?;
        let raw = child.id().and_then(|id| i32::try_from(id).ok());
        match raw.and_then(Pid::from_raw) {
            Some(pid) => Ok(Self { pid, hold: Hold::Child(child) }),
            None => Err(io_error("start", program)(io::Error::other("it has no process id"))),
        }
    }

    /// The server that listens at `socket`, if one does. Fails if what listens there is not the server of `dir`.
    pub(super) async fn listening(dir: &Path, socket: &Path) -> Result<Option<Self>, PrivateServerError> {
        let Some(raw) = ask::listener(socket).await.map_err(io_error("connect to", socket))? else { return Ok(None) };
        let foreign = || PrivateServerError::Foreign {
            socket: socket.to_owned(),
            holder: if raw == 0 { "a process of another container".to_owned() } else { format!("pid {raw}") },
        };
        let pid = Pid::from_raw(raw).ok_or_else(foreign)?;
        let Some(held) = hold(pid).map_err(io_error("watch the server of", dir))? else { return Ok(None) };
        if serves(pid, dir) { Ok(Some(Self { pid, hold: Hold::Adopted(held) })) } else { Err(foreign()) }
    }

    /// The server of `dir` that was started last, if it still runs, whether it can be reached or not.
    pub(super) fn recorded(dir: &Path) -> Result<Option<Self>, PrivateServerError> {
        let text = fs::read_to_string(dir.join(PID_FILE)).unwrap_or_default();
        let Some(pid) = text.trim().parse().ok().filter(|pid| *pid > 0).and_then(Pid::from_raw) else { return Ok(None) };
        let Some(held) = hold(pid).map_err(io_error("watch the server of", dir))? else { return Ok(None) };
        Ok(serves(pid, dir).then_some(Self { pid, hold: Hold::Adopted(held) }))
    }

    /// Its process id.
    pub(super) fn pid(&self) -> i32 {
        self.pid.as_raw_nonzero().get()
    }

    /// Waits for its end and tells how it came. May be dropped and called again.
    pub(super) async fn ended(&mut self) -> String {
        match &mut self.hold {
            Hold::Child(child) => match child.wait().await {
                Ok(status) => status.to_string(),
                Err(error) => error.to_string(),
            },
            Hold::Adopted(held) => {
                while runs(held) {
                    tokio::time::sleep(LOOK_EVERY).await;
                }
                "exit status unknown".to_owned()
            }
        }
    }

    /// Ends it and waits: SHUTDOWN at `socket`, TERM if it does not listen there or does not hear, KILL after 10 s.
    pub(super) async fn end(mut self, socket: &Path) {
        const PATIENCE: Duration = Duration::from_secs(5);
        let listens = matches!(ask::listener(socket).await, Ok(Some(pid)) if pid == self.pid());
        if !listens || ask::shut_down(socket).await.is_err() {
            self.signal(Signal::TERM);
        }
        for signal in [Signal::TERM, Signal::KILL] {
            if tokio::time::timeout(PATIENCE, self.ended()).await.is_ok() {
                return;
            }
            tracing::warn!(pid = self.pid(), "The private redis-server does not end; sending {signal:?}.");
            self.signal(signal);
        }
        self.ended().await;
    }

    fn signal(&self, signal: Signal) {
        let sent = match &self.hold {
            // A child that was waited for has no id any more: its number may be another's.
            Hold::Child(child) if child.id().is_none() => return,
            Hold::Child(_) => kill_process(self.pid, signal),
            Hold::Adopted(held) => pidfd_send_signal(held, signal),
        };
        if let Err(error) = sent
            && error != rustix::io::Errno::SRCH
        {
            tracing::warn!(pid = self.pid(), %error, "Cannot signal the private redis-server.");
        }
    }
}

fn hold(pid: Pid) -> io::Result<Option<OwnedFd>> {
    match pidfd_open(pid, PidfdFlags::empty()) {
        Ok(held) => Ok(Some(held)),
        Err(rustix::io::Errno::SRCH) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Whether the process of a pidfd still runs: the descriptor is readable once it has ended (`pidfd_open(2)`).
fn runs(held: &OwnedFd) -> bool {
    let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
    !matches!(poll(&mut [PollFd::new(held, PollFlags::IN)], Some(&at_once)), Ok(1..))
}

/// The proof: a process of our user, of a server's name, at work in our state directory.
fn serves(pid: Pid, dir: &Path) -> bool {
    let process = PathBuf::from(format!("/proc/{}", pid.as_raw_nonzero()));
    let named =
        fs::read_to_string(process.join("comm")).is_ok_and(|name| ["redis-server", "valkey-server"].contains(&name.trim()));
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

/// The whole configuration. `everysec` loses nothing when a process is killed, at most about a second when power fails.
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
        // A full server must refuse, not forget jobs.
        ("--maxmemory-policy", Path::new("noeviction")),
        ("--daemonize", Path::new("no")),
        ("--supervised", Path::new("no")),
        ("--logfile", &log),
        ("--enable-protected-configs", Path::new("no")),
    ];
    settings.iter().flat_map(|(name, value)| [OsString::from(name), value.as_os_str().to_owned()]).collect()
}
