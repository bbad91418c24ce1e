//! Redis' clock is wrong for a while: whatever was planned by it goes on in time once it is right, and nothing runs twice.

use std::collections::BTreeSet;
use std::thread::sleep;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::json;

use crate::support::ctl::Schedctl;
use crate::support::effects::Effect;
use crate::support::eye::Eye;
use crate::support::redis::TestRedis;
use crate::support::script::{Act, Script, exit};
use crate::support::scripted_node::ScriptedNode;
use crate::support::wait::{LONG, until};
use schedd::engine::planning::job_operations;
use schedd_core::domain::run::run_state::RunState;

const DAY: i64 = 86_400;
const FIVE_YEARS: i64 = 1_826 * DAY;
/// As long as docs/guarantees.md says that it takes at most until what recurs goes on, with room for a busy machine.
const SOON: Duration = Duration::from_secs(15);

/// Jobs of every kind that recur within two seconds.
const RECURRING: [&str; 11] = [
    "cron", "every", "delay", "keyed", "rated", "ratedkey", "turna", "turnb", "spread", "splayed",
    "mixed",
];

fn file() -> String {
    let sections = "[daemon]\nlease = \"2s\"\n[queues.slow]\nrate = \"2/1s\"\n[groups.turns]\nmode = \"alternate\"\n\
                    order = [\"turna\", \"turnb\"]\ngap = \"100ms\"\nturn_timeout = \"3s\"\n";
    let keys = [
        ("cron", "cron = \"* * * * * *\""),
        ("every", "every = \"2s\""),
        ("delay", "delay = \"1s\""),
        ("keyed", "every = \"2s\"\nkey = \"k\""),
        ("rated", "every = \"1s\"\nqueue = \"slow\""),
        ("ratedkey", "every = \"1s\"\nkey = \"r\"\nper_key = { rate = \"2/1s\" }"),
        ("turna", "every = \"2s\"\ngroup = \"turns\""),
        ("turnb", "every = \"2s\"\ngroup = \"turns\""),
        (
            "spread",
            "every = \"2s\"\ncatch_up = { mode = \"all\", max_count = 50, spread = \"1h\" }",
        ),
        ("splayed", "every = \"2s\"\nsplay = \"1s\"\njitter = \"500ms\""),
        ("mixed", "schedules = [{ every = \"2s\" }, { cron = \"0 0 1 1 *\" }]"),
    ];
    let section =
        |(name, text): &(&str, &str)| format!("[jobs.{name}]\n{text}\nshell = \"true\"\n");
    sections.to_owned() + &keys.iter().map(section).collect::<String>()
}

fn now() -> u128 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos()
}

/// Waits until each of these jobs has begun so often after `since`.
#[track_caller]
fn until_begun(script: &Script, jobs: &[&str], since: u128, times: usize, limit: Duration) {
    let lacking = || {
        let all = script.all();
        let begun = |job: &str| {
            let is_its = |effect: &&Effect| {
                effect.run.split('@').next() == Some(job) && effect.began > since
            };
            all.iter().filter(is_its).count()
        };
        jobs.iter()
            .filter(|job| begun(job) < times)
            .map(|job| (*job).to_owned())
            .collect::<Vec<_>>()
    };
    let started = std::time::Instant::now();
    while !lacking().is_empty() {
        assert!(
            started.elapsed() < limit,
            "not begun {times} times within {limit:?}: {:?}",
            lacking()
        );
        sleep(Duration::from_millis(20));
    }
}

#[track_caller]
fn assert_none_twice(script: &Script) {
    let mut seen = BTreeSet::new();
    for effect in script.all() {
        assert!(seen.insert((effect.run.clone(), effect.attempt)), "begun twice: {effect:?}");
    }
}

/// Nothing in the data is inconsistent, and the clock's step is told.
#[track_caller]
fn assert_sound_and_reported(redis: &TestRedis) {
    let ctl = Schedctl::on(redis);
    let rules = || -> Vec<String> {
        let doctor = ctl.run(&["doctor", "--json"]);
        let report: serde_json::Value = serde_json::from_str(&doctor.stdout).unwrap();
        report["findings"].as_array().unwrap().iter().map(ToString::to_string).collect()
    };
    until("the data is consistent", LONG, || rules().is_empty().then_some(()));
    let reported = ctl.run(&["doctor"]).stdout;
    assert!(reported.contains("the clock of Redis was set"), "{reported}");
}

