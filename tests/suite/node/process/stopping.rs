//! A node that is asked to stop: runs end within the grace, the rest goes back at once.

use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::json;

use crate::support::ctl::Schedctl;
use crate::support::daemon::Schedd;
use crate::support::effects::Effects;
use crate::support::eye::Eye;
use crate::support::redis::TestRedis;
use crate::support::wait::{LONG, until};
use schedd_core::domain::run::run_state::RunState;

fn begun(effects: &Effects, job: &str) {
    until(&format!("{job} begins"), LONG, || effects.of(job).into_iter().next());
}

#[test]
fn term_lets_a_run_end_and_takes_no_new_one() {
    let (redis, effects) = (TestRedis::start(), Effects::new());
    let eye = Eye::on(&redis);
    let mut node = Schedd::on(&redis).start();
    eye.add(&json!({"name": "work", "in": "0s", "shell": effects.shell("sleep 1.5")}));
    begun(&effects, "work");
    node.term();
    node.wait_for_log("This node waits until its runs end");
    eye.add(&json!({"name": "after", "in": "0s", "shell": effects.shell("true")}));
    assert!(node.wait_exit().success());
    assert_eq!(eye.history("work")[0].state, RunState::Succeeded);
    assert!(effects.of("after").is_empty(), "a stopping node claimed a run");
    assert!(eye.ask(eye.store().list_nodes()).unwrap().1.is_empty());
}

#[test]
fn a_second_term_stops_at_once_and_the_run_goes_back_with_its_attempt() {
    let (redis, effects) = (TestRedis::start(), Effects::new());
    let eye = Eye::on(&redis);
    let mut node = Schedd::on(&redis).node("one").start();
    eye.add(&json!({"name": "work", "in": "0s", "shell": effects.shell("sleep $((SCHEDD_FENCE > 0 ? 3 : 0))")}));
    begun(&effects, "work");
    node.term();
    node.wait_for_log("This node waits until its runs end");
    node.term();
    assert!(node.wait_exit().success());
    let id = effects.of("work")[0].run.clone();
    let run = eye.run(&id).unwrap();
    assert_eq!((run.state, run.attempt), (RunState::Scheduled, 0));
    let _other = Schedd::on(&redis).node("two").start();
    let run = eye.wait_for_history("work", 1).remove(0);
    assert_eq!((run.state, run.attempt, run.recoveries), (RunState::Succeeded, 1, 0));
    assert_eq!(effects.of("work").len(), 2);
}

#[test]
fn a_start_that_a_stop_cut_short_is_reported_and_what_it_printed_is_kept() {
    let (redis, effects) = (TestRedis::start(), Effects::new());
    let (eye, ctl) = (Eye::on(&redis), Schedctl::on(&redis));
    let mut node =
        Schedd::on(&redis).node("one").jobs("[daemon]\nshutdown_grace = \"0s\"\n").start();
    let again = node.state_home().join("again");
    let again = again.to_str().unwrap();
    let work = format!("echo begun $SCHEDD_FENCE; test -e {again} || sleep 60");
    eye.add(&json!({"name": "work", "in": "0s", "shell": effects.shell(&work)}));
    begun(&effects, "work");
    let printed = until("it has printed", LONG, || {
        let output = ctl.run(&["logs", "work"]).good();
        Some(output.stdout).filter(|out| out.contains("begun"))
    });
    node.term();
    assert!(node.wait_exit().success());
    assert_eq!(
        ctl.run(&["logs", "work"]).good().stdout,
        printed,
        "while it waits for its second start"
    );
    std::fs::write(again, "").unwrap();
    let _other = Schedd::on(&redis).node("two").start();
    let run = eye.wait_for_history("work", 1).remove(0);
    assert_eq!((run.state, run.attempt), (RunState::Succeeded, 1));
    let id = run.run.to_string();
    let shown = ctl.run(&["show", &id, "--json"]).good().json();
    let attempts: Vec<_> = shown["attempts"].as_array().unwrap().iter().collect();
    let reported: Vec<_> = attempts
        .iter()
        .map(|one| (&one["attempt"], &one["state"], &one["node"], &one["error"]))
        .collect();
    let wanted = [
        (
            &json!(1),
            &json!("handed_back"),
            &json!("one"),
            &json!("stopped because its node shut down"),
        ),
        (&json!(1), &json!("succeeded"), &json!("two"), &json!(null)),
    ];
    assert_eq!(reported, wanted, "{shown}");
    assert!(
        attempts[0]["started_at"].is_string() && attempts[0]["finished_at"].is_string(),
        "{shown}"
    );
    let text = ctl.run(&["show", &id]).good().stdout;
    assert!(
        text.contains("handed_back") && text.contains("stopped because its node shut down"),
        "{text}"
    );
    let text = ctl.run(&["explain", &id]).good().stdout;
    assert!(
        text.contains("Attempt 1 on one started")
            && text.contains("stopped because its node shut down."),
        "{text}"
    );
    assert!(text.contains("Attempt 1 on two started") && !text.contains("unexecuted"), "{text}");
    let first_start = &ctl.run(&["explain", &id, "--json"]).good().json()["run"]["first_start"];
    assert_eq!(first_start, &attempts[0]["started_at"], "its lateness is that of its first start");
    let output = ctl.run(&["logs", &id]).good().stdout;
    assert!(output.starts_with(&printed) && output.lines().count() == 2, "{output}");
}

