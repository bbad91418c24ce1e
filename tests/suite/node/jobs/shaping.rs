//! The other forms of schedules, and what shapes them, on a whole node.

use std::time::Duration;

use serde_json::json;

use super::catching_up::add_in_the_past;
use crate::support::eye::Eye;
use crate::support::redis::TestRedis;
use crate::support::script::{Act, Script};
use crate::support::scripted_node::ScriptedNode;
use crate::support::wait::{LONG, until};
use schedd_core::domain::run::run_state::RunState;
use schedd_schedule::day_sets::DaySet;
use schedd_store::RunRecord;

#[test]
fn a_job_with_a_delay_runs_again_so_long_after_each_end_and_never_beside_itself() {
    let (redis, script) = (TestRedis::start(), Script::new());
    let eye = Eye::on(&redis);
    eye.add(
        &json!({"name": "poll", "delay": "1s", "overlap": "allow", "shell": "sleep 0.7; false"}),
    );
    let _node = ScriptedNode::on(&redis, &script).start();
    let runs = eye.wait_for_history("poll", 3);
    for pair in runs.windows(2) {
        let (end, due) = (pair[0].finished_at.unwrap(), pair[1].run.due());
        assert_eq!(due.since(end), Duration::from_secs(1), "{pair:?}");
    }
    let done = script.of("poll");
    assert!(
        done.windows(2).all(|pair| pair[0].ended.is_some_and(|end| end <= pair[1].began)),
        "{done:?}"
    );
}

#[test]
fn a_job_with_a_delay_that_is_moved_while_it_runs_goes_on_in_its_new_queue() {
    let (redis, script) = (TestRedis::start(), Script::new());
    let eye = Eye::on(&redis);
    script.set("held", &[Act::GoOn]);
    let job =
        |queue: &str| json!({"name": "moves", "delay": "1s", "queue": queue, "shell": "held"});
    // One serves both queues, the other the new one not.
    let _old = ScriptedNode::on(&redis, &script).node("old").start();
    let _new = ScriptedNode::on(&redis, &script)
        .node("new")
        .jobs("[queues.other]\nconcurrency = 2\n")
        .start();
    eye.add(&job("default"));
    until("it runs", LONG, || {
        Some(()).filter(|()| !eye.ask(eye.store().list_leases(9)).unwrap().is_empty())
    });
    eye.add(&job("other"));
    script.end("held");
    let runs = eye.wait_for_history("moves", 3);
    let queues: Vec<&str> = runs.iter().map(|run| run.lane.as_str()).collect();
    assert_eq!(queues[..3], ["default", "other", "other"], "{runs:?}");
}

#[test]
fn jitter_and_splay_move_the_start_and_not_the_due_time() {
    let (redis, script) = (TestRedis::start(), Script::new());
    let eye = Eye::on(&redis);
    eye.add(&json!({"name": "moved", "every": "1s", "overlap": "allow", "splay": "900ms", "jitter": "2s", "shell": "true"}));
    let job = eye.job("moved").unwrap();
    let first = job.pending.unwrap();
    let _node = ScriptedNode::on(&redis, &script).start();
    // One may end before an earlier one that began just before it.
    let mut runs = eye.wait_for_history("moved", 7);
    runs.sort_by_key(|run| run.run.due());
    runs.truncate(4);
    assert_eq!(runs[0].run, first);
    let late: Vec<u64> = runs
        .iter()
        .map(|run| u64::try_from(run.started_at.unwrap().since(run.run.due()).as_millis()).unwrap())
        .collect();
    assert!(
        runs.iter().all(|run| run.state == RunState::Succeeded),
        "none counts as missed: {runs:?}"
    );
    let dues: Vec<i64> = runs.iter().map(|run| run.run.due().as_i64()).collect();
    assert!(
        dues.windows(2).all(|pair| pair[1] - pair[0] == 1_000),
        "each second has its run: {dues:?}"
    );
    assert!(late.iter().any(|late| *late > 50), "{late:?}");
    let reported = script.of("moved");
    assert!(runs.iter().all(|run| reported.iter().any(|effect| effect.run == run.run.to_string())));
}

