//! A job added again under the name of a removed or finished job: no run of the earlier job begins with its definition.

use std::time::Duration;

use schedd_core::domain::job::job_spec::Overlap;
use schedd_core::domain::queue::lane::Lane;
use schedd_core::domain::run::run_state::RunState;
use schedd_schedule::names::RunId;
use schedd_store::{
    ApplyOrder, ApplyReply, Blocking, ClaimReply, ManualReply, PlantReply, RebootReply, RetryReply,
    SpreadOrder, SpreadReply, StopRunning, Successor, Verdict,
};

use super::removing::removal;
use super::retrying::retrial;
use crate::scripts::world::{World, definition, name, run_of, successor, t, version};

/// Removes job `a` at `offset`; its open runs go on.
async fn remove(world: &World, offset: i64) {
    world.at(offset).remove_job(&removal(&world.job("a").await, StopRunning::No)).await.unwrap();
}

/// Adds job `a` again at `offset`, due far ahead, with the definition `text`.
async fn add_again(world: &World, offset: i64, text: &str) {
    let order = ApplyOrder { definition: version(text), ..definition("a", 1_000_000_000) };
    assert_eq!(world.at(offset).apply_job(&order).await.unwrap(), ApplyReply::Created);
    world.assert_sound();
}

/// Fails unless the claim of `run` at `offset` ends it as a run of an earlier job.
async fn assert_cancelled(world: &World, offset: i64, run: &RunId) {
    let reply = world.claim(offset, &world.order(run).await).await;
    assert!(matches!(reply, ClaimReply::Blocked(Blocking::Cancelled)), "{run}: {reply:?}");
    let record = world.run(run).await;
    assert_eq!(
        (record.state, record.reason.as_deref()),
        (RunState::Cancelled, Some("of an earlier job of this name"))
    );
    world.assert_sound();
}

#[tokio::test]
async fn a_spread_run_of_a_removed_job_does_not_begin_as_the_job_added_again() {
    let world = World::new();
    world.plant("a", 0).await;
    let order = SpreadOrder {
        name: name("a"),
        rev: world.job("a").await.rev,
        lane: Lane::default_lane(),
        window: None,
        next_window: None,
        runs: vec![Successor { run: run_of("a", 0), ready: t(5100) }],
        successor: Some(successor("a", 6000)),
    };
    assert_eq!(world.at(5000).spread_runs(&order).await.unwrap(), SpreadReply::Spread);
    remove(&world, 5001).await;
    add_again(&world, 5002, "v2").await;
    assert_cancelled(&world, 5200, &run_of("a", 0)).await;
}

#[tokio::test]
async fn a_run_by_hand_of_a_removed_job_does_not_begin_as_the_job_added_again() {
    let world = World::new();
    world.plant("a", 1_000_000).await;
    let run = world.by_hand("a", 10).await;
    remove(&world, 11).await;
    // Even the same definition: the cancel said that the run was not to begin.
    add_again(&world, 12, "v1").await;
    assert_cancelled(&world, 13, &run).await;
}

#[tokio::test]
async fn a_run_by_hand_of_a_finished_job_does_not_begin_as_the_job_added_again() {
    let world = World::new();
    let run = world.plant_once("a", 0).await;
    let asked = world.by_hand("a", 0).await;
    let claim = world.win(0, &run).await;
    world.succeed(1, &claim).await;
    assert!(!world.job("a").await.is_live());
    add_again(&world, 2, "v2").await;
    assert_cancelled(&world, 3, &asked).await;
}

#[tokio::test]
async fn a_boot_run_of_a_removed_job_does_not_begin_as_the_job_added_again() {
    let world = World::new();
    world.plant("a", 1_000_000).await;
    let run = RunId::manual(name("a"), t(10), "boot").unwrap();
    let reply = world.at(10).plant_reboot(&run, &Lane::default_lane(), "boot1").await.unwrap();
    assert_eq!(reply, RebootReply::Planted);
    remove(&world, 11).await;
    add_again(&world, 12, "v2").await;
    assert_cancelled(&world, 13, &run).await;
}

#[tokio::test]
async fn backfills_of_a_removed_job_are_not_those_of_the_job_added_again() {
    let world = World::new();
    world.plant("a", 1_000_000).await;
    let [first, second] = [-2000, -1000].map(|due| RunId::backfill(name("a"), t(due)));
    world.at(0).queue_backfill(&name("a"), &[first.clone(), second]).await.unwrap();
    let plant = || world.store.at(t(1));
    assert_eq!(
        plant().plant_backfill(&first, &Lane::default_lane()).await.unwrap(),
        PlantReply::Planted
    );
    remove(&world, 2).await;
    add_again(&world, 3, "v2").await;
    assert_eq!(world.store.list_backfill(&name("a"), 10).await.unwrap(), []);
    assert_cancelled(&world, 4, &first).await;
}

