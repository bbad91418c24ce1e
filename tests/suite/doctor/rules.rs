//! Each rule of the books, broken by hand: it is told, and mended or told how.

use std::collections::BTreeSet;

use schedd::domain::books::Rule;
use schedd::domain::ids::{JobName, QueueName, RunId};
use schedd::domain::run::RunState;
use schedd::engine::backfilling;
use schedd::engine::books::Books;
use schedd::store::{OutputFrames, Stream, Verdict};
use serde_json::json;

use super::desk::{Desk, demand};
use crate::scripts::world::t;

#[tokio::test]
async fn books_nobody_broke_agree_also_in_the_midst_of_work() {
    let mut desk = Desk::new();
    assert!(desk.findings().await.is_empty());
    let run = desk.minutely("a").await;
    desk.add("once", json!({"at": t(3_600_000).to_string()})).await;
    desk.win_due(&run).await;
    let next = desk.pending("a").await;
    desk.wait_due(&next).await;
    desk.by_hand("a", desk.now()).await;
    assert!(desk.findings().await.is_empty(), "{:#?}", desk.findings().await);
}

#[tokio::test]
async fn a_recurring_job_without_a_planned_run_gets_the_first_after_now() {
    let desk = Desk::new();
    let run = desk.minutely("a").await;
    desk.break_by("ZREM", "due:default", &[&run.to_string()]);
    desk.break_by("HSET", "job:a", &["pending", ""]);
    desk.mend(Rule::Unplanned, "job a").await;
    assert_eq!(desk.pending("a").await, run);
}

#[tokio::test]
async fn a_job_with_a_delay_is_in_order_while_it_rests_runs_and_is_paused() {
    let mut desk = Desk::new();
    let run = desk.add("a", json!({"delay": "1m"})).await;
    assert!(desk.findings().await.is_empty(), "{:#?}", desk.findings().await);
    desk.go_on_to(60_000);
    let claim = desk.win(60_000, &run).await;
    assert_eq!(desk.job("a").await.pending, None);
    assert!(desk.findings().await.is_empty(), "it runs: {:#?}", desk.findings().await);
    desk.at(60_001).pause_job(&desk.job("a").await).await.unwrap();
    assert!(desk.findings().await.is_empty(), "it runs and is paused: {:#?}", desk.findings().await);
    desk.succeed(60_002, &claim).await;
    assert!(desk.findings().await.is_empty(), "it is paused: {:#?}", desk.findings().await);
}

#[tokio::test]
async fn a_job_with_a_delay_that_is_planned_nowhere_is_planted_its_delay_from_now() {
    let desk = Desk::new();
    let run = desk.add("a", json!({"delay": "1m"})).await;
    desk.break_by("ZREM", "due:default", &[&run.to_string()]);
    desk.break_by("HSET", "job:a", &["pending", ""]);
    desk.mend(Rule::Unplanned, "job a").await;
    assert_eq!(desk.pending("a").await.due(), t(desk.now() + 60_000));
}

#[tokio::test]
async fn a_planned_run_of_a_job_with_a_delay_that_was_executed_is_followed_by_one_and_an_open_one_by_none() {
    for is_over in [true, false] {
        let mut desk = Desk::new();
        let run = desk.add("a", json!({"delay": "1m"})).await;
        desk.go_on_to(60_000);
        let claim = desk.win(60_000, &run).await;
        if is_over {
            desk.succeed(60_000, &claim).await;
            desk.go_on_to(60_500);
            let next = desk.pending("a").await;
            desk.break_by("ZREM", "due:default", &[&next.to_string()]);
        }
        desk.break_by("HSET", "job:a", &["pending", &run.to_string()]);
        desk.mend(Rule::PlannedOver, "job a").await;
        let planted = desk.job("a").await.pending.map(|run| run.due());
        assert_eq!(planted, is_over.then(|| t(desk.now() + 60_000)));
    }
}

