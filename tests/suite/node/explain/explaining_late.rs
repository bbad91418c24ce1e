//! `schedctl explain` of runs that started late: each time the reason is made, and named.

use std::time::Duration;

use rustix::process::Signal;
use serde_json::json;

use super::explaining::{assert_says, explained};
use crate::support::ctl::Schedctl;
use crate::support::daemon::Schedd;
use crate::support::eye::Eye;
use crate::support::redis::TestRedis;
use crate::support::script::{Act, Script};
use crate::support::scripted_node::ScriptedNode;
use crate::support::wait::{LONG, until};

/// Waits until an explanation has this finding: nodes write theirs down within a second or two.
#[track_caller]
fn until_found(redis: &TestRedis, words: &[&str], code: &str) {
    until(&format!("{words:?} is explained with {code}"), LONG, || {
        let (_, document) = explained(redis, words);
        document["findings"]
            .as_array()
            .unwrap()
            .iter()
            .any(|found| found["code"] == code)
            .then_some(())
    });
}

#[test]
fn a_run_that_comes_from_waiting_into_a_paused_queue_is_reported_to_be_kept_by_it() {
    let (redis, script) = (TestRedis::start(), Script::new());
    let (eye, ctl) = (Eye::on(&redis), Schedctl::on(&redis));
    script.set("held", &[Act::GoOn]);
    let job = "[queues.p]\n[jobs.j]\nevery = \"1s\"\noverlap = \"queue\"\nshell = \"held\"\n";
    let node = ScriptedNode::on(&redis, &script).jobs(job).start();
    let waiting = || {
        let runs: Vec<String> = redis::cmd("ZRANGE")
            .arg("{schedd}:waiting:j")
            .arg(0)
            .arg(0)
            .query(&mut redis.connection())
            .unwrap();
        runs.into_iter().next()
    };
    let run = until("a run waits for the open one", LONG, waiting);
    ctl.run(&["queue", "pause", "p"]).good();
    node.reload(&format!("{job}queue = \"p\"\n"));
    until("the edit is taken", LONG, || {
        eye.job("j").filter(|job| job.lane.queue().as_str() == "p")
    });
    script.end("held");
    eye.wait_for_history("j", 1);
    until("explain says what keeps it", LONG, || {
        Some(()).filter(|()| {
            ctl.run(&["explain", &run]).good().stdout.contains("Queue p is paused by ")
        })
    });
}

#[test]
fn a_run_is_late_because_no_node_ran_and_before_that_it_is_owed_for_the_same_reason() {
    let (redis, script) = (TestRedis::start(), Script::new());
    let eye = Eye::on(&redis);
    let mut node = ScriptedNode::on(&redis, &script).node("n1").start();
    // Before that it takes no TERM, and notes nothing of its end.
    node.stop();
    eye.add(&json!({"name": "j", "in": "0s", "shell": "true"}));
    let due = eye.job("j").unwrap().pending.unwrap().due().as_i64();
    until("it is late", LONG, || {
        Some(()).filter(|()| eye.ask(eye.store().now()).unwrap().as_i64() > due + 2_000)
    });
    let owed = [
        " has been ready since",
        "n1 was not running from",
        "has not started",
        "No node was running.",
    ];
    assert_says(&redis, &["j", "--last"], &owed);
    assert_says(&redis, &["j"], &owed);
    node.start_again();
    eye.wait_for_history("j", 1);
    assert_says(
        &redis,
        &["j", "--last"],
        &["The run started 2s late.", "No node was running until", "Node n1 claimed the run."].map(
            |said| {
                // How late exactly is the machine's business.
                if said.starts_with("The run started") { "The run started " } else { said }
            },
        ),
    );
}

#[test]
fn a_run_is_late_because_redis_was_away() {
    let (redis, script) = (TestRedis::start(), Script::new());
    let eye = Eye::on(&redis);
    let _node = ScriptedNode::on(&redis, &script).node("n1").start();
    until("the node is there", LONG, || eye.ask(eye.store().list_nodes()).unwrap().1.pop());
    eye.add(&json!({"name": "j", "in": "1s", "shell": "true"}));
    redis.stop_signal(Signal::STOP);
    std::thread::sleep(Duration::from_secs(5));
    redis.stop_signal(Signal::CONT);
    eye.wait_for_history("j", 1);
    until_found(&redis, &["j", "--last"], "late_redis");
    assert_says(&redis, &["j", "--last"], &["Node n1 could not reach Redis from"]);
}

#[test]
fn a_run_is_late_because_all_slots_were_taken() {
    let (redis, script) = (TestRedis::start(), Script::new());
    let eye = Eye::on(&redis);
    let _node =
        ScriptedNode::on(&redis, &script).node("n1").jobs("[queues.q]\nconcurrency = 1\n").start();
    eye.add(&json!({"name": "long", "in": "0s", "shell": "sleep 4", "queue": "q"}));
    until("it runs", LONG, || {
        Some(()).filter(|()| eye.ask(eye.store().list_leases(9)).unwrap().len() == 1)
    });
    eye.add(&json!({"name": "j", "in": "0s", "shell": "true", "queue": "q"}));
    eye.wait_for_history("j", 1);
    until_found(&redis, &["j", "--last"], "late_slots");
    let said = [
        "Node n1 had no free slot for queue q from",
        "All slots of queue q were taken on n1",
        "queue = q, set with",
    ];
    assert_says(&redis, &["j", "--last"], &said);
}

