//! The rules of plans that a clock of Redis made which was ahead.

use std::time::Duration;

use schedd_schedule::names::RunId;
use schedd_store::{SkipOrder, SkipReply, Verdict};
use serde_json::json;

use crate::doctor::desk::Desk;
use crate::scripts::world::{name, successor, t};

const DAY: i64 = 86_400_000;

/// A clock that is a day ahead counts `count` occurrences of every minute as missed, from `run` on.
async fn miss(desk: &mut Desk, run: &RunId, count: u64, next: Option<i64>) {
    desk.go_on_to(DAY);
    let job = desk.job(run.job().as_str()).await;
    let order = SkipOrder {
        run: run.clone(),
        rev: job.rev,
        lane: job.lane,
        reason: "missed",
        last_due: run.due().saturating_add(Duration::from_secs((count - 1) * 60)),
        count,
        successor: next.map(|at| successor(run.job().as_str(), at)),
    };
    assert_eq!(desk.at(DAY).skip_run(&order).await.unwrap(), SkipReply::Skipped);
}

/// An instant so many seconds after the tests' zero, 2026-09-21T14:13:20Z.
fn in_s(seconds: i64) -> String {
    t(seconds * 1_000).to_string()
}

#[tokio::test]
async fn runs_planned_by_a_clock_ahead_are_planned_anew_by_the_corrected_clock() {
    // The tests' zero is a Monday, 13:33:20; jobs are added a second before it.
    for (schedule, first) in [
        (json!({"cron": "* * * * * *"}), -DAY + 1_000),
        (json!({"cron": "0 * * * *", "tz": "UTC"}), -DAY + 2_800_000),
        (json!({"every": "2s"}), -DAY + 1_000),
        (json!({"every": "2s", "anchor": "2026-01-01T00:00:00Z"}), -DAY + 2_000),
        (json!({"delay": "5s"}), -DAY + 5_000),
        (json!({"schedules": [{"every": "4s"}, {"every": "6s"}]}), -DAY + 3_000),
    ] {
        let mut desk = Desk::new();
        let planned = desk.add("a", schedule.clone()).await;
        desk.demand_sound("by the clock that planned it").await;
        desk.go_on_to(-DAY);
        desk.mend("wrong:due_time", "job a").await;
        let pending = desk.pending("a").await;
        assert_eq!(pending.due(), t(first), "{schedule}: {planned}");
        desk.demand_sound("mended").await;
    }
}

#[tokio::test]
async fn what_is_truly_planned_far_ahead_stays() {
    let mut desk = Desk::new();
    desk.add("once", json!({"at": "2031-01-01T00:00:00Z"})).await;
    desk.add("yearly", json!({"cron": "0 0 1 1 *", "tz": "UTC"})).await;
    desk.add("starts", json!({"every": "1h", "start": "2031-01-01T00:00:00Z"})).await;
    desk.demand_sound("as they are").await;
    desk.go_on_to(-DAY);
    desk.demand_sound("a day before they were added").await;
}

#[tokio::test]
async fn an_occurrence_that_ran_before_its_time_came_is_not_planned_again() {
    let mut desk = Desk::new();
    let run = desk.add("a", json!({"every": "1m"})).await;
    let claim = desk.win_due(&run).await;
    desk.succeed(desk.now(), &claim).await;
    let next = desk.pending("a").await;
    // One minute before it ran.
    desk.go_on_to(run.due().as_i64() - t(0).as_i64() - 60_000);
    desk.demand_sound("the next is the first that has not run").await;
    // Ten minutes before: those between have not run.
    desk.go_on_to(desk.now() - 9 * 60_000);
    desk.mend("wrong:due_time", "job a").await;
    assert!(desk.pending("a").await.due() < run.due());
    assert_eq!(desk.job("a").await.handled, [next.due().saturating_sub(Duration::from_millis(1))]);
}

