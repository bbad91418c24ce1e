//! Edits and removals in a chain while an occurrence goes through it: the occurrence keeps the parents that it began with, and
//! every child of it ends in a state.

use std::time::Duration;

use schedd::engine::chains::chain_upkeep::forget_stuck;
use schedd_core::domain::run::run_state::RunState;
use schedd_schedule::names::RunId;
use schedd_store::{ApplyOrder, ApplyReply, ChildReply, Claim, StopRunning};

use super::chaining::{add, edit, give, run_to};
use crate::scripts::jobs::removing::removal;
use crate::scripts::world::{World, definition, run_of, t, token, version};

const DAY: i64 = 24 * 3600 * 1000;

/// The chain a -> x, y -> z -> w of which `a` and `x` have succeeded, and `y` runs.
async fn half_way() -> (World, Claim) {
    let world = World::new();
    let root = world.plant("a", 0).await;
    for (job, after) in [("x", "after a"), ("y", "after a"), ("z", "after x y"), ("w", "after z")] {
        add(&world, job, after).await;
    }
    run_to(&world, 0, &root, RunState::Succeeded).await;
    give(&world, 2).await;
    let of_y = world.win(3, &run_of("y", 0)).await;
    run_to(&world, 4, &run_of("x", 0), RunState::Succeeded).await;
    assert_eq!(give(&world, 6).await, [ChildReply::Awaits(1)]);
    (world, of_y)
}

async fn remove(world: &World, at: i64, job: &str) {
    let order = removal(&world.job(job).await, StopRunning::No);
    world.at(at).remove_job(&order).await.unwrap();
}

async fn state_of(world: &World, run: &RunId) -> (RunState, Option<String>) {
    let record = world.run(run).await;
    (record.state, record.reason)
}

fn assert_nothing_waits(world: &World) {
    assert_eq!(world.server::<Vec<String>>(&["KEYS", "*}:chain:*"]), [] as [String; 0]);
    world.assert_sound();
}

#[tokio::test]
async fn an_occurrence_in_flight_keeps_the_parents_that_an_edit_removes() {
    let (world, of_y) = half_way().await;
    edit(&world, 7, "z", "after x").await;
    world.succeed(8, &of_y).await;
    assert_eq!(give(&world, 9).await, [ChildReply::Planted]);
    run_to(&world, 10, &run_of("z", 0), RunState::Succeeded).await;
    assert_eq!(give(&world, 12).await, [ChildReply::Planted]);
    assert_nothing_waits(&world);
    // The next occurrence has the new parents, and the end of `y` is not even given.
    let root = world.by_hand("a", 20).await;
    run_to(&world, 20, &root, RunState::Succeeded).await;
    give(&world, 21).await;
    for (parent, replies) in [("y", vec![]), ("x", vec![ChildReply::Planted])] {
        let run = root.of_job(parent.parse().unwrap());
        run_to(&world, 22, &run, RunState::Succeeded).await;
        assert_eq!(give(&world, 24).await, replies, "{parent}");
    }
    assert_nothing_waits(&world);
}

#[tokio::test]
async fn an_occurrence_in_flight_does_not_wait_for_a_parent_that_an_edit_adds() {
    let world = World::new();
    let root = world.plant("a", 0).await;
    add(&world, "x", "after a").await;
    add(&world, "z", "after x").await;
    run_to(&world, 0, &root, RunState::Succeeded).await;
    give(&world, 2).await;
    edit(&world, 3, "z", "after a x").await;
    run_to(&world, 4, &run_of("x", 0), RunState::Succeeded).await;
    assert_eq!(give(&world, 6).await, [ChildReply::Planted]);
    assert_nothing_waits(&world);
}

#[tokio::test]
async fn a_child_removed_in_flight_is_cancelled_and_its_children_are_skipped() {
    let (world, of_y) = half_way().await;
    edit(&world, 7, "w", "after x").await;
    remove(&world, 8, "z").await;
    world.succeed(9, &of_y).await;
    assert_eq!(give(&world, 10).await, [ChildReply::Skipped, ChildReply::Skipped]);
    let cancelled = (RunState::Cancelled, Some("job removed".to_owned()));
    assert_eq!(state_of(&world, &run_of("z", 0)).await, cancelled);
    let skipped = (RunState::Skipped, Some("parent".to_owned()));
    assert_eq!(state_of(&world, &run_of("w", 0)).await, skipped);
    assert_nothing_waits(&world);
}

#[tokio::test]
async fn a_parent_removed_in_flight_lets_its_child_end_as_skipped() {
    let world = World::new();
    let root = world.plant("a", 0).await;
    for (job, after) in [("x", "after a"), ("y", "after x"), ("z", "after a y")] {
        add(&world, job, after).await;
    }
    run_to(&world, 0, &root, RunState::Succeeded).await;
    assert_eq!(give(&world, 2).await, [ChildReply::Planted, ChildReply::Awaits(1)]);
    edit(&world, 3, "z", "after a").await;
    remove(&world, 4, "y").await;
    run_to(&world, 5, &run_of("x", 0), RunState::Succeeded).await;
    assert_eq!(give(&world, 7).await, [ChildReply::Skipped, ChildReply::Skipped]);
    assert_eq!(state_of(&world, &run_of("z", 0)).await.0, RunState::Skipped);
    assert_nothing_waits(&world);
}

