//! Queues with a backlog: the warnings, and the run of the job that reports the backlog.

use serde_json::{Value, json};

use crate::support::ctl::Schedctl;
use crate::support::daemon::Schedd;
use crate::support::eye::Eye;
use crate::support::redis::TestRedis;
use crate::support::wait::{LONG, until};

const JOBS: &str = "[queues.mail]\nwarn_depth = 2\non_backlog = \"page\"\npaused = true\n\
                    [jobs.page]\nshell = \"true\"\n";

fn queue(ctl: &Schedctl, name: &str) -> Value {
    let queues = ctl.run(&["queues", "--json"]).good().json();
    let found = queues.as_array().unwrap().iter().find(|queue| queue["name"] == name).cloned();
    found.unwrap_or(Value::Null)
}

#[test]
fn a_backlog_is_logged_by_each_node_and_reported_by_one_run_until_it_is_over() {
    let redis = TestRedis::start();
    let (ctl, eye) = (Schedctl::on(&redis), Eye::on(&redis));
    let nodes = ["n1", "n2"].map(|name| Schedd::on(&redis).node(name).jobs(JOBS).start());
    for node in &nodes {
        node.wait_for_log("All jobs of the jobs file are applied");
    }
    let add = |name: &str| {
        eye.add(&json!({"name": name, "in": "0s", "queue": "mail", "shell": "true"}));
    };
    add("a");
    assert_eq!(queue(&ctl, "mail")["backlog"], Value::Null);
    add("b");
    for node in &nodes {
        node.wait_for_log("The queue has a backlog: 2 runs are due, warn_depth is 2.");
        node.wait_for_log("The job of on_backlog runs.");
    }
    let reports = eye.wait_for_history("page", 1);
    assert_eq!(reports.len(), 1, "both nodes planned the same run: {reports:?}");
    assert_eq!(queue(&ctl, "mail")["backlog"], "2 runs are due, warn_depth is 2");
    let text = ctl.run(&["queues"]).good().stdout;
    assert!(text.contains("backlog: 2 runs are due, warn_depth is 2"), "{text}");
    let doctor = ctl.run(&["doctor"]).stdout;
    assert!(doctor.contains("queue mail has a backlog: 2 runs are due"), "{doctor}");
    ctl.run(&["queue", "resume", "mail"]).good();
    for node in &nodes {
        node.wait_for_log("The backlog of the queue is over.");
    }
    assert_eq!(queue(&ctl, "mail")["backlog"], Value::Null);
    assert!(!ctl.run(&["doctor"]).stdout.contains("has a backlog"));
    // Another backlog is reported by another run.
    ctl.run(&["queue", "pause", "mail"]).good();
    add("c");
    add("d");
    until("a second run reports", LONG, || Some(()).filter(|()| eye.history("page").len() == 2));
}

#[test]
fn the_age_of_the_oldest_due_run_is_a_backlog_too_and_bounds_are_set_by_hand() {
    let redis = TestRedis::start();
    let (ctl, eye) = (Schedctl::on(&redis), Eye::on(&redis));
    let node = Schedd::on(&redis).jobs("[queues.mail]\npaused = true\n").start();
    node.wait_for_log("All jobs of the jobs file are applied");
    ctl.run(&["queue", "set", "mail", "on_backlog=page"])
        .refused(2, &["no effect without a bound"]);
    ctl.run(&["queue", "set", "mail", "warn_oldest=1s", "on_backlog=nosuch"]).good();
    let mail = queue(&ctl, "mail");
    assert_eq!((&mail["warn_oldest_ms"], &mail["on_backlog"]), (&json!(1_000), &json!("nosuch")));
    eye.add(&json!({"name": "a", "in": "0s", "queue": "mail", "shell": "true"}));
    node.wait_for_log("The queue has a backlog: the oldest run has been due for");
    node.wait_for_log("the job of on_backlog does not exist");
    ctl.run(&["queue", "set", "mail", "warn_oldest=none", "on_backlog=none"]).good();
    until("the bound is gone", LONG, || {
        Some(()).filter(|()| queue(&ctl, "mail")["backlog"].is_null())
    });
}