#[test]
fn what_recurs_goes_on_within_seconds_when_redis_was_a_day_ahead_for_six_seconds() {
    let (redis, script) = (TestRedis::with_clock(0), Script::new());
    let eye = Eye::on(&redis);
    let nodes = ["one", "two"]
        .map(|name| ScriptedNode::on(&redis, &script).node(name).jobs(&file()).start());
    until_begun(&script, &RECURRING, 0, 2, LONG);
    redis.set_clock(DAY);
    script.set("again", &[Act::End(exit(1)), Act::End(exit(0))]);
    eye.add(&json!({"name": "again", "in": "0s", "shell": "again",
        "retry": {"limit": 3, "delay": "5s", "jitter": false}}));
    eye.add(&json!({"name": "far", "at": "2031-01-01T00:00:00Z", "shell": "true"}));
    eye.add(&json!({"name": "yearly", "cron": "0 0 1 1 *", "tz": "UTC", "shell": "true"}));
    let yearly = eye.job("yearly").unwrap().pending;
    sleep(Duration::from_secs(4));
    until_begun(&script, &["again"], 0, 1, LONG);
    redis.set_clock(0);
    let right = now();
    until_begun(&script, &RECURRING, right, 3, SOON);
    until_begun(&script, &["again"], right, 1, SOON);
    assert_eq!(eye.wait_for_history("again", 1)[0].state, RunState::Succeeded);
    assert_eq!(eye.job("far").unwrap().pending.unwrap().to_string(), "far@1924992000000");
    assert_eq!(eye.job("yearly").unwrap().pending, yearly);
    assert_none_twice(&script);
    assert_sound_and_reported(&redis);
    for node in &nodes {
        node.wait_for_log("The clock of Redis was set forward by 1d");
        node.wait_for_log("The clock of Redis was set back by 1d");
    }
    // Not one second is left out from then on.
    let from = eye.history("cron").iter().filter(|run| run.state == RunState::Succeeded).count();
    until("the second's job goes on without a gap", LONG, || {
        let mut dues: Vec<i64> =
            eye.history("cron").iter().map(|run| run.run.due().as_i64()).collect();
        dues.retain(|due| {
            u128::try_from(*due).unwrap() > right / 1_000_000 + 6_000
                && *due < i64::try_from(now() / 1_000_000).unwrap()
        });
        dues.sort_unstable();
        assert!(dues.windows(2).all(|pair| pair[1] - pair[0] == 1_000), "{dues:?}");
        (eye.history("cron").len() >= from + 5).then_some(())
    });
    let explained = Schedctl::on(&redis).run(&["explain", "cron"]).stdout;
    assert!(explained.contains("saw the clock of Redis jump back by 1d"), "{explained}");
}

#[test]
fn a_step_far_ahead_and_back_shows_both_halves_and_how_long_a_run_took_meanwhile() {
    let (redis, script) = (TestRedis::with_clock(0), Script::new());
    script.set("long", &[Act::GoOn]);
    let (eye, ctl) = (Eye::on(&redis), Schedctl::on(&redis));
    let node = ScriptedNode::on(&redis, &script).node("n").jobs("").start();
    // A node that has started a run knows the clock from before the step.
    eye.add(&json!({"name": "first", "in": "0s", "shell": "true"}));
    eye.wait_for_history("first", 1);
    redis.set_clock(10 * DAY);
    node.wait_for_log("The clock of Redis was set forward by 10d");
    eye.add(&json!({"name": "long", "in": "0s", "shell": "long"}));
    until_begun(&script, &["long"], 0, 1, LONG);
    let begun = std::time::Instant::now();
    redis.set_clock(0);
    node.wait_for_log("The clock of Redis was set back by 10d");
    let ran_at_least = begun.elapsed().as_millis();
    script.end("long");
    assert_eq!(eye.wait_for_history("long", 1)[0].state, RunState::Succeeded);
    let history = ctl.run(&["history", "long", "--json"]).good().stdout;
    let runs: serde_json::Value = serde_json::from_str(&history).unwrap();
    let took = u128::from(runs[0]["duration_ms"].as_u64().unwrap());
    assert!(took >= ran_at_least, "{took} < {ran_at_least}: {history}");
    let reported = until("both steps are reported", LONG, || {
        let reported = ctl.run(&["doctor"]).stdout;
        reported.contains("back by 10d").then_some(reported)
    });
    assert!(reported.contains("forward by 10d"), "{reported}");
}