#[tokio::test]
async fn a_retry_waits_no_longer_than_its_rule_from_when_the_clock_is_right() {
    let mut desk = Desk::new();
    let run = desk
        .add("a", json!({"every": "1m", "retry": {"limit": 3, "delay": "10s", "jitter": false}}))
        .await;
    let claim = desk.win_due(&run).await;
    desk.finish(desk.now(), &claim, Verdict::Retry(Duration::from_secs(10))).await;
    desk.demand_sound("by that clock").await;
    let next = desk.pending("a").await;
    desk.go_on_to(desk.now() - 4_000);
    desk.demand_sound("a little before").await;
    desk.go_on_to(-DAY);
    let mended = desk.mend("wrong:ready_time", &run.to_string()).await;
    assert_eq!(desk.score("due:default", &run.to_string()), Some(-DAY + 10_000), "{mended:?}");
    assert!(desk.pending("a").await.due() < next.due());
}

#[tokio::test]
async fn a_run_asked_for_by_hand_while_the_clock_was_ahead_is_due_now() {
    let mut desk = Desk::new();
    desk.add("a", json!({"at": "2031-01-01T00:00:00Z"})).await;
    let run = desk.by_hand("a", 0).await;
    desk.go_on_to(-DAY);
    desk.mend("wrong:ready_time", &run.to_string()).await;
    assert_eq!(desk.score("due:default", &run.to_string()), Some(-DAY));
}

#[tokio::test]
async fn what_was_reported_of_as_skipped_before_its_time_came_is_reported_so_no_more() {
    let mut desk = Desk::new();
    let run = desk.add("a", json!({"every": "1m"})).await;
    // A day is skipped by a clock that is a day ahead.
    miss(&mut desk, &run, 1_440, Some(run.due().as_i64() - t(0).as_i64() + 1_440 * 60_000)).await;
    desk.go_on_to(10 * 60_000);
    desk.mend("wrong:due_time", "job a").await;
    let reported = desk.run(&run).await.skipped.unwrap();
    assert!(reported.0 <= t(desk.now()) && reported.1 <= 11, "{reported:?}");
    let pending = desk.pending("a").await;
    assert_eq!(pending.due(), reported.0.saturating_add(Duration::from_secs(60)));
    let claim = desk.win_due(&pending).await;
    desk.succeed(desk.now(), &claim).await;
    desk.demand_sound("what was skipped and what ran are told once each").await;
}

#[tokio::test]
async fn a_missed_range_in_the_ledger_counts_no_occurrence_to_come() {
    let mut desk = Desk::new();
    let run = desk.add("a", json!({"every": "1m"})).await;
    miss(&mut desk, &run, 1_440, Some(run.due().as_i64() - t(0).as_i64() + 1_440 * 60_000)).await;
    assert_eq!(desk.at(DAY).forget_runs(Some(&name("a")), t(0), 0).await.unwrap(), 1);
    desk.go_on_to(10 * 60_000);
    desk.mend("wrong:due_time", "job a").await;
    let last = run.due().saturating_add(Duration::from_secs(9 * 60));
    let ranges = desk.store.read_ledger(&name("a")).await.unwrap().ranges;
    assert_eq!(
        ranges.iter().map(|range| (range.from, range.to, range.count)).collect::<Vec<_>>(),
        [(run.due(), last, 10)]
    );
    assert_eq!(
        (desk.pending("a").await.due(), desk.total("skipped")),
        (last.saturating_add(Duration::from_secs(60)), 10)
    );
    desk.demand_sound("the ledger ends where the clock is").await;
    // Before any of them was due.
    desk.go_on_to(-DAY);
    desk.mend("wrong:due_time", "job a").await;
    assert!(desk.store.read_ledger(&name("a")).await.unwrap().ranges.is_empty());
    assert_eq!((desk.pending("a").await.due() < run.due(), desk.total("skipped")), (true, 0));
}

