//! The private Redis: who may reach it, that there is one of it, and that it lives as long as it should.

mod access;
mod keeping;
mod programs;
mod sockets;

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use schedd_programs::private_redis::{Access, PrivateServer, ProgramSearch};
use tempfile::TempDir;

use crate::support::daemon::end_private_server;
use crate::support::host::program::write_program;
use crate::support::wait::{LONG, until};

/// A state directory whose server is ended with it, also when the test fails.
struct State {
    top: TempDir,
    dir: PathBuf,
}

impl State {
    fn new() -> Self {
        Self::below("state/schedd")
    }

    fn below(path: &str) -> Self {
        let top = tempfile::Builder::new().prefix("schedd-test-").tempdir_in("/tmp").unwrap();
        let dir = top.path().join(path);
        Self { top, dir }
    }

    async fn start(&self) -> PrivateServer {
        PrivateServer::start(&self.dir, Access::User).await.unwrap()
    }

    fn server_pid(&self) -> i32 {
        self.written_pid().unwrap()
    }

    /// None while the file is being written.
    fn written_pid(&self) -> Option<i32> {
        fs::read_to_string(self.dir.join("redis.pid")).unwrap().trim().parse().ok()
    }

    fn socket(&self) -> PathBuf {
        self.dir.join("redis.sock")
    }
}

impl Drop for State {
    fn drop(&mut self) {
        end_private_server(&self.dir);
        if let Ok(socket) = fs::read_to_string(self.dir.join("socket-path")) {
            let _ = fs::remove_dir_all(Path::new(&socket).parent().unwrap());
        }
    }
}

fn mode(path: &Path) -> u32 {
    path.metadata().unwrap().mode() & 0o7777
}

fn runs(pid: i32) -> bool {
    fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| !stat.contains(") Z "))
}

fn kill(pid: i32, signal: Signal) {
    kill_process(Pid::from_raw(pid).unwrap(), signal).unwrap();
}

fn connection(server: &PrivateServer) -> redis::Connection {
    redis::Client::open(server.url()).unwrap().get_connection().unwrap()
}

fn await_connection(server: &PrivateServer) -> redis::Connection {
    until("the server answers again", LONG, || {
        let mut connection = redis::Client::open(server.url()).ok()?.get_connection().ok()?;
        redis::cmd("PING").query::<String>(&mut connection).ok().map(|_| connection)
    })
}

/// A directory to search, with a `name` in it that prints `version`.
fn fake_program(name: &str, version: &str) -> (TempDir, ProgramSearch) {
    let dir = tempfile::tempdir().unwrap();
    let program = dir.path().join(name);
    write_program(&program, format!("#!/bin/sh\necho '{version}'\n"));
    let search = ProgramSearch::only_in(vec![dir.path().to_owned()]);
    (dir, search)
}

const CHILD_DIR: &str = "SCHEDD_TEST_PRIVATE_SERVER_DIR";

/// Another process that holds the server of `state`, started under `umask` and with a file open, until killed.
fn daemon_process(state: &State, umask: &str) -> Child {
    let mut child = Command::new("/bin/sh")
        .args(["-c", "umask $0; exec \"$@\" 5</dev/zero", umask])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "private_server::the_daemon_of_another_test", "--ignored", "--nocapture"])
        .env(CHILD_DIR, &state.dir)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let started = lines.any(|line| line.unwrap() == "started");
    assert!(started, "the other daemon did not start: {:?}", child.wait());
    child
}

#[tokio::test]
#[ignore = "not a test: the body of the process that daemon_process starts"]
async fn the_daemon_of_another_test() {
    let dir = PathBuf::from(std::env::var_os(CHILD_DIR).unwrap());
    let _server = PrivateServer::start(&dir, Access::User).await.unwrap();
    println!("\nstarted");
    std::future::pending::<()>().await;
}
