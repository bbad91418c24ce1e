//! A job with a delay: each script that ends a run plants the next, so long after that end.

use std::time::Duration;

use schedd_core::domain::job::job_spec::Overlap;
use schedd_core::domain::run::run_state::RunState;
use schedd_store::{
    ApplyOrder, ApplyReply, CancelReply, ClaimReply, DefinitionChange, FinishReply, PauseReply,
    RecoverReply, ResumeOrder, ResumeReply, SkipOrder, SkipReply, Verdict,
};

use super::recovering::{expired, recovery};
use crate::scripts::world::{World, definition, name, queue, run_of, successor, t, version};

const DELAY: i64 = 500;

fn with_delay(job: &str, offset: i64) -> ApplyOrder {
    ApplyOrder { delay: Some(Duration::from_millis(500)), ..definition(job, offset) }
}

async fn pending(world: &World) -> Option<i64> {
    world.job("a").await.pending.map(|run| run.due().as_i64() - t(0).as_i64())
}

#[tokio::test]
async fn a_job_with_a_delay_is_planted_as_its_run_ends_and_not_before() {
    let world = World::new();
    let run = world.plant_as(with_delay("a", 0)).await;
    let claim = world.win(10, &run).await;
    assert_eq!((pending(&world).await, world.indexed("a")), (None, None));
    let reply = world.finish(700, &claim, Verdict::Final(RunState::Failed)).await;
    assert!(matches!(reply, FinishReply::Finished(_)), "{reply:?}");
    assert_eq!((pending(&world).await, world.indexed("a")), (Some(700 + DELAY), Some(700 + DELAY)));
    let again = world.finish(900, &claim, Verdict::Final(RunState::Failed)).await;
    assert!(matches!(again, FinishReply::Finished(_)), "{again:?}");
    assert_eq!(pending(&world).await, Some(700 + DELAY), "the call repeated plants nothing");
}

#[tokio::test]
async fn a_run_that_waits_for_a_retry_is_not_followed_by_another() {
    let world = World::new();
    let run = world.plant_as(with_delay("a", 0)).await;
    let claim = world.win(10, &run).await;
    world.finish(20, &claim, Verdict::Retry(Duration::from_secs(1))).await;
    assert_eq!(pending(&world).await, None);
    assert_eq!(
        world.at(30).cancel_run(&world.cancelling(&run, None).await).await.unwrap(),
        CancelReply::Cancelled
    );
    assert_eq!(pending(&world).await, Some(30 + DELAY));
}

#[tokio::test]
async fn a_run_skipped_or_cancelled_before_it_began_is_followed_too() {
    let world = World::new();
    let run = world.plant_as(with_delay("a", 0)).await;
    let order = SkipOrder {
        run: run.clone(),
        rev: world.job("a").await.rev,
        lane: queue("default"),
        reason: "missed",
        last_due: run.due(),
        count: 1,
        successor: None,
    };
    assert_eq!(world.at(100).skip_run(&order).await.unwrap(), SkipReply::Skipped);
    assert_eq!(pending(&world).await, Some(100 + DELAY));
    let run = run_of("a", 100 + DELAY);
    assert_eq!(
        world.at(100).cancel_run(&world.cancelling(&run, None).await).await.unwrap(),
        CancelReply::Cancelled
    );
    assert_eq!(
        pending(&world).await,
        Some(100 + DELAY + 1),
        "an id that has a record is not planted again"
    );
}

#[tokio::test]
async fn the_end_of_a_run_of_a_paused_job_plants_nothing_and_resuming_does() {
    let world = World::new();
    let run = world.plant_as(with_delay("a", 0)).await;
    let claim = world.win(10, &run).await;
    assert_eq!(
        world.at(20).pause_job(&world.job("a").await, None, &[]).await.unwrap(),
        PauseReply::Paused
    );
    let resume = |offset: i64, rev| {
        let order = ResumeOrder {
            name: name("a"),
            rev,
            lane: queue("default"),
            paused_run: None,
            skipped: None,
            planted: Some(successor("a", offset + DELAY)),
        };
        let store = world.at(offset);
        async move { store.resume_job(&order).await.unwrap() }
    };
    assert_eq!(resume(30, world.job("a").await.rev).await, ResumeReply::Resumed);
    assert_eq!(pending(&world).await, None, "its run is open: the end of that plants");
    assert_eq!(
        world.at(40).pause_job(&world.job("a").await, None, &[]).await.unwrap(),
        PauseReply::Paused
    );
    world.succeed(50, &claim).await;
    assert_eq!(pending(&world).await, None);
    assert_eq!(resume(60, world.job("a").await.rev).await, ResumeReply::Resumed);
    assert_eq!(pending(&world).await, Some(60 + DELAY));
}