#[test]
fn past_the_grace_what_still_runs_is_handed_back() {
    let (redis, effects) = (TestRedis::start(), Effects::new());
    let eye = Eye::on(&redis);
    let mut node = Schedd::on(&redis).jobs("[daemon]\nshutdown_grace = \"500ms\"\n").start();
    eye.add(&json!({"name": "work", "in": "0s", "shell": effects.shell("sleep 60")}));
    eye.add(&json!({"name": "once", "in": "0s", "shell": effects.shell("sleep 60"), "delivery": "at-most-once"}));
    begun(&effects, "work");
    begun(&effects, "once");
    node.term();
    assert!(node.wait_exit().success());
    assert_eq!(eye.run(&effects.of("work")[0].run).unwrap().state, RunState::Scheduled);
    let lost = eye.history("once").remove(0);
    assert_eq!((lost.state, lost.reason.as_deref()), (RunState::Lost, Some("shutdown")));
}

#[test]
fn a_daemon_that_still_waits_for_redis_stops_when_asked() {
    let mut redis = TestRedis::start();
    redis.kill9();
    let mut node = Schedd::on(&redis).start();
    node.wait_for_log("schedd waits for Redis");
    node.term();
    assert!(node.wait_exit().success());
}

#[test]
fn a_daemon_started_before_redis_begins_when_redis_is_there() {
    let mut redis = TestRedis::start();
    redis.kill9();
    let node = Schedd::on(&redis).start();
    node.wait_for_log("schedd waits for Redis");
    redis.restart();
    node.wait_for_log("Started.");
}

#[test]
fn a_run_has_its_whole_grace_to_stop_and_is_then_handed_back() {
    let (redis, effects) = (TestRedis::start(), Effects::new());
    let eye = Eye::on(&redis);
    let mut node =
        Schedd::on(&redis).jobs("[daemon]\nlease = \"2s\"\nshutdown_grace = \"0s\"\n").start();
    let shell = format!("trap 'sleep 14' TERM; {}", effects.shell("sleep 60 & wait"));
    eye.add(&json!({"name": "work", "in": "0s", "shell": shell, "kill_grace": "25s"}));
    begun(&effects, "work");
    node.term();
    assert!(node.wait_exit().success());
    let effect = effects.of("work").remove(0);
    assert!(effect.ended.is_some(), "it was killed before its grace was over");
    let run = eye.run(&effect.run).unwrap();
    assert_eq!((run.state, run.attempt, run.recoveries), (RunState::Scheduled, 0, 0));
}

#[test]
fn a_stop_while_redis_stands_still_comes_to_its_end() {
    let (redis, effects) = (TestRedis::start(), Effects::new());
    let eye = Eye::on(&redis);
    let mut node =
        Schedd::on(&redis).jobs("[daemon]\nlease = \"5m\"\nshutdown_grace = \"1s\"\n").start();
    eye.add(&json!({"name": "work", "in": "0s", "shell": effects.shell("sleep 60")}));
    begun(&effects, "work");
    redis.stop_signal(Signal::STOP);
    node.wait_for_log("cannot be reached");
    let asked = Instant::now();
    node.term();
    assert!(node.wait_exit().success());
    redis.stop_signal(Signal::CONT);
    assert!(asked.elapsed() < Duration::from_secs(45), "{:?}", asked.elapsed());
    assert_eq!(effects.of("work")[0].ended, None);
}
