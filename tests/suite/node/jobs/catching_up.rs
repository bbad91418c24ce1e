//! What becomes of occurrences nobody could start in time.

use std::time::Duration;

use redis::Commands;
use serde_json::{Value, json};

use crate::support::eye::Eye;
use crate::support::redis::TestRedis;
use crate::support::script::Script;
use crate::support::scripted_node::ScriptedNode;
use crate::support::wait::{LONG, until};
use schedd_core::domain::run::run_state::RunState;

const HOUR: Duration = Duration::from_secs(3600);
const DAY: Duration = Duration::from_secs(24 * 3600);

/// A job added `ago` before now, with no node running since.
pub(crate) fn add_in_the_past(eye: &Eye, ago: Duration, job: &Value) {
    let then = eye.ask(eye.store().now()).unwrap().saturating_sub(ago);
    eye.add_through(&eye.store().at(then), job);
}

#[test]
fn after_thirty_days_down_a_minutely_job_runs_once_and_the_rest_is_one_record() {
    let (redis, script) = (TestRedis::start(), Script::new());
    let eye = Eye::on(&redis);
    add_in_the_past(
        &eye,
        30 * DAY,
        &json!({"name": "minutely", "cron": "* * * * *", "shell": "true"}),
    );
    let _node = ScriptedNode::on(&redis, &script).start();
    let runs = eye.wait_for_history("minutely", 2);
    let (to, count) = runs[0].skipped.unwrap();
    assert_eq!((runs[0].state, runs[0].reason.as_deref()), (RunState::Skipped, Some("missed")));
    assert!((43_198..=43_200).contains(&count), "{count}");
    assert_eq!(runs[1].state, RunState::Succeeded);
    assert_eq!(runs[1].run.due().since(to), Duration::from_secs(60));
    assert_eq!(script.of("minutely").len(), 1);
}

#[test]
fn under_skip_none_of_the_missed_runs_and_under_all_each_does_one_after_the_other() {
    let (redis, script) = (TestRedis::start(), Script::new());
    let eye = Eye::on(&redis);
    let ago = Duration::from_secs(5 * 3600 + 1800);
    add_in_the_past(
        &eye,
        ago,
        &json!({"name": "skips", "every": "1h", "shell": "true", "catch_up": "skip"}),
    );
    add_in_the_past(
        &eye,
        ago,
        &json!({"name": "all", "every": "1h", "shell": "sleep 0.2", "catch_up": "all"}),
    );
    let _node = ScriptedNode::on(&redis, &script).start();
    let runs = eye.wait_for_history("all", 5);
    assert!(runs.iter().all(|run| run.state == RunState::Succeeded), "{runs:?}");
    let done = script.of("all");
    assert_eq!(done.len(), 5);
    assert!(
        done.windows(2).all(|pair| pair[0].ended.is_some_and(|end| end <= pair[1].began)),
        "at once: {done:?}"
    );
    let dues: Vec<&String> = done.iter().map(|effect| &effect.run).collect();
    assert!(dues.is_sorted(), "not oldest first: {dues:?}");
    let skipped = eye.wait_for_history("skips", 1);
    assert_eq!(
        (skipped.len(), skipped[0].state, skipped[0].skipped.unwrap().1),
        (1, RunState::Skipped, 5)
    );
}

#[test]
fn under_all_a_run_due_just_before_the_node_started_waits_for_missed_runs() {
    let (redis, script) = (TestRedis::start(), Script::new());
    let eye = Eye::on(&redis);
    let shell = "sleep 0.5";
    add_in_the_past(
        &eye,
        4 * Duration::from_secs(20),
        &json!({"name": "all", "every": "20s", "shell": shell, "catch_up": "all"}),
    );
    // Some seconds behind its newest occurrence, which is not missed by its age, and not on time.
    let period = 20_000;
    let since = || eye.job("all").unwrap().pending.unwrap().due().as_i64();
    let now = || eye.ask(eye.store().now()).unwrap().as_i64();
    until("its newest occurrence is some seconds old", LONG, || {
        (2_000..15_000).contains(&((now() - since()) % period)).then_some(())
    });
    let count = usize::try_from((now() - since()) / period + 1).unwrap();
    let _node = ScriptedNode::on(&redis, &script).start();
    let runs = eye.wait_for_history("all", count);
    assert!(runs.iter().all(|run| run.state == RunState::Succeeded), "{runs:?}");
}

#[test]
fn a_one_shot_runs_however_late() {
    let (redis, script) = (TestRedis::start(), Script::new());
    let eye = Eye::on(&redis);
    add_in_the_past(&eye, 2 * DAY, &json!({"name": "late", "in": "1h", "shell": "true"}));
    let _node = ScriptedNode::on(&redis, &script).start();
    let run = until("it has run", LONG, || eye.history("late").into_iter().next());
    assert_eq!(run.state, RunState::Succeeded);
}