#[tokio::test]
async fn a_run_at_a_gate_of_a_removed_job_does_not_begin_as_the_job_added_again() {
    let world = World::new();
    world.plant("a", 0).await;
    let holder = world.plant("b", 0).await;
    world.win_at(0, &holder, &["group:g"]).await;
    let run = run_of("a", 0);
    let order = world.order_at(&run, &["group:g"]).await;
    assert!(matches!(world.claim(1, &order).await, ClaimReply::Blocked(Blocking::AtGate)));
    let order = schedd_store::RemoveOrder {
        gates: order.gates,
        ..removal(&world.job("a").await, StopRunning::No)
    };
    world.at(2).remove_job(&order).await.unwrap();
    add_again(&world, 3, "v2").await;
    let reply = world.claim(4, &world.order_at(&run, &["group:g"]).await).await;
    assert!(matches!(reply, ClaimReply::Blocked(Blocking::Cancelled)), "{reply:?}");
    world.assert_sound();
}

#[tokio::test]
async fn a_retry_goes_on_only_if_the_job_added_again_has_the_same_definition() {
    for hash in ["v1", "v2"] {
        let world = World::new();
        let run = world.plant("a", 0).await;
        let claim = world.win_with(0, &run, Overlap::Skip, 1_000_000).await;
        remove(&world, 1).await;
        world.finish(2, &claim, Verdict::Retry(Duration::ZERO)).await;
        add_again(&world, 3, hash).await;
        if hash == "v1" {
            assert_eq!(world.win(4, &run).await.attempt, 2);
        } else {
            assert_cancelled(&world, 4, &run).await;
        }
    }
}

#[tokio::test]
async fn a_dead_letter_of_an_earlier_job_is_not_retried_with_another_definition() {
    for (hash, wanted) in [("v1", RetryReply::Retried), ("v2", RetryReply::Former)] {
        let world = World::new();
        let run = world.plant("a", 0).await;
        let claim = world.win_with(0, &run, Overlap::Skip, 1_000_000).await;
        world.finish(1, &claim, Verdict::Final(RunState::Failed)).await;
        remove(&world, 2).await;
        add_again(&world, 3, hash).await;
        assert_eq!(
            world.at(4).retry_run(&retrial(&claim, &world.job("a").await)).await.unwrap(),
            wanted
        );
        world.assert_sound();
    }
}

#[tokio::test]
async fn an_edit_keeps_what_is_owed_of_its_job() {
    let world = World::new();
    world.plant("a", 1_000_000).await;
    let asked = world.by_hand("a", 10).await;
    let job = world.job("a").await;
    let edit = ApplyOrder {
        definition: version("v2"),
        read: Some((job.rev, job.lane)),
        ..definition("a", 2_000_000)
    };
    assert_eq!(world.at(11).apply_job(&edit).await.unwrap(), ApplyReply::Updated);
    world.win(12, &asked).await;
    world.assert_sound();
}

#[tokio::test]
async fn a_definition_is_kept_while_a_manual_run_may_need_it() {
    let world = World::new();
    world.plant("a", 1_000_000).await;
    let run = world.by_hand("a", 0).await;
    let claim = world.win(0, &run).await;
    remove(&world, 1).await;
    world.at(2).forget_jobs(t(5000), 0).await.unwrap();
    assert!(
        world.store.read_job(&name("a")).await.unwrap().is_some(),
        "an open run by hand needs it"
    );
    world.finish(3, &claim, Verdict::Retry(Duration::ZERO)).await;
    world.at(4).forget_jobs(t(5000), 0).await.unwrap();
    let second = world.win(5, &run).await;
    assert_eq!(second.attempt, 2);
    world.succeed(6, &second).await;
    world.at(7).forget_jobs(t(5000), 0).await.unwrap();
    assert!(world.store.read_job(&name("a")).await.unwrap().is_none(), "nothing needs it any more");
}

#[tokio::test]
async fn each_kind_of_manual_run_is_listed_from_its_planting_to_its_end() {
    let world = World::new();
    world.plant("a", 1_000_000).await;
    let listed = || async { world.store.list_manual(&name("a")).await.unwrap() };
    let boot = RunId::manual(name("a"), t(5), "boot").unwrap();
    world.at(5).plant_reboot(&boot, &Lane::default_lane(), "boot1").await.unwrap();
    let backfill = RunId::backfill(name("a"), t(-1000));
    world.at(6).queue_backfill(&name("a"), std::slice::from_ref(&backfill)).await.unwrap();
    world.at(6).plant_backfill(&backfill, &Lane::default_lane()).await.unwrap();
    let hand = world.by_hand("a", 7).await;
    assert_eq!(listed().await, [backfill.clone(), boot.clone(), hand.clone()]);
    assert_eq!(
        world.at(8).plant_manual(&hand, &Lane::default_lane(), None).await.unwrap(),
        ManualReply::Planted
    );
    let claim = world.win(9, &boot).await;
    world.succeed(10, &claim).await;
    let order = world.cancelling(&hand, None).await;
    world.at(11).cancel_run(&order).await.unwrap();
    assert_eq!(listed().await, std::slice::from_ref(&backfill));
    let claim = world.win(12, &backfill).await;
    world.finish(13, &claim, Verdict::Final(RunState::Failed)).await;
    assert_eq!(listed().await, []);
    world.at(14).retry_run(&retrial(&claim, &world.job("a").await)).await.unwrap();
    assert_eq!(listed().await, [backfill], "a retried dead letter is not over");
    world.assert_sound();
}
