//! The private Redis: who may reach it, that there is one of it, and that it lives as long as it should.

use std::fs::{self, Permissions};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use redis::Commands;
use rustix::process::{Pid, Signal, kill_process};
use schedd::store::private_server::{Access, PrivateServer, PrivateServerError, ProgramSearch};
use tempfile::TempDir;

use crate::support::daemon::end_private_server;
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
        PrivateServer::start(&self.dir, Access::Person).await.unwrap()
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
    fs::write(&program, format!("#!/bin/sh\necho '{version}'\n")).unwrap();
    fs::set_permissions(&program, Permissions::from_mode(0o755)).unwrap();
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
    let _server = PrivateServer::start(&dir, Access::Person).await.unwrap();
    println!("\nstarted");
    std::future::pending::<()>().await;
}

#[tokio::test]
async fn only_its_person_reaches_it_whatever_the_umask() {
    for umask in ["0000", "0777"] {
        let state = State::new();
        let mut daemon = daemon_process(&state, umask);
        assert_eq!(mode(&state.dir), 0o700, "umask {umask}");
        assert_eq!(mode(&state.socket()), 0o600, "umask {umask}");
        assert_eq!(mode(&state.dir.join("schedd.lock")), 0o600, "umask {umask}");
        assert_eq!(mode(&state.dir.join("appendonlydir")), 0o700, "umask {umask}");
        assert_eq!(mode(state.dir.parent().unwrap()), 0o700, "umask {umask}");
        daemon.kill().unwrap();
        daemon.wait().unwrap();
    }
}

#[tokio::test]
async fn the_group_reaches_it_where_that_is_wanted() {
    let state = State::new();
    let server = PrivateServer::start(&state.dir, Access::Group).await.unwrap();
    assert_eq!(mode(&state.dir), 0o750);
    assert_eq!(mode(&state.socket()), 0o660);
    server.stop().await;
}

#[tokio::test]
async fn it_listens_nowhere_else_forgets_nothing_and_hears_no_ctrl_c() {
    let state = State::new();
    let server = state.start().await;
    let mut connection = connection(&server);
    for (setting, wanted) in [
        ("port", "0"),
        ("appendonly", "yes"),
        ("appendfsync", "everysec"),
        ("save", ""),
        ("maxmemory-policy", "noeviction"),
        ("aof-use-rdb-preamble", "yes"),
        ("enable-protected-configs", "no"),
    ] {
        let (_, found): (String, String) = redis::cmd("CONFIG").arg("GET").arg(setting).query(&mut connection).unwrap();
        assert_eq!(found, wanted, "{setting}");
    }
    let pid = state.server_pid();
    assert_eq!(rustix::process::getpgid(Pid::from_raw(pid)).unwrap(), Pid::from_raw(pid).unwrap());
    server.stop().await;
}

#[test]
fn it_inherits_no_open_file_of_its_daemon_or_of_the_daemons_caller() {
    let state = State::new();
    let mut daemon = daemon_process(&state, "0022");
    let pid = state.server_pid();
    let dir = state.dir.canonicalize().unwrap();
    let mut open: Vec<PathBuf> =
        fs::read_dir(format!("/proc/{pid}/fd")).unwrap().filter_map(|fd| fs::read_link(fd.unwrap().path()).ok()).collect();
    open.retain(|target| target.is_absolute() && target != Path::new("/dev/null"));
    assert!(open.contains(&dir.join("redis.log")), "{open:?}");
    open.retain(|target| target.file_name().unwrap() != "redis.log" && !target.starts_with(dir.join("appendonlydir")));
    assert!(open.is_empty(), "{open:?}");
    daemon.kill().unwrap();
    daemon.wait().unwrap();
}

#[tokio::test]
async fn a_second_daemon_is_refused_and_told_the_first() {
    let state = State::new();
    let mut first = daemon_process(&state, "0022");
    let error = PrivateServer::start(&state.dir, Access::Person).await.unwrap_err();
    let dir = state.dir.canonicalize().unwrap();
    let wanted =
        format!("state directory {} is in use by schedd pid {}; give --redis URL to share one Redis", dir.display(), first.id());
    assert_eq!(error.to_string(), wanted);
    first.kill().unwrap();
    first.wait().unwrap();
}

