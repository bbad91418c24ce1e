//! Answers that get lost, and a Redis that stands still: one execution and one accepted result all the same.

use std::collections::BTreeSet;
use std::time::Duration;

use redis::Commands;
use rustix::process::Signal;
use serde_json::json;

use crate::support::ctl::Schedctl;
use crate::support::eye::Eye;
use crate::support::host::proxy::{Loss, Proxy};
use crate::support::redis::TestRedis;
use crate::support::script::{Act, Script, exit};
use crate::support::scripted_node::ScriptedNode;
use crate::support::wait::{LONG, until};
use schedd_core::domain::run::run_state::RunState;

/// Keys of the job `work`: its claim is the first call that uses the first key, its end the first with the other.
const OF_A_CLAIM: &str = "{schedd}:open:work";
const OF_AN_END: &str = "{schedd}:history:work";

fn loses(loss: Loss, word: &str) {
    let (redis, script) = (TestRedis::start(), Script::new());
    let (eye, proxy) = (Eye::on(&redis), Proxy::to(&redis));
    let _node = ScriptedNode::at(&proxy.url(), &script).start();
    // The server knows the scripts from here on.
    eye.add(&json!({"name": "first", "in": "0s", "shell": "true"}));
    eye.wait_for_history("first", 1);
    script.set("print", &[Act::Print("done\n".to_owned(), exit(0))]);
    proxy.lose_answer_to(word, loss);
    eye.add(&json!({"name": "work", "in": "0s", "shell": "print"}));
    proxy.wait_lost();
    let run = eye.wait_for_history("work", 1).remove(0);
    assert_eq!(
        (run.state, run.attempt, run.recoveries, run.failures),
        (RunState::Succeeded, 1, 0, 0)
    );
    let output = eye.ask(eye.store().read_output(&run.run, 1)).unwrap().unwrap();
    assert_eq!(output.stdout, b"done\n");
    until("nothing is held any more", LONG, || {
        let leases: i64 = redis.connection().zcard("{schedd}:leases").unwrap();
        Some(()).filter(|()| leases == 0)
    });
    assert_eq!(script.of("work").len(), 1, "it was executed twice");
    assert_eq!(eye.history("work").len(), 1);
    let succeeded: i64 = redis.connection().hget("{schedd}:counters", "succeeded").unwrap();
    assert_eq!(succeeded, 2, "a result was accepted twice");
}

#[test]
fn a_claim_whose_answer_is_lost_with_its_connection_starts_its_run_once() {
    loses(Loss::Cut, OF_A_CLAIM);
}

#[test]
fn a_claim_whose_answer_never_comes_starts_its_run_once() {
    loses(Loss::Silence, OF_A_CLAIM);
}

#[test]
fn an_at_most_once_claim_unanswered_for_half_a_lease_goes_back_and_runs_once() {
    let (redis, script) = (TestRedis::start(), Script::new());
    let (eye, proxy) = (Eye::on(&redis), Proxy::to(&redis));
    // The first try takes a second, the second ends past half of the lease.
    let node = ScriptedNode::at(&proxy.url(), &script).jobs("[daemon]\nlease = \"3s\"\n").start();
    eye.add(&json!({"name": "first", "in": "0s", "shell": "true"}));
    eye.wait_for_history("first", 1);
    proxy.lose_answer_to(OF_A_CLAIM, Loss::Silence);
    eye.add(&json!({"name": "work", "in": "0s", "shell": "true", "delivery": "at-most-once"}));
    proxy.wait_lost();
    let run = eye.wait_for_history("work", 1).remove(0);
    assert_eq!((run.state, run.attempt, run.recoveries), (RunState::Succeeded, 1, 0));
    assert_eq!(script.of("work").len(), 1);
    assert!(node.log().contains("the answer to its claim never came"), "{}", node.log());
}

