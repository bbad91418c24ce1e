//! Nodes stopped and started again one after the other under load: nothing is lost, doubled or late for it.

use std::collections::BTreeMap;

use serde_json::json;

use crate::support::daemon::Schedd;
use crate::support::effects::Effects;
use crate::support::eye::Eye;
use crate::support::redis::TestRedis;
use crate::support::wait::{LONG, until};
use schedd_core::domain::run::run_state::RunState;
use schedd_store::RunRecord;

/// A tick, and as much again and a half for a machine that is busy with other tests.
const LATE_MS: i64 = 100 + 150;
/// One-shots come due so often, and so many of them before the first restart.
const EVERY_MS: usize = 200;
const UNDISTURBED: usize = 40;
const ONE_SHOTS: usize = 200;
const ROUNDS: usize = 2;

fn lateness_ms(run: &RunRecord) -> i64 {
    run.started_at.unwrap().as_i64() - run.run.due().as_i64()
}

/// The share of runs that were late.
fn late_share<'a>(runs: impl Iterator<Item = &'a RunRecord>) -> f64 {
    let late: Vec<bool> = runs.map(|run| lateness_ms(run) > LATE_MS).collect();
    let count = |flags: &[bool]| f64::from(u32::try_from(flags.len()).unwrap());
    let only_late: Vec<bool> = late.iter().copied().filter(|late| *late).collect();
    count(&only_late) / count(&late)
}

#[test]
fn a_rolling_restart_under_load_loses_and_doubles_nothing_and_makes_nothing_late() {
    let (redis, effects) = (TestRedis::start(), Effects::new());
    let eye = Eye::on(&redis);
    let jobs = format!(
        "[jobs.beat]\ncron = \"* * * * * *\"\noverlap = \"allow\"\nshell = {:?}\n",
        effects.shell("sleep 0.2")
    );
    let mut nodes =
        ["one", "two", "three"].map(|name| Schedd::on(&redis).node(name).jobs(&jobs).start());
    for node in &nodes {
        node.wait_for_log("Started.");
    }
    let delivery =
        |number: usize| if number.is_multiple_of(3) { "at-most-once" } else { "at-least-once" };
    for number in 0..ONE_SHOTS {
        let delay = format!("{}ms", 2_000 + number * EVERY_MS);
        let work = format!("sleep {}", [0.2, 0.6, 1.2, 3.0][number % 4]);
        let shell = effects.shell(&work);
        eye.add(&json!({"name": format!("n{number}"), "in": delay, "shell": shell, "delivery": delivery(number)}));
    }
    until("the undisturbed runs have begun", LONG, || {
        effects.of(&format!("n{UNDISTURBED}")).into_iter().next()
    });
    let disturbed_from = eye.ask(eye.store().now()).unwrap();
    for _ in 0..ROUNDS {
        for node in &mut nodes {
            let starts = node.log().matches("Started.").count();
            node.term();
            assert!(node.wait_exit().success());
            node.start_again();
            until("it is back", LONG, || {
                Some(()).filter(|()| node.log().matches("Started.").count() > starts)
            });
        }
    }
    let disturbed_until = eye.ask(eye.store().now()).unwrap();
    let mut runs: Vec<RunRecord> =
        (0..ONE_SHOTS).map(|n| eye.wait_for_history(&format!("n{n}"), 1).remove(0)).collect();
    let beats = eye.history("beat");
    let mut dues: Vec<i64> = beats.iter().map(|run| run.run.due().as_i64()).collect();
    dues.sort_unstable();
    assert!(dues.windows(2).all(|pair| pair[1] - pair[0] == 1_000), "{dues:?}");
    runs.extend(beats);
    for run in &runs {
        assert_eq!(
            (run.state, run.attempt, run.recoveries),
            (RunState::Succeeded, 1, 0),
            "{}",
            run.run
        );
    }
    let mut begun: BTreeMap<String, usize> = BTreeMap::new();
    for effect in effects.all() {
        *begun.entry(effect.run).or_default() += 1;
    }
    assert!(runs.iter().all(|run| begun.get(&run.run.to_string()) == Some(&1)), "{begun:?}");

    let before = late_share(runs.iter().filter(|run| run.run.due() < disturbed_from));
    let is_during =
        |run: &&RunRecord| run.run.due() >= disturbed_from && run.run.due() < disturbed_until;
    let during = late_share(runs.iter().filter(is_during));
    let mut worst: Vec<i64> = runs.iter().filter(is_during).map(lateness_ms).collect();
    worst.sort_unstable();
    println!(
        "late before {before:.3}, during {during:.3} of {}; worst {:?} ms",
        worst.len(),
        worst.last()
    );
    // A stop or a start that held up what came due meanwhile would show in one of five.
    assert!(
        during <= 0.05 + 2.0 * before,
        "late before {before:.3}, during {during:.3}: {worst:?}"
    );
}

#[test]
fn what_is_left_at_the_end_of_the_grace_is_taken_up_by_another_node_at_once() {
    let (redis, effects) = (TestRedis::start(), Effects::new());
    let eye = Eye::on(&redis);
    let mut first =
        Schedd::on(&redis).node("first").jobs("[daemon]\nshutdown_grace = \"300ms\"\n").start();
    for number in 0..6 {
        // Short at the second start, for then the fence of the first is in the way.
        let seen = format!("/tmp/schedd-test-seen-{}-$SCHEDD_JOB", first.pid());
        let work = format!("if mkdir {seen} 2>/dev/null; then sleep 60; else rmdir {seen}; fi");
        eye.add(&json!({"name": format!("n{number}"), "in": "0s", "shell": effects.shell(&work)}));
    }
    until("all have begun", LONG, || Some(()).filter(|()| effects.all().len() == 6));
    let second = Schedd::on(&redis).node("second").start();
    second.wait_for_log("Started.");
    first.term();
    assert!(first.wait_exit().success());
    let log = first.log();
    let mut waited: Vec<i64> = Vec::new();
    for number in 0..6 {
        let run = eye.wait_for_history(&format!("n{number}"), 1).remove(0);
        assert_eq!((run.state, run.attempt, run.recoveries), (RunState::Succeeded, 1, 0));
        assert_eq!(run.node.as_deref(), Some("second"));
        let attempts = effects.of(&format!("n{number}"));
        assert_eq!(attempts.iter().map(|effect| effect.attempt).collect::<Vec<_>>(), [1, 1]);
        let id = run.run.to_string();
        let line = log
            .lines()
            .find(|line| line.contains("Run handed back.") && line.contains(&id))
            .unwrap();
        let handed_back: jiff::Timestamp =
            line.strip_prefix("ts=").unwrap().split(' ').next().unwrap().parse().unwrap();
        waited.push(run.started_at.unwrap().as_i64() - handed_back.as_millisecond());
    }
    waited.sort_unstable();
    // A poll comes once a second at least: half of them wait for that if nobody tells the other node.
    assert!(waited[3] < 250, "{waited:?} ms");
}
