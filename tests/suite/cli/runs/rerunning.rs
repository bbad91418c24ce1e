//! `rerun`: the work of a run that ended, done anew under an id of its own.

use std::process::Stdio;

use schedd_core::domain::run::run_state::RunState;

use crate::cli::Bench;

#[test]
fn a_run_is_done_anew_with_its_due_time_however_it_ended() {
    let bench = Bench::start();
    bench.add(&["--name", "m", "--", "x"]);
    for state in [
        RunState::Succeeded,
        RunState::Failed,
        RunState::TimedOut,
        RunState::Lost,
        RunState::Cancelled,
    ] {
        bench.ctl.run(&["run", "m"]).good();
        let old = bench.node.claim("m");
        bench
            .ctl
            .run(&["rerun", &old.run.to_string()])
            .refused(4, &["is running", "wanted an ended run"]);
        bench.node.finish(&old, state, &[]);
        let id =
            bench.ctl.run(&["rerun", &old.run.to_string()]).good().stdout.trim_end().to_owned();
        let new = bench.node.claim("m");
        assert_eq!((new.run.to_string(), new.run.due()), (id.clone(), old.run.due()));
        let shown = bench.ctl.run(&["show", &id, "--json"]).good().json();
        assert_eq!(
            (&shown["kind"], &shown["late_ms"]),
            (&"rerun".into(), &serde_json::Value::Null)
        );
        assert_eq!(
            bench.ctl.run(&["show", &old.run.to_string(), "--json"]).json()["state"],
            state.as_str(),
            "it stays"
        );
        bench.node.finish(&new, RunState::Succeeded, &[]);
        let json = bench.ctl.run(&["rerun", &id, "--json"]).good().json();
        assert!(json["run_id"].as_str().unwrap().contains("~rerun"), "{json}");
        bench.ctl.run(&["cancel", json["run_id"].as_str().unwrap()]).good();
    }
}

#[test]
fn a_rerun_can_be_waited_for() {
    let bench = Bench::start();
    bench.node.beat("");
    bench.add(&["--name", "m", "--", "x"]);
    bench.ctl.run(&["run", "m"]).good();
    let old = bench.node.claim("m");
    bench.node.finish(&old, RunState::Succeeded, &[]);
    let mut command = bench.ctl.command(&["rerun", &old.run.to_string(), "--wait"]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let new = bench.node.claim("m");
    bench.node.finish(&new, RunState::Failed, &[("exit_code", "3")]);
    assert_eq!(child.wait_with_output().unwrap().status.code(), Some(3));
}

#[test]
fn an_ended_one_shot_is_added_again_due_now_by_its_kept_definition() {
    let bench = Bench::start();
    bench.add(&["--name", "once", "--in", "0s", "--timeout", "7m", "--", "x"]);
    for state in [RunState::Succeeded, RunState::Failed] {
        let old = bench.node.claim("once");
        bench.node.finish(&old, state, &[]);
        let json = bench.ctl.run(&["rerun", "once@last", "--json"]).good().json();
        let id = json["run_id"].as_str().unwrap();
        assert!(json["job"] == "once" && id != old.run.to_string(), "{json}");
        let shown = bench.ctl.run(&["show", "once", "--json"]).good().json();
        assert_eq!((&shown["definition"]["timeout"], &shown["ended"]), (&"7m".into(), &().into()));
        let old = bench.ctl.run(&["show", &old.run.to_string(), "--json"]).good().json();
        assert_eq!(old["state"], state.as_str(), "it stays");
        let log = bench.ctl.run(&["explain", "once", "--json"]).good().json();
        let by = log["created_by"].as_str().unwrap_or_default();
        assert!(by.contains('@'), "the user who asked: {log}");
    }
    let last = bench.node.claim("once");
    bench.node.finish(&last, RunState::Succeeded, &[]);
    bench.ctl.run(&["retry", "once@last"]).refused(4, &["schedctl rerun once@"]);
    let mut command = bench.ctl.command(&["rerun", "once@last", "--wait"]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let new = bench.node.claim("once");
    bench.ctl.run(&["rerun", &last.run.to_string()]).good();
    bench.node.finish(&new, RunState::Failed, &[("exit_code", "3")]);
    assert_eq!(child.wait_with_output().unwrap().status.code(), Some(3));
}

#[test]
fn what_is_not_over_or_not_there_or_has_no_job_is_refused() {
    let bench = Bench::start();
    bench.add(&["--name", "a", "--every", "1h", "--", "x"]);
    let run = |id: &str| bench.ctl.run(&["rerun", id]);
    let planned = bench.ctl.run(&["show", "a", "--json"]).json()["next_due"].clone();
    let due: jiff::Timestamp = planned.as_str().unwrap().parse().unwrap();
    run(&format!("a@{}", due.as_millisecond()))
        .refused(4, &["is scheduled", "wanted an ended run"]);
    run("a@5").refused(3, &["no run a@5"]);
    run("b@5").refused(3, &["no job b"]);
    run("a").refused(2, &["run id"]);
    run("a@5 --timeout 1s").refused(2, &["run id"]);
    bench.ctl.run(&["rerun", "a@5", "--timeout", "1s"]).refused(2, &["--wait"]);
    bench.ctl.run(&["run", "a"]).good();
    let old = bench.node.claim("a");
    bench.node.finish(&old, RunState::Failed, &[]);
    bench.ctl.run(&["cancel", "a"]).good();
    run(&old.run.to_string()).refused(4, &["job a is over (cancelled)", "add the job again"]);
}
