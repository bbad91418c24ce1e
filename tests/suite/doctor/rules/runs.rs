//! The rules of runs: each stands where its record says, and nowhere else.

use std::collections::BTreeSet;
use std::time::Duration;

use schedd::engine::maintenance::consistency_check::ConsistencyChecker;
use schedd_core::domain::queue::lane::Lane;
use schedd_schedule::names::{JobName, RunId};
use schedd_store::{SkipOrder, SkipReply, Successor};
use serde_json::json;

use crate::doctor::desk::Desk;
use crate::scripts::world::t;

/// Writes a record of its own, and its entries in history, for each of these runs of job `a`.
fn record_as_ended(desk: &mut Desk, runs: &[RunId]) {
    for run in runs {
        let (at, id) = (t(400_000).as_i64().to_string(), run.to_string());
        let facts = "state succeeded job a kind regular queue default finished_at";
        let facts: Vec<&str> = facts.split(' ').chain([at.as_str()]).collect();
        desk.break_by("HSET", &format!("run:{id}"), &facts);
        desk.break_by("ZADD", "history", &[&at, &id]);
        desk.break_by("ZADD", "history:a", &[&at, &id]);
    }
}

#[tokio::test]
async fn an_ended_lease_without_a_record_goes_to_quarantine_and_a_living_one_stays() {
    let desk = Desk::new();
    desk.minutely("a").await;
    desk.break_by("ZADD", "leases", &["5", "a@5#7"]);
    desk.break_by("SET", "fence", &["7"]);
    desk.mend("extra:leases", "a@5").await;
    assert_eq!(desk.get::<i64>("HLEN", "quarantine", &[]), 1);
    let end = t(60_000).as_i64().to_string();
    desk.break_by("ZADD", "leases", &[&end, "a@5#7"]);
    desk.leaves("extra:leases", "a@5", "when the lease has ended").await;
}

#[tokio::test]
async fn an_open_entry_of_a_run_that_is_over_is_closed_and_what_waits_gets_its_turn() {
    let mut desk = Desk::new();
    let (claim, next) = desk.one_behind_another("a").await;
    desk.break_by("ZADD", "open:a", &["5", "a@5"]);
    desk.succeed(desk.now(), &claim).await;
    desk.mend("extra:open", "a@5").await;
    assert!(desk.score("due:default", &next.to_string()).is_some(), "it is freed");
}

#[tokio::test]
async fn a_run_for_a_boot_is_no_finding_and_is_made_due_on_its_own_host() {
    let desk = Desk::new();
    desk.minutely("a").await;
    let name: JobName = "boot".parse().unwrap();
    desk.add_unplanned("boot", json!({"cron": "@reboot"})).await;
    desk.demand_sound("").await;
    let (host, run) = (Lane::of_host("h1"), RunId::manual(name, t(0), "boot1234").unwrap());
    desk.at(0).plant_reboot(&run, &host, "b1").await.unwrap();
    desk.demand_sound("").await;
    let of_slow_check = ConsistencyChecker::open(&desk.at(0), &BTreeSet::new())
        .await
        .unwrap()
        .look_at_runs(&[(run.clone(), None)])
        .await;
    assert_eq!(of_slow_check.unwrap(), []);
    desk.break_by("DEL", "due:@h1", &[]);
    desk.mend("missing:due", "boot").await;
    assert!(desk.score("due:@h1", &run.to_string()).is_some());
}

#[tokio::test]
async fn an_occurrence_with_its_own_end_is_taken_out_of_the_skipped_range() {
    let mut desk = Desk::new();
    let run = desk.minutely("a").await;
    desk.go_on_to(400_000);
    let order = SkipOrder {
        run: run.clone(),
        rev: desk.job("a").await.rev,
        lane: Lane::default_lane(),
        reason: "missed",
        last_due: run.due(),
        count: 5,
        successor: None,
    };
    let due = |minutes: u64| {
        RunId::regular(
            "a".parse().unwrap(),
            run.due().saturating_add(Duration::from_secs(60 * minutes)),
        )
    };
    let order = SkipOrder { last_due: due(4).due(), ..order };
    let next = Successor::on_time(run.job(), due(5).due());
    assert_eq!(
        desk.at(400_000).skip_run(&SkipOrder { successor: Some(next), ..order }).await.unwrap(),
        SkipReply::Skipped
    );
    desk.demand_sound("all of them were skipped").await;
    // Two of them have records, and nobody took them out: one in the middle, and the last.
    record_as_ended(&mut desk, &[due(2), due(4)]);
    let reported = desk.findings().await.iter().map(ToString::to_string).collect::<Vec<_>>();
    assert!(
        reported.len() == 1
            && reported[0].contains("a skipped range of 5 occurrences")
            && reported[0].contains("without a record of their own is 3"),
        "{reported:?}"
    );
    let mended = desk.mend("wrong:skipped_range", &run.to_string()).await;
    assert_eq!(mended[0].done, ["occurrences left in the skipped range: 3"]);
    assert_eq!(desk.run(&run).await.skipped, Some((due(3).due(), 3)));
    assert_eq!(desk.total("skipped"), 3);
}

