//! `spread_runs`: missed runs with ready times of their own, and what may happen to them before they start.

use schedd_core::domain::job::job_spec::Overlap;
use schedd_core::domain::run::run_state::RunState;
use schedd_schedule::names::RunId;
use schedd_store::{
    ApplyOrder, Blocking, CancelReply, ClaimReply, RemoveReply, SpreadOrder, SpreadReply,
    SpreadWindow, StopRunning, Successor,
};

use crate::scripts::jobs::removing::removal;
use crate::scripts::world::{World, definition, name, queue, run_of, successor, t, version};

/// The runs due at `dues`, each ready at what stands beside it, followed by the one due at `next`.
async fn spreading(world: &World, dues: &[(i64, i64)], next: i64) -> SpreadOrder {
    let job = world.job("a").await;
    SpreadOrder {
        name: name("a"),
        rev: job.rev,
        lane: queue("default"),
        window: job.window,
        next_window: None,
        runs: dues
            .iter()
            .map(|(due, ready)| Successor { run: run_of("a", *due), ready: t(*ready) })
            .collect(),
        successor: Some(successor("a", next)),
    }
}

/// A job whose runs due at 0, 1000 and 2000 are ready at 5100, 5200 and 5300.
async fn spread() -> (World, [RunId; 3]) {
    let world = World::new();
    world.plant("a", 0).await;
    let order = spreading(&world, &[(0, 5100), (1000, 5200), (2000, 5300)], 6000).await;
    assert_eq!(world.at(5000).spread_runs(&order).await.unwrap(), SpreadReply::Spread);
    world.assert_sound();
    (world, [run_of("a", 0), run_of("a", 1000), run_of("a", 2000)])
}

fn how(reply: &ClaimReply) -> Option<Blocking> {
    if let ClaimReply::Blocked(how) = reply { Some(*how) } else { None }
}

#[tokio::test]
async fn missed_runs_get_times_of_their_own_and_what_comes_after_them_is_planted() {
    let (world, runs) = spread().await;
    assert_eq!(world.job("a").await.pending, Some(run_of("a", 6000)));
    assert_eq!(world.store.list_spread(&name("a")).await.unwrap(), runs);
    assert_eq!(world.score("due:default", &runs[1].to_string()), Some(5200));
    let record = world.run(&runs[1]).await;
    assert_eq!(
        (record.state, record.ready, record.reason.as_deref()),
        (RunState::Scheduled, Some(t(5200)), Some("missed"))
    );
    assert!(matches!(world.claim(5150, &world.order(&runs[1]).await).await, ClaimReply::Early));
    let first = world.win(5150, &runs[0]).await;
    assert_eq!(
        world.job("a").await.pending,
        Some(run_of("a", 6000)),
        "only the pending run plants the next"
    );
    assert_eq!(
        how(&world.claim(5250, &world.order(&runs[1]).await).await),
        Some(Blocking::Skipped)
    );
    let mut behind = world.order(&runs[2]).await;
    behind.overlap = Overlap::Queue { max: 1 };
    assert_eq!(how(&world.claim(5350, &behind).await), Some(Blocking::Waiting));
    assert_eq!(world.store.list_spread(&name("a")).await.unwrap(), []);
    world.assert_sound();
    world.succeed(5400, &first).await;
    world.win(5400, &runs[2]).await;
    world.assert_sound();
}

#[tokio::test]
async fn only_the_pending_run_read_is_spread_and_never_over_a_taken_occurrence() {
    let (world, _) = spread().await;
    let before = world.snapshot();
    let again = spreading(&world, &[(0, 9000)], 1000).await;
    assert_eq!(world.at(5050).spread_runs(&again).await.unwrap(), SpreadReply::Gone);
    let taken = spreading(&world, &[(6000, 9000)], 0).await;
    assert_eq!(world.at(7000).spread_runs(&taken).await.unwrap(), SpreadReply::Occupied);
    let window = Some(SpreadWindow { run: run_of("a", 6000), from: t(1), until: t(2) });
    let stale = SpreadOrder { window, ..spreading(&world, &[(6000, 9000)], 7000).await };
    assert_eq!(world.at(7000).spread_runs(&stale).await.unwrap(), SpreadReply::Stale);
    assert_eq!(world.snapshot(), before);
    // Its planned run may have gone to another lane with an edit, and is no less planned.
    let rev = world.plant_other_rev().await;
    let before = world.snapshot();
    let edited =
        SpreadOrder { rev, lane: queue("other"), ..spreading(&world, &[(6000, 9000)], 7000).await };
    assert_eq!(world.at(7000).spread_runs(&edited).await.unwrap(), SpreadReply::Stale);
    assert_eq!(world.snapshot(), before);
}

