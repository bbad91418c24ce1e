//! The hidden jobs that tell of others: what waits in them, and when they go.

use serde_json::{Value, json};

use super::notice_desk::Desk;
use crate::support::ctl::Schedctl;
use crate::support::daemon::Schedd;
use crate::support::wait::{LONG, until};
use schedd_core::domain::run::run_state::RunState;

#[test]
fn notices_waiting_for_retry_leave_the_hidden_job_open_and_cancel_together() {
    let desk = Desk::new([]);
    let _node = Schedd::on(&desk.redis).start();
    desk.eye.add(&json!({"name": "work", "shell": "false", "overlap": "allow", "on_failure": {"shell": "exit 1"}}));
    let ctl = Schedctl::on(&desk.redis);
    for _ in 0..2 {
        ctl.run(&["run", "work"]).good();
    }
    let hidden = "work/on_failure";
    until("two notices wait for their retry", LONG, || {
        let runs = ctl.run(&["history", hidden, "--json"]).json();
        let waits = |run: &&Value| run["state"] == "scheduled" && run["attempt"] == 1;
        Some(()).filter(|()| runs.as_array().unwrap().iter().filter(waits).count() == 2)
    });
    let shown = ctl.run(&["show", hidden, "--json"]).good().json();
    assert_eq!(
        (&shown["state"], &shown["ended"], &shown["ended_at"]),
        (&json!("retrying"), &Value::Null, &Value::Null)
    );
    let text = ctl.run(&["show", hidden]).good().stdout;
    assert!(!text.lines().any(|line| line.starts_with("ended")), "{text}");
    let cancelled = ctl.run(&["cancel", hidden]).good().stdout;
    assert!(cancelled.contains("2 notices of job work/on_failure cancelled"), "{cancelled}");
    let ended = desk.eye.wait_for_history(hidden, 2);
    assert!(ended.iter().all(|run| run.state == RunState::Cancelled), "{ended:?}");
    let shown = ctl.run(&["show", hidden, "--json"]).good().json();
    assert_eq!((&shown["state"], &shown["ended"]), (&json!("finished"), &json!("finished")));
    desk.assert_sound();
}

#[test]
fn notices_of_a_cancelled_job_are_delivered_and_then_its_hidden_job_goes() {
    let desk = Desk::new([]);
    let _node = Schedd::on(&desk.redis).start();
    let (reported, go) = (desk.path("told"), desk.path("go"));
    let line = format!("echo told $SCHEDD_ABOUT_JOB >> {reported}; test -e {go}");
    desk.eye.add(&json!({"name": "work", "shell": "false", "on_failure": {"shell": line}, "on_success": {"shell": "true"}}));
    let ctl = Schedctl::on(&desk.redis);
    ctl.run(&["run", "work"]).good();
    desk.wait_for_lines("told", 1);
    let hidden = "work/on_failure";
    let waiting = until("the notice waits for its retry", LONG, || {
        let runs = ctl.run(&["history", hidden, "--json"]).json();
        Some(runs[0].clone()).filter(|run| run["state"] == "scheduled" && run["attempt"] == 1)
    });
    let cancelled = ctl.run(&["cancel", "work"]).good().stdout;
    assert!(
        cancelled.contains("job work cancelled; a notice of the job is still sent (schedctl cancel work/on_failure cancels the notice)"),
        "{cancelled}"
    );
    let jobs = || -> Vec<String> {
        let all = ctl.run(&["list", "--all", "--json"]).good().json();
        all.as_array().unwrap().iter().map(|job| job["name"].as_str().unwrap().to_owned()).collect()
    };
    assert!(jobs().contains(&hidden.to_owned()), "{:?}", jobs());
    std::fs::write(&go, "").unwrap();
    assert_eq!(desk.wait_for_lines("told", 2)[1], "told work");
    until("the hidden job is gone", LONG, || (!jobs().contains(&hidden.to_owned())).then_some(()));
    // What was told stays in history.
    let run = ctl.run(&["history", hidden, "--json"]).good().json()[0].clone();
    assert_eq!((&run["run_id"], &run["state"]), (&waiting["run_id"], &json!("succeeded")));
    ctl.run(&["show", run["run_id"].as_str().unwrap()]).good();
    desk.assert_sound();
}

#[test]
fn a_hidden_job_without_notices_goes_with_its_job_and_a_failed_notice_keeps_it() {
    let desk = Desk::new([]);
    let _node = Schedd::on(&desk.redis).start();
    let ctl = Schedctl::on(&desk.redis);
    let add = |name: &str| {
        desk.eye.add(&json!({"name": name, "shell": "false", "on_failure": {"shell": "true"}}))
    };
    for name in ["work", "again", "once"] {
        add(name);
    }
    for name in ["work", "again", "once"] {
        ctl.run(&["run", name]).good();
        desk.eye.wait_for_history(&format!("{name}/on_failure"), 1);
    }
    let all = || ctl.run(&["list", "--all", "--no-headers"]).good().stdout;
    assert!(all().contains("work/on_failure"), "{}", all());
    // As one that was tried in vain to its end.
    let dead = desk.eye.wait_for_history("again/on_failure", 1)[0].run.to_string();
    let at = desk.eye.ask(desk.eye.store().now()).unwrap().as_i64();
    let mut connection = desk.redis.connection();
    redis::pipe()
        .hset(format!("{{schedd}}:run:{dead}"), "state", "failed")
        .zadd("{schedd}:dead", &dead, at)
        .zadd("{schedd}:dead:again/on_failure", &dead, at)
        .exec(&mut connection)
        .unwrap();
    let cancelled = ctl.run(&["cancel", "work", "again"]).good().stdout;
    assert!(!cancelled.contains("notice"), "{cancelled}");
    let reported = all();
    assert!(
        !reported.contains("work/on_failure")
            && reported.contains("again/on_failure")
            && reported.contains("once/on_failure"),
        "{reported}"
    );
    ctl.run(&["retry", &dead]).good();
    until("it goes when it was told", LONG, || (!all().contains("again/on_failure")).then_some(()));
    assert!(all().contains("once/on_failure"), "its job is live");
}

#[test]
fn those_only_counted_are_reported_of_together_when_the_others_are_over() {
    let desk = Desk::new([]);
    let _node = Schedd::on(&desk.redis).start();
    let (reported, go) = (desk.path("told"), desk.path("go"));
    let line = format!(
        "while ! test -e {go}; do sleep 0.1; done; echo \"[$SCHEDD_ABOUT_RUN] $SCHEDD_ABOUT_TEXT\" >> {reported}"
    );
    desk.eye.add(&json!({"name": "work", "shell": "false", "overlap": "allow", "on_failure": {"shell": line}}));
    let ctl = Schedctl::on(&desk.redis);
    for _ in 0..13 {
        ctl.run(&["run", "work"]).good();
    }
    until("three are only counted", LONG, || {
        let totals = desk.eye.ask(desk.eye.store().read_stats()).unwrap().totals;
        Some(()).filter(|()| totals.get("suppressed") == Some(&3))
    });
    std::fs::write(&go, "").unwrap();
    let lines = desk.wait_for_lines("told", 11);
    assert_eq!(lines[10], "[] 3 more failures of work were not reported individually", "{lines:?}");
    assert!(lines[..10].iter().all(|line| line.starts_with("[work@")), "{lines:?}");
    desk.eye.wait_for_history("work/on_failure", 11);
    assert_eq!(ctl.run(&["show", "work", "--json"]).good().json()["suppressed"], json!({}));
    desk.assert_sound();
}