#[test]
fn a_redis_that_was_behind_for_a_while_costs_nothing_and_repeats_nothing() {
    for (seconds, job) in [(-3_600, "every"), (-FIVE_YEARS, "all")] {
        let (redis, script) = (TestRedis::with_clock(0), Script::new());
        let jobs = format!(
            "[jobs.every]\nevery = \"1s\"\nshell = {0:?}\n[jobs.all]\nevery = \"1s\"\nshell = {0:?}\ncatch_up = {{ mode = \"all\" }}\n",
            "true"
        );
        let _node = ScriptedNode::on(&redis, &script).jobs(&jobs).start();
        until_begun(&script, &["every", "all"], 0, 4, LONG);
        redis.set_clock(seconds);
        sleep(Duration::from_secs(4));
        redis.set_clock(0);
        let right = now();
        until_begun(&script, &["every", "all"], right, 5, SOON);
        assert_none_twice(&script);
        let dues: Vec<i64> =
            Eye::on(&redis).history(job).iter().map(|run| run.run.due().as_i64()).collect();
        assert_eq!(dues.len(), dues.iter().collect::<BTreeSet<_>>().len(), "{dues:?}");
        assert_sound_and_reported(&redis);
    }
}

#[test]
fn a_host_that_boots_five_years_ahead_goes_on_in_time_once_it_is_set_right() {
    for with_restart in [false, true] {
        let (mut redis, script) = (TestRedis::with_clock(FIVE_YEARS), Script::new());
        let eye = Eye::on(&redis);
        let mut node = ScriptedNode::on(&redis, &script).node("n").jobs(&file()).start();
        until_begun(&script, &RECURRING, 0, 1, LONG);
        eye.add(&json!({"name": "hourly", "cron": "0 * * * *", "tz": "UTC", "shell": "true"}));
        if with_restart {
            node.crash();
        }
        redis.set_clock(0);
        if with_restart {
            redis.restart();
            node.start_again();
        }
        let right = now();
        until_begun(
            &script,
            &RECURRING,
            right,
            3,
            SOON + if with_restart { Duration::from_secs(10) } else { Duration::ZERO },
        );
        let next = Eye::on(&redis).job("hourly").unwrap().pending.unwrap().due().as_i64();
        assert!(next - i64::try_from(right / 1_000_000).unwrap() <= 3_600_000 + 60_000, "{next}");
        assert_none_twice(&script);
    }
}

#[test]
fn a_run_let_in_by_a_clock_that_was_ahead_keeps_no_group_closed() {
    let (redis, script) = (TestRedis::with_clock(FIVE_YEARS), Script::new());
    let section = |name: &str, work: &str| {
        format!(
            "[jobs.{name}]\nevery = \"1s\"\ngroup = \"g\"\nqueue = \"{name}\"\nshell = {work:?}\n"
        )
    };
    let file = format!(
        "[daemon]\nlease = \"2s\"\n[queues.first]\n[queues.second]\n[groups.g]\nmode = \"exclusive\"\n{}{}",
        section("first", "sleep 3"),
        section("second", "true")
    );
    let _node = ScriptedNode::on(&redis, &script).jobs(&file).start();
    until_begun(&script, &["first", "second"], 0, 1, LONG);
    // A run of `second` waits for the group. The group lets it in, and the paused queue keeps it from starting.
    let is_at = |key: &str, to: &str| {
        let runs = redis::cmd("ZRANGEBYSCORE")
            .arg(key)
            .arg("-inf")
            .arg(to)
            .query::<Vec<String>>(&mut redis.connection());
        runs.unwrap().iter().any(|run| run.starts_with("second@")).then_some(())
    };
    until_begun(&script, &["first"], now(), 1, LONG);
    until("a run of second waits", LONG, || is_at("{schedd}:gate_waiters:group:g", "+inf"));
    assert_eq!(Schedctl::on(&redis).run(&["queue", "pause", "second"]).code, 0);
    until("a run of second is let in", LONG, || is_at("{schedd}:gate_holders:group:g", "(0"));
    redis.set_clock(0);
    assert_eq!(Schedctl::on(&redis).run(&["queue", "resume", "second"]).code, 0);
    until_begun(&script, &["first", "second"], now(), 2, SOON + Duration::from_secs(5));
    assert_none_twice(&script);
    assert_sound_and_reported(&redis);
}