#[tokio::test]
async fn jobs_whose_runs_are_used_up_or_come_only_at_a_boot_are_in_order() {
    let mut desk = Desk::new();
    desk.go_on_to(60_000);
    for (job, keys) in [("a", json!({"every": "1m", "max_runs": 1})), ("b", json!({"delay": "1m", "max_runs": 1}))] {
        let run = desk.add(job, keys).await;
        let order = schedd::store::ClaimOrder { max_runs: Some(1), ..desk.order(&run).await };
        let claim = crate::scripts::world::World::won(desk.claim(60_000, &order).await);
        assert!(desk.findings().await.is_empty(), "{job} runs: {:#?}", desk.findings().await);
        desk.succeed(60_001, &claim).await;
        assert_eq!(desk.job(job).await.pending, None);
    }
    desk.add_unplanned("c", json!({"cron": "@reboot"})).await;
    assert!(desk.findings().await.is_empty(), "{:#?}", desk.findings().await);
    desk.break_by("HSET", "job:a", &["pending", "a@5"]);
    desk.break_by("HSET", &format!("run:{}", "a@5"), &["state", "succeeded"]);
    desk.mend(Rule::PlannedOver, "job a").await;
    assert_eq!(desk.job("a").await.pending, None, "nothing more is planted");
}

#[tokio::test]
async fn a_planned_run_that_is_not_due_is_made_due_at_its_own_time() {
    let desk = Desk::new();
    let run = desk.minutely("a").await;
    desk.break_by("ZREM", "due:default", &[&run.to_string()]);
    desk.mend(Rule::NotDue, "job a").await;
    assert_eq!(desk.score("due:default", &run.to_string()), Some(run.due().as_i64() - t(0).as_i64()));
}

#[tokio::test]
async fn a_planned_run_in_another_queue_than_its_job_s_is_brought_back() {
    let desk = Desk::new();
    let run = desk.minutely("a").await;
    desk.break_by("RENAME", "due:default", &[&desk.key("due:other")]);
    desk.mend(Rule::NotDue, "job a").await;
    assert_eq!(desk.score("due:other", &run.to_string()), None);
}

#[tokio::test]
async fn a_planned_run_that_was_executed_is_followed_by_the_next() {
    let mut desk = Desk::new();
    let run = desk.minutely("a").await;
    let claim = desk.win_due(&run).await;
    desk.succeed(desk.now(), &claim).await;
    let next = desk.pending("a").await;
    desk.break_by("ZREM", "due:default", &[&next.to_string()]);
    desk.break_by("HSET", "job:a", &["pending", &run.to_string()]);
    desk.mend(Rule::PlannedOver, "job a").await;
    assert_eq!(desk.pending("a").await, next);
}

#[tokio::test]
async fn a_one_shot_without_its_run_gets_it_and_one_that_has_run_is_ended() {
    let desk = Desk::new();
    let run = desk.add("once", json!({"at": t(60_000).to_string()})).await;
    desk.break_by("ZREM", "due:default", &[&run.to_string()]);
    desk.break_by("HSET", "job:once", &["pending", ""]);
    desk.mend(Rule::Unplanned, "job once").await;
    assert_eq!(desk.pending("once").await, run);

    let desk = Desk::new();
    let run = desk.add("once", json!({"at": t(60_000).to_string()})).await;
    let claim = desk.win(60_000, &run).await;
    desk.succeed(60_000, &claim).await;
    desk.break_by("HDEL", "job:once", &["ended", "ended_at"]);
    desk.break_by("HSET", "job:once", &["pending", ""]);
    desk.break_by("ZREM", "finished", &["once"]);
    desk.mend(Rule::Unplanned, "job once").await;
    assert_eq!(desk.job("once").await.ended.as_deref(), Some("finished"));
}

#[tokio::test]
async fn a_paused_job_with_a_planned_run_holds_it() {
    let desk = Desk::new();
    let run = desk.minutely("a").await;
    desk.break_by("HSET", "job:a", &["paused", "5"]);
    desk.mend(Rule::PausedPlanned, "job a").await;
    assert_eq!((desk.job("a").await.held, desk.indexed("a")), (Some(run), None));
}

