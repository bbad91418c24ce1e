//! `cancel_run`: one run ends, its job goes on.

use std::time::Duration;

use schedd_core::domain::job::job_spec::Overlap;
use schedd_core::domain::run::run_state::RunState;
use schedd_store::{CancelReply, SkipOrder, Verdict};

use crate::scripts::world::{World, definition, name, queue, run_of, successor, t, version};

#[tokio::test]
async fn a_planned_run_ends_cancelled_and_the_next_is_planted() {
    let world = World::new();
    let run = world.plant("a", 1000).await;
    let order = world.cancelling(&run, Some(2000)).await;
    assert_eq!(world.at(0).cancel_run(&order).await.unwrap(), CancelReply::Cancelled);
    assert_eq!(world.job("a").await.pending, Some(run_of("a", 2000)));
    assert_eq!(world.indexed("a"), Some(2000));
    let record = world.run(&run).await;
    assert_eq!(
        (record.state, record.reason.as_deref(), record.attempt),
        (RunState::Cancelled, Some("by a test"), 0)
    );
    world.assert_sound();
    let before = world.snapshot();
    assert_eq!(
        world.at(1).cancel_run(&order).await.unwrap(),
        CancelReply::Cancelled,
        "twice is as good as once"
    );
    assert_eq!(world.snapshot(), before);
}

#[tokio::test]
async fn the_planned_run_of_a_one_shot_takes_its_job_with_it() {
    let world = World::new();
    let run = world.plant_once("a", 1000).await;
    world.at(0).cancel_run(&world.cancelling(&run, None).await).await.unwrap();
    assert_eq!(world.job("a").await.ended.as_deref(), Some("finished"));
    world.assert_sound();
}

#[tokio::test]
async fn a_running_run_is_asked_to_stop_however_often() {
    let world = World::new();
    let run = world.plant("a", 0).await;
    let claim = world.win_with(0, &run, Overlap::Skip, 1000).await;
    for at in [1, 2] {
        let reply = world.at(at).cancel_run(&world.cancelling(&run, None).await).await.unwrap();
        assert_eq!(reply, CancelReply::Requested);
    }
    assert_eq!(world.state(&run).await, RunState::Running);
    world.finish(3, &claim, Verdict::Final(RunState::Cancelled)).await;
    assert_eq!(
        world.at(4).cancel_run(&world.cancelling(&run, None).await).await.unwrap(),
        CancelReply::Cancelled
    );
    world.assert_sound();
}

#[tokio::test]
async fn a_run_that_is_over_is_reported_how_and_when() {
    let world = World::new();
    let run = world.plant("a", 0).await;
    let claim = world.win_with(0, &run, Overlap::Skip, 1000).await;
    world.succeed(7, &claim).await;
    let reply = world.at(8).cancel_run(&world.cancelling(&run, None).await).await.unwrap();
    assert_eq!(reply, CancelReply::Over { state: "succeeded".to_owned(), at: Some(t(7)) });
}

#[tokio::test]
async fn a_run_nobody_planted_is_unknown() {
    let world = World::new();
    world.plant("a", 1000).await;
    let before = world.snapshot();
    let order = world.cancelling(&run_of("a", 5000), None).await;
    assert_eq!(world.at(0).cancel_run(&order).await.unwrap(), CancelReply::Unknown);
    assert_eq!(world.snapshot(), before);
}

#[tokio::test]
async fn a_cancel_by_an_older_definition_or_over_a_taken_occurrence_is_refused() {
    let world = World::new();
    let run = world.plant("a", 0).await;
    let stale = world.cancelling(&run, Some(1000)).await;
    let job = world.job("a").await;
    let mut edit = definition("a", 0);
    (edit.read, edit.definition) = (Some((job.rev, job.lane)), version("v2"));
    world.at(-500).apply_job(&edit).await.unwrap();
    let before = world.snapshot();
    assert_eq!(world.at(-400).cancel_run(&stale).await.unwrap(), CancelReply::Stale);
    assert_eq!(world.snapshot(), before);

    let claim = world.win_with(0, &run, Overlap::Skip, 1000).await;
    world.succeed(1, &claim).await;
    let before = world.snapshot();
    let occupied = world.cancelling(&run_of("a", 1000), Some(0)).await;
    assert_eq!(world.at(2).cancel_run(&occupied).await.unwrap(), CancelReply::Occupied);
    assert_eq!(world.snapshot(), before);
}

#[tokio::test]
async fn a_waiting_run_and_one_that_waits_for_its_retry_end_at_once() {
    let world = World::new();
    let overlap = Overlap::Queue { max: 1 };
    let run = world.plant("a", 0).await;
    let open = world.win_with(0, &run, overlap, 1000).await;
    world.claim(1000, &world.order_with(&run_of("a", 1000), overlap, 2000).await).await;
    let waiting = world.cancelling(&run_of("a", 1000), None).await;
    assert_eq!(world.at(1001).cancel_run(&waiting).await.unwrap(), CancelReply::Cancelled);
    assert_eq!(world.store.list_waiting(&name("a")).await.unwrap(), []);
    world.assert_sound();
    world.finish(1002, &open, Verdict::Retry(Duration::from_secs(60))).await;
    assert_eq!(
        world.at(1003).cancel_run(&world.cancelling(&run, None).await).await.unwrap(),
        CancelReply::Cancelled
    );
    assert_eq!(world.store.list_open(&name("a")).await.unwrap(), []);
    world.assert_sound();
}

#[tokio::test]
async fn a_run_whose_turn_came_in_another_queue_is_found_there() {
    let world = World::new();
    let overlap = Overlap::Queue { max: 1 };
    let run = world.plant("a", 0).await;
    let mut open = world.win_with(0, &run, overlap, 1000).await;
    world.claim(1000, &world.order_with(&run_of("a", 1000), overlap, 2000).await).await;
    let job = world.job("a").await;
    let mut edit = definition("a", 2000);
    (edit.read, edit.definition, edit.lane) =
        (Some((job.rev, job.lane)), version("v2"), queue("other"));
    edit.change = schedd_store::DefinitionChange::Rest;
    edit.planted = None;
    world.at(1001).apply_job(&edit).await.unwrap();
    open.job_lane = queue("other");
    world.succeed(1002, &open).await;
    assert_eq!(world.score("due:other", &run_of("a", 1000).to_string()), Some(1002));
    let order = world.cancelling(&run_of("a", 1000), None).await;
    assert_eq!(world.at(1003).cancel_run(&order).await.unwrap(), CancelReply::Cancelled);
    world.assert_sound();
}

#[tokio::test]
async fn a_run_skipped_or_cancelled_leaves_no_request_to_stop_behind() {
    let world = World::new();
    let run = world.plant("a", 0).await;
    let open = world.win_with(0, &run, Overlap::Replace, 1000).await;
    world.finish(1, &open, Verdict::Retry(Duration::from_secs(60))).await;
    world.claim(1000, &world.order_with(&run_of("a", 1000), Overlap::Replace, 2000).await).await;
    world.at(1001).cancel_run(&world.cancelling(&run, None).await).await.unwrap();
    assert_eq!(world.raw::<i64>("HLEN", "stop_requests", &[]), 0);
    world.assert_sound();
    // The skip of a stretch ends the pending run only, so none of the open ones.
    let skip = SkipOrder {
        run: run_of("a", 2000),
        rev: world.job("a").await.rev,
        lane: queue("default"),
        reason: "missed",
        last_due: t(2000),
        count: 1,
        successor: Some(successor("a", 3000)),
    };
    world.at(9000).skip_run(&skip).await.unwrap();
    world.assert_sound();
}
