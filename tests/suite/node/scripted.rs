//! The course of runs through a whole node whose executor follows a script: verdicts, retries,
//! questions, stops and lost leases. No process of a job starts.

use serde_json::json;

use crate::node::QUICK;
use crate::support::eye::Eye;
use crate::support::redis::TestRedis;
use crate::support::script::{Act, Script, exit};
use crate::support::scripted_node::ScriptedNode;
use crate::support::wait::{LONG, until};
use schedd::engine::planning::job_operations;
use schedd_core::domain::run::run_state::{AttemptOutcome, Ending, RunState};
use schedd_store::RunRecord;

/// A node with short leases, and its Redis.
struct Scene {
    node: ScriptedNode,
    script: Script,
    eye: Eye,
    redis: TestRedis,
}

impl Scene {
    /// Starts a node that follows these shell lines.
    fn start(lines: &[(&str, &[Act])]) -> Self {
        let (redis, script) = (TestRedis::start(), Script::new());
        script.set("work", &[Act::End(exit(0))]);
        for (line, acts) in lines {
            script.set(line, acts);
        }
        let node = ScriptedNode::on(&redis, &script).jobs(QUICK).start();
        Self { node, script, eye: Eye::on(&redis), redis }
    }

    /// Waits until an attempt with this shell line was made.
    #[track_caller]
    fn wait_for(&self, line: &str) {
        until(&format!("an attempt of {line}"), LONG, || {
            (!self.script.made(line).is_empty()).then_some(())
        });
    }

    /// Returns the first ended run of the job `a`.
    fn end(&self) -> RunRecord {
        self.eye.wait_for_history("a", 1).remove(0)
    }
}

#[test]
fn a_failed_attempt_is_retried_and_the_record_keeps_both() {
    let scene = Scene::start(&[("work", &[Act::End(exit(3)), Act::End(exit(0))])]);
    scene.eye.add(
        &json!({"name": "a", "in": "0s", "shell": "work", "retry": {"limit": 1, "delay": "0s"}}),
    );
    let run = scene.end();
    assert_eq!((run.state, run.attempt, run.exit_code), (RunState::Succeeded, 2, Some(0)));
    assert_eq!(scene.script.made("work"), [1, 2]);
    assert_eq!(run.past.len(), 1, "{:?}", run.past);
}

#[test]
fn the_last_failure_ends_the_run_as_failed_with_its_output() {
    let scene = Scene::start(&[("work", &[Act::Print("no such file\n".to_owned(), exit(3))])]);
    scene.eye.add(&json!({"name": "a", "in": "0s", "shell": "work"}));
    let run = scene.end();
    assert_eq!((run.state, run.exit_code), (RunState::Failed, Some(3)));
    let output = scene.eye.ask(scene.eye.store().read_output(&run.run, 1)).unwrap().unwrap();
    assert_eq!(output.stdout, b"no such file\n");
}

#[test]
fn an_unclear_question_is_asked_again_and_a_clear_no_starts_the_work() {
    let scene = Scene::start(&[("asked", &[Act::End(exit(2)), Act::End(exit(1))])]);
    scene.eye.add(
        &json!({"name": "a", "in": "0s", "shell": "work", "retry": {"limit": 0, "delay": "0s"},
        "done_check": {"shell": "asked", "on": "always"}}),
    );
    let run = scene.end();
    assert_eq!((run.state, run.unclear), (RunState::Succeeded, 0));
    assert_eq!((scene.script.made("asked").len(), scene.script.made("work").len()), (2, 1));
}

#[test]
fn work_that_is_done_is_not_started() {
    let scene = Scene::start(&[("asked", &[Act::End(exit(0))])]);
    scene.eye.add(&json!({"name": "a", "in": "0s", "shell": "work", "done_check": {"shell": "asked", "on": "always"}}));
    let run = scene.end();
    assert_eq!(
        (run.state, run.reason.as_deref()),
        (RunState::Succeeded, Some("done_check: already done"))
    );
    assert!(scene.script.made("work").is_empty());
}

#[test]
fn a_cancelled_run_is_stopped_and_ends_with_the_reason() {
    let scene = Scene::start(&[("work", &[Act::GoOn])]);
    scene.eye.add(&json!({"name": "a", "in": "0s", "shell": "work"}));
    scene.wait_for("work");
    let run = scene.script.runs().remove(0);
    scene.eye.ask(job_operations::cancel_run(scene.eye.store(), &run, "not needed")).unwrap();
    let ended = scene.end();
    assert_eq!((ended.state, ended.reason.as_deref()), (RunState::Cancelled, Some("not needed")));
}

#[test]
fn an_attempt_that_could_not_start_goes_back_without_counting() {
    let refused = AttemptOutcome {
        error: Some("not started: no room".to_owned()),
        ..AttemptOutcome::bare(Ending::NotStarted)
    };
    let scene = Scene::start(&[("work", &[Act::End(refused), Act::End(exit(0))])]);
    scene.eye.add(&json!({"name": "a", "in": "0s", "shell": "work"}));
    let run = scene.end();
    assert_eq!((run.state, run.attempt, run.failures), (RunState::Succeeded, 1, 0));
    assert_eq!(scene.script.made("work"), [1, 1]);
}

#[test]
fn a_stopping_node_hands_its_run_back_and_loses_an_at_most_once_run() {
    let mut scene = Scene::start(&[("work", &[Act::GoOn]), ("once", &[Act::GoOn])]);
    scene.eye.add(&json!({"name": "a", "in": "0s", "shell": "work"}));
    scene.eye.add(&json!({"name": "b", "in": "0s", "shell": "once", "delivery": "at-most-once"}));
    scene.wait_for("work");
    scene.wait_for("once");
    scene.node.stop_at_once();
    let run = scene.script.runs().into_iter().find(|run| run.job().as_str() == "a").unwrap();
    let back = scene.eye.run(&run.to_string()).unwrap();
    assert_eq!((back.state, back.failures), (RunState::Scheduled, 0));
    let lost = scene.eye.wait_for_history("b", 1).remove(0);
    assert_eq!((lost.state, lost.reason.as_deref()), (RunState::Lost, Some("shutdown")));
}

#[test]
fn a_run_whose_lease_is_lost_is_stopped_and_not_recorded_by_this_node() {
    let scene = Scene::start(&[("work", &[Act::GoOn])]);
    scene.eye.add(&json!({"name": "a", "in": "0s", "shell": "work"}));
    scene.wait_for("work");
    let run = scene.script.runs().remove(0);
    let _: i64 =
        redis::cmd("DEL").arg("{schedd}:leases").query(&mut scene.redis.connection()).unwrap();
    scene.node.wait_for_log("Another node will recover");
    let record = scene.eye.run(&run.to_string()).unwrap();
    assert_eq!(record.state, RunState::Running, "only recovery may decide about the run");
    assert!(scene.eye.history("a").is_empty());
}

#[test]
fn each_of_many_due_runs_is_executed_once() {
    let scene = Scene::start(&[]);
    for number in 0..120 {
        scene.eye.add(&json!({"name": format!("many{number}"), "in": "1s", "shell": "work"}));
    }
    for number in 0..120 {
        scene.eye.wait_for_history(&format!("many{number}"), 1);
    }
    let mut runs: Vec<String> = scene.script.runs().iter().map(ToString::to_string).collect();
    runs.sort();
    runs.dedup();
    assert_eq!((runs.len(), scene.script.runs().len()), (120, 120));
}
