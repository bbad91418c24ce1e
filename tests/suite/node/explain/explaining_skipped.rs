//! `schedctl explain` of runs that were skipped or late behind an obstacle: which rule decided, and what made them wait.

use serde_json::json;

use super::explaining::assert_says;
use crate::support::ctl::Schedctl;
use crate::support::eye::Eye;
use crate::support::redis::TestRedis;
use crate::support::script::{Act, Script};
use crate::support::scripted_node::ScriptedNode;
use crate::support::wait::{LONG, until};
use schedd_core::domain::run::run_state::RunState;

#[test]
fn runs_skipped_behind_a_pause_name_catch_up_and_the_pause_that_is_over() {
    let (redis, script) = (TestRedis::start(), Script::new());
    let (eye, ctl) = (Eye::on(&redis), Schedctl::on(&redis));
    let _node = ScriptedNode::on(&redis, &script).node("n1").start();
    until("the node is there", LONG, || eye.ask(eye.store().list_nodes()).unwrap().1.pop());
    ctl.run(&["queue", "pause", "default"]).good();
    eye.add(&json!({"name": "j", "every": "1s", "shell": "true"}));
    let behind = || {
        let now = eye.ask(eye.store().now()).unwrap();
        eye.job("j").and_then(|job| job.pending).filter(|run| now.since(run.due()).as_secs() >= 4)
    };
    until("occurrences are due behind the pause", LONG, behind);
    let waits = ctl.run(&["explain", "j"]).good().stdout;
    assert!(waits.contains("Queue default") && waits.contains("paused by"), "{waits}");
    ctl.run(&["queue", "resume", "default"]).good();
    let skipped = until("some are skipped", LONG, || {
        eye.history("j").into_iter().find(|run| run.state == RunState::Skipped)
    });
    let id = skipped.run.to_string();
    let said = until("the pause is recorded", LONG, || {
        let said = ctl.run(&["explain", &id]).good().stdout;
        said.contains("Queue default was paused by").then_some(said)
    });
    for wanted in [
        "The run was skipped because a newer occurrence, j@",
        "was due before the run could start.",
        "catch_up = latest is the default.",
    ] {
        assert!(said.contains(wanted), "{wanted}: {said}");
    }
    assert!(!said.contains("onwards") && !said.contains("late_after"), "{said}");
    let history = ctl.run(&["history", "j", "--state", "skipped"]).good().stdout;
    assert!(history.contains("missed: a newer occurrence was due, "), "{history}");
}

#[test]
fn a_run_behind_a_full_overlap_queue_names_its_maximum() {
    let (redis, script) = (TestRedis::start(), Script::new());
    let eye = Eye::on(&redis);
    script.set("held", &[Act::GoOn]);
    let job = "[jobs.j]\nevery = \"1s\"\noverlap = \"queue\"\nshell = \"held\"\n";
    let _node = ScriptedNode::on(&redis, &script).node("n1").jobs(job).start();
    let skipped = until("one is skipped", LONG, || {
        eye.history("j").into_iter().find(|run| run.state == RunState::Skipped)
    });
    script.end("held");
    assert_says(
        &redis,
        &[&skipped.run.to_string()],
        &[
            "was still open, and max = 1 allows no more waiting runs.",
            "overlap = queue with max = 1 (the default of max), set in [jobs.j]",
        ],
    );
}

#[test]
fn the_last_run_of_a_job_that_was_never_due_is_the_run_by_hand() {
    let (redis, script) = (TestRedis::start(), Script::new());
    let (eye, ctl) = (Eye::on(&redis), Schedctl::on(&redis));
    let _node = ScriptedNode::on(&redis, &script).node("n1").start();
    ctl.run(&["add", "--name", "j", "--every", "1h", "--shell", "exit 3"]).good();
    ctl.run(&["run", "j"]).good();
    eye.wait_for_history("j", 1);
    let said = ["The run was requested by hand by", "Attempt 1 on n1", "The run failed"];
    assert_says(&redis, &["j", "--last"], &said);
}

#[test]
fn a_one_shot_is_explained_by_its_only_run_without_last() {
    let (redis, script) = (TestRedis::start(), Script::new());
    let (eye, ctl) = (Eye::on(&redis), Schedctl::on(&redis));
    let node = ScriptedNode::on(&redis, &script).node("n1").jobs("[queues.q]\n").start();
    until("the queue is known", LONG, || {
        Some(()).filter(|()| !eye.ask(eye.store().read_queues()).unwrap().is_empty())
    });
    ctl.run(&["queue", "pause", "q"]).good();
    ctl.run(&["add", "--name", "j", "--in", "0s", "--queue", "q", "--shell", "true"]).good();
    let due = eye.job("j").unwrap().pending.unwrap().due();
    assert_says(&redis, &["j"], &["paused by"]);
    until("it is late", LONG, || {
        let now = eye.ask(eye.store().now()).unwrap();
        (now.since(due).as_secs() >= 3).then_some(())
    });
    ctl.run(&["queue", "resume", "q"]).good();
    eye.wait_for_history("j", 1);
    until("the pause is recorded", LONG, || {
        let said = ctl.run(&["explain", "j"]).good().stdout;
        let has = |text: &str| said.contains(text);
        (has("The run succeeded") && has("The run started ") && has("Queue q was paused by"))
            .then_some(())
    });
    drop(node);
}
