//! People are told of a run that has not started, or not ended, when it was to.

use serde_json::json;

use super::notice_desk::Desk;
use crate::node::explain::explaining::assert_says;
use crate::support::ctl::Schedctl;
use crate::support::daemon::Schedd;
use crate::support::wait::{LONG, until};
use schedd_core::domain::run::run_state::RunState;

#[test]
fn a_run_no_node_takes_and_one_that_goes_on_too_long_are_reported_of() {
    let desk = Desk::new([]);
    let reported = desk.path("told");
    let jobs = "[queues.shut]\npaused = true\n";
    let _node = Schedd::on(&desk.redis).jobs(jobs).start();
    until("the queue is known", LONG, || {
        desk.eye
            .ask(desk.eye.store().read_queues())
            .unwrap()
            .into_keys()
            .find(|queue| queue.as_str() == "shut")
    });
    let late = json!({"shell": format!(
        "echo \"$SCHEDD_ABOUT_TEXT|$SCHEDD_ABOUT_STATE|$SCHEDD_ABOUT_LATE_MS|$SCHEDD_ABOUT_REASON\" >> {reported}"
    )});
    // What is damaged in front of the others holds none of them up.
    let (deadlines, run) = ("{schedd}:deadlines", "{schedd}:run:damaged@1790000000000");
    let mut damaged = redis::pipe();
    damaged.set(run, "x").zadd(deadlines, "no run", 1).zadd(
        deadlines,
        "damaged@1790000000000 start",
        2,
    );
    damaged.exec(&mut desk.redis.connection()).unwrap();
    desk.eye
        .add(&json!({"name": "shut", "in": "0s", "queue": "shut", "shell": "true", "on_late": late, "must_start_within": "3s"}));
    desk.eye.add(&json!({"name": "slow", "in": "0s", "shell": "sleep 600", "on_late": late, "must_finish_within": "1s"}));
    let mut lines = desk.wait_for_lines("told", 2);
    lines.sort_unstable();
    let [text, state, late_ms, reason] = lines[0].split('|').collect::<Vec<_>>()[..] else {
        panic!("{lines:?}")
    };
    assert!(text.starts_with("job shut was due on ") && text.contains(" (run shut@"), "{lines:?}");
    assert!(
        text.contains(" did not start by its deadline and is ")
            && text.contains(" late: Queue shut "),
        "{lines:?}"
    );
    assert!(late_ms.parse::<u64>().unwrap() >= 3_000 && reason.contains(" paused "), "{lines:?}");
    assert_eq!(state, "scheduled");
    let [text, state, late_ms, _] = lines[1].split('|').collect::<Vec<_>>()[..] else {
        panic!("{lines:?}")
    };
    assert!(text.starts_with("job slow was due on "), "{lines:?}");
    assert!(
        text.contains(" did not end by its deadline and is running, ")
            && text.contains(" after its due time (run slow@"),
        "{lines:?}"
    );
    assert!((state, late_ms.parse::<u64>().unwrap() >= 1_000) == ("running", true), "{lines:?}");
    assert_eq!(desk.eye.ask(desk.eye.store().read_stats()).unwrap().totals["late"], 2);
    let notice = desk.eye.wait_for_history("shut/on_late", 1).remove(0).run;
    assert_says(
        &desk.redis,
        &["shut"],
        &["The run had not started by ", &format!("The on_late notice {notice} was delivered on ")],
    );
    let notice = desk.eye.wait_for_history("slow/on_late", 1).remove(0).run;
    let late = [
        "The run had not ended by ",
        "must_finish_within = 1s sets.",
        &format!("The on_late notice {notice} was delivered on "),
    ];
    assert_says(&desk.redis, &["slow", "--last"], &late);
    let refused =
        Schedctl::on(&desk.redis).run(&["add", "--must-start-within", "1m", "--shell", "true"]);
    assert!(refused.code == 2 && refused.stderr.contains("--on-late"), "{refused:?}");
    let left: Vec<String> = redis::cmd("ZRANGE")
        .arg(deadlines)
        .arg(0)
        .arg(-1)
        .query(&mut desk.redis.connection())
        .unwrap();
    assert_eq!(left, ["no run", "damaged@1790000000000 start"]);
    redis::pipe().del(run).del(deadlines).exec(&mut desk.redis.connection()).unwrap();
    desk.assert_sound();
}

#[test]
fn one_that_goes_on_too_long_is_not_named_with_what_it_waited_for_before_it_began() {
    let desk = Desk::new([]);
    let _node = Schedd::on(&desk.redis).start();
    let line = format!("echo \"$SCHEDD_ABOUT_TEXT|$SCHEDD_ABOUT_REASON\" >> {}", desk.path("told"));
    desk.eye.add(&json!({
        "name": "work", "every": "2s", "max_runs": 2, "overlap": "replace", "shell": "sleep 600", "must_finish_within": "4s",
        "on_late": {"shell": line},
    }));
    let line = desk.wait_for_lines("told", 1).remove(0);
    assert!(line.ends_with(")|"), "{line}");
    let open =
        desk.eye.ask(desk.eye.store().list_open(&"work".parse().unwrap())).unwrap().remove(0);
    assert!(line.contains(&format!(" after its due time (run {open})|")), "{line}");
    let mut waited = redis::cmd("HGET");
    let waited: String = waited
        .arg(format!("{{schedd}}:run:{open}"))
        .arg("waiting_for")
        .query(&mut desk.redis.connection())
        .unwrap();
    assert_eq!(waited, "overlap", "it did wait");
}

#[test]
fn a_job_that_starts_no_more_behind_a_run_that_hangs_is_reported_of_once() {
    let desk = Desk::new([]);
    let _node = Schedd::on(&desk.redis).start();
    let (reported, go) = (desk.path("told"), desk.path("go"));
    desk.eye.add(&json!({
        "name": "work", "every": "1s", "shell": format!("while ! test -e {go}; do sleep 0.1; done"), "must_start_within": "3s",
        "on_late": {"shell": format!("echo \"$SCHEDD_ABOUT_RUN|$SCHEDD_ABOUT_TEXT\" >> {reported}")},
    }));
    let line = desk.wait_for_lines("told", 1).remove(0);
    let (run, text) = line.split_once('|').unwrap();
    let state_of = |run: &str| {
        Schedctl::on(&desk.redis).run(&["show", run, "--json"]).good().json()["state"].clone()
    };
    assert!(text.contains(" did not start by its deadline"), "{line}");
    let (_, hung) = text.split_once(" after its due time: run ").unwrap();
    let (hung, _) = hung.split_once(" was still open").unwrap();
    assert_eq!(state_of(hung), "running", "{line}");
    assert_says(
        &desk.redis,
        &[run],
        &["The run had not started by ", "must_start_within = 3s sets.", " was delivered on "],
    );
    // Those skipped after it, four of them and their time, say no more.
    let skipped =
        || desk.eye.history("work").iter().filter(|run| run.state == RunState::Skipped).count();
    let now = skipped();
    until("more are skipped, past the time they were to start", LONG, || {
        (skipped() >= now + 5).then_some(())
    });
    assert_eq!(desk.lines("told").len(), 1);
    std::fs::write(&go, "").unwrap();
    desk.eye.wait_for_history("work", 1);
    desk.assert_sound();
}
