//! Jobs become due, run and come back.

use serde_json::json;

use crate::support::daemon::Schedd;
use crate::support::effects::Effects;
use crate::support::eye::Eye;
use crate::support::redis::TestRedis;
use crate::support::script::Script;
use crate::support::scripted_node::ScriptedNode;
use crate::support::wait::{LONG, until};
use schedd::engine::planning::job_operations;
use schedd::engine::planning::planting::Applied;
use schedd_core::domain::run::run_state::RunState;
use schedd_store::CancelReply;

#[test]
fn a_recurring_job_runs_once_at_each_of_its_times() {
    let (redis, effects) = (TestRedis::start(), Effects::new());
    let jobs = format!("[jobs.beat]\nevery = \"1s\"\nshell = {:?}\n", effects.shell("true"));
    let _node = Schedd::on(&redis).jobs(&jobs).start();
    let runs = Eye::on(&redis).wait_for_history("beat", 4);
    let dues: Vec<i64> = runs.iter().map(|run| run.run.due().as_i64()).collect();
    assert!(dues.windows(2).all(|pair| pair[1] - pair[0] == 1_000), "{dues:?}");
    for run in &runs {
        assert_eq!((run.state, run.attempt), (RunState::Succeeded, 1));
        let effect: Vec<_> =
            effects.all().into_iter().filter(|effect| effect.run == run.run.to_string()).collect();
        assert_eq!(effect.len(), 1, "{run:?}");
        assert!(
            effect[0].began / 1_000_000 >= u128::try_from(run.run.due().as_i64()).unwrap(),
            "never early"
        );
    }
}

#[test]
fn a_delayed_job_runs_after_its_delay_and_frees_its_name() {
    let (redis, effects) = (TestRedis::start(), Effects::new());
    let eye = Eye::on(&redis);
    let _node = Schedd::on(&redis).start();
    eye.add(
        &json!({"name": "later", "in": "1s", "shell": effects.shell("echo out; echo err >&2")}),
    );
    let run = eye.wait_for_history("later", 1).remove(0);
    assert_eq!(run.state, RunState::Succeeded);
    assert_eq!(effects.of("later").len(), 1);
    let output = eye.ask(eye.store().read_output(&run.run, 1)).unwrap().unwrap();
    assert_eq!(
        (&output.stdout[..], &output.stderr[..], output.dropped_bytes),
        (&b"out\n"[..], &b"err\n"[..], 0)
    );
    assert_eq!(eye.job("later").unwrap().ended.as_deref(), Some("finished"));
    assert!(eye.ask(eye.store().list_jobs(0, 10)).unwrap().is_empty());
}

#[test]
fn a_failing_job_is_tried_again_as_often_as_it_may() {
    let (redis, effects) = (TestRedis::start(), Effects::new());
    let eye = Eye::on(&redis);
    let _node = Schedd::on(&redis).start();
    let retry = json!({"limit": 2, "delay": "100ms", "jitter": false});
    eye.add(
        &json!({"name": "fails", "in": "0s", "shell": effects.shell("exit 3"), "retry": retry}),
    );
    eye.add(&json!({"name": "mends", "in": "0s", "shell": effects.shell("test $SCHEDD_ATTEMPT -ge 2"), "retry": retry}));
    let failed = eye.wait_for_history("fails", 1).remove(0);
    assert_eq!((failed.state, failed.attempt, failed.exit_code), (RunState::Failed, 3, Some(3)));
    assert_eq!(failed.past.len(), 2);
    let mended = eye.wait_for_history("mends", 1).remove(0);
    assert_eq!((mended.state, mended.attempt, mended.exit_code), (RunState::Succeeded, 2, Some(0)));
}

#[test]
fn a_job_that_takes_too_long_is_killed_and_recorded_as_timed_out() {
    let redis = TestRedis::start();
    let eye = Eye::on(&redis);
    let _node = Schedd::on(&redis).start();
    eye.add(&json!({"name": "hangs", "in": "0s", "shell": "sleep 60 & sleep 60", "timeout": "300ms", "kill_grace": "1s"}));
    let run = eye.wait_for_history("hangs", 1).remove(0);
    assert_eq!(run.state, RunState::TimedOut);
}

#[test]
fn under_skip_a_run_due_while_another_is_open_is_skipped_and_under_allow_it_runs() {
    let (redis, script) = (TestRedis::start(), Script::new());
    let eye = Eye::on(&redis);
    let _node = ScriptedNode::on(&redis, &script).start();
    eye.add(&json!({"name": "skips", "every": "1s", "shell": "sleep 2.5"}));
    eye.add(&json!({"name": "allows", "every": "1s", "shell": "sleep 2.5", "overlap": "allow"}));
    let runs = eye.wait_for_history("skips", 4);
    let skipped = runs.iter().filter(|run| run.state == RunState::Skipped).count();
    assert!(skipped >= 2 && runs.iter().any(|run| run.state == RunState::Succeeded), "{runs:?}");
    assert!(
        runs.iter()
            .filter(|run| run.state == RunState::Skipped)
            .all(|run| run.reason.as_deref() == Some("overlap"))
    );
    let overlapping = |job: &str| {
        let mut effects = script.of(job);
        effects.sort_by_key(|effect| effect.began);
        effects.windows(2).any(|pair| pair[0].ended.is_none_or(|end| end > pair[1].began))
    };
    assert!(!overlapping("skips"));
    assert!(overlapping("allows"));
}

