//! `schedctl work`: a program as a worker.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Child, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use super::{QUEUE, add};
use crate::api::{ApiScene, DEFINING};
use crate::support::ctl::Schedctl;
use crate::support::wait::{LONG, until};

/// A running `schedctl work`. It gets SIGKILL when the test ends.
struct Work {
    child: Child,
    ctl: Schedctl,
}

impl Drop for Work {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Work {
    /// Starts a worker whose program is this shell script. It asks the API.
    fn start(scene: &ApiScene, flags: &[&str], script: &str) -> Self {
        Self::start_with(scene.ctl("worker"), flags, script)
    }

    /// Starts a worker whose program is this shell script. It takes runs from Redis.
    fn start_over_redis(scene: &ApiScene, flags: &[&str], script: &str) -> Self {
        Self::start_with(Schedctl::on(&scene.redis), flags, script)
    }

    fn start_with(ctl: Schedctl, flags: &[&str], script: &str) -> Self {
        let program = ctl.home().join("program");
        fs::write(&program, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        let words = ["work", "--queue", "mail", "--name", "w7"];
        let args = [&words, flags, &["--", program.to_str().unwrap()]].concat();
        let child = ctl.command(&args).stderr(Stdio::null()).spawn().unwrap();
        Self { child, ctl }
    }

    fn term(&self) {
        self.signal(Signal::TERM);
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    fn written(&self, name: &str) -> Option<String> {
        fs::read_to_string(self.ctl.home().join(name)).ok().filter(|text| text.ends_with('\n'))
    }
}

/// Waits until the last run of a job is in this state. Returns the run.
fn ended(scene: &ApiScene, job: &str, state: &str) -> serde_json::Value {
    until(&format!("{job} is {state}"), LONG, || {
        let runs = scene.get("viewer", &format!("/v1/runs?job={job}")).of(200);
        let run = runs["items"].as_array()?.first()?.clone();
        (run["state"] == state).then_some(run)
    })
}

#[test]
fn a_program_gets_the_payload_and_its_exit_code_ends_the_run() {
    let scene = ApiScene::start(DEFINING, QUEUE);
    let script = "cat >&2; echo >&2; echo \"$SCHEDD_JOB $SCHEDD_HANDLER $SCHEDD_ATTEMPT\"
        case $SCHEDD_JOB in bad*) echo 'no such user' >&2; exit 3 ;; esac";
    let work = Work::start(&scene, &["--handlers", "send", "--slots", "2"], script);
    add(&scene, json!({"name": "good"}));
    add(&scene, json!({"name": "bad"}));
    let run = ended(&scene, "good", "succeeded");
    assert_eq!(run["node"], "worker:w7");
    assert_eq!(scene.get("viewer", "/v1/runs/good@last/logs").text(), "good send 1\n");
    let run = ended(&scene, "bad", "failed");
    assert_eq!(run["error"], "exit code 3: no such user");
    let output = scene.get("viewer", "/v1/runs/bad@last/logs").text();
    assert!(output.contains("{\"to\":\"ann\"}"), "{output}");
    work.term();
}

#[test]
fn a_worker_over_redis_runs_its_program_as_one_over_the_api_does() {
    let scene = ApiScene::start(DEFINING, QUEUE);
    let script = "read -r payload; echo \"$SCHEDD_JOB $SCHEDD_HANDLER $payload\"
        trap 'echo stopped > stopped; exit 1' TERM
        case $SCHEDD_JOB in
        bad) echo 'no such user' >&2; exit 3 ;;
        once) exit 75 ;;
        back) test -e back || { touch back; exit 75; } ;;
        long) echo began > began; sleep 300 & wait ;;
        late) sleep 300 ;;
        esac";
    let work = Work::start_over_redis(&scene, &["--handlers", "send", "--slots", "3"], script);
    for job in ["good", "bad", "back", "long"] {
        add(&scene, json!({"name": job}));
    }
    add(&scene, json!({"name": "late", "timeout": "1s"}));
    add(&scene, json!({"name": "once", "delivery": "at-most-once"}));
    let run = ended(&scene, "good", "succeeded");
    assert_eq!(run["node"], "w7");
    let output = scene.get("viewer", "/v1/runs/good@last/logs").text();
    assert_eq!(output, "good send {\"to\":\"ann\"}\n");
    assert_eq!(ended(&scene, "bad", "failed")["error"], "exit code 3: no such user");
    assert_eq!(ended(&scene, "back", "succeeded")["attempt"], 1);
    ended(&scene, "late", "timed_out");
    ended(&scene, "once", "lost");
    until("long has begun", LONG, || work.written("began"));
    scene.post("operator", "/v1/runs/long@last/cancel", "").of(200);
    until("long got the signal", LONG, || work.written("stopped"));
    ended(&scene, "long", "cancelled");
    add(&scene, json!({"name": "other", "handler": "resize"}));
    let explained = scene.get("viewer", "/v1/jobs/other/explain").text();
    assert!(explained.contains("no worker asks for runs of handler resize"), "{explained}");
}