#[test]
fn a_retry_that_a_clock_ahead_judged_too_late_is_made_after_all() {
    let (redis, script) = (TestRedis::with_clock(0), Script::new());
    script.set("fails once", &[Act::End(exit(1)), Act::End(exit(0))]);
    let eye = Eye::on(&redis);
    let _node = ScriptedNode::on(&redis, &script).jobs("").start();
    let retry = json!({"limit": 3, "delay": "4s", "backoff": "fixed", "jitter": false});
    let aged = json!({"mode": "latest", "max_age": "1m"});
    eye.add(
        &json!({"name": "a", "in": "0s", "shell": "fails once", "retry": retry, "catch_up": aged}),
    );
    until("the retry waits", LONG, || {
        let run = script.runs().first()?.to_string();
        eye.run(&run).filter(|run| run.attempt == 1 && run.state == RunState::Scheduled)
    });
    redis.set_clock(DAY);
    let ended = || eye.history("a").pop();
    until("the retry is too late", LONG, || ended().filter(|run| run.state == RunState::Failed));
    redis.set_clock(0);
    until("the retry is made", SOON, || ended().filter(|run| run.state == RunState::Succeeded));
    until_begun(&script, &["a"], 0, 2, LONG);
}

#[test]
fn what_a_clock_ahead_trimmed_into_the_ledger_is_neither_left_out_nor_repeated() {
    let (redis, script) = (TestRedis::with_clock(0), Script::new());
    script.set("print", &[Act::Print("much\n".repeat(2_000), exit(0))]);
    // So much output has the history trimmed after each run.
    let section = |(name, schedule): (&str, &str)| {
        format!("[jobs.{name}]\n{schedule}\nshell = {:?}\n", "print")
    };
    let jobs =
        [("every", "every = \"1s\""), ("cron", "cron = \"* * * * * *\"")].map(section).concat();
    let kept = "[history]\nkeep_per_job = 2\n[output]\nkeep_bytes_per_job = \"1KiB\"\n";
    let _node = ScriptedNode::on(&redis, &script).jobs(&format!("{kept}{jobs}")).start();
    let names = ["every", "cron"];
    let count =
        |key: &str| redis::cmd("ZCARD").arg(key).query::<usize>(&mut redis.connection()).unwrap();
    until_begun(&script, &names, 0, 2, LONG);
    redis.set_clock(12);
    until("runs are trimmed", LONG, || {
        names.iter().all(|job| count(&format!("{{schedd}}:ledger:{job}")) >= 2).then_some(())
    });
    until_begun(&script, &names, now(), 3, LONG);
    let eye = Eye::on(&redis);
    let ahead = eye.ask(eye.store().now()).unwrap();
    redis.set_clock(0);
    until_begun(&script, &names, now(), 3, SOON);
    until("what ran early is due, and some seconds pass", LONG, || {
        let behind = ahead.saturating_add(Duration::from_secs(3));
        (eye.ask(eye.store().now()).unwrap() > behind).then_some(())
    });
    until_begun(&script, &names, now(), 2, SOON);
    assert_none_twice(&script);
    assert_sound_and_reported(&redis);
    until("the history is trimmed as before", LONG, || {
        (count("{schedd}:history:every") <= 4).then_some(())
    });
}