#[tokio::test]
async fn a_child_that_gets_a_schedule_in_flight_still_runs_for_the_occurrence() {
    let (world, of_y) = half_way().await;
    let record = world.job("z").await;
    let order = ApplyOrder {
        definition: version("v2"),
        read: Some((record.rev, record.lane)),
        token: token(),
        ..definition("z", 9000)
    };
    assert_eq!(world.at(7).apply_job(&order).await.unwrap(), ApplyReply::Updated);
    world.succeed(8, &of_y).await;
    assert_eq!(give(&world, 9).await, [ChildReply::Planted]);
    run_to(&world, 10, &run_of("z", 0), RunState::Succeeded).await;
    assert_eq!(give(&world, 12).await, [ChildReply::Planted]);
    // From now on the job is a root.
    run_to(&world, 9000, &run_of("z", 9000), RunState::Succeeded).await;
    assert_eq!(give(&world, 9002).await, [ChildReply::Planted]);
    assert_nothing_waits(&world);
}

#[tokio::test]
async fn a_retried_parent_decides_by_the_parents_that_the_occurrence_began_with() {
    let (world, of_y) = half_way().await;
    world.finish(7, &of_y, schedd_store::Verdict::Final(RunState::Failed)).await;
    assert_eq!(give(&world, 8).await, [ChildReply::Skipped, ChildReply::Skipped]);
    edit(&world, 9, "z", "after w2 x").await;
    let order = crate::scripts::jobs::retrying::retrial(&of_y, &world.job("y").await);
    world.at(10).retry_run(&order).await.unwrap();
    run_to(&world, 11, &run_of("y", 0), RunState::Succeeded).await;
    assert_eq!(give(&world, 13).await, [ChildReply::Planted]);
    run_to(&world, 14, &run_of("z", 0), RunState::Succeeded).await;
    assert_eq!(give(&world, 16).await, [ChildReply::Planted]);
    assert_nothing_waits(&world);
}

#[tokio::test]
async fn a_change_made_while_the_clock_was_ahead_counts_once_the_clock_is_set_back() {
    let world = World::new();
    let root = world.plant("a", 0).await;
    add(&world, "x", "after a").await;
    add(&world, "z", "after x").await;
    edit(&world, 365 * DAY, "z", "after_finished a").await;
    run_to(&world, 0, &root, RunState::Succeeded).await;
    assert_eq!(give(&world, 2).await, [ChildReply::Planted, ChildReply::Planted]);
    run_to(&world, 3, &run_of("x", 0), RunState::Succeeded).await;
    assert_eq!(give(&world, 5).await, []);
    assert_nothing_waits(&world);
}

#[tokio::test]
async fn a_job_keeps_twenty_former_texts_of_parents_with_their_links() {
    let world = World::new();
    world.plant("a", 0).await;
    add(&world, "z", "after a").await;
    for at in 0..30 {
        edit(&world, at, "z", &format!("after p{at}")).await;
    }
    let text: String = world.raw("HGET", "job:z", &["former_after"]);
    assert_eq!(text.lines().count(), 20, "{text}");
    let links: Vec<String> = world.raw("ZRANGE", "chains", &["0", "-1"]);
    assert_eq!(links.len(), 21, "{links:?}");
    world.assert_sound();
}

#[tokio::test]
async fn a_parent_gets_no_further_former_child_beyond_a_thousand_links() {
    let world = World::new();
    world.plant("a", 0).await;
    for at in 0..998 {
        let _: i64 = world.raw("ZADD", "chains", &["0", &format!("a c{at} 5")]);
    }
    for (job, is_kept) in [("y", true), ("z", false)] {
        add(&world, job, "after a").await;
        edit(&world, 1, job, "after b").await;
        let links: Vec<String> = world.raw("ZRANGEBYLEX", "chains", &["[a ", "(a!"]);
        let is_former = links.contains(&format!("a {job} {}", t(1).as_i64()));
        assert_eq!((links.len(), is_former), (999, is_kept), "{job}");
    }
}

#[tokio::test]
async fn an_occurrence_and_a_former_link_are_removed_after_ninety_days() {
    let (world, _) = half_way().await;
    edit(&world, 7, "z", "after x").await;
    remove(&world, 8, "w").await;
    let left = || {
        let links: Vec<String> = world.raw("ZRANGE", "chains", &["0", "-1"]);
        (world.raw::<i64>("HLEN", "chain:z", &[]), links.len())
    };
    let before = left();
    assert_eq!(before, (1, 5));
    assert_eq!(forget_stuck(&world.store, t(90 * DAY)).await.unwrap(), 0);
    assert_eq!(left(), before);
    // The occurrence began with the end of `a`, at 1 ms.
    assert_eq!(forget_stuck(&world.store, t(90 * DAY + 2)).await.unwrap(), 1);
    assert_eq!(left(), (0, 5));
    let after = t(90 * DAY + 8).saturating_add(Duration::from_millis(1));
    assert_eq!(forget_stuck(&world.store, after).await.unwrap(), 0);
    assert_eq!(left(), (0, 3));
}
