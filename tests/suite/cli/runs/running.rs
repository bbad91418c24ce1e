//! `run`, alone and waiting.

use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use schedd_core::domain::run::run_state::RunState;
use schedd_store::Claim;

use super::played::Facts;
use crate::cli::Bench;

#[test]
fn a_run_by_hand_is_due_now_and_leaves_the_schedule_alone() {
    let bench = Bench::start();
    bench.add(&["--name", "a", "--every", "1h", "--", "x"]);
    let before = bench.ctl.run(&["show", "a", "--json"]).json()["next_due"].clone();
    let id = bench.ctl.run(&["run", "a"]).good().stdout.trim_end().to_owned();
    assert!(id.starts_with("a@") && id.contains('~'), "{id}");
    assert_eq!(bench.node.claim("a").run.to_string(), id);
    let shown = bench.ctl.run(&["show", "a", "--json"]).json();
    assert_eq!((&shown["next_due"], &shown["state"]), (&before, &"running".into()));
    let json = bench.ctl.run(&["run", "a", "--json"]).good().json();
    assert!(json["run_id"].as_str().unwrap().starts_with("a@"));
    bench.ctl.run(&["cancel", "a"]).good();
    // The code for a job that is over is 4, as it is for a rerun of one of its runs.
    for verb in ["run", "pause", "resume"] {
        bench.ctl.run(&[verb, "a"]).refused(4, &["is over (cancelled)"]);
    }
    bench.ctl.run(&["run", "a", "--timeout", "1s"]).refused(2, &["--wait"]);
}

#[test]
fn the_note_of_a_run_by_hand_stands_in_its_record_and_in_the_audit_log() {
    let bench = Bench::start();
    bench.add(&["--name", "a", "--", "x"]);
    let run = |args: &[&str]| bench.ctl.run(args).good().stdout.trim_end().to_owned();
    let first = run(&["run", "a", "--note", " the \"new\" disk "]);
    let claim = bench.node.claim("a");
    bench.node.finish(&claim, RunState::Succeeded, &[]);
    let second = run(&["rerun", &first, "--note", "once more"]);
    let third = run(&["run", "a"]);
    let notes = [(&first, Some("the \"new\" disk")), (&second, Some("once more")), (&third, None)];
    for (run, note) in notes {
        let shown = bench.ctl.run(&["show", run, "--json"]).good().json();
        assert_eq!(shown["note"].as_str(), note, "{shown}");
    }
    let text = bench.ctl.run(&["show", &first]).good().stdout;
    assert!(text.contains("the \"new\" disk"), "{text}");
    let explained = bench.ctl.run(&["explain", "a", "--json"]).good().json();
    let log = explained["audit_log"].as_array().unwrap().iter();
    let kept: Vec<_> = log.filter(|entry| entry["what"] == "run asked for").collect();
    assert_eq!(kept.len(), 3, "{explained}");
    for (run, note) in notes {
        let entry = kept.iter().find(|entry| entry["run_id"] == run.as_str()).unwrap();
        assert_eq!(entry["note"].as_str(), note, "{entry}");
    }
    let why = bench.ctl.run(&["explain", &first]).good().stdout;
    assert!(why.contains("with the note \"the \\\"new\\\" disk\""), "{why}");
    bench.ctl.run(&["run", "a", "--note", " "]).refused(2, &["--note", "0 characters"]);
    let too_much = "x".repeat(201);
    bench.ctl.run(&["run", "a", "--note", &too_much]).refused(2, &["--note", "201 characters"]);
    bench.ctl.run(&["rerun", &first, "--note", "a\nb"]).refused(2, &["control character"]);
}

#[test]
fn a_job_whose_run_by_hand_is_tried_again_is_retrying_until_that_ends() {
    let bench = Bench::start();
    bench.add(&["--name", "planned", "--every", "2h", "--", "x"]);
    bench.add(&["--name", "manual", "--", "x"]);
    for job in ["planned", "manual"] {
        let id = bench.ctl.run(&["run", job]).good().stdout.trim_end().to_owned();
        let claim = bench.node.claim(job);
        bench.node.retry(&claim, std::time::Duration::from_secs(3_600), 7);
        let listed = bench.ctl.run(&["list", "--state", "retrying", "--json"]).good().json();
        assert_eq!((&listed[0]["name"], &listed[1]), (&job.into(), &serde_json::Value::Null));
        let shown = bench.ctl.run(&["show", job, "--json"]).good().json();
        assert!(shown["state"] == "retrying" && shown["retry_at"].is_string(), "{shown}");
        assert_eq!(shown["next_due"].is_string(), job == "planned", "{shown}");
        let text = bench.ctl.run(&["show", job]).good().stdout;
        assert!(text.lines().any(|line| line.ends_with(", retry of a manual run")), "{text}");
        bench.ctl.run(&["cancel", &id]).good();
        let wanted = if job == "planned" { "scheduled" } else { "manual" };
        let shown = bench.ctl.run(&["show", job, "--json"]).good().json();
        assert!(shown["state"] == wanted && shown["retry_at"].is_null(), "{shown}");
    }
}

