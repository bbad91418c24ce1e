//! `max_age` at the claim: what is not judged as a missed occurrence is held to it too, by when it was ready.

use std::time::Duration;

use schedd::domain::job::job_spec::Overlap;
use schedd::domain::run::run_state::RunState;
use schedd::store::{Blocking, ClaimOrder, ClaimReply, Verdict};

use crate::scripts::world::{World, run_of};

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
