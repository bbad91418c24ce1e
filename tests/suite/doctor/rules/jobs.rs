//! The rules of jobs: what is planned of one, and what waits.

use schedd::engine::planning::{job_operations, retry_order};
use schedd_core::domain::run::run_state::RunState;
use schedd_store::Verdict;
use serde_json::json;

use crate::doctor::desk::Desk;
use crate::scripts::world::t;

#[tokio::test]
async fn records_nobody_broke_agree_also_in_the_midst_of_work() {
    let mut desk = Desk::new();
    desk.demand_sound("").await;
    let run = desk.minutely("a").await;
    desk.add("once", json!({"at": t(3_600_000).to_string()})).await;
    desk.win_due(&run).await;
    let next = desk.pending("a").await;
    desk.wait_due(&next).await;
    desk.by_hand("a", desk.now()).await;
    desk.demand_sound("").await;
}

#[tokio::test]
async fn a_job_with_a_delay_is_in_order_while_it_rests_runs_and_is_paused() {
    let mut desk = Desk::new();
    let run = desk.add("a", json!({"delay": "1m"})).await;
    desk.demand_sound("").await;
    desk.go_on_to(60_000);
    let claim = desk.win(60_000, &run).await;
    assert_eq!(desk.job("a").await.pending, None);
    desk.demand_sound("it runs").await;
    desk.at(60_001).pause_job(&desk.job("a").await, None, &[]).await.unwrap();
    desk.demand_sound("it runs and is paused").await;
    desk.succeed(60_002, &claim).await;
    desk.demand_sound("it is paused").await;
}

#[tokio::test]
async fn a_job_with_a_delay_that_is_planned_nowhere_is_planted_its_delay_from_now() {
    let desk = Desk::new();
    let run = desk.add("a", json!({"delay": "1m"})).await;
    desk.unplan(&run);
    desk.mend("missing:pending", "job a").await;
    assert_eq!(desk.pending("a").await.due(), t(desk.now() + 60_000));
}

#[tokio::test]
async fn a_delay_job_plans_no_run_beside_an_open_run_unless_a_user_retried_that() {
    let mut desk = Desk::new();
    let first = desk.add("a", json!({"delay": "1m"})).await;
    desk.go_on_to(60_000);
    let claim = desk.win(60_000, &first).await;
    // By its end the next is planned; the first is a dead letter that a person asks for again.
    desk.finish(60_001, &claim, Verdict::Final(RunState::Failed)).await;
    let next = desk.pending("a").await;
    desk.go_on_to(60_002);
    retry_order::retry_run(&desk.at(60_002), &first).await.unwrap();
    desk.demand_sound("it was asked for again").await;
    desk.break_by("HDEL", &format!("run:{first}"), &["retried_at"]);
    desk.leaves("extra:pending", "job a", &format!("schedctl cancel {next}")).await;
    job_operations::cancel_run(&desk.at(60_003), &next, "by a test").await.unwrap();
    desk.demand_sound("one of both is gone").await;
    assert_eq!(desk.job("a").await.pending, None);
    let again = desk.win(60_004, &first).await;
    desk.succeed(60_005, &again).await;
    assert_eq!(
        desk.pending("a").await.due(),
        t(120_005),
        "the end of the open one plants the next"
    );
    desk.go_on_to(60_005);
    desk.demand_sound("it rests").await;
}

#[tokio::test]
async fn a_finished_planned_run_of_a_delay_job_gets_a_successor_an_open_run_none() {
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
        desk.mend("wrong:pending", "job a").await;
        let planted = desk.job("a").await.pending.map(|run| run.due());
        assert_eq!(planted, is_over.then(|| t(desk.now() + 60_000)));
    }
}