#[tokio::test]
async fn a_job_that_is_over_with_something_planned_has_it_no_more() {
    let desk = Desk::new();
    let run = desk.minutely("a").await;
    desk.break_by("HSET", "job:a", &["ended", "cancelled", "ended_at", "5"]);
    desk.mend(Rule::EndedWrong, "job a").await;
    assert_eq!(desk.score("due:default", &run.to_string()), None);
}

#[tokio::test]
async fn an_index_that_is_wrong_of_a_job_is_set_right() {
    for (command, args) in [("ZADD", &["5", "a"][..]), ("ZREM", &["a"][..])] {
        let desk = Desk::new();
        let run = desk.minutely("a").await;
        desk.break_by(command, "jobs", args);
        desk.mend(Rule::JobIndex, "job a").await;
        assert_eq!(desk.indexed("a"), Some(run.due().as_i64() - t(0).as_i64()));
    }
}

#[tokio::test]
async fn an_index_that_names_a_job_nobody_defined_is_rid_of_it() {
    let desk = Desk::new();
    desk.break_by("ZADD", "jobs", &["5", "nobody"]);
    desk.break_by("ZADD", "finished", &["5", "nobody"]);
    desk.mend(Rule::UnknownJob, "job nobody").await;
}

#[tokio::test]
async fn a_run_that_waits_for_nothing_gets_its_turn() {
    let mut desk = Desk::new();
    let run = desk.minutely("a").await;
    let claim = desk.win_due(&run).await;
    let next = desk.pending("a").await;
    desk.wait_due(&next).await;
    // As if the end of the open one had freed nobody.
    desk.break_by("ZREM", "waiting:a", &[&next.to_string()]);
    desk.break_by("HSET", "totals", &["waiting", "0"]);
    desk.succeed(desk.now(), &claim).await;
    desk.break_by("ZADD", "waiting:a", &[&next.due().as_i64().to_string(), &next.to_string()]);
    desk.break_by("HSET", "totals", &["waiting", "1"]);
    desk.mend(Rule::Blocked, "job a").await;
    assert!(desk.score("due:default", &next.to_string()).is_some());
}

#[tokio::test]
async fn what_waits_behind_a_run_asked_for_by_hand_is_not_blocked() {
    let mut desk = Desk::new();
    let run = desk.minutely("a").await;
    let claim = desk.win_due(&run).await;
    let next = desk.pending("a").await;
    desk.wait_due(&next).await;
    desk.break_by("ZREM", "open:a", &[&run.to_string()]);
    desk.by_hand("a", desk.now()).await;
    let findings = desk.findings().await;
    assert!(!findings.iter().any(|finding| finding.rule == Rule::Blocked), "{findings:#?}");
    desk.succeed(desk.now(), &claim).await;
}

