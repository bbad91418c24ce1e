//! The trace of a job, which its processes and requests get.

use std::fs;

use serde_json::json;

use crate::support::ctl::Schedctl;
use crate::support::daemon::Schedd;
use crate::support::eye::Eye;
use crate::support::host::http_sink::HttpSink;
use crate::support::redis::TestRedis;

const TRACE: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
const OTHER: &str = "00-00000000000000000000000000000009-0000000000000009-00";

#[test]
fn processes_and_requests_get_the_trace_of_their_job_unless_they_set_another() {
    let redis = TestRedis::start();
    let (ctl, eye) = (Schedctl::on(&redis), Eye::on(&redis));
    let dir = tempfile::tempdir().unwrap();
    let out = |name: &str| dir.path().join(name);
    let shell = |name: &str| format!("echo \"$TRACEPARENT\" > {}", out(name).display());
    let sink = eye.ask(HttpSink::start([]));
    let _node = Schedd::on(&redis).start();
    let add = |args: &[&str]| ctl.run(&[&["add", "--in", "0s"], args].concat()).good();
    add(&["--name", "shell", "--traceparent", TRACE, "--shell", &shell("shell")]);
    add(&["--name", "none", "--shell", &shell("none")]);
    let own = format!("TRACEPARENT={OTHER}");
    add(&["--name", "own", "--traceparent", TRACE, "--env", &own, "--shell", &shell("own")]);
    add(&["--name", "http", "--traceparent", TRACE, "--http", &sink.url("/a")]);
    let header = format!("Traceparent:{OTHER}");
    let url = sink.url("/b");
    add(&["--name", "header", "--traceparent", TRACE, "--http", &url, "--header", &header]);
    let line = json!({"name": "line", "in": "0s", "traceparent": TRACE, "shell": shell("line")});
    ctl.run_with_input(&["add", "--stdin"], line.to_string().as_bytes()).good();
    for job in ["shell", "none", "own", "line"] {
        eye.wait_for_history(job, 1);
    }
    let read = |name: &str| fs::read_to_string(out(name)).unwrap().trim().to_owned();
    let found = ["shell", "none", "own", "line"].map(read);
    assert_eq!(found, [TRACE, "", OTHER, TRACE]);
    for (job, target, wanted) in [("http", "/a", TRACE), ("header", "/b", OTHER)] {
        // The server answers while this thread waits for it.
        let request = eye.ask(crate::support::wait::eventually("the request comes", || {
            sink.requests().into_iter().find(|request| request.target == target)
        }));
        let headers = request.headers.iter().filter(|(name, _)| name == "traceparent");
        assert_eq!(headers.map(|(_, value)| value.as_str()).collect::<Vec<_>>(), [wanted], "{job}");
    }
    let shown = ctl.run(&["show", "shell", "--json"]).good().json();
    assert_eq!(shown["definition"]["traceparent"], TRACE);
    let shown = ctl.run(&["show", "shell"]).good().stdout;
    assert!(shown.contains(&format!("traceparent   {TRACE}")), "{shown}");
    assert!(
        ctl.run(&["show", "none", "--json"]).good().json()["definition"]
            .get("traceparent")
            .is_none()
    );
}

#[test]
fn a_jobs_file_cannot_have_a_trace() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("jobs.toml");
    fs::write(&file, format!("[jobs.a]\nshell = \"true\"\ntraceparent = \"{TRACE}\"\n")).unwrap();
    let checked = Schedctl::alone().run(&["check", file.to_str().unwrap()]);
    assert!(checked.code != 0, "{checked:?}");
    let all = checked.stdout + &checked.stderr;
    assert!(all.contains("traceparent is only for schedctl add"), "{all}");
}
