//! The rules of runs: each stands where its record says, and nowhere else.

use std::collections::BTreeSet;
use std::time::Duration;

use schedd::domain::consistency::ConsistencyRule;
use schedd::domain::name::names::{JobName, RunId};
use schedd::domain::queue::lane::Lane;
use schedd::engine::maintenance::consistency_check::Books;
use schedd::store::{SkipOrder, SkipReply, Successor, Verdict};
use serde_json::json;

use crate::doctor::desk::{Desk, demand};
use crate::scripts::world::t;

#[tokio::test]
async fn a_running_run_without_a_lease_gets_one_that_has_ended() {
    let mut desk = Desk::new();
    let run = desk.minutely("a").await;
    let claim = desk.win_due(&run).await;
    desk.break_by("DEL", "leases", &[]);
    desk.mend(ConsistencyRule::NoLease, &run.to_string()).await;
    assert_eq!(desk.score("leases", &format!("{run}#{}", claim.fence)), Some(desk.now()));
}

#[tokio::test]
async fn a_lease_of_a_run_that_does_not_execute_is_taken_out() {
    let mut desk = Desk::new();
    let run = desk.minutely("a").await;
    let claim = desk.win_due(&run).await;
    desk.succeed(desk.now(), &claim).await;
    desk.break_by("ZADD", "leases", &["5", &format!("{run}#{}", claim.fence)]);
    desk.mend(ConsistencyRule::StrayLease, &run.to_string()).await;
}

#[tokio::test]
async fn of_two_leases_of_a_run_the_earlier_is_taken_out() {
    let mut desk = Desk::new();
    let run = desk.minutely("a").await;
    let claim = desk.win_due(&run).await;
    let earlier = claim.fence.as_u64() - 1;
    desk.break_by("ZADD", "leases", &["5", &format!("{run}#{earlier}")]);
    desk.mend(ConsistencyRule::StrayLease, &run.to_string()).await;
    assert!(desk.score("leases", &format!("{run}#{}", claim.fence)).is_some());
}

#[tokio::test]
async fn an_ended_lease_without_a_record_goes_to_quarantine_and_a_living_one_stays() {
    let desk = Desk::new();
    desk.minutely("a").await;
    desk.break_by("ZADD", "leases", &["5", "a@5#7"]);
    desk.break_by("SET", "fence", &["7"]);
    desk.mend(ConsistencyRule::StrayLease, "a@5").await;
    assert_eq!(desk.get::<i64>("HLEN", "quarantine", &[]), 1);
    let end = t(60_000).as_i64().to_string();
    desk.break_by("ZADD", "leases", &[&end, "a@5#7"]);
    desk.leaves(ConsistencyRule::StrayLease, "a@5", "once it has ended").await;
}

#[tokio::test]
async fn what_is_due_although_it_is_over_is_no_longer_due() {
    let mut desk = Desk::new();
    let run = desk.done("a").await;
    desk.break_by("ZADD", "due:default", &["5", &run.to_string()]);
    desk.mend(ConsistencyRule::DueWrong, &run.to_string()).await;
}

#[tokio::test]
async fn a_run_due_in_two_queues_is_left_in_its_job_s() {
    let desk = Desk::new();
    let run = desk.minutely("a").await;
    desk.break_by("ZADD", "due:other", &[&run.due().as_i64().to_string(), &run.to_string()]);
    desk.mend(ConsistencyRule::DueTwice, &run.to_string()).await;
    assert!(desk.score("due:default", &run.to_string()).is_some());
}

#[tokio::test]
async fn a_due_run_of_a_job_nobody_knows_goes_to_quarantine() {
    let desk = Desk::new();
    desk.break_by("ZADD", "due:default", &[&t(60_000).as_i64().to_string(), "nobody@5"]);
    desk.mend(ConsistencyRule::DueUnknown, "nobody@5").await;
    assert_eq!(desk.get::<i64>("HLEN", "quarantine", &[]), 1);
}

#[tokio::test]
async fn a_due_run_nobody_planned_is_told_with_how_to_take_it_out() {
    let desk = Desk::new();
    desk.minutely("a").await;
    desk.break_by("ZADD", "due:default", &[&t(7).as_i64().to_string(), "a@5"]);
    desk.leaves(ConsistencyRule::DueUnknown, "a@5", "schedctl cancel a@5").await;
}

#[tokio::test]
async fn a_due_run_by_hand_that_nobody_asked_for_is_told_with_how_to_take_it_out() {
    let desk = Desk::new();
    desk.minutely("a").await;
    desk.by_hand("a", 0).await;
    desk.demand_sound("one was asked for").await;
    desk.break_by("ZADD", "due:default", &[&t(7).as_i64().to_string(), "a@5~forged"]);
    desk.leaves(ConsistencyRule::DueUnknown, "a@5~forged", "schedctl cancel a@5~forged").await;
}