#[tokio::test]
async fn a_definition_that_cannot_be_read_is_told_with_what_to_do_and_left() {
    for (definition, word) in
        [("{\"every\":", "--set-aside a"), (r#"{"every":"1m","shell":"true","of_tomorrow":1}"#, "update schedd")]
    {
        let desk = Desk::new();
        desk.minutely("a").await;
        desk.break_by("HSET", "job:a", &["def", definition]);
        desk.leaves(Rule::Definition, "job a", word).await;
    }
}

#[tokio::test]
async fn a_running_run_without_a_lease_gets_one_that_has_ended() {
    let mut desk = Desk::new();
    let run = desk.minutely("a").await;
    let claim = desk.win_due(&run).await;
    desk.break_by("DEL", "leases", &[]);
    desk.mend(Rule::NoLease, &run.to_string()).await;
    assert_eq!(desk.score("leases", &format!("{run}#{}", claim.fence)), Some(desk.now()));
}

#[tokio::test]
async fn a_lease_of_a_run_that_does_not_execute_is_taken_out() {
    let mut desk = Desk::new();
    let run = desk.minutely("a").await;
    let claim = desk.win_due(&run).await;
    desk.succeed(desk.now(), &claim).await;
    desk.break_by("ZADD", "leases", &["5", &format!("{run}#{}", claim.fence)]);
    desk.mend(Rule::StrayLease, &run.to_string()).await;
}

#[tokio::test]
async fn of_two_leases_of_a_run_the_earlier_is_taken_out() {
    let mut desk = Desk::new();
    let run = desk.minutely("a").await;
    let claim = desk.win_due(&run).await;
    let earlier = claim.fence.as_u64() - 1;
    desk.break_by("ZADD", "leases", &["5", &format!("{run}#{earlier}")]);
    desk.mend(Rule::StrayLease, &run.to_string()).await;
    assert!(desk.score("leases", &format!("{run}#{}", claim.fence)).is_some());
}

#[tokio::test]
async fn an_ended_lease_without_a_record_goes_to_quarantine_and_a_living_one_stays() {
    let desk = Desk::new();
    desk.minutely("a").await;
    desk.break_by("ZADD", "leases", &["5", "a@5#7"]);
    desk.break_by("SET", "fence", &["7"]);
    desk.mend(Rule::StrayLease, "a@5").await;
    assert_eq!(desk.get::<i64>("HLEN", "quarantine", &[]), 1);
    let end = t(60_000).as_i64().to_string();
    desk.break_by("ZADD", "leases", &[&end, "a@5#7"]);
    desk.leaves(Rule::StrayLease, "a@5", "once it has ended").await;
}

#[tokio::test]
async fn what_is_due_although_it_is_over_is_no_longer_due() {
    let mut desk = Desk::new();
    let run = desk.minutely("a").await;
    let claim = desk.win_due(&run).await;
    desk.succeed(desk.now(), &claim).await;
    desk.break_by("ZADD", "due:default", &["5", &run.to_string()]);
    desk.mend(Rule::DueWrong, &run.to_string()).await;
}

#[tokio::test]
async fn a_run_due_in_two_queues_is_left_in_its_job_s() {
    let desk = Desk::new();
    let run = desk.minutely("a").await;
    desk.break_by("ZADD", "due:other", &[&run.due().as_i64().to_string(), &run.to_string()]);
    desk.mend(Rule::DueTwice, &run.to_string()).await;
    assert!(desk.score("due:default", &run.to_string()).is_some());
}

#[tokio::test]
async fn a_due_run_of_a_job_nobody_knows_goes_to_quarantine() {
    let desk = Desk::new();
    desk.break_by("ZADD", "due:default", &[&t(60_000).as_i64().to_string(), "nobody@5"]);
    desk.mend(Rule::DueUnknown, "nobody@5").await;
    assert_eq!(desk.get::<i64>("HLEN", "quarantine", &[]), 1);
}

#[tokio::test]
async fn a_due_run_nobody_planned_is_told_with_how_to_take_it_out() {
    let desk = Desk::new();
    desk.minutely("a").await;
    desk.break_by("ZADD", "due:default", &[&t(7).as_i64().to_string(), "a@5"]);
    desk.leaves(Rule::DueUnknown, "a@5", "schedctl cancel a@5").await;
}

#[tokio::test]
async fn a_run_to_be_tried_again_that_stands_nowhere_is_made_due() {
    let mut desk = Desk::new();
    let run = desk.minutely("a").await;
    let claim = desk.win_due(&run).await;
    desk.finish(desk.now(), &claim, Verdict::Retry(std::time::Duration::from_secs(5))).await;
    desk.break_by("ZREM", "due:default", &[&run.to_string()]);
    desk.mend(Rule::Nowhere, &run.to_string()).await;
    assert_eq!(desk.score("due:default", &run.to_string()), Some(desk.now()));
}

#[tokio::test]
async fn an_open_entry_of_a_run_that_is_over_is_closed_and_what_waits_gets_its_turn() {
    let mut desk = Desk::new();
    let run = desk.minutely("a").await;
    let claim = desk.win_due(&run).await;
    let next = desk.pending("a").await;
    desk.wait_due(&next).await;
    desk.break_by("ZADD", "open:a", &["5", "a@5"]);
    desk.succeed(desk.now(), &claim).await;
    desk.mend(Rule::OpenWrong, "a@5").await;
    assert!(desk.score("due:default", &next.to_string()).is_some(), "it is freed");
}

#[tokio::test]
async fn a_regular_run_that_executes_and_is_not_open_is_opened() {
    let mut desk = Desk::new();
    let run = desk.minutely("a").await;
    desk.win_due(&run).await;
    desk.break_by("DEL", "open:a", &[]);
    desk.mend(Rule::OpenWrong, &run.to_string()).await;
}

#[tokio::test]
async fn what_waits_and_is_over_or_due_waits_no_more() {
    let mut desk = Desk::new();
    let run = desk.minutely("a").await;
    let claim = desk.win_due(&run).await;
    let next = desk.pending("a").await;
    desk.wait_due(&next).await;
    desk.break_by("ZADD", "waiting:a", &["5", "a@5"]);
    desk.break_by("ZADD", "due:default", &["5", &next.to_string()]);
    let findings = desk.findings().await;
    demand(&findings, Rule::WaitingWrong, "a@5");
    desk.mend(Rule::WaitingWrong, &next.to_string()).await;
    desk.succeed(desk.now(), &claim).await;
}

#[tokio::test]
async fn a_spread_run_that_is_not_due_is_no_longer_spread() {
    let desk = Desk::new();
    desk.minutely("a").await;
    desk.break_by("ZADD", "spread:a", &["5", "a@5"]);
    desk.mend(Rule::SpreadWrong, "a@5").await;
}

#[tokio::test]
async fn a_wish_to_stop_a_run_that_is_over_is_taken_out() {
    let mut desk = Desk::new();
    let run = desk.minutely("a").await;
    let claim = desk.win_due(&run).await;
    desk.succeed(desk.now(), &claim).await;
    desk.break_by("HSET", "stops", &[&run.to_string(), "by hand"]);
    desk.break_by("HSET", "stops", &["a@5", "by hand"]);
    desk.mend(Rule::StopWrong, &run.to_string()).await;
    assert_eq!(desk.get::<i64>("EXISTS", "stops", &[]), 0);
}

#[tokio::test]
async fn history_and_records_are_made_to_name_each_other() {
    let mut desk = Desk::new();
    let run = desk.minutely("a").await;
    let claim = desk.win_due(&run).await;
    desk.succeed(desk.now(), &claim).await;
    desk.break_by("ZREM", "history", &[&run.to_string()]);
    desk.mend(Rule::HistoryWrong, &run.to_string()).await;
    for index in ["history", "history:a"] {
        desk.break_by("ZADD", index, &["5", "a@5"]);
    }
    desk.mend(Rule::HistoryWrong, "a@5").await;
}

#[tokio::test]
async fn dead_letters_and_their_lists_are_made_to_agree() {
    let mut desk = Desk::new();
    let run = desk.minutely("a").await;
    let claim = desk.win_due(&run).await;
    desk.finish(desk.now(), &claim, Verdict::Final(RunState::Failed)).await;
    desk.break_by("DEL", "dead:a", &[]);
    desk.mend(Rule::DeadWrong, &run.to_string()).await;
    desk.break_by("ZADD", "dead", &["5", "a@5"]);
    desk.mend(Rule::DeadWrong, "a@5").await;
}

#[tokio::test]
async fn a_record_that_cannot_be_read_is_told_with_what_to_do_and_left() {
    let mut desk = Desk::new();
    let run = desk.minutely("a").await;
    let claim = desk.win_due(&run).await;
    desk.succeed(desk.now(), &claim).await;
    desk.break_by("HSET", &format!("run:{run}"), &["state", "of_tomorrow"]);
    desk.leaves(Rule::Record, &run.to_string(), "--set-aside").await;
}

#[tokio::test]
async fn a_running_record_without_a_fence_is_told_and_left() {
    let mut desk = Desk::new();
    let run = desk.minutely("a").await;
    desk.win_due(&run).await;
    desk.break_by("HDEL", &format!("run:{run}"), &["fence"]);
    desk.break_by("DEL", "leases", &[]);
    desk.leaves(Rule::NoLease, &run.to_string(), "--set-aside").await;
}

#[tokio::test]
async fn counters_are_set_to_what_they_count() {
    let mut desk = Desk::new();
    let run = desk.minutely("a").await;
    let claim = desk.win_due(&run).await;
    let mut frames = OutputFrames::new(0);
    frames.push_head(Stream::Stdout, b"hello");
    desk.at(desk.now()).write_output(&claim, &frames).await.unwrap();
    assert!(desk.findings().await.is_empty());
    for (bytes, waiting) in [("7", "3"), ("spoilt", "-1"), ("0", "x")] {
        desk.break_by("SET", "output_bytes", &[bytes]);
        desk.break_by("HSET", "totals", &["waiting", waiting]);
        desk.mend(Rule::Count, "output_bytes").await;
        assert_eq!(desk.get::<String>("GET", "output_bytes", &[]), "10");
        assert_eq!(desk.total("waiting"), 0);
    }
    // A counter may hold what is no text at all.
    let spoilt = redis::cmd("SET").arg(desk.key("output_bytes")).arg(b"\xff\xfe\x00").exec(&mut desk.redis.connection());
    spoilt.unwrap();
    desk.mend(Rule::Count, "output_bytes").await;
}

#[tokio::test]
async fn a_fence_below_one_in_use_is_raised() {
    let mut desk = Desk::new();
    let run = desk.minutely("a").await;
    let claim = desk.win_due(&run).await;
    for (command, args) in [("SET", &["5"][..]), ("SET", &["x"][..]), ("DEL", &[][..])] {
        desk.break_by(command, "fence", args);
        desk.mend(Rule::Fence, "fence").await;
        assert_eq!(desk.get::<u64>("GET", "fence", &[]), claim.fence.as_u64());
    }
}

#[tokio::test]
async fn outputs_and_their_index_are_made_to_agree() {
    let desk = Desk::new();
    desk.minutely("a").await;
    desk.break_by("ZADD", "outputs", &["5", "a@5#1"]);
    desk.mend(Rule::OutputWrong, "outputs").await;
    desk.break_by("HSET", "output:a@7#1", &["head", "x", "size", "1"]);
    desk.break_by("SET", "output_bytes", &["1"]);
    desk.mend(Rule::OutputWrong, "outputs").await;
    assert_eq!(desk.get::<i64>("ZCARD", "outputs", &[]), 1);
}

#[tokio::test]
async fn the_index_of_a_job_s_outputs_is_made_to_agree() {
    let mut desk = Desk::new();
    let run = desk.minutely("a").await;
    let claim = desk.win_due(&run).await;
    let mut frames = OutputFrames::new(0);
    frames.push_head(Stream::Stdout, b"hello");
    desk.at(desk.now()).write_output(&claim, &frames).await.unwrap();
    let member = format!("{run}#1");
    desk.break_by("DEL", "outputs:a", &[]);
    desk.mend(Rule::OutputWrong, "outputs").await;
    assert!(desk.score("outputs:a", &member).is_some());
    desk.break_by("ZADD", "outputs:a", &["5", "a@5#1"]);
    desk.mend(Rule::OutputWrong, "outputs").await;
    assert_eq!(desk.get::<i64>("ZCARD", "outputs:a", &[]), 1);
    desk.break_by("ZADD", "outputs:a", &["5", "b@5#1"]);
    desk.mend(Rule::Entry, "outputs:a").await;
}

#[tokio::test]
async fn the_bytes_of_output_of_each_job_and_the_ranges_of_ledgers_are_counted() {
    let mut desk = Desk::new();
    let run = desk.minutely("a").await;
    let claim = desk.win_due(&run).await;
    let mut frames = OutputFrames::new(0);
    frames.push_head(Stream::Stdout, b"hello");
    desk.at(desk.now()).write_output(&claim, &frames).await.unwrap();
    let kept: u64 = desk.get("HGET", "output_sizes", &["a"]);
    for (command, args) in [("HSET", &["a", "1"][..]), ("HSET", &["a", "x"][..]), ("HDEL", &["a"][..]), ("HSET", &["b", "7"][..])]
    {
        desk.break_by(command, "output_sizes", args);
        desk.mend(Rule::Count, "output_sizes").await;
        assert_eq!(desk.get::<Vec<(String, u64)>>("HGETALL", "output_sizes", &[]), [("a".to_owned(), kept)]);
    }
    desk.succeed(desk.now(), &claim).await;
    desk.at(desk.now()).forget_runs(None, t(0), 0).await.unwrap();
    for said in ["5", "x", ""] {
        desk.break_by("HSET", "totals", &["ledger_ranges", said]);
        desk.mend(Rule::Count, "totals").await;
        assert_eq!(desk.total("ledger_ranges"), 1);
    }
}

#[tokio::test]
async fn the_list_of_backfills_is_made_to_name_the_jobs_that_have_some() {
    let desk = Desk::new();
    desk.minutely("a").await;
    let runs = [RunId::backfill("a".parse().unwrap(), t(-60_000)), RunId::backfill("a".parse().unwrap(), t(-120_000))];
    desk.at(0).queue_backfill(&"a".parse().unwrap(), &runs).await.unwrap();
    backfilling::advance(&desk.at(0), &"a".parse().unwrap()).await.unwrap();
    assert!(desk.findings().await.is_empty(), "{:#?}", desk.findings().await);
    desk.break_by("DEL", "backfills", &[]);
    desk.mend(Rule::BackfillWrong, "job a").await;
    assert_eq!(desk.get::<Vec<String>>("ZRANGE", "backfills", &["0", "-1"]), ["a"]);
    desk.break_by("DEL", "backfill:a", &[]);
    desk.mend(Rule::BackfillWrong, "job a").await;
    desk.break_by("ZADD", "backfills", &["5", "nobody"]);
    desk.mend(Rule::BackfillWrong, "job nobody").await;
    assert_eq!(desk.get::<i64>("ZCARD", "backfills", &[]), 0);
}

#[tokio::test]
async fn a_run_for_a_boot_is_no_finding_and_is_made_due_on_its_own_host() {
    let desk = Desk::new();
    desk.minutely("a").await;
    let name: JobName = "boot".parse().unwrap();
    desk.add_unplanned("boot", json!({"cron": "@reboot"})).await;
    assert!(desk.findings().await.is_empty(), "{:#?}", desk.findings().await);
    let (host, run) = (QueueName::of_host("h1"), RunId::manual(name, t(0), "boot1234").unwrap());
    desk.at(0).plant_reboot(&run, &host, "b1").await.unwrap();
    assert!(desk.findings().await.is_empty(), "{:#?}", desk.findings().await);
    let of_slow_check = Books::open(&desk.at(0), &BTreeSet::new()).await.unwrap().look_at_runs(&[(run.clone(), None)]).await;
    assert_eq!(of_slow_check.unwrap(), []);
    desk.break_by("DEL", "due:@h1", &[]);
    desk.mend(Rule::Nowhere, "boot").await;
    assert!(desk.score("due:@h1", &run.to_string()).is_some());
}

#[tokio::test]
async fn a_key_nobody_knows_is_told_and_left_and_one_that_expires_stays() {
    let desk = Desk::new();
    desk.break_by("SET", "of_another", &["x"]);
    desk.leaves(Rule::UnknownKey, "of_another", "DEL").await;
    desk.break_by("DEL", "of_another", &[]);
    desk.minutely("a").await;
    desk.break_by("EXPIRE", "job:a", &["1000"]);
    desk.mend(Rule::Expires, "job:a").await;
    assert_eq!(desk.get::<i64>("TTL", "job:a", &[]), -1);
}

#[tokio::test]
async fn a_key_that_holds_something_else_goes_to_quarantine_and_is_made_anew() {
    for key in
        ["jobs", "leases", "due:default", "history", "dead", "stops", "totals", "quarantine", "open:a", "output_bytes", "audit"]
    {
        let mut desk = Desk::new();
        let run = desk.minutely("a").await;
        desk.break_by("DEL", key, &[]);
        desk.break_by("RPUSH", key, &["not ours"]);
        desk.mend(Rule::WrongType, key).await;
        let aside: Vec<String> = desk.snapshot().into_keys().filter(|found| found.contains(":quarantined:")).collect();
        assert_eq!(aside.len(), 1, "{key}");
        let claim = desk.win_due(&run).await;
        desk.succeed(desk.now(), &claim).await;
        assert!(desk.findings().await.is_empty(), "{key}");
    }
}

#[tokio::test]
async fn entries_that_cannot_stand_where_they_do_go_to_quarantine() {
    for (set, score, member) in [
        ("due:default", "inf", "a@5"),
        ("due:default", "-5", "a@5"),
        ("due:default", "5", "garbage"),
        ("leases", "5", "a@5"),
        ("history", "5", "garbage"),
        ("open:a", "5", "b@5"),
        ("waiting:a", "5", ""),
        ("jobs", "5", "No Name"),
        ("backfills", "5", "No Name"),
        ("backfill:a", "5", "a@5"),
        ("backfill:a", "inf", "a@5~backfill"),
        ("outputs", "5", "garbage"),
        ("nodes", "5", "No Node"),
        ("nodes", "inf", "one"),
        ("noted_nodes", "5", "No Node"),
        ("boots", "5", "garbage"),
        ("boot_runs", "5", "a @host"),
        ("ledger:a", "5", "garbage"),
        ("deeds:a", "5", "garbage"),
        ("events:one", "5", "{\"what\":"),
        ("losses", "5", "garbage"),
    ] {
        let desk = Desk::new();
        desk.minutely("a").await;
        desk.break_by("ZADD", set, &[score, member]);
        desk.mend(Rule::Entry, set).await;
        assert_eq!(desk.get::<Vec<String>>("HKEYS", "quarantine", &[]), [member], "{set}");
    }
}

#[tokio::test]
async fn a_planned_run_with_a_score_no_instant_has_is_planted_anew_at_its_own_time() {
    let desk = Desk::new();
    let run = desk.minutely("a").await;
    desk.break_by("ZADD", "due:default", &["inf", &run.to_string()]);
    desk.mend(Rule::Entry, "due:default").await;
    assert_eq!(desk.score("due:default", &run.to_string()), Some(run.due().as_i64() - t(0).as_i64()));
}

#[tokio::test]
async fn a_run_that_executes_is_counted_in_its_queue_and_what_does_not_is_not() {
    let mut desk = Desk::new();
    let run = desk.minutely("a").await;
    let claim = desk.win_due(&run).await;
    desk.break_by("ZREM", "running:default", &[&run.to_string()]);
    desk.mend(Rule::RunningWrong, &run.to_string()).await;
    desk.break_by("ZADD", "running:other", &["5", &run.to_string()]);
    desk.break_by("HSET", "queues", &["other", "32"]);
    desk.mend(Rule::RunningWrong, &run.to_string()).await;
    desk.succeed(desk.now(), &claim).await;
    for gone in [run.to_string(), "a@5".to_owned(), "nobody@5".to_owned()] {
        desk.break_by("ZADD", "running:default", &["5", &gone]);
        desk.mend(Rule::RunningWrong, &gone).await;
    }
}
