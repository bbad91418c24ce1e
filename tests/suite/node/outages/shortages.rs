//! A node that has not the means to start anything hands back what it claimed, says so, and leaves the queue to others.

use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;

use rustix::process::{Pid, Resource, Rlimit, prlimit};
use schedd::engine::planning::planting::Applied;
use schedd_core::domain::run::run_state::RunState;
use serde_json::{Value, json};

use crate::support::ctl::Schedctl;
use crate::support::daemon::Schedd;
use crate::support::eye::Eye;
use crate::support::redis::TestRedis;
use crate::support::wait::{LONG, until};

/// Has that process open no more files than it has. What was allowed before.
fn no_more_files(of: Pid) -> Rlimit {
    let before =
        prlimit(Some(of), Resource::Nofile, Rlimit { current: Some(3), maximum: Some(256) })
            .unwrap();
    Rlimit { current: before.current.map(|files| files.min(256)), maximum: Some(256) }
}

/// A node that is up, with its keeper.
fn started(redis: &TestRedis, name: &str) -> Schedd {
    let node = Schedd::on(redis).node(name).start();
    node.wait_for_log("Started.");
    // A keeper that has run something has all it needs to be asked for more.
    let eye = Eye::on(redis);
    eye.add(&json!({"name": format!("first-{name}"), "in": "0s", "shell": "true"}));
    eye.wait_for_history(&format!("first-{name}"), 1);
    node
}

/// The port of a server on this host that answers every request by 204.
fn answering() -> u16 {
    let sink = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = sink.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for mut stream in sink.incoming().flatten() {
            let _ = std::io::Read::read(&mut stream, &mut [0; 4096]);
            let _ = std::io::Write::write_all(
                &mut stream,
                b"HTTP/1.1 204 No Content\r\nconnection: close\r\n\r\n",
            );
        }
    });
    port
}

fn held(ctl: &Schedctl, node: &str) -> Option<String> {
    let nodes: Value = serde_json::from_str(&ctl.run(&["nodes", "--json"]).good().stdout).unwrap();
    let row = nodes.as_array().unwrap().iter().find(|row| row["name"] == node).unwrap().clone();
    row["at_limit"]["reason"].as_str().map(str::to_owned)
}

#[test]
fn a_node_out_of_descriptors_fails_no_run_and_runs_them_when_it_has_some() {
    let redis = TestRedis::start();
    let (eye, ctl) = (Eye::on(&redis), Schedctl::on(&redis));
    let node = started(&redis, "short");
    let before = no_more_files(node.keeper());
    let names: Vec<String> = (0..20).map(|at| format!("job{at}")).collect();
    for name in &names {
        eye.add(&json!({"name": name, "in": "0s", "shell": "true", "delivery": "at-most-once"}));
    }
    node.wait_for_log(
        "This node cannot start runs: this node cannot start processes: Too many open files",
    );
    let why = until("the node says why it takes no runs", LONG, || held(&ctl, "short"));
    assert_eq!(why, "this node cannot start processes: Too many open files");
    let doctor = ctl.run(&["doctor"]).stdout;
    let line = doctor
        .lines()
        .find(|line| line.contains("has claimed no runs since"))
        .unwrap_or_else(|| panic!("{doctor}"));
    assert!(
        line.trim_start().starts_with("warn") && line.contains("Too many open files"),
        "{line}"
    );
    let reported = until("a run was handed back", LONG, || {
        let reported = ctl.run(&["explain", "job0"]).stdout;
        let is_reported = reported.contains("handed back without a start")
            && reported.contains("Node short claimed no runs from");
        is_reported.then_some(reported)
    });
    assert_eq!(
        reported.matches("this node cannot start processes: Too many open files").count(),
        2,
        "{reported}"
    );
    assert!(names.iter().all(|name| eye.history(name).is_empty()), "one has ended without a start");
    prlimit(Some(node.keeper()), Resource::Nofile, before).unwrap();
    for name in &names {
        let runs = eye.wait_for_history(name, 1);
        assert_eq!((runs[0].state, runs[0].attempt), (RunState::Succeeded, 1), "{:?}", runs[0]);
    }
    node.wait_for_log("This node can start runs again.");
    until("it takes runs again", LONG, || held(&ctl, "short").is_none().then_some(()));
}