#[test]
fn thirty_days_down_cost_a_minutely_job_next_to_nothing_whatever_its_rule() {
    let (redis, script) = (TestRedis::start(), Script::new());
    let eye = Eye::on(&redis);
    for (name, catch_up) in [
        ("none", json!("skip")),
        ("newest", json!("latest")),
        ("hundred", json!({"mode": "all", "max_count": 100})),
        ("thousand", json!({"mode": "all", "max_count": 1000})),
    ] {
        // Half a minute from the last occurrence, so that none is on time, whenever this test starts.
        let job = json!({"name": name, "every": "1m", "shell": "sleep 0.01", "catch_up": catch_up, "late_after": "1s"});
        let job = if name == "thousand" {
            json!({"name": name, "cron": "* * * * *", "shell": "true", "overlap": "allow",
            "catch_up": catch_up, "queue": "default", "late_after": "1s"})
        } else {
            job
        };
        add_in_the_past(&eye, 30 * DAY + Duration::from_secs(30), &job);
    }
    let other = json!({"name": "other", "in": "1s", "shell": "true"});
    eye.add(&other);
    let started = std::time::Instant::now();
    let _node = ScriptedNode::on(&redis, &script).start();
    let none = eye.wait_for_history("none", 1);
    assert_eq!((none[0].state, none[0].skipped.unwrap().1), (RunState::Skipped, 43_200));
    println!("none of 43,200 missed: settled {:?} after the start of the node", started.elapsed());
    until("the newest has run", LONG, || Some(()).filter(|()| script.of("newest").len() == 1));
    println!(
        "the newest of 43,200 missed: begun {:?} after the start of the node",
        started.elapsed()
    );
    until("the other has run", LONG, || Some(()).filter(|()| script.of("other").len() == 1));
    let hundred = eye.wait_for_history("hundred", 101);
    println!(
        "a hundred of 43,200, one after the other: {:?} after the start of the node",
        started.elapsed()
    );
    assert_eq!((hundred[0].state, hundred[0].skipped.unwrap().1), (RunState::Skipped, 43_100));
    assert!(hundred[1..].iter().all(|run| run.state == RunState::Succeeded));
    let done = script.of("hundred");
    assert_eq!(done.len(), 100);
    assert!(
        done.windows(2).all(|pair| pair[0].ended.is_some_and(|end| end <= pair[1].began)),
        "two at once"
    );
    let thousand = until("a thousand have run", Duration::from_secs(120), || {
        let runs = eye.history("thousand");
        Some(runs).filter(|runs| runs.len() >= 1_000 && runs.iter().all(|run| run.state.is_final()))
    });
    println!(
        "a thousand of 43,200 side by side: {:?} after the start of the node",
        started.elapsed()
    );
    assert!(thousand.iter().filter(|run| run.state == RunState::Succeeded).count() >= 999);
}

#[test]
fn missed_runs_that_are_spread_start_within_the_time_and_not_at_once() {
    let (redis, script) = (TestRedis::start(), Script::new());
    let eye = Eye::on(&redis);
    let ago = Duration::from_secs(8 * 3600 + 1800);
    let job = |name: &str, mode: &str| json!({"name": name, "every": "1h", "shell": "true", "catch_up": {"mode": mode, "spread": "4s"}});
    add_in_the_past(&eye, ago, &job("all", "all"));
    for number in 0..6 {
        add_in_the_past(&eye, ago, &job(&format!("latest{number}"), "latest"));
    }
    let node = ScriptedNode::on(&redis, &script).start();
    node.wait_for_log("Late runs are spread");
    let runs = eye.wait_for_history("all", 8);
    assert!(runs.iter().all(|run| run.state == RunState::Succeeded), "{runs:?}");
    let done = script.of("all");
    let dues: Vec<&String> = done.iter().map(|effect| &effect.run).collect();
    assert!(dues.len() == 8 && dues.is_sorted(), "{dues:?}");
    // Each has its own eighth of the time: the first and the last are at least six of them apart.
    assert!(done[7].began - done[0].began >= 3_000_000_000, "at once: {done:?}");
    let next = eye.job("all").unwrap().pending.unwrap();
    assert_eq!(next.due().since(runs[7].run.due()), Duration::from_secs(3600));
    for number in 0..6 {
        let runs = eye.wait_for_history(&format!("latest{number}"), 2);
        assert_eq!((runs[0].state, runs[1].state), (RunState::Skipped, RunState::Succeeded));
        assert_eq!(runs[0].skipped.unwrap().1, 7);
    }
}

#[test]
fn missed_runs_that_find_no_memory_to_spread_block_no_other_run_of_the_queue() {
    let (redis, script) = (TestRedis::start(), Script::new());
    let eye = Eye::on(&redis);
    let ago = Duration::from_secs(3600 + 1800);
    add_in_the_past(
        &eye,
        ago,
        &json!({"name": "a", "every": "1h", "shell": "true", "catch_up": {"spread": "1d"}}),
    );
    add_in_the_past(&eye, ago, &json!({"name": "b", "every": "1h", "shell": "true"}));
    let say = |most: &str| {
        let () = redis::cmd("CONFIG")
            .arg(&["SET", "maxmemory", most])
            .query(&mut redis.connection())
            .unwrap();
    };
    say("1");
    let node = ScriptedNode::on(&redis, &script).start();
    assert_eq!(eye.wait_for_history("b", 1)[0].state, RunState::Succeeded);
    node.wait_for_log("out of memory");
    assert!(eye.ask(eye.store().list_spread(&"a".parse().unwrap())).unwrap().is_empty());
    say("0");
    node.wait_for_log("Late runs are spread");
}

