//! `retry_run`: a dead letter goes on as its own run, once a call, and beside no other that may not run with it.

use schedd_core::domain::job::job_spec::Overlap;
use schedd_core::domain::run::run_state::RunState;
use schedd_schedule::names::RunId;
use schedd_store::{
    Beside, Blocking, Claim, ClaimReply, JobRecord, RecoverReply, RetryOrder, RetryReply,
    StopRunning, Verdict,
};

use super::removing::removal;
use crate::scripts::claims::recovering::{expired, recovery};
use crate::scripts::world::{World, definition, name, run_of, t};

/// An order to try the run of `claim` again, as the engine makes it under overlap skip.
pub(crate) fn retrial(claim: &Claim, job: &JobRecord) -> RetryOrder {
    RetryOrder {
        run: claim.run.clone(),
        fence: Some(claim.fence),
        job: Some((job.rev.clone(), job.lane.clone())),
        beside: Beside::Waits,
        past: "{\"x\":1}".to_owned(),
    }
}

/// Run `run` of a job, claimed at `offset` and ended `state` a ms later; the job's next is due at 1000 s.
async fn dead(world: &World, offset: i64, run: &RunId, state: RunState) -> Claim {
    let claim = world.win_with(offset, run, Overlap::Skip, 1_000_000).await;
    world.finish(offset + 1, &claim, Verdict::Final(state)).await;
    world.assert_sound();
    claim
}

async fn retry(world: &World, offset: i64, order: &RetryOrder) -> RetryReply {
    world.at(offset).retry_run(order).await.unwrap()
}

#[tokio::test]
async fn a_dead_letter_is_ready_again_with_a_new_budget_and_its_attempts_go_on() {
    for state in [RunState::Failed, RunState::TimedOut, RunState::Lost] {
        let world = World::new();
        let run = world.plant("a", 0).await;
        let first = world.win_with(0, &run, Overlap::Skip, 1_000_000).await;
        world.finish(1, &first, Verdict::Retry(std::time::Duration::ZERO)).await;
        let second = world.win(2, &run).await;
        world.finish(3, &second, Verdict::Final(state)).await;
        assert_eq!(world.store.read_stats().await.unwrap().dead, 1);
        world.assert_sound();

        assert_eq!(
            retry(&world, 10, &retrial(&second, &world.job("a").await)).await,
            RetryReply::Retried
        );
        world.assert_sound();
        let record = world.run(&run).await;
        assert_eq!(
            (record.state, record.attempt, record.ready),
            (RunState::Scheduled, 2, Some(t(10)))
        );
        assert_eq!(
            (record.failures, record.recoveries, record.finished_at, record.reason),
            (0, 0, None, None)
        );
        assert_eq!(record.past.iter().map(|past| past.number).collect::<Vec<_>>(), [1, 2]);
        assert_eq!(
            world.store.list_open(&name("a")).await.unwrap(),
            std::slice::from_ref(&run),
            "it is open again"
        );
        assert_eq!(world.store.read_history(None, 0, 10).await.unwrap().entries, 0);
        assert_eq!((world.store.read_stats().await.unwrap().dead, world.total("retried")), (0, 1));

        let third = world.win(10, &run).await;
        assert_eq!((third.attempt, third.failures), (3, 0));
        assert!(third.fence > second.fence);
        world.succeed(11, &third).await;
        assert_eq!(world.state(&run).await, RunState::Succeeded);
        assert_eq!(
            world.job("a").await.pending,
            Some(run_of("a", 1_000_000)),
            "the schedule is left alone"
        );
        world.assert_sound();
    }
}

#[tokio::test]
async fn a_run_that_was_poison_keeps_the_record_of_how_it_was_lost() {
    let world = World::new();
    let run = world.plant("a", 0).await;
    let claim = world.win_with(0, &run, Overlap::Skip, 1_000_000).await;
    let verdict = recovery(Some(RunState::Failed));
    assert_eq!(
        world.at(20_000).recover_run(&expired(&claim, 10_000), &verdict).await.unwrap(),
        RecoverReply::Ended
    );
    world.assert_sound();
    assert_eq!(
        retry(&world, 20_001, &retrial(&claim, &world.job("a").await)).await,
        RetryReply::Retried
    );
    let record = world.run(&run).await;
    assert_eq!(
        (record.recoveries, record.past.len(), record.past[0].record.as_str()),
        (0, 1, "{}")
    );
    world.assert_sound();
}