#[test]
fn after_max_runs_a_job_is_over_and_more_of_them_let_it_go_on() {
    let (redis, script) = (TestRedis::start(), Script::new());
    let eye = Eye::on(&redis);
    let job =
        |most: u32| json!({"name": "thrice", "every": "1s", "max_runs": most, "shell": "true"});
    eye.add(&job(3));
    eye.add(&json!({"name": "pauses", "delay": "1s", "max_runs": 2, "shell": "true"}));
    eye.add(&json!({"name": "witness", "every": "1s", "shell": "true"}));
    let _node = ScriptedNode::on(&redis, &script).start();
    until("the last one has begun", LONG, || eye.job("thrice").filter(|job| job.begun == 3));
    let seen = eye.history("witness").len();
    eye.wait_for_history("witness", seen + 3);
    assert_eq!((script.of("thrice").len(), eye.job("thrice").unwrap().pending), (3, None));
    assert_eq!((script.of("pauses").len(), eye.job("pauses").unwrap().pending), (2, None));
    eye.add(&job(5));
    let runs = eye.wait_for_history("thrice", 5);
    assert!(runs.iter().all(|run| run.state == RunState::Succeeded), "{runs:?}");
    until("that is over too", LONG, || {
        eye.job("thrice").filter(|job| job.begun == 5 && job.pending.is_none())
    });
}

#[test]
fn nothing_runs_after_the_end_nor_on_an_excluded_day() {
    let (redis, script) = (TestRedis::start(), Script::new());
    let eye = Eye::on(&redis);
    let now = eye.ask(eye.store().now()).unwrap();
    let end = now.saturating_add(Duration::from_secs(3));
    eye.add(&json!({"name": "ends", "every": "1s", "end": end.to_string(), "shell": "true"}));
    // Yesterday to tomorrow, so that the test may cross a midnight.
    let day = |offset: i64| now.as_i64() / 86_400_000 + offset;
    let days = DaySet::of([schedd_schedule::day_sets::DayItem::Dates(day(-1), day(1))]).texts();
    eye.add(&json!({"name": "free", "cron": "* * * * * *", "tz": "UTC", "exclude": days, "shell": "true"}));
    let next = eye.job("free").unwrap().pending.unwrap();
    assert_eq!(
        next.due().as_i64(),
        day(2) * 86_400_000,
        "the first second of the first day that is not excluded"
    );
    let _node = ScriptedNode::on(&redis, &script).start();
    until("it is over", LONG, || eye.job("ends").filter(|job| job.pending.is_none()));
    let runs = eye.history("ends");
    assert!(runs.iter().all(|run| run.run.due() <= end), "{runs:?}");
    assert!(script.of("free").is_empty());
}

#[test]
fn a_run_that_would_start_too_late_is_skipped_as_missed() {
    let (redis, script) = (TestRedis::start(), Script::new());
    let eye = Eye::on(&redis);
    let late = |name: &str, skip: &str| json!({"name": name, "every": "1h", "skip_if_late": skip, "shell": "true"});
    add_in_the_past(&eye, Duration::from_secs(5_400), &late("dropped", "10m"));
    add_in_the_past(&eye, Duration::from_secs(5_400), &late("kept", "45m"));
    let _node = ScriptedNode::on(&redis, &script).start();
    let reported = |run: &RunRecord| (run.state, run.reason.clone().unwrap_or_default());
    assert_eq!(
        reported(&eye.wait_for_history("dropped", 1)[0]),
        (RunState::Skipped, "missed".to_owned())
    );
    assert_eq!(eye.wait_for_history("kept", 1)[0].state, RunState::Succeeded);
    assert!(script.of("dropped").is_empty());
    let next = eye.job("dropped").unwrap().pending.unwrap();
    assert!(
        next.due() > eye.ask(eye.store().now()).unwrap().saturating_sub(Duration::from_secs(60))
    );
}

#[test]
fn several_schedules_are_one_stream_in_which_a_shared_second_runs_once() {
    let (redis, script) = (TestRedis::start(), Script::new());
    let eye = Eye::on(&redis);
    let schedules = json!([{"cron": "* * * * * *"}, {"calendar": "*:*:0/2"}, {"every": "1h"}]);
    eye.add(&json!({"name": "both", "schedules": schedules, "tz": "UTC", "shell": "true"}));
    let _node = ScriptedNode::on(&redis, &script).start();
    let runs = eye.wait_for_history("both", 4);
    let dues: Vec<i64> = runs.iter().map(|run| run.run.due().as_i64()).collect();
    assert!(dues.windows(2).all(|pair| pair[1] - pair[0] == 1_000), "{dues:?}");
}