#[test]
fn a_long_range_is_spread_over_one_time_by_whoever_is_left() {
    let (redis, script) = (TestRedis::start(), Script::new());
    let eye = Eye::on(&redis);
    let ago = Duration::from_secs(350 * 60 + 30);
    let job = json!({"name": "a", "every": "1m", "shell": "true", "overlap": "allow", "late_after": "1s",
        "catch_up": {"mode": "all", "spread": "6s"}});
    add_in_the_past(&eye, ago, &job);
    let mut one = ScriptedNode::on(&redis, &script).node("one").jobs(crate::node::QUICK).start();
    one.wait_for_log("Late runs are spread");
    one.crash();
    let _two = ScriptedNode::on(&redis, &script).node("two").jobs(crate::node::QUICK).start();
    let runs = eye.wait_for_history("a", 350);
    assert_eq!(
        runs.iter().filter(|run| run.state == RunState::Succeeded).count(),
        runs.len(),
        "some did not run"
    );
    assert!(eye.ask(eye.store().list_spread(&"a".parse().unwrap())).unwrap().is_empty());
    let ids: std::collections::BTreeSet<String> =
        script.of("a").into_iter().map(|effect| effect.run).collect();
    assert_eq!(ids.len(), runs.len());
}

#[test]
fn a_spread_run_is_shown_with_the_time_it_will_start_at_and_pausing_holds_it_back() {
    let (redis, script) = (TestRedis::start(), Script::new());
    let eye = Eye::on(&redis);
    let ctl = crate::support::ctl::Schedctl::on(&redis);
    let ago = Duration::from_secs(3600 + 1800);
    add_in_the_past(
        &eye,
        ago,
        &json!({"name": "a", "every": "1h", "shell": "true", "catch_up": {"spread": "1d"}}),
    );
    let node = ScriptedNode::on(&redis, &script).start();
    node.wait_for_log("Late runs are spread");
    let shown = ctl.run(&["show", "a", "--json"]).good().json();
    let spread = &shown["runs"][0];
    assert_eq!(
        (&spread["state"], &spread["reason"]),
        (&"scheduled".into(), &"missed".into()),
        "{shown}"
    );
    let id = spread["run_id"].as_str().unwrap().to_owned();
    let run = ctl.run(&["show", &id, "--json"]).good().json();
    assert!(run["ready_at"].is_string() && run["ready_at"] != run["due"], "{run}");
    let pending = eye.job("a").unwrap().pending.unwrap().due();
    assert!(eye.ask(eye.store().now()).unwrap() < pending, "what is listed as next is to come");
    assert!(ctl.run(&["show", "a"]).good().stdout.contains("spread over 1d"));
    ctl.run(&["cancel", &id]).good();
    assert_eq!(eye.run(&id).unwrap().state, RunState::Cancelled);
}

#[test]
fn a_range_of_missed_runs_leaves_out_the_one_that_a_journal_gave_back() {
    let (redis, script) = (TestRedis::start(), Script::new());
    let eye = Eye::on(&redis);
    let ago = Duration::from_secs(5 * 3600 + 1800);
    add_in_the_past(
        &eye,
        ago,
        &json!({"name": "a", "every": "1h", "shell": "true", "catch_up": "skip"}),
    );
    let first = eye.job("a").unwrap().pending.unwrap().due();
    let due = first.saturating_add(Duration::from_secs(2 * 3600)).as_i64();
    let mut connection = redis.connection();
    for (field, value) in
        [("state", "succeeded"), ("job", "a"), ("queue", "default"), ("due", &due.to_string())]
    {
        let _: i64 = connection.hset(format!("{{schedd}}:run:a@{due}"), field, value).unwrap();
    }
    for index in ["history", "history:a"] {
        let _: i64 =
            connection.zadd(format!("{{schedd}}:{index}"), format!("a@{due}"), due).unwrap();
    }
    let _node = ScriptedNode::on(&redis, &script).start();
    let runs = eye.wait_for_history("a", 3);
    let reported: Vec<(RunState, u64)> =
        runs.iter().map(|run| (run.state, run.skipped.map_or(1, |(_, count)| count))).collect();
    assert_eq!(
        reported,
        [(RunState::Succeeded, 1), (RunState::Skipped, 2), (RunState::Skipped, 2)],
        "{runs:?}"
    );
    let hours =
        |run: usize| (runs[run].run.due().since(first), runs[run].skipped.unwrap().0.since(first));
    assert_eq!([hours(1), hours(2)], [(0, 1), (3, 4)].map(|(from, to)| (HOUR * from, HOUR * to)));
}