#[tokio::test]
async fn a_run_to_be_tried_again_that_stands_nowhere_is_made_due() {
    let mut desk = Desk::new();
    let run = desk.minutely("a").await;
    let claim = desk.win_due(&run).await;
    desk.finish(desk.now(), &claim, Verdict::Retry(std::time::Duration::from_secs(5))).await;
    desk.break_by("ZREM", "due:default", &[&run.to_string()]);
    desk.mend(ConsistencyRule::Nowhere, &run.to_string()).await;
    assert_eq!(desk.score("due:default", &run.to_string()), Some(desk.now()));
}

#[tokio::test]
async fn an_open_entry_of_a_run_that_is_over_is_closed_and_what_waits_gets_its_turn() {
    let mut desk = Desk::new();
    let (claim, next) = desk.one_behind_another("a").await;
    desk.break_by("ZADD", "open:a", &["5", "a@5"]);
    desk.succeed(desk.now(), &claim).await;
    desk.mend(ConsistencyRule::OpenWrong, "a@5").await;
    assert!(desk.score("due:default", &next.to_string()).is_some(), "it is freed");
}

#[tokio::test]
async fn a_regular_run_that_executes_and_is_not_open_is_opened() {
    let mut desk = Desk::new();
    let run = desk.minutely("a").await;
    desk.win_due(&run).await;
    desk.break_by("DEL", "open:a", &[]);
    desk.mend(ConsistencyRule::OpenWrong, &run.to_string()).await;
}

#[tokio::test]
async fn a_manual_run_to_come_that_is_not_listed_is_listed() {
    let desk = Desk::new();
    desk.minutely("a").await;
    let run = RunId::manual("a".parse().unwrap(), t(desk.now()), "hand").unwrap();
    desk.at(desk.now()).plant_manual(&run, &Lane::default_lane()).await.unwrap();
    desk.break_by("DEL", "manual:a", &[]);
    desk.mend(ConsistencyRule::OpenWrong, &run.to_string()).await;
    desk.break_by("ZADD", "manual:a", &["5", "a@5~hand"]);
    desk.mend(ConsistencyRule::OpenWrong, "a@5~hand").await;
}

#[tokio::test]
async fn what_waits_and_is_over_or_due_waits_no_more() {
    let mut desk = Desk::new();
    let (claim, next) = desk.one_behind_another("a").await;
    desk.break_by("ZADD", "waiting:a", &["5", "a@5"]);
    desk.break_by("ZADD", "due:default", &["5", &next.to_string()]);
    let findings = desk.findings().await;
    demand(&findings, ConsistencyRule::WaitingWrong, "a@5");
    desk.mend(ConsistencyRule::WaitingWrong, &next.to_string()).await;
    desk.succeed(desk.now(), &claim).await;
}

#[tokio::test]
async fn a_spread_run_that_is_not_due_is_no_longer_spread() {
    let desk = Desk::new();
    desk.minutely("a").await;
    desk.break_by("ZADD", "spread:a", &["5", "a@5"]);
    desk.mend(ConsistencyRule::SpreadWrong, "a@5").await;
}

#[tokio::test]
async fn a_record_that_cannot_be_read_is_told_with_what_to_do_and_left() {
    let mut desk = Desk::new();
    let run = desk.done("a").await;
    desk.break_by("HSET", &format!("run:{run}"), &["state", "of_tomorrow"]);
    desk.leaves(ConsistencyRule::Record, &run.to_string(), "--set-aside").await;
}

#[tokio::test]
async fn a_running_record_without_a_fence_is_told_and_left() {
    let mut desk = Desk::new();
    let run = desk.minutely("a").await;
    desk.win_due(&run).await;
    desk.break_by("HDEL", &format!("run:{run}"), &["fence"]);
    desk.break_by("DEL", "leases", &[]);
    desk.leaves(ConsistencyRule::NoLease, &run.to_string(), "--set-aside").await;
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
    let of_slow_check = Books::open(&desk.at(0), &BTreeSet::new()).await.unwrap().look_at_runs(&[(run.clone(), None)]).await;
    assert_eq!(of_slow_check.unwrap(), []);
    desk.break_by("DEL", "due:@h1", &[]);
    desk.mend(ConsistencyRule::Nowhere, "boot").await;
    assert!(desk.score("due:@h1", &run.to_string()).is_some());
}