#[tokio::test]
async fn jobs_whose_runs_are_used_up_or_come_only_at_a_boot_are_in_order() {
    let mut desk = Desk::new();
    desk.go_on_to(60_000);
    for (job, keys) in
        [("a", json!({"every": "1m", "max_runs": 1})), ("b", json!({"delay": "1m", "max_runs": 1}))]
    {
        let run = desk.add(job, keys).await;
        let order = schedd_store::ClaimOrder { max_runs: Some(1), ..desk.order(&run).await };
        let claim = crate::scripts::world::World::won(desk.claim(60_000, &order).await);
        desk.demand_sound(job).await;
        desk.succeed(60_001, &claim).await;
        assert_eq!(desk.job(job).await.pending, None);
    }
    desk.add_unplanned("c", json!({"cron": "@reboot"})).await;
    desk.demand_sound("").await;
    desk.break_by("HSET", "job:a", &["pending", "a@5"]);
    desk.break_by("HSET", &format!("run:{}", "a@5"), &["state", "succeeded"]);
    desk.mend("wrong:pending", "job a").await;
    assert_eq!(desk.job("a").await.pending, None, "nothing more is planted");
}

#[tokio::test]
async fn a_planned_run_that_is_made_due_again_is_moved_by_jitter_and_splay_as_before() {
    let desk = Desk::new();
    let run = desk.add("a", json!({"every": "1h", "splay": "20m"})).await;
    let moved = desk.score("due:default", &run.to_string());
    assert!(
        moved > Some(run.due().as_i64() - t(0).as_i64()),
        "its splay is not nothing: {moved:?}"
    );
    desk.break_by("ZREM", "due:default", &[&run.to_string()]);
    desk.mend("missing:due", "job a").await;
    assert_eq!(desk.score("due:default", &run.to_string()), moved);
    let run = desk.add("b", json!({"every": "1h", "jitter": "1d"})).await;
    desk.break_by("ZREM", "due:default", &[&run.to_string()]);
    desk.mend("missing:due", "job b").await;
    assert!(desk.score("due:default", &run.to_string()) > Some(run.due().as_i64() - t(0).as_i64()));
}

#[tokio::test]
async fn a_planned_run_in_another_queue_than_its_job_s_is_brought_back() {
    let desk = Desk::new();
    let run = desk.minutely("a").await;
    desk.break_by("RENAME", "due:default", &[&desk.key("due:other")]);
    desk.mend("missing:due", "job a").await;
    assert_eq!(desk.score("due:other", &run.to_string()), None);
}

#[tokio::test]
async fn a_planned_run_that_was_executed_is_followed_by_the_next() {
    let mut desk = Desk::new();
    let run = desk.done("a").await;
    let next = desk.pending("a").await;
    desk.break_by("ZREM", "due:default", &[&next.to_string()]);
    desk.break_by("HSET", "job:a", &["pending", &run.to_string()]);
    desk.mend("wrong:pending", "job a").await;
    assert_eq!(desk.pending("a").await, next);
}

#[tokio::test]
async fn a_one_shot_without_its_run_gets_it_and_one_that_has_run_is_ended() {
    let desk = Desk::new();
    let run = desk.add("once", json!({"at": t(60_000).to_string()})).await;
    desk.unplan(&run);
    desk.mend("missing:pending", "job once").await;
    assert_eq!(desk.pending("once").await, run);

    let desk = Desk::new();
    let run = desk.add("once", json!({"at": t(60_000).to_string()})).await;
    let claim = desk.win(60_000, &run).await;
    desk.succeed(60_000, &claim).await;
    desk.break_by("HDEL", "job:once", &["ended", "ended_at"]);
    desk.break_by("HSET", "job:once", &["pending", ""]);
    desk.break_by("ZREM", "finished", &["once"]);
    desk.mend("missing:pending", "job once").await;
    assert_eq!(desk.job("once").await.ended.as_deref(), Some("finished"));
}

#[tokio::test]
async fn a_run_that_waits_for_nothing_gets_its_turn() {
    let mut desk = Desk::new();
    let (claim, next) = desk.one_behind_another("a").await;
    // As if the end of the open one had freed nobody.
    desk.break_by("ZREM", "waiting:a", &[&next.to_string()]);
    desk.break_by("HSET", "counters", &["waiting", "0"]);
    desk.succeed(desk.now(), &claim).await;
    desk.break_by("ZADD", "waiting:a", &[&next.due().as_i64().to_string(), &next.to_string()]);
    desk.break_by("HSET", "counters", &["waiting", "1"]);
    desk.mend("extra:waiting", "job a").await;
    assert!(desk.score("due:default", &next.to_string()).is_some());
}

