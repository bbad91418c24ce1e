//! `schedctl explain` where little is kept: backfills that wait, folded records, a damaged audit log, losses of data.

use std::time::Duration;

use redis::Commands as _;
use serde_json::json;

use super::explaining::{assert_says, explained};
use crate::node::jobs::catching_up::add_in_the_past;
use crate::support::ctl::Schedctl;
use crate::support::eye::Eye;
use crate::support::redis::TestRedis;
use crate::support::script::Script;
use crate::support::scripted_node::ScriptedNode;
use crate::support::wait::{LONG, until};
use schedd_schedule::names::RunId;
use schedd_schedule::time::unix_millis::UnixMillis;

fn at(ms: i64) -> UnixMillis {
    UnixMillis::new(ms).unwrap()
}

#[test]
fn what_waits_to_be_made_up_for_is_reported_of_its_job_its_time_and_its_run() {
    let redis = TestRedis::start();
    let (eye, ctl) = (Eye::on(&redis), Schedctl::on(&redis));
    ctl.run(&["add", "--name", "j", "--every", "1h", "--shell", "true"]).good();
    let since = eye.job("j").unwrap().since.floor_to_second().as_i64();
    let runs: Vec<RunId> = [3, 2]
        .map(|hours| RunId::backfill("j".parse().unwrap(), at(since - hours * 3_600_000)))
        .to_vec();
    eye.ask(eye.store().queue_backfill(&"j".parse().unwrap(), &runs)).unwrap();
    ctl.run(&["pause", "j"]).good();
    assert_says(
        &redis,
        &["j"],
        &[
            "2 past occurrences still wait for their backfill, one after the other. A pause does not stop the backfill.",
        ],
    );
    let waits =
        "This occurrence waits for its backfill, which was requested with schedctl backfill.";
    assert_says(&redis, &[&runs[1].to_string()], &[waits]);
    assert_says(&redis, &["j", "--at", &runs[1].due().to_string()], &[waits]);
    assert_says(&redis, &["j", "--last"], &["The job has not been due yet."]);
}

#[test]
fn a_run_without_a_record_is_reported_by_its_id_as_by_its_time() {
    let redis = TestRedis::start();
    let (eye, ctl) = (Eye::on(&redis), Schedctl::on(&redis));
    ctl.run(&["add", "--name", "j", "--every", "1h", "--shell", "true"]).good();
    let due = eye.job("j").unwrap().since.as_i64() - 7_200_000;
    let () =
        redis.connection().zadd("{schedd}:ledger:j", format!("{due}:1:timed_out:"), due).unwrap();
    let reported = explained(&redis, &[&format!("j@{due}")]);
    assert!(
        reported.0.contains("The run ended as timed out. Its record is no longer kept."),
        "{}",
        reported.0
    );
    assert_eq!(reported.1["subject"], "ledger");
    ctl.run(&["explain", &format!("j@{}", due + 1)]).refused(3, &["no run j@"]);
}

#[test]
fn a_time_behind_the_end_of_a_job_is_reported_as_that() {
    let (redis, script) = (TestRedis::start(), Script::new());
    let (eye, ctl) = (Eye::on(&redis), Schedctl::on(&redis));
    let _node = ScriptedNode::on(&redis, &script).node("n1").start();
    ctl.run(&["add", "--name", "twice", "--every", "1s", "--max-runs", "2", "--shell", "true"])
        .good();
    ctl.run(&["add", "--name", "j", "--every", "1h", "--shell", "true"]).good();
    let last = eye.wait_for_history("twice", 2).last().unwrap().run.due().as_i64();
    ctl.run(&["cancel", "j"]).good();
    let removed = eye.job("j").unwrap().ended_at.unwrap().floor_to_second().as_i64();
    for ms in [1_000, 1_500, 90_000_000] {
        let (reported, document) =
            explained(&redis, &["twice", "--at", &at(last + ms).to_string()]);
        assert!(
            reported.contains(
                "This occurrence has no run: as many runs had started as max_runs allows."
            ),
            "{reported}"
        );
        assert_eq!(document["subject"], "over");
        assert_says(
            &redis,
            &["j", "--at", &at(removed + ms).to_string()],
            &["This occurrence has no run: the job was cancelled on "],
        );
    }
}

