//! Runs that a journal gave back, and stretches that were skipped around them: each occurrence has one end.

use schedd_core::domain::run::run_state::RunState;
use serde_json::json;

use super::flushed::until_journaled;
use crate::node::QUICK;
use crate::support::ctl::Schedctl;
use crate::support::eye::Eye;
use crate::support::redis::TestRedis;
use crate::support::script::Script;
use crate::support::scripted_node::ScriptedNode;
use crate::support::wait::{LONG, until};

#[test]
fn a_pause_from_an_old_snapshot_counts_no_given_back_run_as_paused() {
    let (mut redis, script) = (TestRedis::start(), Script::new());
    let eye = Eye::on(&redis);
    let jobs = format!("{QUICK}[jobs.beat]\nevery = \"1s\"\nshell = \"true\"\n");
    let node = ScriptedNode::on(&redis, &script).node("one").jobs(&jobs).start();
    eye.wait_for_history("beat", 1);
    Schedctl::on(&redis).run(&["pause", "beat"]).good();
    let held = eye.job("beat").unwrap().paused_run.unwrap().due().as_i64();
    let until_past = |eye: &Eye, at: i64| {
        until("some pass", LONG, || {
            (eye.ask(eye.store().now()).unwrap().as_i64() > at).then_some(())
        });
    };
    until_past(&eye, held + 1_500);
    let _: () = redis::cmd("SAVE").query(&mut redis.connection()).unwrap();
    Schedctl::on(&redis).run(&["resume", "beat"]).good();
    let count = eye.history("beat").len();
    let last =
        eye.wait_for_history("beat", count + 3).iter().map(|run| run.run.due()).max().unwrap();
    until_journaled(&[&node.state_home()], &format!("beat@{}", last.as_i64()));
    redis.restart();
    node.wait_for_log("has restored the runs of its journal");
    let eye = Eye::on(&redis);
    until_past(&eye, last.as_i64() + 3_000);
    Schedctl::on(&redis).run(&["resume", "beat"]).good();
    let skipped_range = eye.run(&format!("beat@{held}")).unwrap();
    let (to, skipped) = skipped_range.skipped.unwrap();
    assert_eq!(
        (skipped_range.state, skipped_range.reason.as_deref()),
        (RunState::Skipped, Some("paused"))
    );
    let own = eye
        .history("beat")
        .into_iter()
        .map(|run| run.run.due().as_i64())
        .filter(|due| held < *due && *due <= to.as_i64());
    let own = u64::try_from(own.count()).unwrap();
    assert!(own >= 3, "{skipped_range:?}");
    // Each occurrence from the first to the last is either told there or has a record of its own.
    assert_eq!(u64::try_from((to.as_i64() - held) / 1_000 + 1).unwrap(), skipped + own);
    let reported =
        Schedctl::on(&redis).run(&["explain", "beat", "--at", &last.to_string()]).good().stdout;
    assert!(
        reported.contains("The run succeeded on") && !reported.contains("The run was skipped"),
        "{reported}"
    );
}

/// How many occurrences from `first` to `last` the records of a job tell of, each stretch of them counted as it says.
fn reported(eye: &Eye, job: &str, first: i64, last: i64) -> u64 {
    let records = eye
        .history(job)
        .into_iter()
        .filter(|run| !run.run.is_manual() && (first..=last).contains(&run.run.due().as_i64()));
    records.map(|run| run.skipped.map_or(1, |(_, count)| count)).sum()
}

/// A node that runs a job of each second, of which Redis forgot what came after a snapshot, and the first occurrence it forgot.
/// The node is dead; its journal knows at least three runs since.
fn forgotten(redis: &mut TestRedis, script: &Script) -> (ScriptedNode, i64) {
    let eye = Eye::on(redis);
    let mut node = ScriptedNode::on(redis, script).node("one").jobs(QUICK).start();
    eye.add(&json!({"name": "beat", "every": "1s", "shell": "true"}));
    eye.wait_for_history("beat", 1);
    let _: () = redis::cmd("SAVE").query(&mut redis.connection()).unwrap();
    let count = eye.history("beat").len();
    let last =
        eye.wait_for_history("beat", count + 4).iter().map(|run| run.run.due()).max().unwrap();
    until_journaled(&[&node.state_home()], &format!("beat@{}", last.as_i64()));
    node.crash();
    redis.restart();
    let pending = Eye::on(redis).job("beat").unwrap().pending.unwrap().due().as_i64();
    (node, pending)
}

#[test]
fn a_node_coming_back_takes_its_runs_out_of_the_range_written_as_skipped() {
    let (mut redis, script) = (TestRedis::start(), Script::new());
    let (mut node, first) = forgotten(&mut redis, &script);
    let executed: Vec<String> = script.of("beat").into_iter().map(|effect| effect.run).collect();
    let _other = ScriptedNode::on(&redis, &script).node("two").jobs(QUICK).start();
    let eye = Eye::on(&redis);
    let skipped = until("the other node skips what it takes for missed", LONG, || {
        eye.run(&format!("beat@{first}"))
    });
    let (last, count) = skipped.skipped.unwrap();
    let last = last.as_i64();
    assert_eq!(u64::try_from((last - first) / 1_000 + 1).unwrap(), count, "{skipped:?}");
    node.start_again();
    let forgotten: Vec<&String> = executed
        .iter()
        .filter(|run| run.rsplit('@').next().unwrap().parse::<i64>().unwrap() >= first)
        .collect();
    assert!(forgotten.len() >= 3, "{executed:?}");
    until("what was executed is told as that", LONG, || {
        forgotten
            .iter()
            .all(|run| eye.run(run).is_some_and(|run| run.state == RunState::Succeeded))
            .then_some(())
    });
    // Each occurrence of the stretch is told of once.
    assert_eq!(reported(&eye, "beat", first, last), count);
    let explained =
        Schedctl::on(&redis).run(&["explain", "beat", "--at", &format!("@{first}")]).good().stdout;
    assert!(
        explained.contains("The run succeeded on") && !explained.contains("The run was skipped"),
        "{explained}"
    );
    Schedctl::on(&redis).run(&["doctor"]).good();
}

#[test]
fn a_run_given_back_leaves_the_range_that_a_change_of_the_schedule_reported() {
    let (mut redis, script) = (TestRedis::start(), Script::new());
    let (mut node, first) = forgotten(&mut redis, &script);
    let eye = Eye::on(&redis);
    until("some more pass", LONG, || {
        (eye.ask(eye.store().now()).unwrap().as_i64() > first + 8_000).then_some(())
    });
    eye.add(&json!({"name": "beat", "every": "7s", "shell": "true"}));
    // What is owed by the old schedule stays planned, and what passed behind it is told.
    let skipped = eye.run(&format!("beat@{}", first + 1_000)).unwrap();
    let (last, count) = skipped.skipped.unwrap();
    let last = last.as_i64();
    assert_eq!(u64::try_from((last - first) / 1_000).unwrap(), count, "{skipped:?}");
    node.start_again();
    until("the one that was owed is told of", LONG, || {
        eye.run(&format!("beat@{first}")).filter(|run| run.state == RunState::Succeeded)
    });
    assert_eq!(reported(&eye, "beat", first, last), count + 1);
    let given = eye.run(&format!("beat@{}", first + 1_000)).unwrap();
    assert_eq!((given.state, given.skipped), (RunState::Succeeded, None));
    Schedctl::on(&redis).run(&["doctor"]).good();
}