/// A waiting `schedctl run`, and the claim of its run.
fn waiting(bench: &Bench, flags: &[&str]) -> (Child, Claim) {
    let mut command = bench.ctl.command(&[&["run", "m", "--wait"], flags].concat());
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    (child, bench.node.claim("m"))
}

#[test]
fn waiting_ends_as_the_job_did() {
    let bench = Bench::start();
    bench.node.beat("");
    bench.add(&["--name", "m", "--", "x"]);
    let ends: [(RunState, Facts<'_>, i32); 10] = [
        (RunState::Succeeded, &[("exit_code", "0")], 0),
        (RunState::Succeeded, &[("http_status", "204")], 0),
        (RunState::Failed, &[("exit_code", "3")], 3),
        (RunState::Failed, &[("signal", "9")], 137),
        (RunState::Failed, &[("http_status", "500")], 1),
        (RunState::Failed, &[("error", "cannot start")], 1),
        (RunState::TimedOut, &[("signal", "15")], 124),
        (RunState::Skipped, &[], 75),
        (RunState::Cancelled, &[("signal", "15")], 75),
        (RunState::Lost, &[], 75),
    ];
    for (state, facts, code) in ends {
        let (child, claim) = waiting(&bench, &[]);
        let facts =
            [&[("exit_code", ""), ("signal", ""), ("http_status", ""), ("error", "")], facts]
                .concat();
        bench.node.finish(&claim, state, &facts);
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(code), "{state} {facts:?}");
        assert_eq!(String::from_utf8(output.stdout).unwrap().trim_end(), claim.run.to_string());
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(said.contains(&state.as_str().replace('_', " ")), "{said}");
    }
    let (child, claim) = waiting(&bench, &["--json"]);
    bench.node.finish(&claim, RunState::Failed, &[("exit_code", "4")]);
    let output = child.wait_with_output().unwrap();
    let run: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(
        (&run["state"], &run["exit_code"], output.status.code()),
        (&"failed".into(), &4.into(), Some(4))
    );
}

#[test]
fn a_wait_that_takes_too_long_ends_and_says_what_becomes_of_the_run() {
    let bench = Bench::start();
    bench.add(&["--name", "m", "--", "x"]);
    let finished = bench.ctl.run(&["run", "m", "--wait", "--timeout", "300ms"]);
    assert_eq!(finished.code, 124, "{finished:?}");
    let id = finished.stdout.trim_end();
    assert!(
        finished.stderr.contains(&format!("run {id} has not begun within "))
            && finished.stderr.contains("; it is due at "),
        "{finished:?}"
    );
    assert!(finished.stderr.contains("no schedd is running"), "{finished:?}");
    assert_eq!(bench.ctl.run(&["show", id, "--json"]).good().json()["state"], "scheduled");
    for flag in ["--timeout", "--wait-timeout"] {
        bench.ctl.run(&["run", "m", "--wait", flag, "soon"]).refused(2, &["--wait-timeout: "]);
    }
    bench.ctl.run(&["cancel", id]).good();
    let (child, claim) = waiting(&bench, &["--wait-timeout", "3s"]);
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    let stays =
        [format!("run {} has not ended within ", claim.run), "; the run continues\n".into()];
    assert!(output.status.code() == Some(124) && stays.iter().all(|w| said.contains(w)), "{said}");
}

#[test]
fn an_interrupt_ends_the_waiting_only_and_says_the_id() {
    let bench = Bench::start();
    bench.add(&["--name", "m", "--", "x"]);
    let (mut child, claim) = waiting(&bench, &[]);
    let mut id = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut id).unwrap();
    assert_eq!(id.trim_end(), claim.run.to_string());
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains(&format!("run {} is not stopped", claim.run)), "{said}");
    assert_eq!(
        bench.ctl.run(&["show", &claim.run.to_string(), "--json"]).json()["state"],
        "running"
    );
}