#[test]
fn another_node_runs_what_a_node_out_of_descriptors_hands_back() {
    let redis = TestRedis::start();
    let eye = Eye::on(&redis);
    let short = started(&redis, "short");
    no_more_files(short.keeper());
    let _well = Schedd::on(&redis).node("well").start();
    for at in 0..50 {
        eye.add(&json!({"name": format!("job{at}"), "in": "0s", "shell": "true"}));
    }
    for at in 0..50 {
        let runs = eye.wait_for_history(&format!("job{at}"), 1);
        assert_eq!(
            (runs[0].state, runs[0].node.as_deref()),
            (RunState::Succeeded, Some("well")),
            "{:?}",
            runs[0]
        );
    }
}

#[test]
fn a_request_a_node_has_no_descriptor_for_is_made_later() {
    let redis = TestRedis::start();
    let eye = Eye::on(&redis);
    let node = started(&redis, "short");
    let url = format!("http://127.0.0.1:{}/", answering());
    let daemon = Pid::from_raw(node.pid().cast_signed()).unwrap();
    let before = no_more_files(daemon);
    eye.add(&json!({"name": "ask", "in": "0s", "http": {"url": url}}));
    node.wait_for_log("This node cannot start runs: this node cannot connect: Too many open files");
    assert!(eye.history("ask").is_empty());
    prlimit(Some(daemon), Resource::Nofile, before).unwrap();
    let runs = eye.wait_for_history("ask", 1);
    assert_eq!((runs[0].state, runs[0].attempt), (RunState::Succeeded, 1), "{:?}", runs[0]);
}

#[test]
fn a_jobs_file_that_no_descriptor_is_left_for_is_read_later() {
    let redis = TestRedis::start();
    let eye = Eye::on(&redis);
    let node = Schedd::on(&redis).node("short").jobs("").start();
    node.wait_for_log("Started.");
    let daemon = Pid::from_raw(node.pid().cast_signed()).unwrap();
    let before = no_more_files(daemon);
    std::fs::write(node.jobs_file(), "[jobs.later]\nshell = \"true\"\nevery = \"1s\"\n").unwrap();
    node.wait_for_log("the file cannot be read now: Too many open files");
    prlimit(Some(daemon), Resource::Nofile, before).unwrap();
    eye.wait_for_history("later", 1);
}

/// Adds that many jobs with this name and a number, each with one run now in the queue `q`.
fn add_many(eye: &Eye, name: &str, count: usize, action: &Value) {
    for number in 0..count {
        let mut job = json!({"name": format!("{name}{number}"), "in": "0s", "queue": "q"});
        job.as_object_mut().unwrap().extend(action.as_object().unwrap().clone());
        eye.add(&job);
    }
}

const MANY: usize = 30;
/// The time limit for `MANY` starts. At one start in two seconds, they would take twice as long.
const FOR_MANY: Duration = Duration::from_secs(30);

#[test]
fn requests_that_are_refused_show_that_descriptors_are_there_again() {
    let redis = TestRedis::start();
    let eye = Eye::on(&redis);
    let node = Schedd::on(&redis).node("short").jobs("[queues.q]\nconcurrency = 50\n").start();
    node.wait_for_log("Started.");
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let daemon = Pid::from_raw(node.pid().cast_signed()).unwrap();
    let before = no_more_files(daemon);
    add_many(&eye, "dead", MANY, &json!({"http": {"url": format!("http://{closed}/")}}));
    node.wait_for_log("This node cannot start runs: this node cannot connect: Too many open files");
    prlimit(Some(daemon), Resource::Nofile, before).unwrap();
    add_many(&eye, "behind", MANY, &json!({"shell": "true"}));
    until("all runs have ended", FOR_MANY, || {
        let has_ended = |number| {
            ["dead", "behind"]
                .iter()
                .all(|name| !eye.history(&format!("{name}{number}")).is_empty())
        };
        (0..MANY).all(has_ended).then_some(())
    });
    node.wait_for_log("This node can start runs again.");
    assert_eq!(eye.history("dead0")[0].state, RunState::Failed);
}

