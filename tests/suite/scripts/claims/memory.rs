//! A Redis without memory takes nothing new, and lets what is there come to its end.

use std::time::Duration;

use schedd_core::domain::job::job_spec::Overlap;
use schedd_core::domain::run::run_state::RunState;
use schedd_store::{
    CancelReply, Claimant, FinishReply, LeaseWord, OutputFrames, OutputStream, RecoverReply,
    RetryReply, StopRunning, StoreError, Verdict,
};

use super::recovering::{expired, recovery};
use crate::scripts::jobs::removing::removal;
use crate::scripts::jobs::retrying::retrial;
use crate::scripts::world::{LEASE, World, claimant, definition, queue, run_of};

fn fill(world: &World) {
    let _: () = world.server(&["CONFIG", "SET", "maxmemory", "1"]);
}

#[tokio::test]
async fn nothing_new_is_taken_and_nothing_half_of_it_written() {
    let world = World::new();
    let run = world.plant("a", 0).await;
    let claim = world.win_with(0, &run, Overlap::Skip, 1000).await;
    let dead = world.plant("d", 0).await;
    let dead = world.win_with(0, &dead, Overlap::Skip, 1000).await;
    world.finish(0, &dead, Verdict::Final(RunState::Failed)).await;
    let retrial = retrial(&dead, &world.job("d").await);
    fill(&world);
    let before = world.snapshot();
    let mut frames = OutputFrames::new(0);
    frames.push_head(OutputStream::Stdout, b"hello");
    let hand = schedd_schedule::names::RunId::manual("a".parse().unwrap(), run.due(), "x").unwrap();
    let errors = [
        world.at(1).apply_job(&definition("b", 5)).await.unwrap_err(),
        world.at(1).retry_run(&retrial).await.unwrap_err(),
        world.at(1).plant_manual(&hand, &queue("default"), None).await.unwrap_err(),
        world.at(1).write_output(&claim, &frames).await.unwrap_err(),
    ];
    for error in errors {
        assert!(matches!(error, StoreError::OutOfMemory { .. }), "{error:?}");
    }
    assert_eq!(world.snapshot(), before);
    let _: () = world.server(&["CONFIG", "SET", "maxmemory", "0"]);
    world.plant("b", 5).await;
    assert_eq!(world.at(1).retry_run(&retrial).await.unwrap(), RetryReply::Retried);
    world.assert_sound();
}

#[tokio::test]
async fn what_is_there_is_claimed_renewed_ended_recovered_and_cancelled() {
    let world = World::new();
    for job in ["a", "b", "c", "d"] {
        world.plant(job, 0).await;
    }
    let order = world.order_with(&run_of("d", 0), Overlap::Skip, 1000).await;
    fill(&world);
    // Also by a node that starts now, whose scripts the server does not have.
    let _: () = world.server(&["SCRIPT", "FLUSH"]);
    let a = world.win_with(0, &run_of("a", 0), Overlap::Skip, 1000).await;
    // The note of a claim is new, and the claim does without it.
    let (store, worker) =
        (world.at(0), Claimant { claim_note: Some(("@x".to_owned(), LEASE)), ..claimant("n1") });
    let claimed = store.claim_runs(1, &worker, &queue("default"), "question", &[order]).await;
    World::won(claimed.unwrap().remove(0));
    assert_eq!(store.read_worker_claim("question").await.unwrap(), None);
    let b = world.win_with(0, &run_of("b", 0), Overlap::Skip, 1000).await;
    let words = world
        .at(1)
        .renew_leases(LEASE, &[(a.run.clone(), a.fence), (b.run.clone(), b.fence)])
        .await
        .unwrap();
    assert_eq!(words, [LeaseWord::Extended, LeaseWord::Extended]);
    assert!(matches!(
        world.finish(2, &a, Verdict::Retry(Duration::ZERO)).await,
        FinishReply::Retrying(_)
    ));
    let a = world.win(3, &a.run).await;
    world.succeed(4, &a).await;
    let reply = world
        .at(20_000)
        .recover_run(&expired(&b, 10_001), &recovery(Some(RunState::Lost)))
        .await
        .unwrap();
    assert_eq!(reply, RecoverReply::Ended);
    let order = world.cancelling(&run_of("c", 0), Some(1000)).await;
    assert_eq!(world.at(20_001).cancel_run(&order).await.unwrap(), CancelReply::Cancelled);
    assert_eq!(world.store.purge_dead(&[b.run]).await.unwrap(), 1, "room can be made");
    world.at(20_002).pause_job(&world.job("c").await, None, &[]).await.unwrap();
    world.at(20_003).remove_job(&removal(&world.job("c").await, StopRunning::No)).await.unwrap();
    world.assert_sound();
}