#[tokio::test]
async fn a_retry_repeated_answers_already_and_changes_nothing_however_the_run_went_on() {
    let world = World::new();
    let run = world.plant("a", 0).await;
    let claim = dead(&world, 0, &run, RunState::Failed).await;
    let order = retrial(&claim, &world.job("a").await);
    assert_eq!(retry(&world, 10, &order).await, RetryReply::Retried);
    let unchanged = async |offset: i64| {
        let before = world.snapshot();
        assert_eq!(retry(&world, offset, &order).await, RetryReply::Already);
        assert_eq!(world.snapshot(), before);
    };
    unchanged(11).await;
    let again = world.win(12, &run).await;
    unchanged(13).await;
    world.finish(14, &again, Verdict::Final(RunState::Failed)).await;
    unchanged(15).await;
    assert_eq!(
        retry(&world, 16, &retrial(&again, &world.job("a").await)).await,
        RetryReply::Retried,
        "a second one is another"
    );
    assert_eq!(world.total("retried"), 2);
    world.assert_sound();
}

#[tokio::test]
async fn a_retried_run_waits_behind_an_open_one_of_its_job_and_is_freed_by_its_end() {
    let world = World::new();
    let run = world.plant("a", 0).await;
    let claim = world.win_with(0, &run, Overlap::Skip, 100).await;
    world.finish(1, &claim, Verdict::Final(RunState::Failed)).await;
    let open = world.win_with(100, &run_of("a", 100), Overlap::Skip, 1_000_000).await;
    let order = retrial(&claim, &world.job("a").await);
    assert_eq!(retry(&world, 101, &order).await, RetryReply::Waiting);
    world.assert_sound();
    assert_eq!(world.score("due:default", &run.to_string()), None);
    assert_eq!(retry(&world, 102, &order).await, RetryReply::Already);
    world.succeed(103, &open).await;
    world.assert_sound();
    let again = world.win(103, &run).await;
    assert_eq!(again.attempt, 2);
    world.succeed(104, &again).await;
    world.assert_sound();
}

#[tokio::test]
async fn a_retried_run_goes_beside_an_open_one_where_overlap_allows_it_or_it_is_alone() {
    let world = World::new();
    let run = world.plant("a", 0).await;
    let claim = world.win_with(0, &run, Overlap::Allow, 100).await;
    world.finish(1, &claim, Verdict::Final(RunState::Failed)).await;
    world.win_with(100, &run_of("a", 100), Overlap::Allow, 1_000_000).await;
    let order = RetryOrder { beside: Beside::Allowed, ..retrial(&claim, &world.job("a").await) };
    assert_eq!(retry(&world, 101, &order).await, RetryReply::Retried);
    assert_eq!(world.store.list_open(&name("a")).await.unwrap().len(), 2);
    world.win(101, &run).await;
    world.assert_sound();

    world.plant("m", 2_000_000).await;
    let hand = world.by_hand("m", 200).await;
    let claim = world.win(200, &hand).await;
    world.finish(201, &claim, Verdict::Final(RunState::Failed)).await;
    assert_eq!(
        retry(&world, 202, &retrial(&claim, &world.job("m").await)).await,
        RetryReply::Retried
    );
    assert_eq!(
        world.store.list_open(&name("m")).await.unwrap(),
        [],
        "a run by hand is not among the open ones"
    );
    world.assert_sound();
    let again = world.win(202, &hand).await;
    world.succeed(203, &again).await;
    world.assert_sound();
}

