//! Who reaches it, and what it inherits.

use std::fs;
use std::path::{Path, PathBuf};

use rustix::process::Pid;
use schedd_programs::private_redis::{Access, PrivateServer};

use super::{State, connection, daemon_process, mode};

#[tokio::test]
async fn only_its_user_reaches_it_whatever_the_umask() {
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
        let (_, found): (String, String) =
            redis::cmd("CONFIG").arg("GET").arg(setting).query(&mut connection).unwrap();
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
    let mut open: Vec<PathBuf> = fs::read_dir(format!("/proc/{pid}/fd"))
        .unwrap()
        .filter_map(|fd| fs::read_link(fd.unwrap().path()).ok())
        .collect();
    open.retain(|target| target.is_absolute() && target != Path::new("/dev/null"));
    assert!(open.contains(&dir.join("redis.log")), "{open:?}");
    open.retain(|target| {
        target.file_name().unwrap() != "redis.log" && !target.starts_with(dir.join("appendonlydir"))
    });
    assert!(open.is_empty(), "{open:?}");
    daemon.kill().unwrap();
    daemon.wait().unwrap();
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