#[test]
fn a_job_whose_changes_are_damaged_is_explained_without_them() {
    let redis = TestRedis::start();
    Schedctl::on(&redis).run(&["add", "--name", "j", "--every", "1h", "--shell", "true"]).good();
    let () = redis.connection().set("{schedd}:audit_log:j", 1).unwrap();
    assert_says(
        &redis,
        &["j"],
        &[
            "The schedule has been every 1h",
            "The audit log of the job cannot be read: key {schedd}:audit_log:j",
        ],
    );
}

#[test]
fn a_check_asked_in_vain_is_reported_as_that_and_not_as_a_start() {
    let (redis, script) = (TestRedis::start(), Script::new());
    let eye = Eye::on(&redis);
    let _node = ScriptedNode::on(&redis, &script).node("n1").start();
    let retry = json!({"limit": 1, "delay": "100ms", "jitter": false});
    eye.add(
        &json!({"name": "j", "in": "0s", "shell": "true", "retry": retry, "done_check": {"shell": "exit 9", "on": "always"}}),
    );
    eye.wait_for_history("j", 1);
    let (text, _) = explained(&redis, &["j", "--last"]);
    assert!(
        text.contains("No further attempt was started: done_check gave no clear answer")
            && text.contains("done_check ="),
        "{text}"
    );
    assert!(!text.contains("Attempt 1") && !text.contains("The run started"), "{text}");
}

#[test]
fn a_time_before_a_change_or_a_resume_is_judged_by_the_schedule_of_then() {
    let redis = TestRedis::start();
    let (eye, ctl) = (Eye::on(&redis), Schedctl::on(&redis));
    ctl.run(&["add", "--name", "j", "--every", "2s", "--shell", "true"]).good();
    ctl.run(&["pause", "j"]).good();
    let job = eye.job("j").unwrap();
    let since = explained(&redis, &["j"]).0;
    let since = since
        .lines()
        .find(|line| line.starts_with("The schedule has been every 2s since"))
        .unwrap()
        .to_owned();
    until("some time has passed", LONG, || {
        Some(())
            .filter(|()| eye.ask(eye.store().now()).unwrap().as_i64() > job.anchor.as_i64() + 4_000)
    });
    ctl.run(&["resume", "j"]).good();
    assert!(eye.job("j").unwrap().since > job.since);
    assert_says(&redis, &["j"], &[&since]);
    ctl.run(&["add", "--name", "j", "--every", "3s", "--shell", "true", "--replace"]).good();
    let odd = at(job.anchor.as_i64() + 3_000).to_string();
    assert_says(
        &redis,
        &["j", "--at", &odd],
        &["The job was not due at", "The schedule at that time was every 2s."],
    );
}

#[test]
fn a_range_skipped_by_a_long_pause_is_found_among_many_runs_with_its_backfill() {
    let (redis, script) = (TestRedis::start(), Script::new());
    let (eye, ctl) = (Eye::on(&redis), Schedctl::on(&redis));
    let hour = Duration::from_secs(3600);
    add_in_the_past(
        &eye,
        5 * hour + hour / 2,
        &json!({"name": "j", "every": "1h", "shell": "true"}),
    );
    let first = eye.job("j").unwrap().pending.unwrap().due();
    ctl.run(&["pause", "j"]).good();
    let _node = ScriptedNode::on(&redis, &script).node("n1").start();
    for _ in 0..52 {
        ctl.run(&["run", "j"]).good();
    }
    eye.wait_for_history("j", 52);
    ctl.run(&["resume", "j"]).good();
    let third = first.saturating_add(2 * hour).to_string();
    let (reported, document) = explained(&redis, &["j", "--at", &third]);
    assert!(reported.contains("The run was skipped because its job was paused"), "{reported}");
    assert_eq!(
        (&document["subject"], &document["backfilled_by"]),
        (&json!("skipped_range"), &json!(null))
    );
    ctl.run(&[
        "backfill",
        "j",
        "--yes",
        "--from",
        &first.to_string(),
        "--to",
        &first.saturating_add(3 * hour).to_string(),
    ])
    .good();
    for at in [first.to_string(), third] {
        let id = format!(
            "j@{}~backfill",
            at.parse::<chrono::DateTime<chrono::Utc>>().unwrap().timestamp_millis()
        );
        let made_up = format!(
            "schedctl backfill made run {id} for this occurrence. The state of that run is: succeeded."
        );
        let (reported, document) = until(&format!("{at} is made up for"), LONG, || {
            Some(explained(&redis, &["j", "--at", &at]))
                .filter(|(reported, _)| reported.contains(&made_up))
        });
        assert!(reported.contains("The run was skipped because its job was paused"), "{reported}");
        assert_eq!(document["backfilled_by"], json!({"run_id": id, "state": "succeeded"}));
    }
}

