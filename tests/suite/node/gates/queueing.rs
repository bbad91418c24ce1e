//! Queues with limits and rates on several nodes: what their jobs themselves say of when they ran.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::support::ctl::Schedctl;
use crate::support::effects::Effect;
use crate::support::eye::Eye;
use crate::support::redis::TestRedis;
use crate::support::script::Script;
use crate::support::scripted_node::ScriptedNode;
use crate::support::wait::{LONG, until};
use schedd_core::domain::run::run_state::RunState;

const QUICK: &str = "[daemon]\nlease = \"2s\"\ntick = \"100ms\"\n";

/// A node's file with these settings of the queue `q`.
fn file(settings: &str) -> String {
    format!("{QUICK}[queues.q]\n{settings}\n[queues.other]\nconcurrency = 4\n")
}

fn nodes(redis: &TestRedis, script: &Script, file: &str) -> Vec<ScriptedNode> {
    ["n1", "n2", "n3"]
        .map(|name| ScriptedNode::on(redis, script).node(name).jobs(file).start())
        .into()
}

fn add(eye: &Eye, name: &str, queue: &str, shell: &str) {
    eye.add(&json!({"name": name, "in": "0s", "queue": queue, "shell": shell}));
}

/// The most that ran at once. One that was killed has no end of its own: it is counted to `unended_for` after its beginning.
fn most_at_once(all: &[Effect], unended_for: Duration) -> usize {
    let end = |effect: &Effect| effect.ended.unwrap_or(effect.began + unended_for.as_nanos());
    let beside = |one: &Effect| {
        all.iter().filter(|other| other.began <= one.began && end(other) > one.began).count()
    };
    all.iter().map(beside).max().unwrap_or(0)
}

#[test]
fn never_more_than_its_limit_run_at_once_though_nodes_are_killed() {
    let (redis, script) = (TestRedis::start(), Script::new());
    let eye = Eye::on(&redis);
    let mut nodes = nodes(&redis, &script, &file("limit = 3"));
    let ctl = Schedctl::on(&redis);
    until("the queue is known", LONG, || {
        Some(()).filter(|()| ctl.run(&["queues"]).stdout.contains("\nq "))
    });
    let runs = 60;
    for number in 0..runs {
        add(&eye, &format!("j{number}"), "q", "sleep 0.4");
    }
    for round in 0..6 {
        let wanted = 4 + round * 6;
        until("some have begun", LONG, || Some(()).filter(|()| script.all().len() >= wanted));
        let node = &mut nodes[fastrand::usize(..3)];
        node.crash();
        node.start_again();
    }
    for number in 0..runs {
        assert_eq!(eye.wait_for_history(&format!("j{number}"), 1)[0].state, RunState::Succeeded);
    }
    let all = script.all();
    assert!(all.len() >= runs, "{}", all.len());
    // Those a kill ended are not told by themselves: they were gone within moments, long before their lease.
    let reported: Vec<Effect> =
        all.iter().filter(|effect| effect.ended.is_some()).cloned().collect();
    let most = most_at_once(&reported, Duration::ZERO);
    assert!(most <= 3, "{most} at once");
    let left = eye
        .ask(eye.store().read_depths(&["q".parse().unwrap()], eye.ask(eye.store().now()).unwrap()))
        .unwrap();
    assert_eq!(left[0].running, 0, "nothing is counted that does not run");
    let doctor = ctl.run(&["doctor"]);
    assert!(!doctor.stdout.contains(":running"), "{}", doctor.stdout);
}

#[test]
fn the_end_of_a_run_wakes_the_next_of_a_full_queue_without_a_poll() {
    let (redis, script) = (TestRedis::start(), Script::new());
    let eye = Eye::on(&redis);
    let _nodes = nodes(&redis, &script, &file("limit = 1"));
    until("the queue is known", LONG, || {
        Some(()).filter(|()| {
            eye.ask(eye.store().read_queues()).unwrap().contains_key(&"q".parse().unwrap())
        })
    });
    for number in 0..12 {
        add(&eye, &format!("j{number}"), "q", "sleep 0.3");
    }
    let mut gaps: Vec<i64> = Vec::new();
    let mut runs = Vec::new();
    for number in 0..12 {
        runs.extend(eye.wait_for_history(&format!("j{number}"), 1));
    }
    runs.sort_by_key(|run| run.started_at);
    for pair in runs.windows(2) {
        gaps.push(pair[1].started_at.unwrap().as_i64() - pair[0].finished_at.unwrap().as_i64());
    }
    assert!(gaps.iter().all(|gap| *gap >= 0), "two at once: {gaps:?}");
    gaps.sort_unstable();
    // A node that only polled would look each second: half of them would be later than half a second.
    assert!(gaps[gaps.len() / 2] < 200, "{gaps:?}");
    println!("ms from the end of a run to the start of the next: {gaps:?}");
}