#[tokio::test]
async fn a_daemon_killed_leaves_a_server_that_the_next_one_adopts() {
    let state = State::new();
    let mut first = daemon_process(&state, "0022");
    let pid = state.server_pid();
    first.kill().unwrap();
    first.wait().unwrap();
    assert!(runs(pid));

    let server = state.start().await;
    let info: redis::InfoDict = redis::cmd("INFO").query(&mut connection(&server)).unwrap();
    assert_eq!(info.get::<i32>("process_id"), Some(pid));
    server.stop().await;
    until("the adopted server ends", LONG, || (!runs(pid)).then_some(()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_server_is_started_again_and_keeps_what_it_acknowledged() {
    let state = State::new();
    let server = state.start().await;
    let () = connection(&server).set("k", 7).unwrap();
    // The second kill hits a server that was started by the supervisor.
    for _ in 0..2 {
        let pid = state.server_pid();
        kill(pid, Signal::KILL);
        until("another server runs", LONG, || state.written_pid().filter(|now| *now != pid));
        assert_eq!(await_connection(&server).get::<_, Option<i32>>("k").unwrap(), Some(7));
    }
    server.stop().await;
    let server = state.start().await;
    assert_eq!(connection(&server).get::<_, Option<i32>>("k").unwrap(), Some(7));
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_adopted_server_is_started_again_too() {
    let state = State::new();
    let mut first = daemon_process(&state, "0022");
    first.kill().unwrap();
    first.wait().unwrap();
    let server = state.start().await;
    let pid = state.server_pid();
    kill(pid, Signal::KILL);
    await_connection(&server);
    assert_ne!(state.server_pid(), pid);
    server.stop().await;
}

#[tokio::test]
async fn a_server_that_lost_its_socket_is_ended_before_another_starts() {
    let state = State::new();
    let mut first = daemon_process(&state, "0022");
    first.kill().unwrap();
    first.wait().unwrap();
    let lost = state.server_pid();
    fs::remove_file(state.socket()).unwrap();

    let server = state.start().await;
    assert!(!runs(lost), "two servers on one append-only file");
    assert_ne!(state.server_pid(), lost);
    server.stop().await;
}

#[tokio::test]
async fn a_socket_nobody_listens_at_is_replaced() {
    let state = State::new();
    fs::create_dir_all(&state.dir).unwrap();
    drop(UnixListener::bind(state.socket()).unwrap());
    assert!(state.socket().exists());
    let server = state.start().await;
    assert_eq!(redis::cmd("PING").query::<String>(&mut connection(&server)).unwrap(), "PONG");
    server.stop().await;
}

#[tokio::test]
async fn a_stranger_at_the_socket_is_named_and_left_alone() {
    let state = State::new();
    fs::create_dir_all(&state.dir).unwrap();
    let stranger = UnixListener::bind(state.socket()).unwrap();
    // A pid file that names a living process which is no server of ours must not be believed either.
    fs::write(state.dir.join("redis.pid"), std::process::id().to_string()).unwrap();
    let error = PrivateServer::start(&state.dir, Access::Person).await.unwrap_err();
    assert!(matches!(&error, PrivateServerError::Foreign { .. }), "{error}");
    assert!(error.to_string().contains(&format!("pid {}", std::process::id())), "{error}");
    assert!(state.socket().exists());
    drop(stranger);
    // With the socket dead, only the pid file points at us: we must outlive the start.
    state.start().await.stop().await;
}

#[tokio::test]
async fn a_directory_too_deep_for_a_socket_gets_a_short_one() {
    let state = State::below(&"deep%/".repeat(30));
    let server = state.start().await;
    let () = connection(&server).set("k", 7).unwrap();
    let socket = PathBuf::from(fs::read_to_string(state.dir.join("socket-path")).unwrap());
    assert!(socket.as_os_str().len() <= 107 && !socket.starts_with(state.top.path()), "{}", socket.display());
    assert_eq!(mode(socket.parent().unwrap()), 0o700);
    server.stop().await;
    assert!(!socket.parent().unwrap().exists(), "the short directory was left behind");

    let server = state.start().await;
    assert_eq!(connection(&server).get::<_, Option<i32>>("k").unwrap(), Some(7));
    server.stop().await;
}

#[tokio::test]
async fn a_server_in_a_short_directory_is_adopted_too() {
    let state = State::below(&"deep/".repeat(30));
    let mut first = daemon_process(&state, "0022");
    let pid = state.server_pid();
    first.kill().unwrap();
    first.wait().unwrap();
    let server = state.start().await;
    assert_eq!(state.server_pid(), pid);
    server.stop().await;
}

#[tokio::test]
async fn a_recorded_socket_behind_a_link_is_not_used() {
    let state = State::below(&"deep/".repeat(30));
    fs::create_dir_all(&state.dir).unwrap();
    let link = state.top.path().join("l");
    symlink("/tmp", &link).unwrap();
    let planted = link.join("redis.sock");
    fs::write(state.dir.join("socket-path"), planted.to_str().unwrap()).unwrap();
    let server = state.start().await;
    assert!(!server.url().contains(planted.to_str().unwrap()), "{}", server.url());
    server.stop().await;
}

#[tokio::test]
async fn without_a_program_one_is_told_what_to_install() {
    let state = State::new();
    let empty = tempfile::tempdir().unwrap();
    let search = ProgramSearch::only_in(vec![empty.path().to_owned()]);
    let error = PrivateServer::start_with(&state.dir, Access::Person, search).await.unwrap_err();
    let wanted = "no redis-server found; install redis-server (Debian: apt-get install redis-server) or give --redis URL";
    assert_eq!(error.to_string(), wanted);
}

#[tokio::test]
async fn a_program_too_old_or_without_a_version_is_named() {
    for (name, line, wanted) in [
        ("redis-server", "Redis server v=6.2.14 sha=0:0", "is version 6.2.14, wanted 7.0 or newer"),
        ("valkey-server", "Valkey server v=7.1.9 sha=0:0", "is version 7.1.9, wanted 7.2 or newer"),
        ("redis-server", "hello", "--version answered \"hello\", wanted a version"),
    ] {
        let state = State::new();
        let (dir, search) = fake_program(name, line);
        let error = PrivateServer::start_with(&state.dir, Access::Person, search).await.unwrap_err().to_string();
        assert!(error.starts_with(dir.path().join(name).to_str().unwrap()) && error.contains(wanted), "{error}");
    }
}

#[tokio::test]
async fn a_server_that_ends_at_once_is_told_with_its_last_words() {
    let state = State::new();
    let (_keep, search) = fake_program("redis-server", "Redis server v=7.0.0");
    let error = PrivateServer::start_with(&state.dir, Access::Person, search).await.unwrap_err().to_string();
    assert!(error.contains("ended before it answered (exit status: 0): Redis server v=7.0.0; its log is "), "{error}");
}

#[tokio::test]
async fn a_stop_ends_the_server_and_frees_the_directory() {
    let state = State::new();
    let server = state.start().await;
    let pid = state.server_pid();
    server.stop().await;
    assert!(!runs(pid));
    let again = state.start().await;
    assert_ne!(state.server_pid(), pid);
    again.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_is_heeded_while_the_server_cannot_be_started_again() {
    let state = State::new();
    let programs = tempfile::tempdir().unwrap();
    let real = std::env::split_paths(&std::env::var_os("PATH").unwrap())
        .flat_map(|dir| ["redis-server", "valkey-server"].map(|name| dir.join(name)))
        .find(|path| path.exists())
        .unwrap();
    let link = programs.path().join(real.file_name().unwrap());
    symlink(&real, &link).unwrap();
    let search = ProgramSearch::only_in(vec![programs.path().to_owned()]);
    let server = PrivateServer::start_with(&state.dir, Access::Person, search).await.unwrap();
    let pid = state.server_pid();
    fs::remove_file(link).unwrap();
    kill(pid, Signal::KILL);
    until("the server is gone", LONG, || (!runs(pid)).then_some(()));
    tokio::time::timeout(LONG, server.stop()).await.unwrap();
}

#[tokio::test]
async fn a_log_grown_large_is_begun_anew() {
    let state = State::new();
    fs::create_dir_all(&state.dir).unwrap();
    let log = state.dir.join("redis.log");
    fs::write(&log, vec![b'x'; (1 << 20) + 1]).unwrap();
    state.start().await.stop().await;
    assert!(log.metadata().unwrap().len() < 1 << 16);
}