#[test]
fn nothing_is_forgotten_by_a_time_that_just_jumped() {
    let (redis, script) = (TestRedis::with_clock(0), Script::new());
    let eye = Eye::on(&redis);
    let jobs = "[daemon]\nlease = \"2s\"\n[history]\nmax_age = \"30d\"\nkeep_per_job = 1\n";
    let mut node = ScriptedNode::on(&redis, &script).node("n").jobs(jobs).start();
    for number in 0..3 {
        let work = format!("young {number}");
        script.set(&work, &[Act::Print(format!("{number}\n"), exit(i32::from(number == 2)))]);
        eye.add(&json!({"name": format!("young{number}"), "in": "0s", "shell": work}));
    }
    for number in 0..3 {
        eye.wait_for_history(&format!("young{number}"), 1);
    }
    let still_there = || assert_young_are_there(&redis, &eye);
    redis.set_clock(40 * DAY);
    node.wait_for_log("The clock of Redis was set forward by 40d");
    // What is old by the time before the step goes: so it is known that the round came.
    let control = old_run(&redis, &eye, 40 * DAY);
    until_forgotten(&eye, &control);
    still_there();
    // Nor by a node that did not see the step, but knows of it.
    node.crash();
    node.start_again();
    let control = old_run(&redis, &eye, 40 * DAY);
    until_forgotten(&eye, &control);
    still_there();
    redis.set_clock(0);
}

/// Writes a run that ended a month before the time `ahead` seconds before the present.
fn old_run(redis: &TestRedis, eye: &Eye, ahead: i64) -> String {
    let ended = eye.ask(eye.store().now()).unwrap().as_i64() - (ahead + 31 * DAY) * 1_000;
    let run = format!("control@{ended}");
    let mut pipeline = redis::pipe();
    let record = pipeline.cmd("HSET").arg(format!("{{schedd}}:run:{run}"));
    record.arg(&[
        "job",
        "control",
        "state",
        "succeeded",
        "due",
        &ended.to_string(),
        "kind",
        "regular",
        "queue",
        "default",
    ]);
    record.arg(&["finished_at", &ended.to_string(), "attempt", "1"]);
    for key in ["history", "history:control"] {
        pipeline.cmd("ZADD").arg(format!("{{schedd}}:{key}")).arg(ended).arg(&run);
    }
    let () = pipeline.query(&mut redis.connection()).unwrap();
    run
}

/// Waits until a round of a janitor forgets this run. A history that is too long wakes the janitor.
#[track_caller]
fn until_forgotten(eye: &Eye, run: &str) {
    eye.add(&json!({"name": "loud", "shell": "true", "overlap": "allow"}));
    for _ in 0..60 {
        eye.ask(job_operations::run_by_hand(eye.store(), &"loud".parse().unwrap(), None))
            .unwrap()
            .remove(0);
    }
    until("a round forgets what is old", Duration::from_secs(60), || {
        eye.run(run).is_none().then_some(())
    });
}

/// Demands that three runs are there with their output, and one of them as a dead letter.
#[track_caller]
fn assert_young_are_there(redis: &TestRedis, eye: &Eye) {
    for number in 0..3 {
        assert_eq!(eye.history(&format!("young{number}")).len(), 1, "young{number}");
    }
    let count =
        |key: &str| redis::cmd("ZCARD").arg(key).query::<usize>(&mut redis.connection()).unwrap();
    assert_eq!((count("{schedd}:outputs"), count("{schedd}:dead")), (3, 1));
}

#[test]
fn nothing_is_forgotten_by_a_time_met_at_a_start_after_every_node_left_in_order() {
    let (redis, script) = (TestRedis::with_clock(0), Script::new());
    let eye = Eye::on(&redis);
    let jobs = "[daemon]\nlease = \"2s\"\n[history]\nmax_age = \"30d\"\nkeep_per_job = 1\n";
    let mut node = ScriptedNode::on(&redis, &script).node("n").jobs(jobs).start();
    for number in 0..3 {
        let work = format!("young {number}");
        script.set(&work, &[Act::Print(format!("{number}\n"), exit(i32::from(number == 2)))]);
        eye.add(&json!({"name": format!("young{number}"), "in": "0s", "shell": work}));
    }
    for number in 0..3 {
        eye.wait_for_history(&format!("young{number}"), 1);
    }
    node.stop();
    redis.set_clock(40 * DAY);
    // Also a node of another name.
    let other = ScriptedNode::on(&redis, &script).node("other").jobs(jobs).start();
    node.start_again();
    for _ in 0..2 {
        let control = old_run(&redis, &eye, 40 * DAY);
        until_forgotten(&eye, &control);
        assert_young_are_there(&redis, &eye);
    }
    drop(other);
}
