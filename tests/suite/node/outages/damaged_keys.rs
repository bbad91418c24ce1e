//! Redis holding what it should not: nothing is guessed, nothing deleted, the rest goes on.

use redis::Commands;
use serde_json::json;

use crate::node::QUICK;
use crate::support::eye::Eye;
use crate::support::redis::TestRedis;
use crate::support::script::{Act, Script, exit};
use crate::support::scripted_node::ScriptedNode;
use crate::support::wait::{LONG, until};
use schedd_core::domain::run::run_state::RunState;

#[test]
fn entries_that_are_no_runs_are_moved_aside_and_the_others_run() {
    let (redis, script) = (TestRedis::start(), Script::new());
    let eye = Eye::on(&redis);
    let mut connection = redis.connection();
    let due = "{schedd}:due:default";
    for (member, score) in [
        ("garbage", "5"),
        ("nobody@1790000000000", "1790000000000"),
        ("a@5", "-inf"),
        ("b@5", "inf"),
        ("c@5", "1e300"),
    ] {
        let _: i64 =
            redis::cmd("ZADD").arg(due).arg(score).arg(member).query(&mut connection).unwrap();
    }
    let _: i64 = connection.zadd("{schedd}:leases", "no lease at all", 5).unwrap();
    let _node = ScriptedNode::on(&redis, &script).start();
    eye.add(&json!({"name": "good", "in": "0s", "shell": "true"}));
    assert_eq!(eye.wait_for_history("good", 1)[0].state, RunState::Succeeded);
    let aside: Vec<String> = until("all six are aside", LONG, || {
        let aside: Vec<String> = connection.hkeys("{schedd}:quarantine").unwrap();
        Some(aside).filter(|aside| aside.len() == 6)
    });
    assert!(aside.contains(&"garbage".to_owned()), "{aside:?}");
    let left: i64 = connection.zcard(due).unwrap();
    assert_eq!(left, 0);
}

#[test]
fn a_run_whose_record_has_no_state_there_is_is_moved_aside_and_its_job_goes_on() {
    let (redis, script) = (TestRedis::start(), Script::new());
    let eye = Eye::on(&redis);
    eye.add(&json!({"name": "beat", "every": "1s", "shell": "true"}));
    let run = eye.job("beat").unwrap().pending.unwrap().to_string();
    let _: i64 =
        redis.connection().hset(format!("{{schedd}}:run:{run}"), "state", "sched").unwrap();
    let _node = ScriptedNode::on(&redis, &script).start();
    let why: String = until("it is aside", LONG, || {
        redis.connection().hget::<_, _, Option<String>>("{schedd}:quarantine", &run).unwrap()
    });
    assert!(why.contains("an unknown state"), "{why}");
    until("the next runs", LONG, || {
        eye.history("beat").iter().any(|run| run.state == RunState::Succeeded).then_some(())
    });
}

#[test]
fn a_missed_run_whose_record_is_over_keeps_its_end_and_its_job_goes_on() {
    let (redis, script) = (TestRedis::start(), Script::new());
    let eye = Eye::on(&redis);
    eye.add(&json!({"name": "beat", "every": "1s", "shell": "true"}));
    let run = eye.job("beat").unwrap().pending.unwrap();
    let _: i64 = redis.connection().hset(format!("{{schedd}}:run:{run}"), "state", "lost").unwrap();
    let is_missed =
        |eye: &Eye| eye.ask(eye.store().now()).unwrap().as_i64() > run.due().as_i64() + 3_000;
    until("it is missed", LONG, || is_missed(&eye).then_some(()));
    let _node = ScriptedNode::on(&redis, &script).start();
    until("the next runs", LONG, || {
        eye.history("beat").iter().any(|run| run.state == RunState::Succeeded).then_some(())
    });
    assert_eq!(eye.run(&run.to_string()).unwrap().state, RunState::Lost);
    // What was missed behind it is told.
    let skipped = eye.run(&format!("beat@{}", run.due().as_i64() + 1_000)).unwrap();
    assert_eq!((skipped.state, skipped.reason.as_deref()), (RunState::Skipped, Some("missed")));
}

