//! A real Redis of a test's own, on a unix socket in its own directory; killed and awaited on drop.

use std::io;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use schedd_store::Rights;
use tempfile::TempDir;

use super::wait::{LONG, until};
use crate::support::host::stepped_clock::SteppedClock;

pub(crate) struct TestRedis {
    dir: TempDir,
    persistence: &'static [&'static str],
    clock: Option<SteppedClock>,
    child: Child,
}

impl TestRedis {
    /// A server that loses all data when it ends.
    pub(crate) fn start() -> Self {
        Self::start_as(&["--appendonly", "no"])
    }

    /// A server with an append-only file: acknowledged writes survive [`TestRedis::kill9`], because
    /// the kernel has them.
    /// Under `everysec` they may not: Redis buffers its writes for up to 2 s while the disk is
    /// busy.
    pub(crate) fn durable() -> Self {
        Self::start_as(&["--appendonly", "yes", "--appendfsync", "no"])
    }

    /// A server with an append-only file, configured as most operators do.
    pub(crate) fn everysec() -> Self {
        Self::start_as(&["--appendonly", "yes", "--appendfsync", "everysec"])
    }

    /// A durable server with its own clock, this many seconds ahead of the true time.
    #[allow(dead_code, reason = "not of every test program")]
    pub(crate) fn with_clock(seconds: i64) -> Self {
        let dir = directory();
        let clock = SteppedClock::within(dir.path());
        clock.set(seconds);
        Self::start_in(dir, &["--appendonly", "yes", "--appendfsync", "no"], Some(clock))
    }

    /// Sets the server's own clock this many seconds ahead of the true time, or behind it if
    /// negative.
    #[allow(dead_code, reason = "not of every test program")]
    pub(crate) fn set_clock(&self, seconds: i64) {
        self.clock.as_ref().unwrap().set(seconds);
    }

    /// Counts a change as scripts do, so that nodes soon see what a test has written by hand.
    #[allow(dead_code, reason = "not of every test program")]
    pub(crate) fn count_change(&self) {
        let change = ["{schedd}:nudge", "INCRBY", "u32", "#0", "1"];
        let _: Vec<i64> =
            redis::cmd("BITFIELD").arg(&change).query(&mut self.connection()).unwrap();
    }

    fn start_as(persistence: &'static [&'static str]) -> Self {
        Self::start_in(directory(), persistence, None)
    }

    fn start_in(
        dir: TempDir,
        persistence: &'static [&'static str],
        clock: Option<SteppedClock>,
    ) -> Self {
        let child = spawn(&dir, persistence, clock.as_ref());
        let mut server = Self { dir, persistence, clock, child };
        server.await_answer();
        server
    }

    pub(crate) fn url(&self) -> String {
        format!("unix://{}", self.socket().display())
    }

    /// A connection that may do everything.
    pub(crate) fn connection(&self) -> redis::Connection {
        let user = if has_least_rights() { "?user=admin&pass=any" } else { "" };
        redis::Client::open(format!("{}{user}", self.url())).unwrap().get_connection().unwrap()
    }

    /// Kills the server as a crash would and waits for its end.
    pub(crate) fn kill9(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Starts the server again on the same socket and files. A running server is killed first.
    pub(crate) fn restart(&mut self) {
        self.kill9();
        self.child = spawn(&self.dir, self.persistence, self.clock.as_ref());
        self.await_answer();
    }

    /// Sends a signal such as STOP or CONT.
    pub(crate) fn stop_signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Sends a signal to a server that may have been killed.
    #[allow(dead_code, reason = "the chaos test's")]
    pub(crate) fn stop_signal_if_alive(&mut self, signal: Signal) {
        if self.child.try_wait().unwrap().is_none() {
            self.stop_signal(signal);
        }
    }

    fn socket(&self) -> PathBuf {
        self.dir.path().join("redis.sock")
    }

    fn await_answer(&mut self) {
        let url = self.url();
        until("the test's redis-server answers", LONG, || {
            assert_eq!(
                self.child.try_wait().unwrap(),
                None,
                "the test's redis-server ended at once"
            );
            let mut connection = redis::Client::open(&*url).ok()?.get_connection().ok()?;
            redis::cmd("PING").query::<String>(&mut connection).ok()
        });
        if has_least_rights() {
            let mut first = redis::Client::open(&*url).unwrap().get_connection().unwrap();
            // The tests use many namespaces.
            let line = schedd_store::acl_line("default", &["*"], Rights::All, "redis 7.0", false)
                .replace(">PASSWORD", "nopass")
                .replace("{*}", "{*");
            let own: Vec<&str> = line.split(' ').skip(1).collect();
            for rules in [&["admin", "on", "nopass", "~*", "&*", "+@all"][..], &own] {
                let () = redis::cmd("ACL").arg("SETUSER").arg(rules).query(&mut first).unwrap();
            }
        }
    }
}

impl Drop for TestRedis {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Lets the replica behind `connection` log in to a primary as a user who may do everything.
#[allow(dead_code, reason = "not of every test program")]
pub(crate) fn let_replicate(connection: &mut redis::Connection) {
    for words in [["masteruser", "admin"], ["masterauth", "any"]] {
        if has_least_rights() {
            let () = redis::cmd("CONFIG").arg("SET").arg(&words).query(connection).unwrap();
        }
    }
}

/// Returns true if the default user of each Redis has only the rights that `schedctl acl` prints.
fn has_least_rights() -> bool {
    std::env::var_os("SCHEDD_TEST_LEAST_RIGHTS").is_some()
}

/// Returns a directory in /tmp, not below TMPDIR: a socket's path must be short.
fn directory() -> TempDir {
    tempfile::Builder::new().prefix("schedd-test-").tempdir_in("/tmp").unwrap()
}

fn spawn(dir: &TempDir, persistence: &[&str], clock: Option<&SteppedClock>) -> Child {
    let start = |program: &str| {
        let mut command = Command::new(program);
        if let Some(clock) = clock {
            clock.give_to(&mut command);
        }
        command
            .args([
                "--port",
                "0",
                "--unixsocket",
                "redis.sock",
                "--unixsocketperm",
                "600",
                "--dir",
                ".",
            ])
            .args(persistence)
            .args(["--save", "", "--enable-debug-command", "yes"])
            .current_dir(dir.path())
            .env("LC_ALL", "C")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
    };
    match start("redis-server") {
        Err(error) if error.kind() == io::ErrorKind::NotFound => start("valkey-server").unwrap(),
        started => started.unwrap(),
    }
}