#[test]
fn a_queue_that_is_full_paused_or_beyond_its_rate_delays_no_other() {
    let (redis, script) = (TestRedis::start(), Script::new());
    let (eye, ctl) = (Eye::on(&redis), Schedctl::on(&redis));
    let sections = "[queues.full]\nlimit = 1\n[queues.paused]\npaused = true\n[queues.rated]\nrate = \"1/1h\"\n[queues.narrow]\nconcurrency = 1\n";
    let _node = ScriptedNode::on(&redis, &script).jobs(&format!("{QUICK}{sections}")).start();
    until("the queues are known", LONG, || {
        Some(()).filter(|()| ctl.run(&["queues"]).stdout.contains("\nrated "))
    });
    for queue in ["full", "paused", "rated", "narrow"] {
        for number in 0..40 {
            let work = if queue == "rated" { "true".to_owned() } else { "sleep 600".to_owned() };
            add(&eye, &format!("{queue}{number}"), queue, &work);
        }
    }
    let states = |wanted: usize| {
        let table = ctl.run(&["queues"]).stdout;
        let is_held = |line: &&str| {
            ["full", "paused", "rate_limited"].iter().any(|word| line[8..].contains(word))
        };
        Some(table.clone()).filter(|table| {
            table.lines().filter(|line| line.len() > 8).filter(is_held).count() >= wanted
        })
    };
    until("three queues hold", LONG, || states(3));
    let mut late = Vec::new();
    for number in 0..10 {
        add(&eye, &format!("free{number}"), "default", "true");
        let run = eye.wait_for_history(&format!("free{number}"), 1).remove(0);
        late.push(run.started_at.unwrap().as_i64() - run.run.due().as_i64());
    }
    late.sort_unstable();
    assert!(late[late.len() / 2] < 250, "{late:?}");
    println!("ms late beside held queues: {late:?}");
}

#[test]
fn over_a_long_time_several_nodes_begin_no_more_than_the_rate_and_one_burst() {
    let (redis, script) = (TestRedis::start(), Script::new());
    let eye = Eye::on(&redis);
    let _nodes = nodes(&redis, &script, &file("rate = \"10/1s\"\nburst = 4"));
    until("the queue is known", LONG, || {
        Some(()).filter(|()| {
            eye.ask(eye.store().read_queues()).unwrap().contains_key(&"q".parse().unwrap())
        })
    });
    let runs = 80_i64;
    for number in 0..runs {
        add(&eye, &format!("j{number}"), "q", "true");
    }
    let mut starts: Vec<i64> = (0..runs)
        .map(|number| {
            eye.wait_for_history(&format!("j{number}"), 1)[0].started_at.unwrap().as_i64()
        })
        .collect();
    starts.sort_unstable();
    // Of any stretch, by Redis' time: at most the burst and its share. Instants are cut to milliseconds.
    for (first, from) in starts.iter().enumerate() {
        for (last, to) in starts.iter().enumerate().skip(first) {
            let begun = i64::try_from(last - first + 1).unwrap();
            assert!(begun <= 4 + (to - from + 1) / 100 + 1, "{begun} in {} ms", to - from);
        }
    }
    let took = starts[starts.len() - 1] - starts[0];
    assert!(took >= (runs - 4 - 1) * 100, "{took} ms");
    println!(
        "{runs} runs at 10/1s, burst 4, took {took} ms of Redis' time; the rate alone says {} ms",
        (runs - 4) * 100
    );
}

#[test]
fn a_limit_changed_by_reload_holds_up_and_down_while_runs_execute() {
    let (redis, script) = (TestRedis::start(), Script::new());
    let eye = Eye::on(&redis);
    let node = ScriptedNode::on(&redis, &script).jobs(&file("limit = 1")).start();
    let limit = |wanted: u32| {
        until("the limit is taken", LONG, || {
            let record = eye
                .ask(eye.store().read_queue_settings(&["q".parse().unwrap()]))
                .unwrap()
                .remove(0);
            Some(()).filter(|()| record.settings.limit == Some(wanted))
        });
    };
    limit(1);
    for number in 0..8 {
        add(&eye, &format!("j{number}"), "q", "sleep 3");
    }
    until("one runs", LONG, || Some(()).filter(|()| script.all().len() == 1));
    let began = Instant::now();
    node.reload(&file("limit = 4"));
    until("four run", LONG, || Some(()).filter(|()| script.all().len() >= 4));
    println!(
        "raised from 1 to 4: three more had begun {} ms after the reload",
        began.elapsed().as_millis()
    );
    node.reload(&file("limit = 1"));
    limit(1);
    for number in 0..8 {
        eye.wait_for_history(&format!("j{number}"), 1);
    }
    let all = script.all();
    assert_eq!(most_at_once(&all, Duration::ZERO), 4);
    let mut late: Vec<&Effect> = all.iter().collect();
    late.sort_by_key(|effect| effect.began);
    let last: Vec<Effect> = late[5..].iter().map(|effect| (*effect).clone()).collect();
    assert_eq!(most_at_once(&last, Duration::ZERO), 1, "after the reload one at a time");
}

#[test]
fn a_restart_of_redis_forgets_neither_the_limit_nor_what_runs_nor_the_rate() {
    let (mut redis, script) = (TestRedis::durable(), Script::new());
    let eye = Eye::on(&redis);
    let _nodes = nodes(&redis, &script, &file("limit = 2\nrate = \"2/1s\"\nburst = 2"));
    until("the queue is known", LONG, || {
        Some(()).filter(|()| {
            eye.ask(eye.store().read_queues()).unwrap().contains_key(&"q".parse().unwrap())
        })
    });
    for number in 0..10 {
        add(&eye, &format!("j{number}"), "q", "sleep 0.8");
    }
    until("some have begun", LONG, || Some(()).filter(|()| script.all().len() >= 3));
    redis.restart();
    until("it answers", LONG, || eye.ask(eye.store().now()).ok());
    for number in 0..10 {
        assert_eq!(eye.wait_for_history(&format!("j{number}"), 1)[0].state, RunState::Succeeded);
    }
    let all = script.all();
    assert!(most_at_once(&all, Duration::from_secs(1)) <= 2, "{all:?}");
    let mut began: Vec<u128> = all.iter().map(|effect| effect.began).collect();
    began.sort_unstable();
    for five in began.windows(5) {
        // Two at once and two a second: the fifth is a second and a half behind the first, less what a start takes.
        assert!(five[4] - five[0] > 1_100_000_000, "{began:?}");
    }
    let names: BTreeSet<&str> = all.iter().map(|effect| effect.run.as_str()).collect();
    assert_eq!(names.len(), 10);
}