#[test]
fn a_stopping_node_hands_back_an_at_most_once_run_with_an_unanswered_claim() {
    let (redis, script) = (TestRedis::start(), Script::new());
    let (eye, proxy) = (Eye::on(&redis), Proxy::to(&redis));
    let mut node = ScriptedNode::at(&proxy.url(), &script)
        .node("one")
        .jobs("[daemon]\nlease = \"2s\"\n")
        .start();
    eye.add(&json!({"name": "first", "in": "0s", "shell": "true"}));
    eye.wait_for_history("first", 1);
    proxy.lose_answer_to(OF_A_CLAIM, Loss::Silence);
    eye.add(&json!({"name": "work", "in": "0s", "shell": "true", "delivery": "at-most-once"}));
    proxy.wait_lost();
    node.stop();
    assert!(script.of("work").len() <= 1);
    let _other = ScriptedNode::on(&redis, &script).node("two").start();
    let run = eye.wait_for_history("work", 1).remove(0);
    assert_eq!((run.state, run.attempt, run.recoveries), (RunState::Succeeded, 1, 0));
    assert_eq!(script.of("work").len(), 1);
}

#[test]
fn an_end_whose_answer_is_lost_with_its_connection_is_accepted_once() {
    loses(Loss::Cut, OF_AN_END);
}

#[test]
fn an_end_whose_answer_never_comes_is_accepted_once() {
    loses(Loss::Silence, OF_AN_END);
}

#[test]
fn a_renewal_whose_answer_never_comes_costs_no_run_its_lease() {
    let (redis, script) = (TestRedis::start(), Script::new());
    let (eye, proxy) = (Eye::on(&redis), Proxy::to(&redis));
    let _node = ScriptedNode::at(&proxy.url(), &script).start();
    eye.add(&json!({"name": "work", "in": "0s", "shell": "sleep 14"}));
    until("it runs", LONG, || script.of("work").into_iter().next());
    // The lease's length, which nothing but renewals speaks of while nothing is claimed.
    proxy.lose_answer_to("10000", Loss::Silence);
    proxy.wait_lost();
    let run = eye.wait_for_history("work", 1).remove(0);
    assert_eq!((run.state, run.attempt), (RunState::Succeeded, 1));
}

#[test]
fn a_renewal_whose_answer_never_comes_costs_no_run_a_short_lease() {
    let (redis, script) = (TestRedis::start(), Script::new());
    let (eye, proxy) = (Eye::on(&redis), Proxy::to(&redis));
    // Renewed each 2 s and stopped after 4.8 s without: the connection must be found dead at the first time-out.
    let _node = ScriptedNode::at(&proxy.url(), &script).jobs("[daemon]\nlease = \"6s\"\n").start();
    eye.add(&json!({"name": "work", "in": "0s", "shell": "sleep 9"}));
    until("it runs", LONG, || script.of("work").into_iter().next());
    proxy.lose_answer_to("6000", Loss::Silence);
    proxy.wait_lost();
    let run = eye.wait_for_history("work", 1).remove(0);
    assert_eq!((run.state, run.attempt, run.recoveries), (RunState::Succeeded, 1, 0));
}

#[test]
fn a_run_won_while_the_node_stops_ends_or_goes_back_with_its_attempt() {
    let (redis, script) = (TestRedis::start(), Script::new());
    let (eye, proxy) = (Eye::on(&redis), Proxy::to(&redis));
    // A claim without an answer is asked for again after a tick: the stop comes in between.
    let mut node = ScriptedNode::at(&proxy.url(), &script)
        .jobs("[daemon]\ntick = \"1s\"\nlease = \"20s\"\n")
        .start();
    eye.add(&json!({"name": "first", "in": "0s", "shell": "true"}));
    eye.wait_for_history("first", 1);
    proxy.lose_answer_to(OF_A_CLAIM, Loss::Cut);
    eye.add(&json!({"name": "work", "in": "0s", "shell": "sleep 1", "delivery": "at-most-once"}));
    proxy.wait_lost();
    node.stop();
    let leases: i64 = redis.connection().zcard("{schedd}:leases").unwrap();
    assert_eq!(leases, 0, "a run was won and left");
    assert_eq!(eye.history("work")[0].state, RunState::Succeeded);
    assert_eq!(script.of("work").len(), 1);
}

