//! `skip_run`: a stretch of occurrences is one record, and the next is planted. `max_age` at the claim: what is not judged as a missed
//! occurrence is held to it too, by when it was ready.

use std::time::Duration;

use schedd_core::domain::job::job_spec::Overlap;
use schedd_core::domain::run::run_state::RunState;
use schedd_store::{Blocking, ClaimOrder, ClaimReply, SkipOrder, SkipReply, Verdict};

use crate::scripts::world::{World, queue, run_of, successor, t};

async fn skipping(world: &World, due: i64, last: i64, count: u64, next: Option<i64>) -> SkipOrder {
    SkipOrder {
        run: run_of("a", due),
        rev: world.job("a").await.rev,
        lane: queue("default"),
        reason: "missed",
        last_due: t(last),
        count,
        successor: next.map(|next| successor("a", next)),
    }
}

#[tokio::test]
async fn a_range_is_one_record_counted_in_full() {
    let world = World::new();
    let run = world.plant("a", 0).await;
    let order = skipping(&world, 0, 9000, 10, Some(10_000)).await;
    assert_eq!(world.at(9500).skip_run(&order).await.unwrap(), SkipReply::Skipped);
    let record = world.run(&run).await;
    assert_eq!((record.state, record.skipped), (RunState::Skipped, Some((t(9000), 10))));
    assert_eq!(world.total("skipped"), 10);
    assert_eq!(world.job("a").await.pending, Some(run_of("a", 10_000)));
    world.assert_sound();
    let before = world.snapshot();
    assert_eq!(world.at(9501).skip_run(&order).await.unwrap(), SkipReply::Gone);
    assert_eq!(world.snapshot(), before);
}

#[tokio::test]
async fn a_one_shot_skipped_is_over() {
    let world = World::new();
    world.plant_once("a", 0).await;
    let order = skipping(&world, 0, 0, 1, None).await;
    assert_eq!(world.at(5).skip_run(&order).await.unwrap(), SkipReply::Skipped);
    assert_eq!(world.job("a").await.ended.as_deref(), Some("finished"));
    assert_eq!(world.total("skipped"), 1);
    world.assert_sound();
}

#[tokio::test]
async fn a_skip_by_an_older_rev_or_over_a_taken_occurrence_is_refused() {
    let world = World::new();
    let run = world.plant("a", 0).await;
    let stale = SkipOrder {
        rev: world.plant_other_rev().await,
        ..skipping(&world, 0, 0, 1, Some(1000)).await
    };
    let before = world.snapshot();
    assert_eq!(world.at(5).skip_run(&stale).await.unwrap(), SkipReply::Stale);
    // Its planned run may have gone to another lane with the edit, and is no less planned.
    let moved = SkipOrder { lane: queue("other"), ..stale };
    assert_eq!(world.at(5).skip_run(&moved).await.unwrap(), SkipReply::Stale);
    assert_eq!(world.snapshot(), before);

    let claim = world.win_with(0, &run, Overlap::Skip, 1000).await;
    world.succeed(1, &claim).await;
    let before = world.snapshot();
    let taken = skipping(&world, 1000, 1000, 1, Some(0)).await;
    assert_eq!(world.at(1000).skip_run(&taken).await.unwrap(), SkipReply::Occupied);
    assert_eq!(world.snapshot(), before);
}

#[tokio::test]
async fn a_planned_run_whose_record_says_otherwise_is_not_skipped_over_it() {
    for state in ["succeeded", "running", "sched", ""] {
        let world = World::new();
        let run = world.plant("a", 0).await;
        let _: i64 = world.raw("HSET", &format!("run:{run}"), &["state", state]);
        let before = world.snapshot();
        let order = skipping(&world, 0, 9000, 10, Some(10_000)).await;
        assert_eq!(world.at(9500).skip_run(&order).await.unwrap(), SkipReply::Over, "{state:?}");
        assert_eq!(world.snapshot(), before);
        // One that says that it is to run is.
        let _: i64 = world.raw("HSET", &format!("run:{run}"), &["state", "scheduled"]);
        assert_eq!(world.at(9500).skip_run(&order).await.unwrap(), SkipReply::Skipped);
    }
}

impl World {
    /// The rev of another job: one this job has never had.
    pub(crate) async fn plant_other_rev(&self) -> schedd_store::Rev {
        let order = crate::scripts::world::definition("other", 5);
        self.at(77).apply_job(&order).await.unwrap();
        self.job("other").await.rev
    }
}

#[tokio::test]
async fn a_retry_later_than_max_age_ends_failed_and_a_manual_run_skipped() {
    let world = World::new();
    let run = world.plant("a", 0).await;
    let claim = world.win_with(0, &run, Overlap::Skip, 100_000).await;
    world.finish(1, &claim, Verdict::Retry(Duration::from_secs(20))).await;
    let hand = world.by_hand("a", 5_000).await;
    let max_age = Some(Duration::from_secs(10));
    let late = ClaimOrder { max_age, overlap: Overlap::Allow, ..world.order(&run).await };
    assert!(matches!(world.claim(20_000, &late).await, ClaimReply::Early));
    let reply = world.claim(30_002, &late).await;
    assert!(matches!(reply, ClaimReply::Blocked(Blocking::Failed)), "{reply:?}");
    let record = world.run(&run).await;
    assert_eq!((record.state, record.attempt, record.exit_code), (RunState::Failed, 1, Some(0)));
    assert!(record.reason.unwrap().contains("max_age"));
    let reply = world.claim(15_001, &ClaimOrder { max_age, ..world.order(&hand).await }).await;
    assert!(matches!(reply, ClaimReply::Blocked(Blocking::Skipped)), "{reply:?}");
    assert_eq!(world.run(&hand).await.reason.as_deref(), Some("missed"));
    world.assert_sound();
}

#[tokio::test]
async fn without_max_age_runs_start_however_late_and_with_it_retries_still_do() {
    let world = World::new();
    let run = world.plant("a", 0).await;
    let claim = world.win_with(0, &run, Overlap::Skip, 100_000).await;
    world.finish(1, &claim, Verdict::Retry(Duration::from_secs(20))).await;
    let hand = world.by_hand("a", 30_000).await;
    let on_time = ClaimOrder { max_age: Some(Duration::from_secs(10)), ..world.order(&run).await };
    let again = World::won(world.claim(30_000, &on_time).await);
    assert_eq!(again.attempt, 2);
    world.finish(30_001, &again, Verdict::Retry(Duration::ZERO)).await;
    world.win(90_000_000, &run).await;
    let hand = ClaimOrder { overlap: Overlap::Allow, ..world.order(&hand).await };
    World::won(world.claim(90_000_001, &hand).await);
    assert_eq!(world.job("a").await.pending, Some(run_of("a", 100_000)));
    world.assert_sound();
}
