//! `backfill`: past occurrences are planted once, within bounds, and the schedule stays.

use schedd_core::domain::run::run_state::RunState;
use serde_json::Value;

use crate::cli::Bench;

const FROM: &str = "2025-01-01T00:00:00Z";
const TO: &str = "2025-01-01T05:00:00Z";
/// The first of the five full hours between them, ms.
const FIRST: i64 = 1_735_689_600_000;

/// A job of every full hour.
fn hourly() -> Bench {
    let bench = Bench::start();
    bench.add(&["--name", "a", "--cron", "0 * * * *", "--tz", "UTC", "--", "x"]);
    bench
}

fn backfill(bench: &Bench, more: &[&str]) -> Value {
    bench
        .ctl
        .run(&[&["backfill", "a", "--from", FROM, "--to", TO, "--yes", "--json"], more].concat())
        .good()
        .json()
}

#[test]
fn a_window_is_made_up_for_once_and_the_schedule_is_left_alone() {
    let bench = hourly();
    let shown = || bench.ctl.run(&["show", "a", "--json"]).good().json();
    let next = shown()["next_due"].clone();
    let done = backfill(&bench, &[]);
    assert_eq!(
        (&done["added"], &done["continue_from"], &done["dry_run"]),
        (&5.into(), &Value::Null, &false.into())
    );
    assert_eq!(
        (&done["times"][0], &done["times"][4]),
        (&"2025-01-01T00:00:00.000Z".into(), &"2025-01-01T04:00:00.000Z".into())
    );
    assert_eq!((&shown()["next_due"], &shown()["backfill"]), (&next, &5.into()));
    let claim = bench.node.claim("a");
    assert_eq!(claim.run.to_string(), format!("a@{FIRST}~backfill"));
    let again = backfill(&bench, &[]);
    assert_eq!(
        (&again["added"], &again["not_backfilled"]["already_backfilled"]),
        (&0.into(), &5.into())
    );
    bench.node.finish(&claim, RunState::Failed, &[("exit_code", "1")]);
    let run = bench.ctl.run(&["show", &claim.run.to_string(), "--json"]).good().json();
    assert_eq!((&run["kind"], &run["late_ms"]), (&"backfill".into(), &Value::Null));
    assert!(bench.ctl.run(&["show", &claim.run.to_string()]).good().stdout.contains("backfill"));
    assert!(bench.ctl.run(&["show", "a"]).good().stdout.contains("schedctl cancel a --backfill"));
    let given_up = bench.ctl.run(&["cancel", "a", "--backfill"]).good();
    assert!(given_up.stdout.contains("4 backfill runs of job a cancelled"), "{given_up:?}");
    let reported = bench.ctl.run(&["explain", "a", "--at", "2025-01-01T02:00:00Z"]).good().stdout;
    assert!(reported.contains("The backfill of this occurrence was cancelled by "), "{reported}");
    let made_up = bench.ctl.run(&["explain", "a", "--at", "2025-01-01T00:00:00Z"]).good().stdout;
    assert!(!made_up.contains("The backfill of this occurrence was cancelled"), "{made_up}");
    let nothing = bench.ctl.run(&["cancel", "a", "--backfill"]).good();
    assert!(nothing.stdout.contains("a has no backfill runs to cancel"), "{nothing:?}");
    assert_eq!(shown()["next_due"], next);
    let text = bench.ctl.run(&["backfill", "a", "--from", FROM, "--to", TO, "--yes"]).good();
    assert!(
        text.stdout.contains("4 runs of job a added; backfill runs start one after the other"),
        "{text:?}"
    );
    assert!(
        text.stderr.contains(
            "not backfilled, because they are already backfilled, or wait for their backfill run: 1"
        ),
        "{text:?}"
    );
}

#[test]
fn a_run_that_is_out_can_be_cancelled_and_the_next_follows() {
    let bench = hourly();
    backfill(&bench, &[]);
    bench.ctl.run(&["cancel", &format!("a@{FIRST}~backfill")]).good();
    assert_eq!(bench.node.claim("a").run.due().as_i64(), FIRST + 3_600_000);
    let running = bench.ctl.run(&["cancel", "a", "--backfill"]).good();
    assert!(running.stdout.contains("4 backfill runs"), "{running:?}");
}

#[test]
fn a_dry_run_prints_the_times_and_plants_nothing() {
    let bench = hourly();
    let text = bench.ctl.run(&["backfill", "a", "--from", FROM, "--to", TO, "--dry-run"]).good();
    assert_eq!(text.stdout.lines().count(), 5, "{text:?}");
    assert!(text.stdout.starts_with("Wed 2025-01-01 00:00:00 UTC"), "{text:?}");
    assert_eq!(backfill(&bench, &["--dry-run"])["added"], 0);
    assert_eq!(bench.ctl.run(&["show", "a", "--json"]).json()["backfill"], 0);
}

