//! The redis-server of a test.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The programs that may be the server, in the order of preference.
const PROGRAMS: [&str; 2] = ["redis-server", "valkey-server"];
/// The longest time that a server may take to listen.
const START: Duration = Duration::from_secs(20);
const LOOK: Duration = Duration::from_millis(5);

/// A redis-server that listens only at a socket in a directory of its own. It ends, and its
/// directory goes, when this value is dropped.
#[derive(Debug)]
pub(super) struct TestServer {
    dir: PathBuf,
    server: Child,
}

impl TestServer {
    /// Starts a server that keeps its data in memory, and returns when it listens.
    pub(super) fn start() -> io::Result<Self> {
        let name = format!("schedd-test-{}-{:08x}", std::process::id(), fastrand::u32(..));
        let dir = std::env::temp_dir().join(name);
        fs::DirBuilder::new().mode(0o700).create(&dir)?;
        let server = spawn(&dir).inspect_err(|_| {
            let _ = fs::remove_dir_all(&dir);
        })?;
        let mut redis = Self { dir, server };
        redis.listens()?;
        Ok(redis)
    }

    fn socket(&self) -> PathBuf {
        self.dir.join("redis.sock")
    }

    /// Waits until the server listens.
    fn listens(&mut self) -> io::Result<()> {
        let end = Instant::now() + START;
        while UnixStream::connect(self.socket()).is_err() {
            if let Some(status) = self.server.try_wait()? {
                return Err(io::Error::other(format!("redis-server ended: {status}")));
            }
            if Instant::now() > end {
                return Err(io::Error::other("redis-server does not listen"));
            }
            std::thread::sleep(LOOK);
        }
        Ok(())
    }

    /// Returns the URL of the server.
    pub(super) fn url(&self) -> String {
        format!("unix://{}", self.socket().display())
    }
}

/// Starts the first server program that this host has.
fn spawn(dir: &std::path::Path) -> io::Result<Child> {
    let mut missing = io::Error::from(io::ErrorKind::NotFound);
    for program in PROGRAMS {
        let socket = dir.join("redis.sock");
        let settings: [[&OsStr; 2]; 5] = [
            ["--port".as_ref(), "0".as_ref()],
            ["--unixsocket".as_ref(), socket.as_os_str()],
            ["--dir".as_ref(), dir.as_os_str()],
            ["--save".as_ref(), "".as_ref()],
            ["--appendonly".as_ref(), "no".as_ref()],
        ];
        let mut command = Command::new(program);
        command.args(settings.as_flattened()).env("LC_ALL", "C");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        match command.spawn() {
            Ok(child) => return Ok(child),
            Err(error) => missing = error,
        }
    }
    Err(io::Error::new(missing.kind(), format!("cannot start {}: {missing}", PROGRAMS[0])))
}

impl Drop for TestServer {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
        let _ = fs::remove_dir_all(&self.dir);
    }
}
