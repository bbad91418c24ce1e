//! What `explain`, `show` and `groups` tell of runs that wait at a gate nobody has: until when time keeps it shut.

use serde_json::{Value, json};

use crate::node::explain::explaining::explained;
use crate::support::ctl::Schedctl;
use crate::support::eye::Eye;
use crate::support::redis::TestRedis;
use crate::support::script::Script;
use crate::support::scripted_node::ScriptedNode;
use crate::support::wait::{LONG, until};

const GROUPS: &str = "[groups.turns]\nmode = \"alternate\"\norder = [\"hold\", \"one\", \"two\"]\ngap = \"20m\"\nturn_timeout = \"10m\"\n";

#[test]
fn a_group_s_gap_and_patience_are_reported_to_those_that_wait_for_them() {
    let (redis, script) = (TestRedis::start(), Script::new());
    let (ctl, eye) = (Schedctl::on(&redis), Eye::on(&redis));
    let _node = ScriptedNode::on(&redis, &script)
        .jobs(&format!("{GROUPS}[jobs.hold]\ngroup = \"turns\"\nshell = \"true\"\n"))
        .start();
    until("the file is taken", LONG, || eye.job("hold"));
    ctl.run(&["run", "hold", "--wait"]).good();
    eye.add(&json!({"name": "one", "in": "5m", "group": "turns", "shell": "true"}));
    eye.add(&json!({"name": "two", "in": "0s", "group": "turns", "shell": "true"}));
    let reported = |job: &str, part: &str| {
        until(part, LONG, || Some(explained(&redis, &[job]).0).filter(|text| text.contains(part)));
    };
    let gap = " waits for a place at group turns. The gap of 20m ends on ";
    reported("two", gap);
    reported(
        "two",
        ". The turn belongs to job one, which has no waiting run. The turn timeout of 10m ends on ",
    );
    let run =
        eye.ask(eye.store().list_open(&"two".parse().unwrap())).unwrap().remove(0).to_string();
    let shown = ctl.run(&["show", &run]).good().stdout;
    assert!(shown.contains("gate          The gap of 20m ends on "), "{shown}");
    assert!(shown.contains(". The turn belongs to job one, which has no waiting run"), "{shown}");
    let opens = || {
        let group = ctl.run(&["groups", "--json"]).good().json()[0].clone();
        let ms = |field: &Value| {
            field
                .as_str()
                .unwrap()
                .parse::<chrono::DateTime<chrono::Utc>>()
                .unwrap()
                .timestamp_millis()
        };
        ms(&group["next_at"]) - ms(&group["last_ended_at"])
    };
    assert!(opens() >= 20 * 60_000, "before its gap is over: {}", opens());
    // Its turn comes, and the gap still lasts.
    ctl.run(&[
        "add",
        "--name",
        "one",
        "--replace",
        "--in",
        "0s",
        "--group",
        "turns",
        "--shell",
        "true",
    ])
    .good();
    reported("one", gap);
    reported("one", ". The turn belongs to job one.");
    assert!(opens() >= 20 * 60_000, "before its gap is over: {}", opens());
}

#[test]
fn explain_names_the_run_let_in_that_did_not_begin_and_not_a_run_that_is_over() {
    let (redis, script) = (TestRedis::start(), Script::new());
    let (ctl, eye) = (Schedctl::on(&redis), Eye::on(&redis));
    let _node = ScriptedNode::on(&redis, &script)
        .jobs("[queues.other]\n[groups.one]\nmode = \"exclusive\"\n")
        .start();
    until("the group is known", LONG, || {
        (ctl.run(&["groups", "--json"]).good().json()[0]["name"] == "one").then_some(())
    });
    let reported = |job: &str, part: &str| {
        until(part, LONG, || Some(explained(&redis, &[job]).0).filter(|text| text.contains(part)));
    };
    eye.add(&json!({"name": "hold", "in": "0s", "group": "one", "shell": "sleep 600"}));
    reported("hold", " is running on ");
    for job in ["e1", "e2"] {
        eye.add(
            &json!({"name": job, "in": "0s", "queue": "other", "group": "one", "shell": "true"}),
        );
        reported(job, " waits for a place at group one, behind run hold@");
    }
    let first = eye.ask(eye.store().list_open(&"e1".parse().unwrap())).unwrap().remove(0);
    ctl.run(&["queue", "pause", "other"]).good();
    ctl.run(&["cancel", "hold"]).good();
    let why = "which got a place but did not start: queue other is paused by ";
    reported(
        "e2",
        &format!(" waits for a place at group one, behind run {first} of its queue, {why}"),
    );
    reported("e2", ". The next run gets a place on ");
}
