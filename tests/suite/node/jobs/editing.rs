//! What an edit means for runs: planned, owed, already running; to and from a one-shot; under a name held by another.

use std::time::Duration;

use schedd_core::domain::run::run_state::RunState;
use serde_json::json;

use super::catching_up::add_in_the_past;
use crate::support::ctl::Schedctl;
use crate::support::eye::Eye;
use crate::support::redis::TestRedis;
use crate::support::script::Script;
use crate::support::scripted_node::ScriptedNode;
use crate::support::wait::{LONG, until};

#[test]
fn a_run_already_due_is_owed_and_followed_by_the_one_shot_its_job_became() {
    let (redis, script) = (TestRedis::start(), Script::new());
    let eye = Eye::on(&redis);
    add_in_the_past(
        &eye,
        Duration::from_secs(3700),
        &json!({"name": "a", "every": "1h", "shell": "true"}),
    );
    let owed = eye.job("a").unwrap().pending.unwrap();
    eye.add(&json!({"name": "a", "in": "2s", "shell": "true"}));
    assert_eq!(eye.job("a").unwrap().pending.as_ref(), Some(&owed), "it is due and stays owed");
    let _node = ScriptedNode::on(&redis, &script).start();
    let runs = eye.wait_for_history("a", 2);
    assert_eq!(runs[0].run, owed);
    assert!(runs.iter().all(|run| run.state == RunState::Succeeded), "{runs:?}");
    until("the one-shot is over", LONG, || {
        eye.job("a").filter(|job| job.ended.as_deref() == Some("finished"))
    });
    eye.add(&json!({"name": "a", "every": "1s", "shell": "true"}));
    eye.wait_for_history("a", 4);
}

#[test]
fn a_job_whose_missed_run_goes_to_another_lane_with_an_edit_goes_on() {
    let (redis, script) = (TestRedis::start(), Script::new());
    let eye = Eye::on(&redis);
    let ctl = Schedctl::on(&redis);
    let _node =
        ScriptedNode::on(&redis, &script).jobs("[daemon]\ntick = \"100ms\"\n[queues.q]\n").start();
    let spread = json!({"mode": "all", "spread": "1s"});
    let job = |name: &str, priority: i64, catch_up: &serde_json::Value| {
        let shell = "true";
        json!({"name": name, "every": "1s", "queue": "q", "priority": priority, "catch_up": catch_up, "shell": shell})
    };
    let jobs = [("latest", json!("latest")), ("spread", spread)];
    for (name, catch_up) in &jobs {
        eye.add(&job(name, 0, catch_up));
        eye.wait_for_history(name, 1);
    }
    ctl.run(&["queue", "pause", "q"]).good();
    for (name, catch_up) in &jobs {
        eye.add(&job(name, 5, catch_up));
    }
    let now = || eye.ask(eye.store().now()).unwrap();
    let planned = jobs.clone().map(|(name, _)| eye.job(name).unwrap().pending.unwrap());
    until("several are missed", LONG, || {
        planned
            .iter()
            .all(|run| now() > run.due().saturating_add(Duration::from_secs(3)))
            .then_some(())
    });
    ctl.run(&["queue", "resume", "q"]).good();
    let resumed = now();
    for (name, _) in &jobs {
        until(&format!("{name} goes on"), LONG, || {
            let runs = eye.history(name);
            runs.iter()
                .any(|run| run.state == RunState::Succeeded && run.run.due() > resumed)
                .then_some(())
        });
    }
}

#[test]
fn what_was_missed_under_the_old_schedule_is_reported_when_it_is_changed() {
    let (redis, script) = (TestRedis::start(), Script::new());
    let eye = Eye::on(&redis);
    add_in_the_past(
        &eye,
        Duration::from_secs(10 * 3600 + 60),
        &json!({"name": "a", "every": "1h", "shell": "true"}),
    );
    eye.add(&json!({"name": "a", "every": "2h", "shell": "true"}));
    let reported = eye.history("a").remove(0);
    assert_eq!(
        (reported.state, reported.reason.as_deref(), reported.skipped.unwrap().1),
        (RunState::Skipped, Some("missed"), 9)
    );
    let _node = ScriptedNode::on(&redis, &script).start();
    let runs = eye.wait_for_history("a", 2);
    assert_eq!(runs[1].state, RunState::Succeeded, "the one that was planned is owed");
    let pending = until("the next is planted", LONG, || eye.job("a").unwrap().pending);
    assert!(pending.due() > runs[1].finished_at.unwrap());
}

#[test]
fn an_attempt_uses_the_definition_current_at_its_claim_and_an_edit_starts_nothing() {
    let (redis, script) = (TestRedis::start(), Script::new());
    let eye = Eye::on(&redis);
    let _node = ScriptedNode::on(&redis, &script).start();
    let job = |every: &str, work: &str| json!({"name": "a", "every": every, "shell": work, "retry": {"limit": 1, "delay": "1s", "jitter": false}});
    eye.add(&job("1s", "sleep 0.5; false"));
    until("the first has begun", LONG, || script.of("a").first().cloned());
    eye.add(&job("1h", "true"));
    let run =
        until("it has ended", LONG, || eye.history("a").into_iter().find(|run| run.attempt == 2));
    assert_eq!(run.state, RunState::Succeeded, "its second attempt did what the job is now");
    let begun = script.of("a").len();
    for hours in 2..30 {
        eye.add(&job(&format!("{hours}h"), "true"));
    }
    let hand = Schedctl::on(&redis);
    hand.run(&["run", "a", "--wait"]).good();
    assert_eq!(script.of("a").len(), begun + 1, "an edit fired the job");
}

#[test]
fn a_file_s_job_takes_its_name_when_the_api_job_that_held_it_is_gone() {
    let (redis, script) = (TestRedis::start(), Script::new());
    let eye = Eye::on(&redis);
    eye.add(&json!({"name": "a", "every": "1h", "shell": "true"}));
    let node = ScriptedNode::on(&redis, &script)
        .jobs("[jobs.a]\nevery = \"2h\"\nshell = \"true\"\n")
        .start();
    node.wait_for_log("The job of the jobs file was not applied");
    Schedctl::on(&redis).run(&["cancel", "a"]).good();
    let is_its = || eye.job("a").filter(|job| job.is_live() && job.definition.contains("2h"));
    until("the file's job is there", LONG, is_its);
    until("nothing is wrong any more", LONG, || {
        Some(()).filter(|()| eye.ask(eye.store().list_nodes()).unwrap().1[0].config_error.is_none())
    });
}

#[test]
fn a_job_whose_file_now_names_a_moment_that_has_passed_does_not_go_on() {
    let (redis, script) = (TestRedis::start(), Script::new());
    let eye = Eye::on(&redis);
    let node = ScriptedNode::on(&redis, &script)
        .jobs("[jobs.a]\nevery = \"1h\"\nshell = \"true\"\n")
        .start();
    until("it is there", LONG, || eye.job("a"));
    node.rewrite("[jobs.a]\nat = \"2026-01-01T00:00:00Z\"\nshell = \"true\"\n");
    until("it is over", LONG, || eye.job("a").filter(|job| !job.is_live()));
}