#[tokio::test]
async fn a_run_that_executes_is_counted_in_its_queue_and_what_does_not_is_not() {
    let mut desk = Desk::new();
    let run = desk.minutely("a").await;
    let claim = desk.win_due(&run).await;
    desk.break_by("ZREM", "running:default", &[&run.to_string()]);
    desk.mend(ConsistencyRule::RunningWrong, &run.to_string()).await;
    desk.break_by("ZADD", "running:other", &["5", &run.to_string()]);
    desk.break_by("HSET", "queues", &["other", "32"]);
    desk.mend(ConsistencyRule::RunningWrong, &run.to_string()).await;
    desk.succeed(desk.now(), &claim).await;
    for gone in [run.to_string(), "a@5".to_owned(), "nobody@5".to_owned()] {
        desk.break_by("ZADD", "running:default", &["5", &gone]);
        desk.mend(ConsistencyRule::RunningWrong, &gone).await;
    }
}

#[tokio::test]
async fn an_occurrence_with_its_own_end_is_taken_out_of_the_skipped_stretch() {
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
    let due = |minutes: u64| RunId::regular("a".parse().unwrap(), run.due().saturating_add(Duration::from_secs(60 * minutes)));
    let order = SkipOrder { last_due: due(4).due(), ..order };
    let next = Successor::on_time(run.job(), due(5).due());
    assert_eq!(desk.at(400_000).skip_run(&SkipOrder { successor: Some(next), ..order }).await.unwrap(), SkipReply::Skipped);
    desk.demand_sound("all of them were skipped").await;
    // Two of them have records, and nobody took them out: one in the middle, and the last.
    for minutes in [2, 4] {
        let (at, id) = (t(400_000).as_i64().to_string(), due(minutes).to_string());
        let facts = ["state", "succeeded", "job", "a", "finished_at", &at, "kind", "regular", "queue", "default"];
        desk.break_by("HSET", &format!("run:{id}"), &facts);
        desk.break_by("ZADD", "history", &[&at, &id]);
        desk.break_by("ZADD", "history:a", &[&at, &id]);
    }
    let told = desk.findings().await.iter().map(ToString::to_string).collect::<Vec<_>>();
    assert!(told.len() == 1 && told[0].contains("counts 5 occurrences") && told[0].contains("only 3 of them"), "{told:?}");
    let mended = desk.mend(ConsistencyRule::StretchWrong, &run.to_string()).await;
    assert_eq!(mended[0].done, ["it counts 3 now"]);
    assert_eq!(desk.run(&run).await.skipped, Some((due(3).due(), 3)));
    assert_eq!(desk.total("skipped"), 3);
}

#[tokio::test]
async fn an_occurrence_with_a_record_that_the_ledger_tells_of_too_is_taken_out_of_that() {
    let mut desk = Desk::new();
    let run = desk.minutely("a").await;
    desk.go_on_to(400_000);
    let due = |minutes: u64| RunId::regular("a".parse().unwrap(), run.due().saturating_add(Duration::from_secs(60 * minutes)));
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
    for minutes in [2, 4] {
        let (at, id) = (t(400_000).as_i64().to_string(), due(minutes).to_string());
        let facts = ["state", "succeeded", "job", "a", "finished_at", &at, "kind", "regular", "queue", "default"];
        desk.break_by("HSET", &format!("run:{id}"), &facts);
        desk.break_by("ZADD", "history", &[&at, &id]);
        desk.break_by("ZADD", "history:a", &[&at, &id]);
    }
    let told = desk.findings().await.iter().map(ToString::to_string).collect::<Vec<_>>();
    assert!(told.len() == 1 && told[0].contains("has a record, and the ledger counts it too, in 5 skipped from"), "{told:?}");
    let mended = desk.mend(ConsistencyRule::LedgerWrong, "a").await;
    assert_eq!(mended[0].done, ["its ledger counts 2 less now"]);
    let left = desk.store.read_ledger(run.job()).await.unwrap().ranges;
    assert_eq!((left.len(), left[0].from, left[0].to, left[0].count), (1, run.due(), due(3).due(), 3));
    assert_eq!(desk.total("skipped"), 3);
}

#[tokio::test]
async fn an_occurrence_that_two_ranges_tell_of_is_taken_out_of_the_wider() {
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
    desk.break_by("HINCRBY", "totals", &["ledger_ranges", "1"]);
    let told = desk.findings().await.iter().map(ToString::to_string).collect::<Vec<_>>();
    assert!(
        told.len() == 1 && told[0].contains("its schedule has 5 occurrences, and its records and its ledger count 6"),
        "{told:?}"
    );
    let mended = desk.mend(ConsistencyRule::LedgerWrong, "a").await;
    assert_eq!(mended[0].done, ["its ledger counts 1 less now"]);
    let left: Vec<_> =
        desk.store.read_ledger(run.job()).await.unwrap().ranges.iter().map(|range| (range.from, range.to, range.count)).collect();
    assert_eq!(left, [(run.due(), due(4), 4), (due(2), due(2), 1)]);
    assert_eq!(desk.total("skipped"), 4);
}
