//! `cancel`.

use std::time::Duration;

use redis::Commands;
use schedd_core::domain::run::run_state::RunState;

use crate::cli::Bench;

#[test]
fn a_job_is_taken_out_once_and_again_without_harm() {
    let bench = Bench::start();
    bench.add(&["--name", "a", "--every", "1h", "--", "x"]);
    bench.add(&["--name", "once", "--in", "1h", "--", "x"]);
    for name in ["a", "once"] {
        assert_eq!(
            bench.ctl.run(&["cancel", name]).good().stdout,
            format!("job {name} cancelled\n")
        );
        assert!(bench.ctl.run(&["cancel", name]).good().stdout.contains("already cancelled"));
    }
    assert_eq!(bench.ctl.run(&["list", "--json"]).json(), serde_json::json!([]));
    let history = bench.ctl.run(&["history", "once", "--json"]).json();
    assert_eq!(
        (&history[0]["state"], &history[0]["reason"]),
        (&"cancelled".into(), &"cancelled".into())
    );
}

#[test]
fn what_was_asked_for_by_hand_is_stopped_with_its_job_where_that_is_asked_for() {
    let bench = Bench::start();
    bench.add(&["--name", "a", "--retry", "1", "--", "x"]);
    let waits = bench.ctl.run(&["run", "a"]).good().stdout.trim_end().to_owned();
    bench.node.retry(&bench.node.claim("a"), Duration::from_secs(3_600), 7);
    bench.ctl.run(&["run", "a"]).good();
    let runs = bench.node.claim("a").run.to_string();
    let cancelled = bench.ctl.run(&["cancel", "a", "--stop"]).good().stdout;
    assert_eq!(cancelled, "job a cancelled; its 2 runs are being stopped\n");
    let reported = bench.ctl.run(&["history", "a", "--json"]).good().json();
    let state = |id: &str| {
        reported.as_array().unwrap().iter().find(|run| run["run_id"] == id).unwrap()["state"]
            .clone()
    };
    assert_eq!((state(&waits), state(&runs)), ("cancelled".into(), "running".into()));
    let asked: Option<String> =
        bench.redis.connection().hget("{schedd}:stop_requests", &runs).unwrap();
    assert!(asked.is_some(), "its node is to stop it");
}

#[test]
fn a_finished_one_shot_and_a_finished_run_are_past_cancelling() {
    let bench = Bench::start();
    bench.add(&["--name", "once", "--in", "0s", "--", "x"]);
    let claim = bench.node.claim("once");
    bench.node.finish(&claim, RunState::Succeeded, &[]);
    bench.ctl.run(&["cancel", "once"]).refused(4, &["already succeeded at "]);
    bench.ctl.run(&["cancel", &claim.run.to_string()]).refused(4, &["already succeeded at "]);
}

#[test]
fn a_finished_one_shot_that_was_retried_by_hand_can_be_cancelled() {
    let bench = Bench::start();
    bench.add(&["--name", "once", "--in", "0s", "--", "x"]);
    let claim = bench.node.claim("once");
    bench.node.finish(&claim, RunState::Failed, &[]);
    bench.ctl.run(&["retry", &claim.run.to_string()]).good();
    assert_eq!(
        bench.ctl.run(&["cancel", "once"]).good().stdout,
        "job once: its run is being stopped\n"
    );
    let history = bench.ctl.run(&["history", "once", "--json"]).json();
    assert_eq!(history[0]["state"], "cancelled");
    assert!(bench.ctl.run(&["cancel", "once"]).good().stdout.contains("already cancelled"));
}

#[test]
fn a_job_of_a_file_stays_and_what_to_do_is_said() {
    let bench = Bench::start();
    bench.node.apply_file_job("backup", r#"{"shell": "x", "every": "1h"}"#);
    bench
        .ctl
        .run(&["cancel", "backup"])
        .refused(4, &["web-1", "[jobs.backup]", "schedctl pause backup"]);
    let run = format!("backup@{}", due_of(&bench, "backup"));
    bench.ctl.run(&["cancel", &run]).good();
    assert_ne!(run, format!("backup@{}", due_of(&bench, "backup")), "its job goes on");
}

fn due_of(bench: &Bench, job: &str) -> i64 {
    let shown = bench.ctl.run(&["show", job, "--json"]).good().json();
    let due: jiff::Timestamp = shown["next_due"].as_str().unwrap().parse().unwrap();
    due.as_millisecond()
}

#[test]
fn a_planted_run_is_cancelled_twice_and_the_next_one_planted_once() {
    let bench = Bench::start();
    bench.add(&["--name", "a", "--every", "1h", "--", "x"]);
    let run = format!("a@{}", due_of(&bench, "a"));
    for _ in 0..2 {
        bench.ctl.run(&["cancel", &run]).good();
    }
    assert_eq!(bench.ctl.run(&["stats", "--json"]).json()["scheduled"], 1);
    assert_eq!(bench.ctl.run(&["show", &run, "--json"]).json()["state"], "cancelled");
}

#[test]
fn a_running_run_is_asked_to_stop_and_a_recurring_jobs_only_if_asked_for() {
    let bench = Bench::start();
    bench.add(&["--name", "a", "--every", "1s", "--", "x"]);
    let claim = bench.node.claim("a");
    let asked = bench.ctl.run(&["cancel", &claim.run.to_string()]).good();
    assert!(asked.stdout.contains("asked to stop"), "{asked:?}");
    bench.node.finish(&claim, RunState::Cancelled, &[]);

    for (flags, said) in [
        (
            &[][..],
            "continues (schedctl cancel b --stop stops the run), and is retried if it fails, unless a job with another definition is added under this name\n",
        ),
        (&["--stop"], "is being stopped\n"),
    ] {
        bench.add(&["--name", "b", "--every", "1s", "--", "x"]);
        let claim = bench.node.claim("b");
        let reported = bench.ctl.run(&[&["cancel", "b"], flags].concat()).good().stdout;
        assert!(
            reported.starts_with("job b cancelled; its run ") && reported.ends_with(said),
            "{reported}"
        );
        bench.node.finish(&claim, RunState::Succeeded, &[]);
    }
    bench.add(&["--name", "once", "--in", "0s", "--", "x"]);
    bench.node.claim("once");
    assert!(bench.ctl.run(&["cancel", "once"]).good().stdout.contains("being stopped"));
}

#[test]
fn every_target_is_tried_and_the_worst_code_given() {
    let bench = Bench::start();
    bench.add(&["--name", "first", "--in", "1h", "--", "x"]);
    bench.add(&["--name", "last", "--in", "1h", "--", "x"]);
    let finished = bench.ctl.run(&["cancel", "first", "nosuch", "last", "--json"]);
    finished.refused(3, &["nosuch"]);
    let cancelled =
        |job: &str| serde_json::json!({"job": job, "run_id": null, "result": "cancelled"});
    let wanted = serde_json::json!([cancelled("first"), cancelled("last")]);
    assert_eq!(finished.json(), wanted);
    bench.ctl.run(&["cancel", "last", "NO"]).refused(2, &["NO"]);
}
