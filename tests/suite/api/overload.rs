//! Senders of many half requests: they stop neither the runs of the node nor other requests.

use std::io::{ErrorKind, Write as _};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt as _;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::http_probe::HttpAnswer;
use super::{ApiScene, DEFINING, written};
use crate::support::ctl::Schedctl;
use crate::support::daemon::Schedd;
use crate::support::redis::TestRedis;
use crate::support::wait::{LONG, until};

const LINES: (&str, &str) = ("Content-Type", "application/x-ndjson");

/// Lets this test have as many open files as its process may have.
fn allow_many_files() {
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit }).unwrap();
}

/// Returns a path for a schedd whose limits of open files are set by these words of `ulimit`.
fn limited(dir: &std::path::Path, words: &str) -> std::path::PathBuf {
    let text = format!("#!/bin/sh\n{words}\nexec {} \"$@\"\n", env!("CARGO_BIN_EXE_schedd"));
    let program = written(dir, "schedd", &text);
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    program
}

/// Returns the begin of the answer that has come, with the status. Fails if none has come.
fn come(stream: &TcpStream) -> std::io::Result<[u8; 12]> {
    let mut begin = [0; 12];
    stream.set_nonblocking(true)?;
    let read = stream.peek(&mut begin);
    stream.set_nonblocking(false)?;
    read.map(|_| begin)
}

/// Returns the first answer that refuses one of the requests.
fn refusal(slow: &mut Vec<TcpStream>) -> HttpAnswer {
    until("a request is refused", LONG, || {
        let is_refused =
            |stream: &TcpStream| come(stream).is_ok_and(|begin| begin.ends_with(b"503"));
        let at = slow.iter().position(is_refused)?;
        Some(HttpAnswer::read(slow.remove(at)))
    })
}

#[test]
fn half_sent_verbs_of_a_viewer_delay_no_run_and_are_bounded() {
    const MANY: usize = 560;
    allow_many_files();
    let dir = tempfile::tempdir_in("/tmp").unwrap();
    let file = written(dir.path(), "job.env", "WORD=1\n");
    let jobs = format!("[jobs.a]\nshell = \"true\"\nenv_file = {file:?}\n");
    let scene = ApiScene::start("", &jobs);
    let head = scene.probe.head("viewer", "POST", "/v1/schedctl", &[LINES]);
    let mut slow: Vec<TcpStream> = (0..MANY).map(|_| scene.probe.connect()).collect();
    for stream in &mut slow {
        stream.write_all(format!("{head}Content-Length: 100\r\n\r\n{{").as_bytes()).unwrap();
    }
    let refused = refusal(&mut slow);
    refused.problem(503, "busy");
    assert!(refused.head.contains("retry-after: "), "{}", refused.head);
    Schedctl::on(&scene.redis).run(&["run", "a", "--wait"]).good();
    // The run ended before the first half of a request was given up.
    let is_open =
        |stream: &TcpStream| come(stream).is_err_and(|error| error.kind() == ErrorKind::WouldBlock);
    assert!(slow.iter().any(is_open));
    assert_eq!(scene.get("viewer", "/v1/stats").status, 200);
    // A place is free again when its request ends.
    drop(slow);
    until("a verb is answered", LONG, || {
        (scene.ctl("viewer").run(&["list"]).code == 0).then_some(())
    });
}

#[test]
fn only_an_admin_sends_files_of_more_than_a_mebibyte() {
    let scene = ApiScene::start(DEFINING, "");
    let wide =
        format!("[jobs.w]\ncron = \"0 9 1 1 *\"\nshell = \"true\"\n#{}\n", "x".repeat(2 << 20));
    for (caller, code) in [("viewer", 1), ("operator", 1), ("admin", 0)] {
        let ctl = scene.ctl(caller);
        written(ctl.home(), "wide.toml", &wide);
        let answer = ctl.run(&["diff", "wide.toml"]);
        assert_eq!(answer.stderr.contains("1 MiB"), caller != "admin", "{caller}: {answer:?}");
        assert!(answer.code == code || caller == "admin", "{caller}: {answer:?}");
    }
    let line = "x".repeat(2 << 20);
    let answer = scene.probe.send("viewer", "POST", "/v1/schedctl", &[LINES], line.as_bytes());
    answer.problem(413, "too_large");
}

#[test]
fn connections_leave_files_for_the_runs_of_the_node() {
    allow_many_files();
    let (dir, redis) = (tempfile::tempdir_in("/tmp").unwrap(), TestRedis::start());
    let file = written(dir.path(), "job.env", "WORD=1\n");
    let jobs = format!(
        "[api]\nlisten = \"127.0.0.1:0\"\ntokens_file = {:?}\n\
         [jobs.a]\nshell = \"true\"\nenv_file = {file:?}\n",
        dir.path().join("tokens")
    );
    let schedd =
        Schedd::on(&redis).played_by(&limited(dir.path(), "ulimit -n 256")).jobs(&jobs).start();
    let log = schedd.wait_for_log("The HTTP API listens.");
    schedd.wait_for_log("The HTTP API answers all requests.");
    schedd.wait_for_log("All jobs of the jobs file are applied");
    let address = log.split("address=http://").nth(1).unwrap().split(' ').next().unwrap();
    let mut slow: Vec<TcpStream> = (0..250).map(|_| TcpStream::connect(address).unwrap()).collect();
    for stream in &mut slow {
        // A connection over the limit may be closed already.
        let _ = stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: local");
    }
    refusal(&mut slow).problem(503, "busy");
    Schedctl::on(&redis).run(&["run", "a", "--wait"]).good();
    assert!(!schedd.log().contains("cannot start runs"), "{}", schedd.log());
}

#[test]
fn schedd_raises_its_limit_of_open_files_and_jobs_get_the_former_limit() {
    let (dir, redis) = (tempfile::tempdir_in("/tmp").unwrap(), TestRedis::start());
    let program = limited(dir.path(), "ulimit -Sn 300; ulimit -Hn 900");
    let jobs = "[jobs.a]\nshell = \"ulimit -Sn; ulimit -Hn\"\n";
    let schedd = Schedd::on(&redis).played_by(&program).jobs(jobs).start();
    schedd.wait_for_log("All jobs of the jobs file are applied");
    let ctl = Schedctl::on(&redis);
    ctl.run(&["run", "a", "--wait"]).good();
    assert_eq!(ctl.run(&["logs", "a@last"]).good().stdout, "300\n900\n");
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", schedd.pid())).unwrap();
    let line = limits.lines().find(|line| line.starts_with("Max open files")).unwrap();
    assert_eq!(line.split_whitespace().skip(3).take(2).collect::<Vec<_>>(), ["900", "900"]);
}