#[test]
fn runs_that_take_long_start_together_once_descriptors_are_there_again() {
    let redis = TestRedis::start();
    let eye = Eye::on(&redis);
    let node = Schedd::on(&redis).node("short").jobs("[queues.q]\nconcurrency = 50\n").start();
    node.wait_for_log("Started.");
    eye.add(&json!({"name": "first", "in": "0s", "shell": "true"}));
    eye.wait_for_history("first", 1);
    let before = no_more_files(node.keeper());
    let dir = tempfile::tempdir().unwrap();
    let work = format!("touch {}/$SCHEDD_JOB; exec sleep 600", dir.path().display());
    add_many(&eye, "long", MANY, &json!({"shell": work}));
    node.wait_for_log("This node cannot start runs: this node cannot start processes");
    prlimit(Some(node.keeper()), Resource::Nofile, before).unwrap();
    until("all runs have begun", LONG, || {
        (std::fs::read_dir(dir.path()).unwrap().count() == MANY).then_some(())
    });
    until("the node says that it takes runs", LONG, || {
        held(&Schedctl::on(&redis), "short").is_none().then_some(())
    });
}

#[test]
fn a_run_is_handed_back_if_its_host_file_or_user_cannot_be_read() {
    let redis = TestRedis::start();
    let eye = Eye::on(&redis);
    let dir = tempfile::tempdir().unwrap();
    let put = |name: &str, text: &str| {
        let path = dir.path().join(name);
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let file = put("ok.env", "A=1\n");
    put("path", "x");
    let node = Schedd::on(&redis)
        .node("short")
        .env("CREDENTIALS_DIRECTORY", dir.path().to_str().unwrap())
        .start();
    node.wait_for_log("Started.");
    eye.add(&json!({"name": "first", "in": "0s", "shell": "true"}));
    eye.wait_for_history("first", 1);
    let port = answering();
    let daemon = Pid::from_raw(node.pid().cast_signed()).unwrap();
    let mut jobs = vec![
        ("host", "cannot connect", json!({"http": {"url": format!("http://localhost:{port}/")}})),
        ("file", "ok.env", json!({"shell": "test $A = 1", "env_file": file})),
        ("own", "path", json!({"shell": "test $A = x", "env": {"A": "${credential:path}"}})),
        (
            "url",
            "path",
            json!({"http": {"url": format!("http://127.0.0.1:{port}/${{credential:path}}")}}),
        ),
        (
            "check",
            "cannot connect",
            json!({"shell": "true", "done_check":
                {"http": {"url": format!("http://localhost:{port}/")}, "on": "always"}}),
        ),
    ];
    if rustix::process::geteuid().is_root() {
        jobs.push(("user", "user daemon", json!({"shell": "true", "user": "daemon", "cwd": "/"})));
    }
    for (name, what, action) in &jobs {
        let before = no_more_files(daemon);
        let mut job = json!({"name": name, "in": "0s"});
        job.as_object_mut().unwrap().extend(action.as_object().unwrap().clone());
        let Applied::Created(Some(due)) = eye.add(&job) else { panic!("{name} exists") };
        let id = format!("{name}@{}", due.as_i64());
        let handed_back = until("the run is handed back", LONG, || {
            assert!(eye.history(name).is_empty(), "{name}: {:?}", eye.history(name)[0].error);
            eye.run(&id)?.handed_back
        });
        assert!(
            handed_back.starts_with("not started: this node cannot")
                && handed_back.contains(what)
                && handed_back.contains("Too many open files"),
            "{name}: {handed_back}"
        );
        prlimit(Some(daemon), Resource::Nofile, before).unwrap();
        let runs = eye.wait_for_history(name, 1);
        assert_eq!((runs[0].state, runs[0].attempt), (RunState::Succeeded, 1), "{:?}", runs[0]);
    }
}
