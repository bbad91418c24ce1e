//! The rules of overlap, catch-up, pause and edits when nodes or Redis die at a bad moment.

use std::fmt::Write as _;
use std::time::Duration;

use schedd_core::domain::run::run_state::RunState;
use serde_json::{Value, json};

use crate::node::QUICK;
use crate::node::jobs::catching_up::add_in_the_past;
use crate::support::ctl::Schedctl;
use crate::support::effects::Effect;
use crate::support::eye::Eye;
use crate::support::redis::TestRedis;
use crate::support::script::Script;
use crate::support::scripted_node::ScriptedNode;
use crate::support::wait::{LONG, until};

fn job(name: &str, work: &str, rules: &Value) -> Value {
    let mut job = json!({"name": name, "every": "2s", "shell": work});
    job.as_object_mut().unwrap().extend(rules.as_object().unwrap().clone());
    job
}

fn are_apart(done: &[Effect]) -> bool {
    done.windows(2).all(|pair| pair[0].ended.is_none_or(|end| end <= pair[1].began))
}

#[test]
fn each_overlap_rule_survives_a_killed_node_and_a_redis_restart() {
    let (mut redis, script) = (TestRedis::durable(), Script::new());
    let eye = Eye::on(&redis);
    let rules = ["skip", "queue", "replace", "allow"];
    for rule in rules {
        eye.add(&job(rule, "sleep 3", &json!({"overlap": rule})));
    }
    let mut one = ScriptedNode::on(&redis, &script).node("one").jobs(QUICK).start();
    until("each has begun", LONG, || {
        Some(()).filter(|()| rules.iter().all(|rule| !script.of(rule).is_empty()))
    });
    until("one waits", LONG, || {
        let waiting = eye.ask(eye.store().list_waiting(&"queue".parse().unwrap())).unwrap();
        Some(()).filter(|()| !waiting.is_empty())
    });
    one.crash();
    redis.restart();
    let eye = Eye::on(&redis);
    let _two = ScriptedNode::on(&redis, &script).node("two").jobs(QUICK).start();
    for rule in ["skip", "queue", "allow"] {
        let mut good = 0;
        until(&format!("{rule} goes on"), Duration::from_secs(60), || {
            good = eye.history(rule).iter().filter(|run| run.state == RunState::Succeeded).count();
            Some(()).filter(|()| good >= 3)
        });
    }
    let replaced = until("one is replaced", Duration::from_secs(60), || {
        let ended = eye.history("replace");
        Some(ended.clone()).filter(|ended| {
            ended.iter().filter(|run| run.state == RunState::Cancelled).count() >= 2
        })
    });
    let cancelled = replaced.iter().filter(|run| run.state == RunState::Cancelled);
    assert!(cancelled.clone().all(|run| run.reason.as_deref() == Some("replaced")), "{replaced:?}");
    let skips = eye.history("skip");
    assert!(
        skips
            .iter()
            .any(|run| run.state == RunState::Skipped && run.reason.as_deref() == Some("overlap")),
        "{skips:?}"
    );
    // What the killed node ran was killed with it and has no end of its own: the others are apart.
    for rule in ["skip", "queue", "replace"] {
        assert!(are_apart(&script.of(rule)), "two of {rule} at once: {:?}", script.of(rule));
    }
    for rule in rules {
        let history = eye.history(rule);
        let mut ids: Vec<String> = history.iter().map(|run| run.run.to_string()).collect();
        ids.dedup();
        assert_eq!(ids.len(), history.len(), "{rule}: a run ended twice");
    }
}

#[test]
fn catching_up_is_gone_on_with_by_another_node_without_losing_or_repeating_a_run() {
    let (mut redis, script) = (TestRedis::durable(), Script::new());
    let eye = Eye::on(&redis);
    let ago = Duration::from_secs(12 * 3600 + 1800);
    for (name, rule) in
        [("all", json!("all")), ("latest", json!("latest")), ("none", json!("skip"))]
    {
        let job = json!({"name": name, "every": "1h", "shell": "sleep 0.3", "catch_up": rule});
        add_in_the_past(&eye, ago, &job);
    }
    let mut one = ScriptedNode::on(&redis, &script).node("one").jobs(QUICK).start();
    until("some are caught up with", LONG, || Some(()).filter(|()| script.of("all").len() >= 3));
    one.crash();
    redis.restart();
    let eye = Eye::on(&redis);
    let _two = ScriptedNode::on(&redis, &script).node("two").jobs(QUICK).start();
    let all = eye.wait_for_history("all", 12);
    assert!(all.iter().all(|run| run.state == RunState::Succeeded), "{all:?}");
    let dues: Vec<_> = all.iter().map(|run| run.run.due()).collect();
    assert!(all.len() == 12 && dues.is_sorted(), "{dues:?}");
    let done = script.of("all");
    assert!(are_apart(&done), "{done:?}");
    assert!(done.len() <= 13, "more than the one that was killed ran again: {done:?}");
    let latest = eye.wait_for_history("latest", 2);
    assert_eq!((latest[0].skipped.unwrap().1, latest[1].state), (11, RunState::Succeeded));
    let none = eye.wait_for_history("none", 1);
    assert_eq!((none.len(), none[0].skipped.unwrap().1), (1, 12));
}