#[tokio::test]
async fn what_is_left_of_a_window_stands_with_the_job_for_whoever_comes_next() {
    let world = World::new();
    world.plant("a", 0).await;
    let window = Some(SpreadWindow { run: run_of("a", 1000), from: t(7000), until: t(9000) });
    let order =
        SpreadOrder { next_window: window.clone(), ..spreading(&world, &[(0, 6000)], 1000).await };
    assert_eq!(world.at(5000).spread_runs(&order).await.unwrap(), SpreadReply::Spread);
    assert_eq!(world.job("a").await.window, window);
    let order = spreading(&world, &[(1000, 8000)], 6000).await;
    assert_eq!(world.at(5001).spread_runs(&order).await.unwrap(), SpreadReply::Spread);
    assert_eq!(world.job("a").await.window, None);
    world.assert_sound();
}

#[tokio::test]
async fn a_spread_run_of_a_paused_job_ends_skipped_and_of_a_removed_one_cancelled_at_once() {
    let (world, runs) = spread().await;
    world.at(5110).pause_job(&world.job("a").await, None, &[]).await.unwrap();
    assert_eq!(
        how(&world.claim(5120, &world.order(&runs[0]).await).await),
        Some(Blocking::Skipped)
    );
    assert_eq!(world.run(&runs[0]).await.reason.as_deref(), Some("paused"));
    let removed =
        world.at(5130).remove_job(&removal(&world.job("a").await, StopRunning::No)).await.unwrap();
    assert_eq!(removed, RemoveReply::Removed(0));
    for run in &runs[1..] {
        assert_eq!(
            how(&world.claim(5131, &world.order(run).await).await),
            Some(Blocking::Cancelled)
        );
    }
    world.assert_sound();
}

#[tokio::test]
async fn a_spread_run_is_cancelled_by_id_and_outlives_its_jobs_edit_to_a_one_shot() {
    let (world, runs) = spread().await;
    let reply = world.at(5050).cancel_run(&world.cancelling(&runs[0], None).await).await.unwrap();
    assert_eq!(reply, CancelReply::Cancelled);
    let job = world.job("a").await;
    let edit = ApplyOrder {
        definition: version("v2"),
        read: Some((job.rev, job.lane)),
        planned: job.pending,
        is_once: true,
        planted: Some(successor("a", 5060)),
        ..definition("a", 0)
    };
    world.at(5055).apply_job(&edit).await.unwrap();
    let once = world.win(5060, &run_of("a", 5060)).await;
    world.succeed(5061, &once).await;
    assert_eq!(world.job("a").await.ended.as_deref(), Some("finished"));
    let first = world.win(5200, &runs[1]).await;
    let mut behind = world.order(&runs[2]).await;
    behind.overlap = Overlap::Queue { max: 1 };
    assert_eq!(how(&world.claim(5300, &behind).await), Some(Blocking::Waiting));
    assert_eq!(world.at(5301).forget_jobs(t(9000), 0).await.unwrap(), 1);
    world.succeed(5302, &first).await;
    world.win(5303, &runs[2]).await;
    world.assert_sound();
}

#[tokio::test]
async fn the_definition_of_a_job_that_ended_is_kept_for_what_is_spread_of_it() {
    let (world, runs) = spread().await;
    world.at(5050).remove_job(&removal(&world.job("a").await, StopRunning::No)).await.unwrap();
    world.at(5051).forget_jobs(t(9000), 0).await.unwrap();
    for run in &runs {
        assert_eq!(
            how(&world.claim(5060, &world.order(run).await).await),
            Some(Blocking::Cancelled)
        );
    }
    world.at(5070).forget_jobs(t(9000), 0).await.unwrap();
    assert!(world.store.read_job(&name("a")).await.unwrap().is_none());
    world.assert_sound();
}