#[tokio::test]
async fn a_finished_one_shot_runs_again_by_its_definition_and_stays_finished() {
    let world = World::new();
    let run = world.plant_once("once", 0).await;
    let claim = world.win(0, &run).await;
    world.finish(1, &claim, Verdict::Final(RunState::Failed)).await;
    assert_eq!(world.job("once").await.ended.as_deref(), Some("finished"));
    assert_eq!(
        retry(&world, 10, &retrial(&claim, &world.job("once").await)).await,
        RetryReply::Retried
    );
    assert_eq!(world.at(11).forget_jobs(t(1_000_000), 0).await.unwrap(), 1);
    assert!(
        world.store.read_job(&name("once")).await.unwrap().is_some(),
        "its definition is needed"
    );
    let again = world.win(12, &run).await;
    assert_eq!(again.attempt, 2);
    world.succeed(13, &again).await;
    let job = world.job("once").await;
    assert_eq!((job.ended.as_deref(), job.pending), (Some("finished"), None));
    assert_eq!(world.store.list_jobs(0, 10).await.unwrap(), []);
    world.assert_sound();
    world.at(14).forget_jobs(t(1_000_000), 0).await.unwrap();
    assert!(
        world.store.read_job(&name("once")).await.unwrap().is_none(),
        "and is forgotten in the end"
    );
}

#[tokio::test]
async fn what_is_no_dead_letter_or_has_no_job_is_not_retried() {
    let world = World::new();
    let run = world.plant("a", 0).await;
    let claim = dead(&world, 0, &run, RunState::Failed).await;
    let order = retrial(&claim, &world.job("a").await);
    let refused = async |order: RetryOrder, reply: RetryReply| {
        let before = world.snapshot();
        assert_eq!(retry(&world, 20, &order).await, reply);
        assert_eq!(world.snapshot(), before);
    };
    refused(RetryOrder { run: run_of("a", 5), ..order.clone() }, RetryReply::Unknown).await;
    for (job, state) in
        [("s", RunState::Succeeded), ("c", RunState::Cancelled), ("k", RunState::Skipped)]
    {
        let run = world.plant(job, 0).await;
        let claim = dead(&world, 0, &run, state).await;
        let reply = RetryReply::Over { state: state.to_string(), at: Some(t(1)) };
        refused(retrial(&claim, &world.job(job).await), reply).await;
    }
    world.at(10).remove_job(&removal(&world.job("a").await, StopRunning::No)).await.unwrap();
    refused(order.clone(), RetryReply::Gone(Some("removed".to_owned()))).await;
    world.at(11).forget_jobs(t(1_000_000), 0).await.unwrap();
    refused(RetryOrder { job: None, ..order.clone() }, RetryReply::Gone(None)).await;

    // Added again, it runs by the definition it has now.
    world.plant_as(definition("a", 2_000_000)).await;
    assert_eq!(
        retry(&world, 30, &retrial(&claim, &world.job("a").await)).await,
        RetryReply::Retried
    );
    world.win(31, &run).await;
    world.assert_sound();
}

#[tokio::test]
async fn a_retry_made_from_an_older_definition_is_stale() {
    let world = World::new();
    let run = world.plant("a", 0).await;
    let claim = dead(&world, 0, &run, RunState::Failed).await;
    let older = world.job("a").await;
    world.at(5).remove_job(&removal(&older, StopRunning::No)).await.unwrap();
    world.plant_as(definition("a", 2_000_000)).await;
    let before = world.snapshot();
    assert_eq!(retry(&world, 6, &retrial(&claim, &older)).await, RetryReply::Stale);
    assert_eq!(world.snapshot(), before);
}

#[tokio::test]
async fn one_that_waits_when_its_job_is_removed_does_not_run() {
    for running in [StopRunning::No, StopRunning::Yes] {
        let world = World::new();
        let first = world.plant("a", 0).await;
        let letter = dead(&world, 0, &first, RunState::Failed).await;
        let open = world.win(1_000_000, &run_of("a", 1_000_000)).await;
        let reply =
            world.at(1_000_001).retry_run(&retrial(&letter, &world.job("a").await)).await.unwrap();
        assert_eq!(reply, RetryReply::Waiting);
        world.at(1_000_002).remove_job(&removal(&world.job("a").await, running)).await.unwrap();
        world.succeed(1_000_003, &open).await;
        let claimed = world.claim(1_000_004, &world.order(&letter.run).await).await;
        assert!(matches!(claimed, ClaimReply::Blocked(Blocking::Cancelled)), "{claimed:?}");
        world.assert_sound();
    }
}
