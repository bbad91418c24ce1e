//! `schedctl explain` and `show` of runs that a change of the clock moved or left out, on a Redis whose clock is near the change.

use std::time::{SystemTime, UNIX_EPOCH};

use super::explaining::explained;
use crate::support::ctl::Schedctl;
use crate::support::eye::Eye;
use crate::support::redis::TestRedis;
use crate::support::script::Script;
use crate::support::scripted_node::ScriptedNode;
use crate::support::wait::{LONG, until};

/// The clock of Berlin goes from 02:00 to 03:00 at this time, 2027-03-28T01:00:00Z, in seconds.
const GAP: i64 = 1_806_195_600;

/// How many seconds ahead a clock is that shows this many seconds before the gap.
fn before_gap(seconds: i64) -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    GAP - seconds - i64::try_from(now).unwrap()
}

#[test]
fn a_run_in_a_gap_of_the_clock_is_explained_before_and_after() {
    let (redis, script) = (TestRedis::with_clock(before_gap(3600)), Script::new());
    let (eye, ctl) = (Eye::on(&redis), Schedctl::on(&redis).env("TZ", "Europe/Berlin"));
    let _node = ScriptedNode::on(&redis, &script)
        .node("n1")
        .jobs(
            "[defaults]\ntz = \"Europe/Berlin\"\n\
             [jobs.moved]\ncron = \"30 2 * * *\"\nshell = \"true\"\n\
             [jobs.left-out]\ncron = \"30 2 * * *\"\nshell = \"true\"\ndst = { gap = \"skip\" }\n",
        )
        .start();
    until("the jobs are there", LONG, || eye.job("moved").and(eye.job("left-out")));
    let moved = "02:30 does not exist this day: the run is due at 03:00";
    let shown = ctl.run(&["show", "moved"]).good().stdout;
    let next = shown.lines().find(|line| line.starts_with("next ")).unwrap();
    assert!(next.contains("Sun 2027-03-28 03:00:00 CEST") && next.ends_with(moved), "{shown}");
    let at = |job: &str| {
        let asked = ctl.run(&["explain", job, "--at", "2027-03-28 02:30"]).good();
        assert!(asked.stderr.contains("does not exist in Europe/Berlin"), "{asked:?}");
        asked.stdout
    };
    let (planned, left_out) = (at("moved"), at("left-out"));
    let due = "The run is planned for Sun 2027-03-28 03:00:00 CEST.";
    assert!(planned.contains(due), "{planned}");
    assert!(planned.contains(moved), "{planned}");
    for said in [
        "The job was not due at Sun 2027-03-28 03:00:00 CEST.",
        "02:30 does not exist on 2027-03-28 and is left out.",
        "dst = { gap = \"skip\", fold = \"first\" }, set in [jobs.left-out]",
    ] {
        assert!(left_out.contains(said), "{said}: {left_out}");
    }
    redis.set_clock(before_gap(1));
    eye.wait_for_history("moved", 1);
    for text in [ctl.run(&["explain", "moved", "--last"]).good().stdout, at("moved")] {
        for said in [
            moved,
            "The run succeeded on Sun 2027-03-28 03:00:0",
            "dst = { gap = \"run-after\", fold = \"first\" } is the default.",
        ] {
            assert!(text.contains(said), "{said}: {text}");
        }
    }
    let (_, document) = explained(&redis, &["moved", "--last"]);
    assert_eq!(
        (&document["tz"], &document["at"]),
        (&"Europe/Berlin".into(), &"2027-03-28T03:00:00.000+02:00".into())
    );
}