#[test]
fn a_worker_over_redis_gives_runs_back_and_no_process_outlives_it() {
    let scene = ApiScene::start(DEFINING, QUEUE);
    let script = "echo $$ > pid-$SCHEDD_JOB; echo began > began-$SCHEDD_JOB; sleep 300 & wait";
    let mut work = Work::start_over_redis(&scene, &["--lease", "3s"], script);
    add(&scene, json!({"name": "a"}));
    until("a has begun", LONG, || work.written("began-a"));
    let pid = work.written("pid-a").unwrap();
    work.term();
    until("the worker takes nothing more", LONG, || {
        let nodes = scene.get("viewer", "/v1/nodes").of(200).to_string();
        nodes.contains("draining").then_some(())
    });
    work.term();
    assert!(work.child.wait().unwrap().success());
    gone(&pid);
    assert_eq!(ended(&scene, "a", "scheduled")["attempt"], 0);
    let mut work = Work::start_over_redis(&scene, &["--lease", "3s"], script);
    let pid = until("another worker has it", LONG, || work.written("pid-a"));
    work.child.kill().unwrap();
    work.child.wait().unwrap();
    gone(&pid);
    let third = Work::start_over_redis(&scene, &["--lease", "3s"], "exit 0");
    ended(&scene, "a", "succeeded");
    third.term();
}

#[test]
fn output_that_json_makes_long_is_cut_so_that_the_end_can_be_reported() {
    let scene = ApiScene::start(DEFINING, QUEUE);
    let script = "head -c 300000 /dev/zero; head -c 300000 /dev/zero >&2; echo bad >&2; exit 1";
    let _work = Work::start(&scene, &[], script);
    add(&scene, json!({"name": "a"}));
    assert_eq!(ended(&scene, "a", "failed")["attempt"], 1);
}

#[test]
fn exit_code_75_gives_a_run_back_and_a_missing_program_fails_it() {
    let scene = ApiScene::start(DEFINING, QUEUE);
    let work = Work::start(&scene, &[], "test -e here || { touch here; exit 75; }; echo twice");
    add(&scene, json!({"name": "a"}));
    let run = ended(&scene, "a", "succeeded");
    assert_eq!(run["attempt"], 1, "{run}");
    fs::remove_file(work.ctl.home().join("here")).unwrap();
    add(&scene, json!({"name": "once", "delivery": "at-most-once"}));
    ended(&scene, "once", "lost");
    fs::remove_file(work.ctl.home().join("program")).unwrap();
    add(&scene, json!({"name": "b"}));
    let run = ended(&scene, "b", "failed");
    assert!(run["error"].as_str().unwrap().starts_with("cannot start"), "{run}");
}