#[tokio::test]
async fn a_schedule_that_becomes_a_delay_while_a_run_is_open_is_planted_at_its_end() {
    let world = World::new();
    let run = world.plant("a", 0).await;
    let claim = world.win_with(10, &run, Overlap::Skip, 1_000).await;
    let job = world.job("a").await;
    let edit = ApplyOrder {
        definition: version("v2"),
        read: Some((job.rev, job.lane)),
        change: DefinitionChange::Schedule,
        planned: job.pending,
        token: crate::scripts::world::token(),
        ..with_delay("a", 20 + DELAY)
    };
    assert_eq!(world.at(20).apply_job(&edit).await.unwrap(), ApplyReply::Updated);
    assert_eq!(pending(&world).await, None);
    world.succeed(50, &claim).await;
    assert_eq!(pending(&world).await, Some(50 + DELAY));
    let early = world.claim(60, &world.order(&run_of("a", 50 + DELAY)).await).await;
    assert!(matches!(early, ClaimReply::Early), "{early:?}");
}

/// Moves the job into another queue.
async fn move_to(world: &World, to: &str, edit: ApplyOrder) {
    let job = world.job("a").await;
    let edit = ApplyOrder {
        definition: version(to),
        read: Some((job.rev, job.lane)),
        change: DefinitionChange::Rest,
        planned: job.pending,
        planted: None,
        lane: queue(to),
        token: crate::scripts::world::token(),
        ..edit
    };
    assert_eq!(world.at(20).apply_job(&edit).await.unwrap(), ApplyReply::Updated);
}

#[tokio::test]
async fn what_the_end_of_a_run_plants_lies_in_the_queue_its_job_has_by_then() {
    let world = World::new();
    let run = world.plant_as(with_delay("a", 0)).await;
    let claim = world.win(10, &run).await;
    move_to(&world, "other", with_delay("a", 0)).await;
    world.succeed(50, &claim).await;
    let next = run_of("a", 50 + DELAY).to_string();
    assert_eq!(
        (world.score("due:other", &next), world.score("due:default", &next)),
        (Some(50 + DELAY), None)
    );
    world.succeed(60, &claim).await;
    world.assert_sound();
}

#[tokio::test]
async fn so_does_what_a_lost_node_or_a_cancel_ends() {
    let world = World::new();
    let run = world.plant_as(with_delay("a", 0)).await;
    let claim = world.win(10, &run).await;
    let cancel = world.cancelling(&run, None).await;
    move_to(&world, "other", with_delay("a", 0)).await;
    let lease = expired(&claim, 10_010);
    let lost = recovery(Some(RunState::Lost));
    assert_eq!(world.at(20_000).recover_run(&lease, &lost).await.unwrap(), RecoverReply::Ended);
    let next = run_of("a", 20_000 + DELAY);
    assert_eq!(world.score("due:other", &next.to_string()), Some(20_000 + DELAY));
    world.assert_sound();
    let mut stale = schedd_store::CancelOrder { run: next, ..cancel };
    stale.lane = queue("other");
    assert_eq!(world.at(20_001).cancel_run(&stale).await.unwrap(), CancelReply::Stale);
}

#[tokio::test]
async fn a_run_that_waited_while_its_job_was_moved_gets_its_turn_in_the_new_queue() {
    let world = World::new();
    let run = world.plant("a", 0).await;
    let first = world.win_with(10, &run, Overlap::Queue { max: 3 }, 20).await;
    let waits = world
        .claim(20, &world.order_with(&run_of("a", 20), Overlap::Queue { max: 3 }, 90_000).await)
        .await;
    assert!(matches!(waits, ClaimReply::Blocked(_)), "{waits:?}");
    move_to(&world, "other", definition("a", 0)).await;
    world.succeed(50, &first).await;
    assert_eq!(world.score("due:other", &run_of("a", 20).to_string()), Some(50));
    world.assert_sound();
}

#[tokio::test]
async fn of_the_runs_that_may_begin_no_more_begin_however_they_come() {
    let world = World::new();
    let run = world.plant("a", 0).await;
    let order = |order: schedd_store::ClaimOrder| schedd_store::ClaimOrder {
        max_runs: Some(1),
        overlap: Overlap::Allow,
        ..order
    };
    let claim = World::won(
        world.claim(10, &order(world.order_with(&run, Overlap::Allow, 1_000).await)).await,
    );
    assert_eq!(
        (world.job("a").await.begun, pending(&world).await),
        (1, None),
        "its successor is not planted"
    );
    world.succeed(20, &claim).await;
    assert_eq!(world.indexed("a"), None);
    world.assert_sound();
}

#[tokio::test]
async fn a_first_attempt_past_its_latest_start_is_skipped_as_missed() {
    let world = World::new();
    let run = world.plant("a", 0).await;
    let late = |order| schedd_store::ClaimOrder { latest_start: Some(t(500)), ..order };
    let reply = world.claim(501, &late(world.order_with(&run, Overlap::Skip, 1_000).await)).await;
    assert!(matches!(reply, ClaimReply::Blocked(_)), "{reply:?}");
    let record = world.run(&run).await;
    assert_eq!((record.state, record.reason.as_deref()), (RunState::Skipped, Some("missed")));
    assert_eq!(pending(&world).await, Some(1_000));
}
