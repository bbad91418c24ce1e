//! Its socket: lost, left behind, taken by a stranger, too deep.

use std::fs;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::path::PathBuf;

use redis::Commands;
use schedd_programs::private_redis::{Access, PrivateServer, PrivateServerError};

use super::{State, connection, daemon_process, mode, runs};

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
    let error = PrivateServer::start(&state.dir, Access::User).await.unwrap_err();
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
    assert!(
        socket.as_os_str().len() <= 107 && !socket.starts_with(state.top.path()),
        "{}",
        socket.display()
    );
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
