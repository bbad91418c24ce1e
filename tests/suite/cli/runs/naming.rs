//! The names of runs: ids, parts of ids, and places in the history.

use std::time::Duration;

use schedd_core::domain::run::run_state::RunState;
use schedd_store::Claim;

use crate::cli::Bench;

/// A job with an ended run, a failed run and a running run, oldest first.
fn three_runs(bench: &Bench) -> [Claim; 3] {
    bench.add(&["--name", "a", "--every", "1s", "--overlap", "allow", "--", "x"]);
    let first = bench.node.claim("a");
    bench.node.finish(&first, RunState::Succeeded, &[]);
    let second = bench.node.claim("a");
    bench.node.finish(&second, RunState::Failed, &[("exit_code", "1")]);
    [first, second, bench.node.claim("a")]
}

fn shown(bench: &Bench, name: &str) -> String {
    let run = bench.ctl.run(&["show", name, "--json"]).good().json();
    run["run_id"].as_str().unwrap().to_owned()
}

#[test]
fn places_name_the_newest_run_the_runs_before_it_and_the_planned_run() {
    let bench = Bench::start();
    let [first, second, third] = three_runs(&bench);
    for (name, run) in [("a@last", &third), ("a@-1", &third), ("a@-2", &second), ("a@-3", &first)] {
        assert_eq!(shown(&bench, name), run.run.to_string(), "{name}");
    }
    let next = bench.ctl.run(&["list", "--json"]).good().json()[0]["next_due"].clone();
    let planned = bench.ctl.run(&["show", "a@next", "--json"]).good().json();
    assert_eq!((&planned["due"], &planned["state"]), (&next, &"scheduled".into()));

    bench.ctl.run(&["show", "a@-4"]).refused(3, &["job a has only 3 runs"]);
    bench.ctl.run(&["pause", "a"]).good();
    bench.ctl.run(&["show", "a@next"]).refused(3, &["no planned run", "paused"]);
    bench.add(&["--name", "m", "--", "x"]);
    bench.ctl.run(&["logs", "m@last"]).refused(3, &["job m has no run"]);
    for verb in ["show", "logs", "explain", "cancel", "retry", "rerun", "purge"] {
        bench.ctl.run(&[verb, "nosuch@last"]).refused(3, &["no job nosuch"]);
        bench.ctl.run(&[verb, "a@first"]).refused(2, &["a@first", "JOB@last"]);
    }
}

#[test]
fn verbs_that_change_a_run_accept_its_place_or_a_part_of_its_id() {
    let bench = Bench::start();
    let [_, second, third] = three_runs(&bench);
    assert_eq!(
        bench.ctl.run(&["logs", "a@last", "--json"]).json()["run_id"],
        third.run.to_string()
    );
    let explained = bench.ctl.run(&["explain", "a@-2"]).good();
    assert!(explained.stdout.contains("failed"), "{explained:?}");
    bench.ctl.run(&["retry", "a@-3"]).refused(4, &["succeeded"]);
    let retried = bench.ctl.run(&["retry", "a@-2", "--dry-run", "--json"]).good().json();
    assert_eq!(retried[0]["run_id"], second.run.to_string());
    assert!(bench.ctl.run(&["rerun", "a@-2"]).good().stdout.contains("~rerun"));

    let stopped = bench.ctl.run(&["cancel", "a@last"]).good().stdout;
    assert!(stopped.starts_with(&format!("run {} is running", third.run)), "{stopped}");
    let due = second.run.due().as_i64().to_string();
    let end = &due[due.len() - 7..];
    assert_eq!(
        bench.ctl.run(&["purge", &format!("a@{end}")]).good().stdout,
        "1 dead letter deleted\n"
    );
    bench.ctl.run(&["show", &second.run.to_string()]).refused(3, &["no run"]);
    bench.ctl.run(&["cancel", "a@1"]).refused(2, &["matches", "wanted a complete id"]);
}

#[test]
fn history_shows_short_ids_that_name_the_same_runs() {
    let bench = Bench::start();
    three_runs(&bench);
    bench.ctl.run(&["rerun", "a@-2"]).good();
    bench.ctl.run(&["run", "a"]).good();
    let json = bench.ctl.run(&["history", "a", "--json"]).good().json();
    let complete: Vec<&str> =
        json.as_array().unwrap().iter().map(|run| run["run_id"].as_str().unwrap()).collect();
    let text = bench.ctl.run(&["history", "a"]).good().stdout;
    let at = text.lines().next().unwrap().find("RUN").unwrap();
    let short: Vec<&str> =
        text.lines().skip(1).map(|line| line[at..].split_whitespace().next().unwrap()).collect();
    assert_eq!(short.len(), 5, "{text}");
    for (short, complete) in short.iter().zip(complete) {
        assert!(short.len() < complete.len(), "{short} {complete}");
        assert_eq!(shown(&bench, short), complete, "{short}");
    }
    let of_job = bench.ctl.run(&["show", "a"]).good().stdout;
    assert!(short.iter().all(|short| of_job.contains(short)), "{of_job}");
}

