//! The course of runs through a whole node whose executor follows a script: verdicts, retries,
//! questions, stops and lost leases. No process of a job starts.

use std::time::Duration;

use serde_json::json;

use crate::support::scripted_node::{Act, ScriptedNode, exit};
use crate::support::wait::{LONG, until};
use schedd::domain::run::run_state::{AttemptOutcome, Ending, RunState};
use schedd::engine::planning::job_operations;
use schedd::store::RunRecord;

/// Returns the first ended run of the job `a`.
fn end_of(node: &ScriptedNode) -> RunRecord {
    node.eye.wait_for_history("a", 1).remove(0)
}

#[test]
fn a_failed_attempt_is_retried_and_the_record_keeps_both() {
    let node = ScriptedNode::start(&[("work", &[Act::End(exit(3)), Act::End(exit(0))])]);
    node.eye.add(
        &json!({"name": "a", "in": "0s", "shell": "work", "retry": {"limit": 1, "delay": "0s"}}),
    );
    let run = end_of(&node);
    assert_eq!((run.state, run.attempt, run.exit_code), (RunState::Succeeded, 2, Some(0)));
    assert_eq!(node.executor.made("work"), [1, 2]);
    assert_eq!(run.past.len(), 1, "{:?}", run.past);
}

#[test]
fn the_last_failure_ends_the_run_as_failed_with_its_output() {
    let node = ScriptedNode::start(&[("work", &[Act::Print("no such file\n", exit(3))])]);
    node.eye.add(&json!({"name": "a", "in": "0s", "shell": "work"}));
    let run = end_of(&node);
    assert_eq!((run.state, run.exit_code), (RunState::Failed, Some(3)));
    let output = node.eye.ask(node.eye.store().read_output(&run.run, 1)).unwrap().unwrap();
    assert_eq!(output.stdout, b"no such file\n");
}

#[test]
fn an_unclear_question_is_asked_again_and_a_clear_no_starts_the_work() {
    let node = ScriptedNode::start(&[("asked", &[Act::End(exit(2)), Act::End(exit(1))])]);
    node.eye.add(
        &json!({"name": "a", "in": "0s", "shell": "work", "retry": {"limit": 0, "delay": "0s"},
        "done_check": {"shell": "asked", "on": "always"}}),
    );
    let run = end_of(&node);
    assert_eq!((run.state, run.unclear), (RunState::Succeeded, 0));
    assert_eq!((node.executor.made("asked").len(), node.executor.made("work").len()), (2, 1));
}

#[test]
fn work_that_is_done_is_not_started() {
    let node = ScriptedNode::start(&[("asked", &[Act::End(exit(0))])]);
    node.eye.add(&json!({"name": "a", "in": "0s", "shell": "work", "done_check": {"shell": "asked", "on": "always"}}));
    let run = end_of(&node);
    assert_eq!(
        (run.state, run.reason.as_deref()),
        (RunState::Succeeded, Some("done_check: already done"))
    );
    assert!(node.executor.made("work").is_empty());
}

#[test]
fn a_cancelled_run_is_stopped_and_ends_with_the_reason() {
    let node = ScriptedNode::start(&[("work", &[Act::GoOn])]);
    node.eye.add(&json!({"name": "a", "in": "0s", "shell": "work"}));
    node.wait_for("work");
    let run = node.executor.runs().remove(0);
    node.eye.ask(job_operations::cancel_run(node.eye.store(), &run, "not needed")).unwrap();
    let ended = end_of(&node);
    assert_eq!((ended.state, ended.reason.as_deref()), (RunState::Cancelled, Some("not needed")));
}

#[test]
fn an_attempt_that_could_not_start_goes_back_without_counting() {
    let refused = AttemptOutcome {
        error: Some("not started: no room".to_owned()),
        ..AttemptOutcome::bare(Ending::NotStarted)
    };
    let node = ScriptedNode::start(&[("work", &[Act::End(refused)])]);
    node.eye.add(&json!({"name": "a", "in": "0s", "shell": "work"}));
    let run = end_of(&node);
    assert_eq!((run.state, run.attempt, run.failures), (RunState::Succeeded, 1, 0));
    assert_eq!(node.executor.made("work"), [1, 1]);
}

#[test]
fn a_stopping_node_hands_its_run_back_and_loses_an_at_most_once_run() {
    let mut node = ScriptedNode::start(&[("work", &[Act::GoOn]), ("once", &[Act::GoOn])]);
    node.eye.add(&json!({"name": "a", "in": "0s", "shell": "work"}));
    node.eye.add(&json!({"name": "b", "in": "0s", "shell": "once", "delivery": "at-most-once"}));
    node.wait_for("work");
    node.wait_for("once");
    node.stop();
    let run = node.executor.runs().into_iter().find(|run| run.job().as_str() == "a").unwrap();
    let back = node.eye.run(&run.to_string()).unwrap();
    assert_eq!((back.state, back.failures), (RunState::Scheduled, 0));
    let lost = node.eye.wait_for_history("b", 1).remove(0);
    assert_eq!((lost.state, lost.reason.as_deref()), (RunState::Lost, Some("shutdown")));
}

#[test]
fn a_run_whose_lease_is_lost_is_stopped_and_not_recorded_by_this_node() {
    let node = ScriptedNode::start(&[("work", &[Act::GoOn])]);
    node.eye.add(&json!({"name": "a", "in": "0s", "shell": "work"}));
    node.wait_for("work");
    let run = node.executor.runs().remove(0);
    let () = redis::cmd("DEL").arg("schedd:leases").query(&mut node.redis.connection()).unwrap();
    std::thread::sleep(Duration::from_secs(2));
    let record = node.eye.run(&run.to_string()).unwrap();
    assert_eq!(record.state, RunState::Running, "only recovery may decide about the run");
    assert!(node.eye.history("a").is_empty());
}

#[test]
fn each_of_many_due_runs_is_executed_once() {
    let node = ScriptedNode::start(&[]);
    for number in 0..120 {
        node.eye.add(&json!({"name": format!("many{number}"), "in": "1s", "shell": "work"}));
    }
    until("all runs were executed", LONG, || (node.executor.runs().len() >= 120).then_some(()));
    std::thread::sleep(Duration::from_millis(500));
    let mut runs: Vec<String> = node.executor.runs().iter().map(ToString::to_string).collect();
    runs.sort();
    runs.dedup();
    assert_eq!((runs.len(), node.executor.runs().len()), (120, 120));
}
