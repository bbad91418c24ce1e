//! Senders of many half requests: they stop neither the runs of the node nor other requests.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::TcpStream;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::http_probe::HttpAnswer;
use super::{ApiScene, DEFINING, written};
use crate::support::ctl::Schedctl;

const LINES: (&str, &str) = ("Content-Type", "application/x-ndjson");

/// Lets this test have as many open files as its process may have.
fn allow_many_files() {
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit }).unwrap();
}

/// Returns true if no answer has come yet.
fn is_unanswered(stream: &mut TcpStream) -> bool {
    stream.set_nonblocking(true).unwrap();
    let read = stream.read(&mut [0; 1]);
    stream.set_nonblocking(false).unwrap();
    read.is_err_and(|error| error.kind() == ErrorKind::WouldBlock)
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
    let refused = HttpAnswer::read(slow.pop().unwrap());
    refused.problem(503, "busy");
    assert!(refused.head.contains("retry-after: "), "{}", refused.head);
    Schedctl::on(&scene.redis).run(&["run", "a", "--wait"]).good();
    // The run ended before the first half of a request was given up.
    assert!(slow.iter_mut().any(is_unanswered));
    assert_eq!(scene.get("viewer", "/v1/stats").status, 200);
    // A place is free again when its request ends.
    drop(slow);
    crate::support::wait::until("a verb is answered", crate::support::wait::LONG, || {
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
