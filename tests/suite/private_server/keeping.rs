//! It is adopted after a crash of its daemon, started again when it dies, and ended with a stop.

use std::fs;
use std::os::unix::fs::symlink;

use redis::Commands;
use rustix::process::Signal;
use schedd_programs::private_redis::{Access, PrivateServer, ProgramSearch};

use super::{State, await_connection, connection, daemon_process, kill, runs};
use crate::support::wait::{LONG, until};

#[tokio::test]
async fn a_second_daemon_is_refused_and_reported_the_first() {
    let state = State::new();
    let mut first = daemon_process(&state, "0022");
    let error = PrivateServer::start(&state.dir, Access::User).await.unwrap_err();
    let dir = state.dir.canonicalize().unwrap();
    let wanted = format!(
        "state directory {} is in use by schedd pid {}; give --redis URL to share one Redis",
        dir.display(),
        first.id()
    );
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
    let server = PrivateServer::start_with(&state.dir, Access::User, search).await.unwrap();
    let pid = state.server_pid();
    fs::remove_file(link).unwrap();
    kill(pid, Signal::KILL);
    until("the server is gone", LONG, || (!runs(pid)).then_some(()));
    tokio::time::timeout(LONG, server.stop()).await.unwrap();
}