#[test]
fn a_due_set_of_another_type_stops_its_queue_only_and_is_named() {
    let (redis, script) = (TestRedis::start(), Script::new());
    let eye = Eye::on(&redis);
    let _: () = redis.connection().set("{schedd}:due:default", "not a set").unwrap();
    let node = ScriptedNode::on(&redis, &script).jobs("[queues.other]\nconcurrency = 2\n").start();
    until("the queue is known", LONG, || {
        Some(()).filter(|()| !eye.ask(eye.store().read_queues()).unwrap().is_empty())
    });
    eye.add(&json!({"name": "good", "in": "0s", "queue": "other", "shell": "true"}));
    assert_eq!(eye.wait_for_history("good", 1)[0].state, RunState::Succeeded);
    node.wait_for_log("{schedd}:due:default");
    let kept: String = redis.connection().get("{schedd}:due:default").unwrap();
    assert_eq!(kept, "not a set");
}

#[test]
fn a_definition_nobody_here_understands_is_not_run_and_hides_no_other() {
    let (redis, script) = (TestRedis::start(), Script::new());
    let eye = Eye::on(&redis);
    for (name, definition) in [
        ("newer", r#"{"every":"1h","shell":"true","from_the_future":1}"#),
        ("damaged", "{\"every\":"),
    ] {
        eye.add(&json!({"name": name, "in": "0s", "shell": "true"}));
        let _: i64 =
            redis.connection().hset(format!("{{schedd}}:job:{name}"), "def", definition).unwrap();
    }
    let node =
        ScriptedNode::on(&redis, &script).jobs("[queues.default]\nconcurrency = 1\n").start();
    node.wait_for_log("newer");
    eye.add(&json!({"name": "good", "in": "0s", "shell": "true"}));
    assert_eq!(eye.wait_for_history("good", 1)[0].state, RunState::Succeeded);
    assert!(eye.history("newer").is_empty() && eye.history("damaged").is_empty());
}

#[test]
fn a_flushed_redis_gets_the_jobs_of_the_file_again_and_the_loss_is_said() {
    let (redis, script) = (TestRedis::start(), Script::new());
    let eye = Eye::on(&redis);
    let node = ScriptedNode::on(&redis, &script)
        .jobs("[jobs.a]\nevery = \"1s\"\nshell = \"true\"\n")
        .start();
    eye.wait_for_history("a", 1);
    let _: () = redis::cmd("FLUSHALL").query(&mut redis.connection()).unwrap();
    node.wait_for_log("Redis lost data");
    eye.wait_for_history("a", 2);
}

#[test]
fn a_lost_or_damaged_fence_counter_is_rebuilt_and_goes_on_rising() {
    let (redis, script) = (TestRedis::start(), Script::new());
    let eye = Eye::on(&redis);
    let _node = ScriptedNode::on(&redis, &script).start();
    eye.add(&json!({"name": "first", "in": "0s", "shell": "true"}));
    let mut last = eye.wait_for_history("first", 1)[0].fence.unwrap();
    for (name, value) in
        [("second", "nonsense"), ("third", "99999999999999999999"), ("fourth", "-5")]
    {
        let _: () = redis.connection().set("{schedd}:fence", value).unwrap();
        eye.add(&json!({"name": name, "in": "0s", "shell": "true"}));
        let fence = eye.wait_for_history(name, 1)[0].fence.unwrap();
        assert!(fence > last);
        last = fence;
    }
}

/// Spoils a key of `job`.
fn spoil(redis: &TestRedis, key: &str, job: &str) {
    let _: () =
        redis.connection().set(format!("{{schedd}}:{key}:{job}"), "of another type").unwrap();
}

/// How many scripts a Redis has run.
fn calls(redis: &TestRedis) -> u64 {
    let stats: String =
        redis::cmd("INFO").arg("commandstats").query(&mut redis.connection()).unwrap();
    let line = stats.lines().find_map(|line| line.strip_prefix("cmdstat_evalsha:calls=")).unwrap();
    line.split(',').next().unwrap().parse().unwrap()
}

#[test]
fn a_job_with_a_wrong_type_key_delays_no_other_and_floods_no_log_nor_redis() {
    let (redis, script) = (TestRedis::start(), Script::new());
    let eye = Eye::on(&redis);
    // The one cannot be claimed, the other's missed occurrences cannot be skipped.
    eye.add(&json!({"name": "claims", "in": "0s", "shell": "true"}));
    eye.add(&json!({"name": "skips", "every": "1s", "shell": "true"}));
    spoil(&redis, "history", "claims");
    spoil(&redis, "history", "skips");
    let due = eye.job("skips").unwrap().pending.unwrap().due();
    until("two occurrences are missed", LONG, || {
        let now = eye.ask(eye.store().now()).unwrap();
        Some(()).filter(|()| now.since(due).as_millis() > 1_200)
    });
    let node =
        ScriptedNode::on(&redis, &script).jobs("[queues.default]\nconcurrency = 1\n").start();
    eye.add(&json!({"name": "good", "in": "0s", "shell": "true"}));
    assert_eq!(eye.wait_for_history("good", 1)[0].state, RunState::Succeeded);
    let before = calls(&redis);
    std::thread::sleep(std::time::Duration::from_secs(2));
    let made = calls(&redis) - before;
    assert!(made < 100, "{made} calls in two seconds: it polls in a circle");
    for name in ["claims", "skips"] {
        let key = format!("{{schedd}}:history:{name}");
        assert_eq!(
            node.log().lines().filter(|line| line.contains(&key)).count(),
            1,
            "{}",
            node.log()
        );
    }
    // Mended as the message says, they run.
    let _: () = redis
        .connection()
        .rename("{schedd}:history:claims", "{schedd}:history:claims:aside")
        .unwrap();
    assert_eq!(eye.wait_for_history("claims", 1)[0].state, RunState::Succeeded);
}

#[test]
fn an_expired_lease_that_cannot_be_taken_back_holds_up_no_other() {
    let (redis, script) = (TestRedis::start(), Script::new());
    let eye = Eye::on(&redis);
    let mut first = ScriptedNode::on(&redis, &script).node("first").jobs(QUICK).start();
    script.set("again", &[Act::GoOn, Act::End(exit(0))]);
    for name in ["bad", "good"] {
        eye.add(&json!({"name": name, "in": "0s", "shell": "again"}));
        until("it runs", LONG, || script.of(name).into_iter().next());
    }
    first.crash();
    spoil(&redis, "history", "bad");
    let second = ScriptedNode::on(&redis, &script).node("second").jobs(QUICK).start();
    assert_eq!(eye.wait_for_history("good", 1)[0].state, RunState::Succeeded);
    second.wait_for_log("{schedd}:history:bad");
    let _: () =
        redis.connection().rename("{schedd}:history:bad", "{schedd}:history:bad:aside").unwrap();
    assert_eq!(eye.wait_for_history("bad", 1)[0].state, RunState::Succeeded);
    assert_eq!(
        second.log().lines().filter(|line| line.contains("is not recovered")).count(),
        1,
        "{}",
        second.log()
    );
}

#[test]
fn an_end_refused_by_a_wrong_type_key_is_written_once_mended_without_a_rerun() {
    let (redis, script) = (TestRedis::start(), Script::new());
    let eye = Eye::on(&redis);
    let node = ScriptedNode::on(&redis, &script)
        .jobs("[daemon]\nlease = \"2s\"\n[queues.default]\nconcurrency = 1\n")
        .start();
    eye.add(&json!({"name": "work", "in": "0s", "shell": "sleep 1"}));
    until("it runs", LONG, || script.of("work").into_iter().next());
    spoil(&redis, "history", "work");
    node.wait_for_log("{schedd}:history:work");
    // Its slot is free for others meanwhile.
    eye.add(&json!({"name": "good", "in": "0s", "shell": "sleep 3"}));
    assert_eq!(eye.wait_for_history("good", 1)[0].state, RunState::Succeeded);
    let _: () =
        redis.connection().rename("{schedd}:history:work", "{schedd}:history:work:aside").unwrap();
    let run = eye.wait_for_history("work", 1).remove(0);
    assert_eq!((run.state, run.attempt), (RunState::Succeeded, 1));
    assert_eq!(script.of("work").len(), 1);
}

#[test]
fn a_redis_out_of_memory_is_said_once_and_not_for_an_outage() {
    let (redis, script) = (TestRedis::start(), Script::new());
    let eye = Eye::on(&redis);
    let set = |most: &str| {
        let _: () = redis::cmd("CONFIG")
            .arg("SET")
            .arg("maxmemory")
            .arg(most)
            .query(&mut redis.connection())
            .unwrap();
    };
    eye.add(&json!({"name": "first", "in": "0s", "shell": "true"}));
    set("1mb");
    let node = ScriptedNode::on(&redis, &script)
        .jobs("[jobs.a]\nevery = \"1h\"\nshell = \"true\"\n")
        .start();
    node.wait_for_log("out of memory");
    // What is there goes on.
    assert_eq!(eye.wait_for_history("first", 1)[0].state, RunState::Succeeded);
    // The file is tried again each second.
    std::thread::sleep(std::time::Duration::from_secs(3));
    set("0");
    until("the file is taken", LONG, || eye.job("a"));
    let log = node.log();
    assert_eq!(log.matches("is out of memory").count(), 1, "{log}");
    assert_eq!(log.matches("answers again").count(), 0, "{log}");
}