#[tokio::test]
async fn what_waits_behind_a_run_asked_for_by_hand_is_not_blocked() {
    let mut desk = Desk::new();
    let (claim, _) = desk.one_behind_another("a").await;
    desk.break_by("ZREM", "open:a", &[&claim.run.to_string()]);
    desk.by_hand("a", desk.now()).await;
    let findings = desk.findings().await;
    assert!(!findings.iter().any(|finding| finding.code() == "extra:waiting"), "{findings:#?}");
    desk.succeed(desk.now(), &claim).await;
}

#[tokio::test]
async fn a_planned_job_with_a_gate_is_listed_with_it() {
    let desk = Desk::new();
    desk.add("a", json!({"every": "1m", "key": "k"})).await;
    desk.demand_sound("").await;
    let listed: Vec<String> = desk.get("ZRANGE", "job_gates", &["0", "-1"]);
    assert!(listed[0].ends_with(" key:k a"), "{listed:?}");
    desk.break_by("DEL", "job_gates", &[]);
    desk.mend("missing:job_gates", "job a").await;
    assert_eq!(desk.get::<Vec<String>>("ZRANGE", "job_gates", &["0", "-1"]), listed);
    desk.break_by("ZADD", "job_gates", &["0", "no entry"]);
    desk.mend("unreadable:job_gates", "job_gates").await;
    assert_eq!(desk.get::<Vec<String>>("ZRANGE", "job_gates", &["0", "-1"]), listed);
}

#[tokio::test]
async fn the_links_of_a_chain_are_made_to_agree_with_the_definitions() {
    let desk = Desk::new();
    desk.minutely("root").await;
    desk.add_unplanned("child", json!({"after": "root"})).await;
    desk.demand_sound("").await;
    desk.break_by("DEL", "chains", &[]);
    desk.mend("missing:chains", "job child").await;
    desk.break_by("ZADD", "chains", &["0", "other child"]);
    desk.mend("extra:chains", "job child").await;
    desk.break_by("ZADD", "chains", &["0", "root nobody"]);
    desk.mend("extra:chains", "job nobody").await;
    desk.break_by("HSET", "job:child", &["after", "after_any root"]);
    desk.mend("wrong:after", "job child").await;
    assert_eq!(desk.get::<Vec<String>>("ZRANGE", "chains", &["0", "-1"]), ["root child"]);
}

#[tokio::test]
async fn a_stray_state_of_a_chain_is_found_and_removed() {
    let mut desk = Desk::new();
    let run = desk.done("root").await;
    desk.add_unplanned("child", json!({"after": ["root", "other"]})).await;
    let occurrence = run.to_string().split_once('@').unwrap().1.to_owned();
    let state = r#"{"at":"5","ends":{}}"#;
    desk.break_by("HSET", "chain:child", &[&occurrence, state]);
    desk.demand_sound("an occurrence may wait").await;
    // A run with a record, and jobs that are no children, wait for no parent.
    desk.break_by("HSET", "chain:root", &[&occurrence, state]);
    desk.mend("extra:chain", "job root").await;
    desk.break_by("HSET", "chain:nobody", &["5", state]);
    desk.mend("extra:chain", "job nobody").await;
    assert_eq!(desk.get::<i64>("EXISTS", "chain:root", &[]), 0);
    // A parent that has no run, while none above it goes on, never ends.
    let lost = r#"{"at":"5","after":"after other root","ends":{}}"#;
    desk.break_by("HSET", "chain:child", &[&occurrence, lost]);
    desk.mend("missing:chain", "job child").await;
    let ends: Vec<String> = desk.get("ZRANGE", "chain_ends", &["0", "-1"]);
    assert!(ends.len() == 2 && ends.iter().any(|end| end.contains("skipped")), "{ends:?}");
    desk.break_by("DEL", "chain_ends", &[]);
    desk.break_by("DEL", "chain:child", &[]);
    desk.break_by("ZADD", "chain_ends", &["5", "no JSON"]);
    desk.mend("unreadable:chain_ends", "chain_ends").await;
    desk.break_by("HSET", "chain:child", &["nonsense", "x"]);
    desk.mend("unreadable:chain", "chain:child").await;
}