#[tokio::test]
async fn an_occurrence_with_a_record_that_the_ledger_says_of_too_is_taken_out_of_that() {
    let mut desk = Desk::new();
    let run = desk.minutely("a").await;
    desk.go_on_to(400_000);
    let due = |minutes: u64| {
        RunId::regular(
            "a".parse().unwrap(),
            run.due().saturating_add(Duration::from_secs(60 * minutes)),
        )
    };
    let order = SkipOrder {
        run: run.clone(),
        rev: desk.job("a").await.rev,
        lane: Lane::default_lane(),
        reason: "missed",
        last_due: due(4).due(),
        count: 5,
        successor: Some(Successor::on_time(run.job(), due(5).due())),
    };
    assert_eq!(desk.at(400_000).skip_run(&order).await.unwrap(), SkipReply::Skipped);
    desk.at(400_000).forget_runs(None, t(400_001), 0).await.unwrap();
    desk.demand_sound("the ledger tells of them").await;
    // Two of them have records, and nobody took them out: one in the middle, and the last.
    record_as_ended(&mut desk, &[due(2), due(4)]);
    let reported = desk.findings().await.iter().map(ToString::to_string).collect::<Vec<_>>();
    assert!(
        reported.len() == 1
            && reported[0]
                .contains("a range of the ledger also counts the run (skipped, 5 occurrences"),
        "{reported:?}"
    );
    let mended = desk.mend("wrong:ledger", "a").await;
    assert_eq!(mended[0].done, ["occurrences removed from the ledger: 2"]);
    let left = desk.store.read_ledger(run.job()).await.unwrap().ranges;
    assert_eq!(
        (left.len(), left[0].from, left[0].to, left[0].count),
        (1, run.due(), due(3).due(), 3)
    );
    assert_eq!(desk.total("skipped"), 3);
}

#[tokio::test]
async fn an_occurrence_that_two_ranges_report_of_is_taken_out_of_the_wider() {
    let mut desk = Desk::new();
    let run = desk.minutely("a").await;
    desk.go_on_to(400_000);
    let due = |minutes: u64| run.due().saturating_add(Duration::from_secs(60 * minutes));
    let order = SkipOrder {
        run: run.clone(),
        rev: desk.job("a").await.rev,
        lane: Lane::default_lane(),
        reason: "missed",
        last_due: due(4),
        count: 5,
        successor: Some(Successor::on_time(run.job(), due(5))),
    };
    assert_eq!(desk.at(400_000).skip_run(&order).await.unwrap(), SkipReply::Skipped);
    desk.at(400_000).forget_runs(None, t(400_001), 0).await.unwrap();
    let at = due(2).as_i64().to_string();
    desk.break_by("ZADD", "ledger:a", &[&at, &format!("{at}:1:succeeded:")]);
    desk.break_by("HINCRBY", "counters", &["ledger_ranges", "1"]);
    let reported = desk.findings().await.iter().map(ToString::to_string).collect::<Vec<_>>();
    assert!(
        reported.len() == 1
            && reported[0].contains("has 6 occurrences in its ledger from ")
            && reported[0].contains("its schedule has 5 in that time;"),
        "{reported:?}"
    );
    let mended = desk.mend("wrong:ledger", "a").await;
    assert_eq!(mended[0].done, ["occurrences removed from the ledger: 1"]);
    let left: Vec<_> = desk
        .store
        .read_ledger(run.job())
        .await
        .unwrap()
        .ranges
        .iter()
        .map(|range| (range.from, range.to, range.count))
        .collect();
    assert_eq!(left, [(run.due(), due(4), 4), (due(2), due(2), 1)]);
    assert_eq!(desk.total("skipped"), 4);
}