#[test]
fn a_cancelled_run_gets_a_signal_and_a_second_signal_gives_runs_back() {
    let scene = ApiScene::start(DEFINING, QUEUE);
    let script = "trap 'echo stopped > stopped-$SCHEDD_JOB; exit 1' TERM
        echo began > began-$SCHEDD_JOB; sleep 300 & wait";
    let mut work = Work::start(&scene, &["--lease", "3s"], script);
    add(&scene, json!({"name": "a"}));
    until("a has begun", LONG, || work.written("began-a"));
    scene.post("operator", "/v1/runs/a@last/cancel", "").of(200);
    until("a got the signal", LONG, || work.written("stopped-a"));
    ended(&scene, "a", "cancelled");
    add(&scene, json!({"name": "b"}));
    until("b has begun", LONG, || work.written("began-b"));
    work.term();
    until("the worker waits for b", LONG, || {
        add(&scene, json!({"name": "c", "if_absent": true}));
        Some(())
    });
    work.term();
    let code = work.child.wait().unwrap();
    assert!(code.success(), "{code}");
    let run = ended(&scene, "b", "scheduled");
    assert_eq!((&run["attempt"], &run["reason"]), (&json!(0), &json!("shutdown")));
    add(&scene, json!({"name": "once", "delivery": "at-most-once"}));
    let mut work = Work::start(&scene, &["--lease", "3s", "--slots", "5"], script);
    until("once has begun", LONG, || work.written("began-once"));
    let code = until("the worker has ended", LONG, || {
        work.term();
        work.child.try_wait().unwrap()
    });
    assert!(code.success(), "{code}");
    let run = ended(&scene, "once", "lost");
    assert_eq!(run["reason"], "shutdown", "it never begins twice");
}

/// Waits until no process has this id any more.
fn gone(pid: &str) {
    let stat = format!("/proc/{}/stat", pid.trim());
    until("the process has ended", LONG, || {
        fs::read_to_string(&stat).map_or(true, |stat| stat.contains(") Z ")).then_some(())
    });
}

#[test]
fn the_processes_of_a_killed_worker_are_killed_too() {
    let scene = ApiScene::start(DEFINING, QUEUE);
    let script = "sleep 300 & echo $! > child; echo $$ > began; wait";
    let mut work = Work::start(&scene, &["--lease", "3s"], script);
    add(&scene, json!({"name": "a"}));
    let began = until("a has begun", LONG, || work.written("began"));
    work.child.kill().unwrap();
    work.child.wait().unwrap();
    gone(&began);
    gone(&work.written("child").unwrap());
}

#[test]
fn a_worker_that_stands_still_loses_its_process_with_the_lease() {
    let scene = ApiScene::start(DEFINING, QUEUE);
    let script = "test $SCHEDD_ATTEMPT = 1 || exit 0; echo $$ > began; exec sleep 300";
    let work = Work::start(&scene, &["--lease", "3s"], script);
    add(&scene, json!({"name": "a"}));
    let began = until("a has begun", LONG, || work.written("began"));
    work.signal(Signal::STOP);
    gone(&began);
    work.signal(Signal::CONT);
    let run = ended(&scene, "a", "succeeded");
    assert_eq!(run["attempt"], 2, "{run}");
}

#[test]
fn a_worker_that_the_api_refuses_ends_with_the_reason() {
    let scene = ApiScene::start(DEFINING, QUEUE);
    let work = ["work", "--queue", "mail", "--", "true"];
    scene.ctl("viewer").run(&work).refused(1, &["role viewer", "worker"]);
    Schedctl::alone().run(&work).refused(69, &["no Redis"]);
    let unknown = ["work", "--queue", "mial", "--", "true"];
    for ctl in [scene.ctl("worker"), Schedctl::on(&scene.redis)] {
        ctl.run(&unknown).refused(3, &["queue mial is not known", "mail"]);
    }
    scene
        .ctl("worker")
        .run(&["work", "--queue", "mail", "--lease", "1s", "--", "true"])
        .refused(2, &["--lease", "3s to 12h"]);
    scene.ctl("worker").run(&["work", "--queue", "mail"]).refused(2, &["COMMAND"]);
}
