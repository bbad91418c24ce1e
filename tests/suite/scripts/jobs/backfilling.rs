//! `queue_backfill`, `plant_backfill` and `drop_backfill`: past occurrences get runs of their own, each once, one at a time.

use schedd_core::domain::job::job_spec::Overlap;
use schedd_core::domain::run::run_state::RunState;
use schedd_schedule::names::RunId;
use schedd_store::{BackfillReply, PlantReply, StopRunning};

use super::removing::removal;
use crate::scripts::world::{World, name, queue, run_of, t};

fn backfill(offset: i64) -> RunId {
    RunId::backfill(name("a"), t(offset))
}

async fn planted(world: &World, offset: i64) -> PlantReply {
    world.at(500).plant_backfill(&backfill(offset), &queue("default")).await.unwrap()
}

#[tokio::test]
async fn occurrences_are_made_up_for_one_after_the_other_and_the_schedule_is_left_alone() {
    let world = World::new();
    let pending = world.plant("a", 1000).await;
    let runs = [backfill(200), backfill(100)];
    assert_eq!(
        world.at(500).queue_backfill(&name("a"), &runs).await.unwrap(),
        BackfillReply::Queued(2)
    );
    assert_eq!(
        world.store.list_backfill(&name("a"), 10).await.unwrap(),
        [backfill(100), backfill(200)],
        "oldest first"
    );
    assert_eq!(world.store.list_backfills(10).await.unwrap(), [name("a")]);
    assert_eq!(planted(&world, 100).await, PlantReply::Planted);
    assert_eq!(planted(&world, 100).await, PlantReply::Busy, "repeated");
    let claim = world.win(501, &backfill(100)).await;
    assert_eq!(planted(&world, 100).await, PlantReply::Busy);
    world.assert_sound();
    world.succeed(502, &claim).await;
    assert_eq!(planted(&world, 100).await, PlantReply::Over);
    assert_eq!(planted(&world, 200).await, PlantReply::Planted);
    let claim = world.win(503, &backfill(200)).await;
    world.succeed(504, &claim).await;
    assert_eq!(planted(&world, 200).await, PlantReply::Over);
    assert_eq!(
        world.store.list_backfills(10).await.unwrap(),
        [],
        "nothing more is to be made up for"
    );
    assert_eq!(planted(&world, 200).await, PlantReply::Empty);
    assert_eq!(world.job("a").await.pending, Some(pending));
    world.assert_sound();
}

#[tokio::test]
async fn an_earlier_occurrence_asked_for_meanwhile_waits_for_the_one_that_is_out() {
    let world = World::new();
    world.plant("a", 1000).await;
    world.at(500).queue_backfill(&name("a"), &[backfill(200)]).await.unwrap();
    assert_eq!(planted(&world, 200).await, PlantReply::Planted);
    world.at(500).queue_backfill(&name("a"), &[backfill(100)]).await.unwrap();
    assert_eq!(planted(&world, 100).await, PlantReply::Busy);
    let claim = world.win(501, &backfill(200)).await;
    assert_eq!(planted(&world, 100).await, PlantReply::Busy);
    world.succeed(502, &claim).await;
    assert_eq!(planted(&world, 100).await, PlantReply::Planted);
    let claim = world.win(503, &backfill(100)).await;
    world.succeed(504, &claim).await;
    assert_eq!(
        [planted(&world, 100).await, planted(&world, 200).await],
        [PlantReply::Over, PlantReply::Over]
    );
    world.assert_sound();
}

#[tokio::test]
async fn an_occurrence_asked_for_twice_is_made_up_for_once() {
    let world = World::new();
    world.plant("a", 1000).await;
    let runs: Vec<RunId> = (0..250).map(backfill).collect();
    assert_eq!(
        world.at(500).queue_backfill(&name("a"), &runs).await.unwrap(),
        BackfillReply::Queued(250)
    );
    let before = world.snapshot();
    assert_eq!(
        world.at(501).queue_backfill(&name("a"), &runs).await.unwrap(),
        BackfillReply::Queued(0)
    );
    assert_eq!(world.snapshot(), before);
    planted(&world, 0).await;
    let claim = world.win(502, &backfill(0)).await;
    world.succeed(503, &claim).await;
    assert_eq!(planted(&world, 0).await, PlantReply::Over);
    assert_eq!(
        world.at(504).queue_backfill(&name("a"), &runs).await.unwrap(),
        BackfillReply::Queued(0),
        "it has its record"
    );
    world.assert_sound();
}

