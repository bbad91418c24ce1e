//! What becomes of occurrences nobody could start in time.

use std::time::Duration;

use serde_json::{Value, json};

use crate::support::daemon::Schedd;
use crate::support::effects::Effects;
use crate::support::eye::Eye;
use crate::support::redis::TestRedis;
use crate::support::wait::{LONG, until};
use schedd::domain::run::RunState;

const DAY: Duration = Duration::from_secs(24 * 3600);

/// A job added `ago` before now, with no node running since.
fn add_in_the_past(eye: &Eye, ago: Duration, job: &Value) {
    let then = eye.ask(eye.store().now()).unwrap().saturating_sub(ago);
    eye.add_through(&eye.store().at(then), job);
}

#[test]
fn after_thirty_days_down_a_minutely_job_runs_once_and_the_rest_is_one_record() {
    let (redis, effects) = (TestRedis::start(), Effects::new());
    let eye = Eye::on(&redis);
    add_in_the_past(&eye, 30 * DAY, &json!({"name": "minutely", "cron": "* * * * *", "shell": effects.shell("true")}));
    let _node = Schedd::on(&redis).start();
    let runs = eye.wait_for_history("minutely", 2);
    let (to, count) = runs[0].skipped.unwrap();
    assert_eq!((runs[0].state, runs[0].reason.as_deref()), (RunState::Skipped, Some("missed")));
    assert!((43_198..=43_200).contains(&count), "{count}");
    assert_eq!(runs[1].state, RunState::Succeeded);
    assert_eq!(runs[1].run.due().since(to), Duration::from_secs(60));
    assert_eq!(effects.of("minutely").len(), 1);
}

#[test]
fn under_skip_none_of_the_missed_runs_and_under_all_each_does_one_after_the_other() {
    let (redis, effects) = (TestRedis::start(), Effects::new());
    let eye = Eye::on(&redis);
    let ago = Duration::from_secs(5 * 3600 + 1800);
    add_in_the_past(&eye, ago, &json!({"name": "skips", "every": "1h", "shell": "true", "catch_up": "skip"}));
    add_in_the_past(&eye, ago, &json!({"name": "all", "every": "1h", "shell": effects.shell("sleep 0.2"), "catch_up": "all"}));
    let _node = Schedd::on(&redis).start();
    let runs = eye.wait_for_history("all", 5);
    assert!(runs.iter().all(|run| run.state == RunState::Succeeded), "{runs:?}");
    let done = effects.of("all");
    assert_eq!(done.len(), 5);
    assert!(done.windows(2).all(|pair| pair[0].ended.is_some_and(|end| end <= pair[1].began)), "at once: {done:?}");
    let dues: Vec<&String> = done.iter().map(|effect| &effect.run).collect();
    assert!(dues.is_sorted(), "not oldest first: {dues:?}");
    let skipped = eye.wait_for_history("skips", 1);
    assert_eq!((skipped.len(), skipped[0].state, skipped[0].skipped.unwrap().1), (1, RunState::Skipped, 5));
}

#[test]
fn a_one_shot_runs_however_late() {
    let redis = TestRedis::start();
    let eye = Eye::on(&redis);
    add_in_the_past(&eye, 2 * DAY, &json!({"name": "late", "in": "1h", "shell": "true"}));
    let _node = Schedd::on(&redis).start();
    let run = until("it has run", LONG, || eye.history("late").into_iter().next());
    assert_eq!(run.state, RunState::Succeeded);
}