#[tokio::test]
async fn a_job_whose_last_time_a_clock_ahead_passed_is_planned_anew() {
    for schedule in
        [json!({"every": "1m", "end": in_s(600)}), json!({"at": [in_s(59), in_s(119), in_s(179)]})]
    {
        let mut desk = Desk::new();
        let run = desk.add("a", schedule.clone()).await;
        let count = if schedule.get("at").is_some() { 3 } else { 10 };
        miss(&mut desk, &run, count, None).await;
        desk.demand_sound("by the clock that is ahead").await;
        desk.go_on_to(100_000);
        desk.mend("wrong:due_time", "job a").await;
        assert_eq!(
            (desk.pending("a").await.due(), desk.total("skipped")),
            (t(119_000), 1),
            "{schedule}"
        );
        // One that ran meanwhile is in no range.
        let next = desk.pending("a").await;
        let claim = desk.win_due(&next).await;
        desk.succeed(desk.now(), &claim).await;
        desk.demand_sound("mended").await;
    }
}

#[tokio::test]
async fn a_job_whose_last_time_ran_early_is_over_and_sound() {
    let mut desk = Desk::new();
    let run = desk.add("a", json!({"at": [in_s(60), in_s(120)]})).await;
    let claim = desk.win_due(&run).await;
    desk.succeed(desk.now(), &claim).await;
    let last = desk.pending("a").await;
    let claim = desk.win(DAY, &last).await;
    desk.succeed(DAY, &claim).await;
    desk.go_on_to(61_000);
    desk.demand_sound("it has run").await;
    // The same once its record was trimmed.
    desk.at(DAY).forget_runs(Some(&name("a")), t(2 * DAY), 0).await.unwrap();
    assert_eq!(desk.store.read_ledger(&name("a")).await.unwrap().ranges.len(), 1);
    desk.demand_sound("its ledger says so").await;
}

#[tokio::test]
async fn a_one_shot_that_a_clock_ahead_skipped_has_its_free_unique_key_again() {
    let mut desk = Desk::new();
    let once = |key: &str| json!({"at": in_s(60), "skip_if_late": "1m", "unique": key});
    let own = desk.add("own", once("k1")).await;
    let lost = desk.add("lost", once("k2")).await;
    for run in [&own, &lost] {
        miss(&mut desk, run, 1, None).await;
    }
    desk.add("next", json!({"at": in_s(2 * 86_400), "unique": "k2"})).await;
    desk.go_on_to(10_000);
    desk.mend("wrong:due_time", "job own").await;
    assert_eq!(desk.job("own").await.pending, Some(own));
    assert_eq!(desk.raw::<String>("HGET", "unique:k1", &["job"]), "own");
    assert_eq!(desk.job("lost").await.ended.as_deref(), Some("finished"));
    assert_eq!(desk.raw::<String>("HGET", "unique:k2", &["job"]), "next");
    desk.demand_sound("the key belongs to the next job").await;
}

#[tokio::test]
async fn a_one_shot_that_only_a_clock_ahead_skipped_runs_when_its_time_comes() {
    let mut desk = Desk::new();
    let run = desk.add("a", json!({"at": in_s(60), "skip_if_late": "1m"})).await;
    let late = desk.add("late", json!({"at": in_s(5), "skip_if_late": "1m"})).await;
    for run in [&run, &late] {
        miss(&mut desk, run, 1, None).await;
    }
    desk.demand_sound("by the clock that is ahead").await;
    desk.go_on_to(10_000);
    desk.mend("wrong:due_time", "job a").await;
    let job = desk.job("a").await;
    assert_eq!((job.pending, job.ended, job.ended_at), (Some(run.clone()), None, None));
    assert_eq!(desk.job("late").await.ended.as_deref(), Some("finished"));
    let claim = desk.win(60_000, &run).await;
    desk.succeed(60_001, &claim).await;
    desk.go_on_to(70_000);
    desk.demand_sound("it has run").await;
    assert_eq!(
        (desk.total("skipped"), desk.job("a").await.ended.as_deref()),
        (1, Some("finished"))
    );
}