#[test]
fn slots_taken_by_short_runs_that_nothing_waits_for_keep_no_run() {
    let (redis, script) = (TestRedis::start(), Script::new());
    let eye = Eye::on(&redis);
    let _node = ScriptedNode::on(&redis, &script)
        .node("n1")
        .jobs("[queues.small]\nconcurrency = 1\n")
        .start();
    until("the queue is known", LONG, || {
        Some(()).filter(|()| !eye.ask(eye.store().read_queues()).unwrap().is_empty())
    });
    eye.add(&json!({"name": "j", "every": "3s", "shell": "true", "queue": "small"}));
    eye.wait_for_history("j", 3);
    Schedctl::on(&redis).run(&["queue", "set", "small", "rate=1/1h"]).good();
    // Notes are written in the order in which things happened to the node.
    let events = until("that the queue is at its rate is noted", LONG, || {
        let now = eye.ask(eye.store().now()).unwrap();
        let events = eye.node_events(now).remove(0).events;
        events.iter().any(|event| event.what.word() == "queue_rated").then_some(events)
    });
    assert!(events.iter().all(|event| event.what.word() != "slots_taken"), "{events:?}");
}

#[test]
fn a_run_is_late_because_it_waited_for_another() {
    let (redis, script) = (TestRedis::start(), Script::new());
    let eye = Eye::on(&redis);
    let jobs = "[jobs.j]\nevery = \"1s\"\nshell = \"sleep 3\"\noverlap = \"queue\"\n";
    let _node = ScriptedNode::on(&redis, &script).node("n1").jobs(jobs).start();
    let waited = until("one has waited", LONG, || {
        eye.history("j").into_iter().find(|run| run.started_at.is_some() && run.behind.is_some())
    });
    let said = format!("for run {} to end.", waited.behind.unwrap());
    assert_says(
        &redis,
        &[&waited.run.to_string()],
        &[
            "The run waited until",
            &said,
            "overlap = queue with max = 1 (the default of max), set in [jobs.j]",
        ],
    );
}

#[test]
fn a_refused_file_is_reported_where_a_job_is_missed() {
    let redis = TestRedis::start();
    let eye = Eye::on(&redis);
    let node =
        Schedd::on(&redis).node("n1").jobs("[jobs.j]\nevery = \"1h\"\nshell = \"true\"\n").start();
    until("the job is there", LONG, || eye.job("j"));
    std::fs::write(node.jobs_file(), "[jobs.j]\nevery = \"never\"\n").unwrap();
    node.hup();
    until_found(&redis, &["j"], "file_refused");
    assert_says(&redis, &["j"], &["Node n1 refused its jobs file on"]);
}

#[test]
fn what_keeps_a_run_is_reported_from_the_moment_it_is_due() {
    let (redis, script) = (TestRedis::start(), Script::new());
    let eye = Eye::on(&redis);
    let _node = ScriptedNode::on(&redis, &script)
        .node("one")
        .jobs("[queues.few]\nlimit = 1\n[queues.narrow]\nconcurrency = 1\n[queues.slow]\nrate = \"1/1h\"\n[queues.shut]\npaused = true\n")
        .start();
    until("the queues are known", LONG, || {
        Some(()).filter(|()| eye.ask(eye.store().read_queues()).unwrap().len() >= 4)
    });
    for queue in ["few", "narrow", "slow"] {
        let work = if queue == "slow" { "true" } else { "sleep 600" };
        eye.add(&json!({"name": queue, "in": "0s", "queue": queue, "shell": work}));
        until("it has begun", LONG, || script.of(queue).into_iter().next());
    }
    for (queue, code, wanted) in [
        ("few", "queue_now", "Queue few is full (limit = 1): run few@"),
        ("narrow", "slots_now", "All slots of queue narrow are taken on one: run narrow@"),
        ("slow", "queue_now", "Queue slow is at its rate limit of 1/1h."),
        ("shut", "queue_now", "Queue shut is paused"),
    ] {
        let name = format!("{queue}-next");
        eye.add(&json!({"name": name, "in": "0s", "queue": queue, "shell": "true"}));
        // Asked once, and at once.
        let (reported, found) = explained(&redis, &[&name]);
        let has =
            found["findings"].as_array().unwrap().iter().any(|finding| finding["code"] == code);
        assert!(has && reported.contains(wanted), "{queue}: {reported}");
    }
    let _: i64 =
        redis::Commands::rpush(&mut redis.connection(), "{schedd}:running:bad", "not ours")
            .unwrap();
    eye.add(&json!({"name": "damaged", "in": "0s", "queue": "bad", "shell": "true"}));
    let damaged = "No run of lane bad starts: key {schedd}:running:bad holds a list, wanted a zset; schedctl doctor --fix";
    assert_says(&redis, &["damaged"], &[damaged]);
    eye.add(&json!({"name": "later", "every": "1h", "queue": "shut", "shell": "true"}));
    assert_says(&redis, &["later"], &["Queue shut is paused"]);
}