#[test]
fn a_pause_outlives_nodes_and_redis_and_a_resume_reports_what_passed() {
    let (mut redis, script) = (TestRedis::durable(), Script::new());
    let eye = Eye::on(&redis);
    let ctl = Schedctl::on(&redis);
    eye.add(&job("a", "true", &json!({"overlap": "allow"})));
    eye.add(&json!({"name": "once", "in": "3s", "shell": "true"}));
    let file = "[jobs.f]\nevery = \"1h\"\nshell = \"true\"\n";
    let mut one = ScriptedNode::on(&redis, &script).node("one").jobs(file).start();
    until("it has run", LONG, || Some(()).filter(|()| !script.of("a").is_empty()));
    until("the file's job is there", LONG, || eye.job("f"));
    ctl.run(&["pause", "a", "once", "f"]).good();
    let held = eye.job("a").unwrap().paused_run.unwrap();
    one.crash();
    redis.restart();
    let eye = Eye::on(&redis);
    one.start_again();
    ctl.run(&["run", "a", "--wait"]).good();
    let by_hand = script.of("a").iter().filter(|effect| effect.run.contains('~')).count();
    assert_eq!(by_hand, 1, "a manual run of a paused job goes on");
    until("three have passed", LONG, || {
        let now = eye.ask(eye.store().now()).unwrap();
        Some(()).filter(|()| now.since(held.due()) > Duration::from_secs(5) && now > held.due())
    });
    assert!(
        script.of("once").is_empty()
            && ["a", "once", "f"].iter().all(|job| eye.job(job).unwrap().paused_at.is_some())
    );
    let ended = eye.history("a").len();
    ctl.run(&["resume", "a", "once"]).good();
    let reported = until("the stretch is told", LONG, || {
        eye.history("a").into_iter().find(|run| run.run == held)
    });
    let (to, count) = reported.skipped.unwrap();
    assert_eq!((reported.state, reported.reason.as_deref()), (RunState::Skipped, Some("paused")));
    assert_eq!(u128::from(count), to.since(held.due()).as_millis() / 2000 + 1);
    let late = eye.wait_for_history("once", 1);
    assert_eq!(late[0].state, RunState::Succeeded, "it came due meanwhile");
    eye.wait_for_history("a", ended + 2);
    assert!(eye.job("f").unwrap().paused_at.is_some());
}

#[test]
fn a_file_half_applied_by_a_killed_node_is_applied_in_full_and_once_by_the_next() {
    const JOBS: usize = 2_000;
    let (mut redis, script) = (TestRedis::durable(), Script::new());
    let eye = Eye::on(&redis);
    let count = |eye: &Eye| eye.ask(eye.store().list_jobs(0, 10 * JOBS)).unwrap().len();
    let mut file = String::new();
    for number in 0..JOBS {
        writeln!(file, "[jobs.j{number}]\nevery = \"1h\"\nshell = \"true\"").unwrap();
    }
    let mut one = ScriptedNode::on(&redis, &script).node("one").jobs(&file).start();
    let half = until("some are applied", LONG, || Some(count(&eye)).filter(|count| *count > 0));
    one.crash();
    println!("killed after {half} of {JOBS} jobs");
    let before: Vec<_> = (0..JOBS).filter_map(|number| eye.job(&format!("j{number}"))).collect();
    redis.restart();
    let eye = Eye::on(&redis);
    one.start_again();
    until("all are applied", LONG, || Some(()).filter(|()| count(&eye) == JOBS));
    for job in before {
        let now = eye.job(job.name.as_str()).unwrap();
        assert_eq!(
            (now.rev, now.pending),
            (job.rev, job.pending),
            "{} was applied twice",
            job.name
        );
    }
    // Half changed and killed again: each is as the file says in the end, and those it did not change are as they were.
    let unchanged = eye.job("j0").unwrap();
    let changed = file.replace("\"1h\"", "\"3h\"").replacen("\"3h\"", "\"1h\"", 1);
    one.reload(&changed);
    until("some are changed", LONG, || eye.job("j1").filter(|job| job.definition.contains("3h")));
    one.crash();
    redis.restart();
    let eye = Eye::on(&redis);
    one.start_again();
    until("all are changed", LONG, || {
        let last = eye.job(&format!("j{}", JOBS - 1)).unwrap();
        let names = (1..JOBS).rev();
        Some(()).filter(|()| {
            last.definition.contains("3h")
                && names
                    .clone()
                    .all(|n| eye.job(&format!("j{n}")).unwrap().definition.contains("3h"))
        })
    });
    for number in 1..JOBS {
        let job = eye.job(&format!("j{number}")).unwrap();
        assert_eq!(
            job.pending.unwrap().due().since(job.anchor).as_secs(),
            3 * 3600,
            "its run was not moved"
        );
    }
    let after = eye.job("j0").unwrap();
    assert_eq!((unchanged.rev, unchanged.pending), (after.rev, after.pending));
}