#[tokio::test]
async fn only_the_first_that_waits_is_planted_in_the_queue_its_job_has() {
    let world = World::new();
    world.plant("a", 1000).await;
    world.at(500).queue_backfill(&name("a"), &[backfill(100), backfill(200)]).await.unwrap();
    let before = world.snapshot();
    assert_eq!(planted(&world, 200).await, PlantReply::Stale);
    let elsewhere = world.at(500).plant_backfill(&backfill(100), &queue("slow")).await.unwrap();
    assert_eq!((elsewhere, world.snapshot()), (PlantReply::Stale, before));
}

#[tokio::test]
async fn of_a_job_that_is_gone_nothing_is_made_up_for() {
    let world = World::new();
    assert_eq!(
        world.at(0).queue_backfill(&name("a"), &[backfill(1)]).await.unwrap(),
        BackfillReply::Unknown
    );
    world.plant("a", 1000).await;
    world.at(500).queue_backfill(&name("a"), &[backfill(100), backfill(200)]).await.unwrap();
    assert_eq!(planted(&world, 100).await, PlantReply::Planted);
    world.at(501).remove_job(&removal(&world.job("a").await, StopRunning::No)).await.unwrap();
    assert_eq!(planted(&world, 100).await, PlantReply::Empty);
    assert!(
        !world.snapshot().keys().any(|key| key.contains("backfill:") || key.contains("backfills"))
    );
    assert_eq!(
        world.at(502).queue_backfill(&name("a"), &[backfill(1)]).await.unwrap(),
        BackfillReply::Unknown
    );
    world.claim(503, &world.order(&backfill(100)).await).await;
    assert_eq!(
        world.state(&backfill(100)).await,
        RunState::Cancelled,
        "what was out ends as any run of such a job"
    );
    world.assert_sound();
}

#[tokio::test]
async fn what_waits_to_be_made_up_for_can_be_given_up() {
    let world = World::new();
    world.plant("a", 1000).await;
    assert_eq!(world.store.drop_backfill(&name("a")).await.unwrap(), 0);
    world.at(500).queue_backfill(&name("a"), &[backfill(100), backfill(200)]).await.unwrap();
    assert_eq!(world.store.drop_backfill(&name("a")).await.unwrap(), 2);
    assert!(world.store.list_backfills(10).await.unwrap().is_empty());
    assert_eq!(planted(&world, 100).await, PlantReply::Empty);
    world.assert_sound();
}

#[tokio::test]
async fn no_more_than_ten_thousand_wait() {
    let world = World::new();
    world.plant("a", 100_000).await;
    let runs: Vec<RunId> = (0..10_050).map(backfill).collect();
    assert_eq!(
        world.at(99_000).queue_backfill(&name("a"), &runs[..9_990]).await.unwrap(),
        BackfillReply::Queued(9_990)
    );
    assert_eq!(
        world.at(99_000).queue_backfill(&name("a"), &runs).await.unwrap(),
        BackfillReply::Full(10)
    );
    assert_eq!(world.store.list_backfill(&name("a"), 20_000).await.unwrap().len(), 10_000);
}

#[tokio::test]
async fn a_backfill_run_waits_for_an_open_run_under_any_overlap_rule_until_it_ends() {
    let world = World::new();
    let regular = world.plant("a", 0).await;
    let open = world.win_with(0, &regular, Overlap::Skip, 1000).await;
    world.at(1).queue_backfill(&name("a"), &[backfill(-100)]).await.unwrap();
    assert_eq!(
        world.at(1).plant_backfill(&backfill(-100), &queue("default")).await.unwrap(),
        PlantReply::Planted
    );
    let order = world.order(&backfill(-100)).await;
    let waiting = schedd_store::ClaimOrder { overlap: Overlap::Queue { max: u32::MAX }, ..order };
    world.claim(2, &waiting).await;
    assert_eq!(world.store.list_waiting(&name("a")).await.unwrap(), [backfill(-100)]);
    world.assert_sound();
    world.succeed(3, &open).await;
    let claim = World::won(world.claim(4, &waiting).await);
    world.succeed(5, &claim).await;
    // A regular run that comes due beside one is not in its way.
    assert_eq!(world.job("a").await.pending, Some(run_of("a", 1000)));
    assert_eq!(
        world.at(6).plant_backfill(&backfill(-100), &queue("default")).await.unwrap(),
        PlantReply::Over
    );
    world.assert_sound();
}