#[test]
fn what_succeeded_is_left_out_whether_its_record_or_the_ledger_reports() {
    let bench = hourly();
    let mut connection = bench.redis.connection();
    let run = |hour: i64| format!("{{schedd}}:run:a@{}", FIRST + hour * 3_600_000);
    for (hour, state) in [(0, "succeeded"), (1, "failed"), (2, "running")] {
        let () = redis::cmd("HSET")
            .arg(run(hour))
            .arg(&["state", state])
            .query(&mut connection)
            .unwrap();
    }
    let member = format!("{}:2:succeeded:", FIRST + 4 * 3_600_000);
    let () = redis::cmd("ZADD")
        .arg("{schedd}:ledger:a")
        .arg(FIRST + 3 * 3_600_000)
        .arg(member)
        .query(&mut connection)
        .unwrap();
    let done = backfill(&bench, &[]);
    assert_eq!(
        (&done["added"], &done["times"][0]),
        (&1.into(), &"2025-01-01T01:00:00.000Z".into())
    );
    assert_eq!(
        (&done["not_backfilled"]["succeeded"], &done["not_backfilled"]["open"]),
        (&3.into(), &1.into())
    );
}

#[test]
fn a_large_window_is_cut_and_reported_where_to_go_on() {
    let bench = hourly();
    let done = backfill(&bench, &["--max", "2"]);
    assert_eq!(
        (&done["added"], &done["continue_from"]),
        (&2.into(), &"2025-01-01T02:00:00.000Z".into())
    );
    let text = bench
        .ctl
        .run(&[
            "backfill",
            "a",
            "--from",
            "2025-01-01T02:00:00Z",
            "--to",
            TO,
            "--max",
            "2",
            "--yes",
        ])
        .good();
    assert!(
        text.stderr.contains("stopped at 2 runs: continue with --from 2025-01-01T04:00:00.000Z"),
        "{text:?}"
    );
    // Now is past the pending run's predecessor, so the present hour is not made up for twice.
    let year = bench
        .ctl
        .run(&[
            "backfill",
            "a",
            "--from",
            "2024-01-01",
            "--to",
            "2025-01-01",
            "--dry-run",
            "--json",
        ])
        .good()
        .json();
    assert_eq!(
        (year["times"].as_array().unwrap().len(), &year["continue_from"]),
        (1_000, &"2024-02-11T16:00:00.000Z".into())
    );
}

#[test]
fn times_before_the_job_was_added_run_only_after_a_confirmation() {
    let bench = hourly();
    let window = ["backfill", "a", "--from", FROM, "--to", TO];
    bench.ctl.run(&window).refused(
        2,
        &["5 runs of job a for times before the job was added (", "wanted --yes", "--dry-run"],
    );
    let refused = bench.ctl.answer_on_terminal(&window, "no\n");
    assert_eq!(refused.code, 2, "{refused:?}");
    assert!(refused.stdout.contains("type schedd to confirm"), "{refused:?}");
    assert_eq!(bench.ctl.run(&["show", "a", "--json"]).json()["backfill"], 0);
    assert_eq!(bench.ctl.answer_on_terminal(&window, "schedd\n").code, 0);
    assert_eq!(bench.ctl.run(&["show", "a", "--json"]).json()["backfill"], 5);
    let again = bench.ctl.run(&window).good();
    assert_eq!(again.stdout, "0 runs of job a added\n");
}

#[test]
fn a_window_that_is_none_and_a_job_without_one_are_refused() {
    let bench = hourly();
    bench.add(&["--name", "m", "--", "x"]);
    let run = |args: &[&str]| bench.ctl.run(&[&["backfill"], args].concat());
    bench.add(&["--name", "d", "--delay", "5m", "--", "x"]);
    run(&["d", "--from", FROM])
        .refused(2, &["runs a delay after the end of each run", "schedctl run d"]);
    run(&["a"]).refused(2, &["--from"]);
    run(&["a", "--from", "soon"]).refused(2, &["--from", "a duration before now"]);
    run(&["a", "--from", FROM, "--to", "2090-01-01"]).refused(2, &["--to", "wanted a past time"]);
    run(&["a", "--from", "2090-01-01"]).refused(2, &["--from", "wanted a past time"]);
    run(&["a", "--from", TO, "--to", FROM]).refused(2, &["is not before --to"]);
    run(&["a", "--from", FROM, "--to", FROM]).refused(2, &["is not before --to"]);
    run(&["a", "--from", FROM, "--max", "0"]).refused(2, &["--max"]);
    run(&["a", "--from", FROM, "--max", "10001"]).refused(2, &["--max", "10000"]);
    run(&["m", "--from", FROM]).refused(2, &["job m has no schedule"]);
    run(&["b", "--from", FROM]).refused(3, &["no job b"]);
    run(&["A B", "--from", FROM]).refused(2, &["job name"]);
    let weekday =
        jiff::Zoned::now().saturating_sub(jiff::ToSpan::days(2)).strftime("%a").to_string();
    let last = run(&["a", "--from", &weekday, "--dry-run", "--json"]).good().json();
    assert!(!last["times"].as_array().unwrap().is_empty(), "a weekday is its last coming: {last}");
    bench.ctl.run(&["cancel", "b", "--backfill"]).refused(3, &["no job b"]);
    bench.ctl.run(&["cancel", "a", "--backfill", "--stop"]).refused(2, &["--stop"]);
    bench.ctl.run(&["cancel", "a"]).good();
    run(&["a", "--from", FROM]).refused(4, &["job a is over"]);
    let empty = run(&["a", "--from", "1s"]);
    assert_eq!(empty.code, 4, "{empty:?}");
}

#[test]
fn a_job_that_runs_only_at_boots_has_no_time_to_be_made_up_for() {
    let bench = Bench::start();
    bench.add(&["--name", "a", "--cron", "@reboot", "--", "x"]);
    bench
        .ctl
        .run(&["backfill", "a", "--from", FROM, "--to", TO])
        .refused(2, &["@reboot", "schedctl run a"]);
}