#[test]
fn a_complete_id_names_no_other_run_after_its_run_is_gone() {
    let bench = Bench::start();
    bench.add(&["--name", "a", "--in", "0s", "--", "x"]);
    let old = bench.node.claim("a");
    bench.node.finish(&old, RunState::Failed, &[]);
    let id = old.run.to_string();
    bench.ctl.run(&["retry", &id]).good();
    let again = bench.node.claim("a");
    bench.node.finish(&again, RunState::Failed, &[]);
    bench.add(&["--name", "a", "--every", "1h", "--", "x"]);
    bench.ctl.run(&["rerun", &id]).good();
    let rerun = bench.node.claim("a");
    bench.node.finish(&rerun, RunState::Failed, &[]);
    bench.ctl.run(&["purge", &id]).good();
    bench.ctl.run(&["purge", &id]).refused(3, &[&id]);
    bench.ctl.run(&["retry", &id]).refused(3, &[&id]);
    assert_eq!(bench.ctl.run(&["stats", "--json"]).json()["dead"], 1);
}

#[test]
fn cancel_with_run_stops_what_runs_and_leaves_a_job_of_a_file() {
    let bench = Bench::start();
    bench.node.apply_file_job("a", r#"{"shell": "x", "every": "1s", "overlap": "allow"}"#);
    let first = bench.node.claim("a");
    let second = bench.node.claim("a");
    let stopped = bench.ctl.run(&["cancel", "a", "--run"]).good().stdout;
    assert!(stopped.starts_with("job a: its 2 runs are being stopped ("), "{stopped}");
    for claim in [&first, &second] {
        assert!(stopped.contains(&claim.run.to_string()), "{stopped}");
        bench.node.finish(claim, RunState::Cancelled, &[]);
    }
    let list = bench.ctl.run(&["list", "--json"]).good().json();
    assert_eq!((&list[0]["name"], &list[0]["state"]), (&"a".into(), &"scheduled".into()));
    let again = bench.ctl.run(&["cancel", "a", "--run"]).good().stdout;
    assert_eq!(again, "job a has no running run\n");

    let third = bench.node.claim("a");
    bench.node.retry(&third, Duration::from_secs(3_600), 1);
    let waits = bench.ctl.run(&["cancel", "a", "--run"]).good().stdout;
    assert!(waits.contains(&format!("schedctl cancel {} cancels it", third.run)), "{waits}");
    bench.ctl.run(&["cancel", "nosuch", "--run"]).refused(3, &["no job nosuch"]);
    bench.ctl.run(&["cancel", "a", "--run", "--stop"]).refused(2, &["--stop"]);
    bench.ctl.run(&["cancel", "a"]).refused(4, &["--run stops only its running run"]);
}

#[test]
fn history_of_a_job_lists_a_backfill_run_that_waits_for_its_retry() {
    let bench = Bench::start();
    bench.add(&["--name", "a", "--cron", "0 0 1 1 *", "--tz", "UTC", "--retry", "3", "--", "x"]);
    bench
        .ctl
        .run(&[
            "backfill",
            "a",
            "--from",
            "2024-12-01T00:00:00Z",
            "--to",
            "2025-02-01T00:00:00Z",
            "--yes",
        ])
        .good();
    let claim = bench.node.claim("a");
    bench.node.retry(&claim, Duration::from_secs(300), 1);
    let history = bench.ctl.run(&["history", "a", "--json"]).good().json();
    assert_eq!(history[0]["run_id"], claim.run.to_string());
    assert_eq!((&history[0]["state"], &history[0]["attempt"]), (&"scheduled".into(), &1.into()));
    let list = bench.ctl.run(&["list", "--json"]).good().json();
    assert_eq!(list[0]["state"], "retrying");
}

#[test]
fn logs_of_a_job_name_the_run_and_say_that_the_newest_run_wrote_nothing() {
    let bench = Bench::start();
    bench.add(&["--name", "a", "--every", "1s", "--", "x"]);
    let old = bench.node.claim("a");
    bench.node.write(&old, b"old output\n", b"", 0);
    bench.node.finish(&old, RunState::Succeeded, &[]);
    let logs = bench.ctl.run(&["logs", "a"]).good();
    assert_eq!(logs.stdout, "old output\n");
    assert_eq!(logs.stderr, format!("output of run {} (succeeded), attempt 1\n", old.run));

    let new = bench.node.claim("a");
    let running = bench.ctl.run(&["logs", "a"]).good().stderr;
    assert!(
        running.starts_with(&format!("the newest run {} is running and has written", new.run)),
        "{running}"
    );
    bench.node.finish(&new, RunState::Failed, &[("exit_code", "9")]);
    let logs = bench.ctl.run(&["logs", "a"]).good();
    assert_eq!(logs.stdout, "old output\n");
    assert_eq!(
        logs.stderr,
        format!(
            "the newest run {} (failed) has no stored output\noutput of run {} (succeeded), attempt 1\n",
            new.run, old.run
        )
    );
    let json = bench.ctl.run(&["logs", "a", "--json"]).good();
    assert_eq!(json.json()["run_id"], old.run.to_string());
    assert!(json.stderr.starts_with("the newest run "), "{json:?}");
    assert_eq!(bench.ctl.run(&["logs", "a", "--quiet"]).good().stderr, "");
    assert_eq!(bench.ctl.run(&["logs", "a@last"]).good().stdout, "");
}
