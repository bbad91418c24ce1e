//! The support of the tests is right itself: a server is as durable as it says, a daemon is heard, signalled and reaped. The
//! programs are played by small scripts, so that a failure here is never one of schedd.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use redis::Commands;
use rustix::process::Signal;
use tempfile::TempDir;

use crate::support::ctl::Schedctl;
use crate::support::daemon::Schedd;
use crate::support::host::program::write_program;
use crate::support::redis::TestRedis;
use crate::support::wait::{LONG, until};

fn script(text: &str) -> (TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("script");
    write_program(&path, format!("#!/bin/sh\n{text}\n"));
    (dir, path)
}

fn runs(pid: u32) -> bool {
    Path::new("/proc").join(pid.to_string()).exists()
}

#[test]
fn a_durable_redis_keeps_what_it_acknowledged_when_killed_and_another_does_not() {
    for (mut server, kept) in [(TestRedis::durable(), Some(7)), (TestRedis::start(), None)] {
        let () = server.connection().set("k", 7).unwrap();
        server.kill9();
        server.restart();
        assert_eq!(server.connection().get::<_, Option<i32>>("k").unwrap(), kept);
    }
}

#[test]
fn a_stopped_redis_answers_again_when_it_may_go_on() {
    let server = TestRedis::start();
    let mut connection = server.connection();
    connection.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
    server.stop_signal(Signal::STOP);
    assert!(redis::cmd("PING").query::<String>(&mut connection).is_err());
    server.stop_signal(Signal::CONT);
    assert_eq!(redis::cmd("PING").query::<String>(&mut server.connection()).unwrap(), "PONG");
}

#[test]
fn a_daemon_is_given_its_flags_and_nothing_of_our_environment() {
    let (_keep, program) = script("echo \"$@\" >&2; env >&2; echo done >&2; sleep 1000 & wait");
    let server = TestRedis::start();
    let daemon = Schedd::on(&server)
        .namespace("n1")
        .node("a")
        .jobs("x = 1")
        .env("EXTRA", "7")
        .played_by(&program)
        .start();
    daemon.wait_for_log("done");
    let log = daemon.log();
    let jobs = daemon.jobs_file();
    assert_eq!(fs::read_to_string(&jobs).unwrap(), "x = 1");
    let flags =
        format!("--redis {} --namespace n1 --node a --jobs {}", server.url(), jobs.display());
    assert_eq!(log.lines().next(), Some(&*flags));
    assert!(log.contains("EXTRA=7") && !log.contains("CARGO"), "{log}");
}

#[test]
fn a_daemon_hears_signals_and_its_end_is_seen() {
    let text =
        "trap 'echo hup >&2' HUP; trap 'exit 3' TERM; echo ready >&2; while :; do sleep 0.02; done";
    let (_keep, program) = script(text);
    let mut daemon = Schedd::with_private_redis().played_by(&program).start();
    daemon.wait_for_log("ready");
    daemon.hup();
    daemon.wait_for_log("hup");
    daemon.term();
    assert_eq!(daemon.wait_exit().code(), Some(3));
}

#[test]
fn a_dropped_or_killed_daemon_is_gone() {
    let (_keep, program) = script("exec sleep 1000");
    let dropped = Schedd::with_private_redis().played_by(&program).start();
    let pid = dropped.pid();
    assert!(runs(pid));
    drop(dropped);
    assert!(!runs(pid));

    let mut killed = Schedd::with_private_redis().played_by(&program).start();
    killed.kill9();
    assert!(!runs(killed.pid()));
}

#[test]
fn the_command_line_gives_its_code_its_output_and_its_json() {
    let (_keep, program) = script(
        "echo \"[\\\"$1\\\", \\\"$SCHEDD_NAMESPACE\\\", \\\"$SCHEDD_REDIS_URL\\\"]\"; echo no >&2; exit 4",
    );
    let server = TestRedis::start();
    let finished = Schedctl::on(&server).namespace("n1").played_by(&program).run(&["list"]);
    assert_eq!((finished.code, &*finished.stderr), (4, "no\n"));
    assert_eq!(finished.json(), serde_json::json!(["list", "n1", server.url()]));

    let (_keep, program) = script("kill -9 $$");
    assert_eq!(Schedctl::alone().played_by(&program).run(&[]).code, 137);
}

#[test]
#[should_panic(expected = "waited 30ms in vain: the moon")]
fn what_was_awaited_in_vain_is_reported() {
    until("the moon", Duration::from_millis(30), || None::<()>);
}

#[test]
fn what_comes_in_the_end_is_awaited() {
    let mut asked = 0;
    let found = until("the third time", LONG, || {
        asked += 1;
        (asked == 3).then_some(asked)
    });
    assert_eq!(found, 3);
}