#[test]
fn a_run_at_the_rate_limit_of_its_key_says_until_when_by_the_rate_of_its_own_job() {
    let (redis, script) = (TestRedis::start(), Script::new());
    let (eye, ctl) = (Eye::on(&redis), Schedctl::on(&redis));
    let _node = ScriptedNode::on(&redis, &script).node("n1").start();
    let add = |name: &str, rate: &str| {
        ctl.run(&[
            "add",
            "--name",
            name,
            "--in",
            "0s",
            "--key",
            "k",
            "--per-key-rate",
            rate,
            "--shell",
            "true",
        ])
        .good();
    };
    add("first", "1/1h");
    eye.wait_for_history("first", 1);
    add("quick", "10/1s");
    eye.wait_for_history("quick", 1);
    add("second", "1/1h");
    let reported = || explained(&redis, &["second"]).0;
    let held = " waits for a place at key k. The rate 1/1h of the gate allows the next start on ";
    until("its rate is told", LONG, || reported().contains(held).then_some(()));
}

#[test]
fn what_a_pause_skipped_is_not_denied_after_its_day_was_left_out() {
    let redis = TestRedis::start();
    let (eye, ctl) = (Eye::on(&redis), Schedctl::on(&redis));
    let hour = Duration::from_secs(3600);
    let job = json!({"name": "j", "cron": "0 * * * *", "tz": "UTC", "shell": "true"});
    add_in_the_past(&eye, 5 * hour + hour / 2, &job);
    let first = eye.job("j").unwrap().pending.unwrap().due();
    ctl.run(&["pause", "j"]).good();
    let add = [
        "add",
        "--name",
        "j",
        "--cron",
        "0 * * * *",
        "--tz",
        "UTC",
        "--shell",
        "true",
        "--replace",
    ];
    ctl.run(&[&add[..], &["--exclude", "2000-01-01..2099-12-31"]].concat()).good();
    ctl.run(&["resume", "j"]).good();
    let third = first.saturating_add(2 * hour);
    let said = [
        "The run was skipped because its job was paused",
        "The schedule at that time was 0 * * * * in UTC.",
        "The schedule 0 * * * * in UTC was changed by",
    ];
    assert_says(&redis, &["j", "--at", &third.to_string()], &said);
    // Nor where nothing but the stretch itself tells by what it was counted.
    let () = redis.connection().del("{schedd}:schedule_versions:j").unwrap();
    assert_says(&redis, &["j", "--at", &third.to_string()], &said[..1]);
    let (reported, document) =
        explained(&redis, &["j", "--at", &third.saturating_add(hour / 2).to_string()]);
    assert_eq!(document["subject"], "not_due", "{reported}");
}

#[test]
fn the_times_around_one_that_is_none_are_those_of_the_schedule_of_then() {
    let redis = TestRedis::start();
    let (eye, ctl) = (Eye::on(&redis), Schedctl::on(&redis));
    let hour = Duration::from_secs(3600);
    add_in_the_past(
        &eye,
        5 * hour + hour / 2,
        &json!({"name": "j", "cron": "0 * * * *", "tz": "UTC", "shell": "true"}),
    );
    let first = eye.job("j").unwrap().pending.unwrap().due();
    ctl.run(&["pause", "j"]).good();
    ctl.run(&["resume", "j"]).good();
    ctl.run(&[
        "add",
        "--name",
        "j",
        "--cron",
        "30 5 * * *",
        "--tz",
        "UTC",
        "--shell",
        "true",
        "--replace",
    ])
    .good();
    let (second, third) = (first.saturating_add(hour), first.saturating_add(2 * hour));
    let shown = |due: UnixMillis| {
        schedd_schedule::time::wording::shown(due, &schedd_schedule::time::zone::Zone::utc())
    };
    let (reported, document) =
        explained(&redis, &["j", "--at", &second.saturating_add(hour / 2).to_string()]);
    assert_eq!(document["subject"], "not_due", "{reported}");
    let said = reported
        .lines()
        .find(|line| line.starts_with("The previous time of the schedule is "))
        .unwrap();
    let at_once = |due: UnixMillis| said.contains(&shown(due));
    assert!(at_once(second) && at_once(third), "{said}");
}