#[test]
fn under_queue_a_run_waits_for_the_open_one_and_then_runs() {
    let (redis, script) = (TestRedis::start(), Script::new());
    let eye = Eye::on(&redis);
    let _node = ScriptedNode::on(&redis, &script).start();
    eye.add(&json!({"name": "queues", "every": "1s", "shell": "sleep 1.4", "overlap": "queue"}));
    until("three runs have run one after the other", LONG, || {
        let done: Vec<_> =
            script.of("queues").into_iter().filter(|effect| effect.ended.is_some()).collect();
        Some(()).filter(|()| done.len() >= 3)
    });
    let effects = script.of("queues");
    assert!(
        effects.windows(2).all(|pair| pair[0].ended.is_some_and(|end| end <= pair[1].began)),
        "{effects:?}"
    );
}

#[test]
fn a_running_run_is_stopped_by_a_cancel_within_a_second_or_so() {
    let redis = TestRedis::start();
    let eye = Eye::on(&redis);
    let _node = Schedd::on(&redis).start();
    eye.add(&json!({"name": "long", "in": "0s", "shell": "sleep 60"}));
    let id = until("it runs", LONG, || {
        let open = eye.ask(eye.store().list_open(&"long".parse().unwrap())).unwrap();
        open.into_iter().next()
    });
    assert_eq!(
        eye.ask(job_operations::cancel_run(eye.store(), &id, "cancelled")).unwrap(),
        CancelReply::Requested
    );
    let run = eye.wait_for_history("long", 1).remove(0);
    assert_eq!((run.state, run.reason.as_deref()), (RunState::Cancelled, Some("cancelled")));
    let took = run.finished_at.unwrap().since(run.started_at.unwrap());
    assert!(took < std::time::Duration::from_secs(30), "it ran to its end: {took:?}");
}

#[test]
fn a_paused_job_does_not_run_and_its_pause_is_one_record() {
    let (redis, script) = (TestRedis::start(), Script::new());
    let eye = Eye::on(&redis);
    let _node = ScriptedNode::on(&redis, &script).start();
    eye.add(&json!({"name": "p", "every": "1s", "shell": "true"}));
    eye.wait_for_history("p", 1);
    let name = "p".parse().unwrap();
    eye.ask(job_operations::pause(eye.store(), &name)).unwrap();
    let held = eye.job("p").unwrap().paused_run.unwrap();
    until("two occurrences have passed", LONG, || {
        let now = eye.ask(eye.store().now()).unwrap();
        Some(()).filter(|()| now.since(held.due()).as_millis() > 2_200)
    });
    assert!(eye.run(&held.to_string()).is_none(), "a held run ran");
    eye.ask(job_operations::resume(eye.store(), &name)).unwrap();
    let skipped = until("the stretch is recorded", LONG, || eye.run(&held.to_string()));
    assert_eq!((skipped.state, skipped.reason.as_deref()), (RunState::Skipped, Some("paused")));
    assert!(skipped.skipped.unwrap().1 >= 3);
    let before = eye.history("p").len();
    eye.wait_for_history("p", before + 1);
}

#[test]
fn a_manual_run_leaves_the_schedule_alone() {
    let (redis, script) = (TestRedis::start(), Script::new());
    let eye = Eye::on(&redis);
    let _node = ScriptedNode::on(&redis, &script).start();
    eye.add(&json!({"name": "m", "cron": "0 0 1 1 *", "shell": "true"}));
    let pending = eye.job("m").unwrap().pending;
    let run = eye
        .ask(job_operations::run_by_hand(eye.store(), &"m".parse().unwrap(), None))
        .unwrap()
        .remove(0);
    let ended = eye.wait_for_history("m", 1).remove(0);
    assert_eq!((ended.run, ended.state), (run, RunState::Succeeded));
    assert_eq!(eye.job("m").unwrap().pending, pending);
}

#[test]
fn of_many_attempts_the_last_twenty_are_kept() {
    let (redis, script) = (TestRedis::start(), Script::new());
    let eye = Eye::on(&redis);
    let _node = ScriptedNode::on(&redis, &script).start();
    eye.add(&json!({"name": "fails", "in": "0s", "shell": "exit 1", "retry": {"limit": 25, "delay": "0s"}}));
    let run = eye.wait_for_history("fails", 1).remove(0);
    assert_eq!(run.attempt, 26);
    let numbers: Vec<u32> = run.past.iter().map(|attempt| attempt.number).collect();
    assert_eq!(numbers, (6..=25).collect::<Vec<_>>());
}

#[test]
fn a_one_shot_added_again_for_the_instant_it_ran_at_is_not_done_twice() {
    let (redis, script) = (TestRedis::start(), Script::new());
    let eye = Eye::on(&redis);
    let _node = ScriptedNode::on(&redis, &script).start();
    let at = eye.ask(eye.store().now()).unwrap();
    let job = json!({"name": "again", "at": at.to_string(), "shell": "true"});
    assert_eq!(eye.add(&job), Applied::Created(Some(at)));
    eye.wait_for_history("again", 1);
    until("its name is free", LONG, || Some(()).filter(|()| !eye.job("again").unwrap().is_live()));
    assert_eq!(eye.add(&job), Applied::Done(at));
    assert_eq!(script.of("again").len(), 1);
}