#[test]
fn a_redis_that_stands_still_for_three_seconds_under_load_loses_and_doubles_nothing() {
    let (redis, script) = (TestRedis::start(), Script::new());
    let eye = Eye::on(&redis);
    let jobs = "[jobs.beat]\nevery = \"1s\"\nshell = \"true\"\n";
    let nodes =
        ["one", "two"].map(|name| ScriptedNode::on(&redis, &script).node(name).jobs(jobs).start());
    eye.wait_for_history("beat", 1);
    for number in 0..80 {
        let delay = format!("{}ms", 500 + number * 40);
        eye.add(&json!({"name": format!("n{number}"), "in": delay, "shell": "sleep 0.2"}));
    }
    until("the load has begun", LONG, || Some(()).filter(|()| script.all().len() > 10));
    redis.stop_signal(Signal::STOP);
    std::thread::sleep(Duration::from_secs(3));
    redis.stop_signal(Signal::CONT);
    for number in 0..80 {
        let run = eye.wait_for_history(&format!("n{number}"), 1).remove(0);
        assert_eq!((run.state, run.attempt), (RunState::Succeeded, 1), "n{number}");
    }
    let beats = eye.history("beat").len();
    eye.wait_for_history("beat", beats + 2);
    let all: Vec<String> = script.all().into_iter().map(|effect| effect.run).collect();
    let different: BTreeSet<&String> = all.iter().collect();
    assert_eq!(different.len(), all.len(), "a run was done twice");
    for node in nodes {
        assert!(node.log().matches("cannot be reached").count() <= 2, "{}", node.log());
    }
}

#[test]
fn two_hundred_runs_due_at_once_on_four_slots_run_once_each_and_the_oldest_first() {
    let (redis, script) = (TestRedis::start(), Script::new());
    let eye = Eye::on(&redis);
    for number in 0..200 {
        eye.add(&json!({"name": format!("n{number}"), "in": "0s", "shell": "sleep 0.05"}));
    }
    let _node =
        ScriptedNode::on(&redis, &script).jobs("[queues.default]\nconcurrency = 4\n").start();
    until("all have run", Duration::from_secs(90), || {
        let done = script.all().iter().filter(|effect| effect.ended.is_some()).count();
        Some(()).filter(|()| done >= 200)
    });
    let mut all = script.all();
    let runs: BTreeSet<&str> = all.iter().map(|effect| &*effect.run).collect();
    assert_eq!((runs.len(), all.len()), (200, 200));
    for effect in &all {
        let beside = all
            .iter()
            .filter(|other| other.began <= effect.began && other.ended.unwrap() > effect.began)
            .count();
        assert!(beside <= 4, "{beside} at once");
    }
    all.sort_by_key(|effect| effect.fence);
    let dues: Vec<i64> =
        all.iter().map(|effect| effect.run.split('@').nth(1).unwrap().parse().unwrap()).collect();
    assert!(dues.is_sorted(), "a younger run was claimed before an older one: {dues:?}");
}

#[test]
fn how_long_a_run_took_is_reported_apart_from_how_long_redis_did_not_take_its_end() {
    let (redis, script) = (TestRedis::start(), Script::new());
    script.set("held", &[Act::GoOn]);
    let (eye, ctl) = (Eye::on(&redis), Schedctl::on(&redis));
    let _node = ScriptedNode::on(&redis, &script).start();
    eye.add(&json!({"name": "work", "in": "0s", "shell": "held"}));
    until("it has begun", LONG, || script.of("work").pop());
    let () = redis::cmd("CLIENT")
        .arg("PAUSE")
        .arg(4_000)
        .arg("WRITE")
        .query(&mut redis.connection())
        .unwrap();
    script.end("held");
    let run = eye.wait_for_history("work", 1).remove(0);
    let found = ctl.run(&["history", "work", "--json"]).good().json()[0].clone();
    let ms = |field: &str| found[field].as_u64().unwrap();
    let whole = run.finished_at.unwrap().since(run.started_at.unwrap()).as_millis();
    assert!(ms("recorded_after_ms") >= 2_000, "{found}");
    assert_eq!(u128::from(ms("duration_ms") + ms("recorded_after_ms")), whole, "{found}");
    let shown = ctl.run(&["show", &run.run.to_string()]).good().stdout;
    assert!(
        shown.contains("after the attempt ended, because Redis could not be written before"),
        "{shown}"
    );
}
