//! Scripts forgotten and data deleted by somebody else, between calls and during them.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use schedd_core::domain::run::run_state::RunState;
use schedd_store::{
    ApplyOrder, ApplyReply, CancelReply, ClaimReply, FinishReply, LeaseWord, ManualReply,
    OutputFrames, PauseReply, RecoverReply, RemoveReply, StopRunning, Verdict,
};

use crate::scripts::claims::recovering::{expired, recovery};
use crate::scripts::jobs::removing::removal;
use crate::scripts::world::{LEASE, World, definition, queue, run_of, t};

#[tokio::test]
async fn scripts_the_server_forgot_are_loaded_again_within_the_call() {
    let world = World::new();
    let _: () = world.server(&["SCRIPT", "FLUSH"]);
    let run = world.plant("a", 0).await;
    let _: () = world.server(&["SCRIPT", "FLUSH"]);
    let orders: Vec<ApplyOrder> =
        (0..200).map(|number| definition(&format!("j{number}"), 5)).collect();
    let replies = world.at(-1).apply_jobs(&orders).await.unwrap();
    assert!(replies.iter().all(|reply| matches!(reply, Ok(ApplyReply::Created))));
    let _: () = world.server(&["SCRIPT", "FLUSH"]);
    let claim = world.win(0, &run).await;
    let _: () = world.server(&["SCRIPT", "FLUSH"]);
    assert_eq!(
        world.at(1).renew_leases(LEASE, &[(run, claim.fence)]).await.unwrap(),
        [LeaseWord::Extended]
    );
    world.assert_sound();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_storm_of_script_flushes_during_pipelines_loses_and_doubles_nothing() {
    let world = World::new();
    let is_over = AtomicBool::new(false);
    let mut connection = world.redis.connection();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                let () = redis::cmd("SCRIPT").arg("FLUSH").query(&mut connection).unwrap();
            }
        });
        let store = world.at(-1);
        let work = tokio::task::block_in_place(|| {
            tokio::runtime::Handle::current().block_on(async {
                let mut left: Vec<ApplyOrder> =
                    (0..500).map(|number| definition(&format!("j{number}"), 0)).collect();
                for _ in 0..1000 {
                    let replies = store.apply_jobs(&left).await.unwrap();
                    let refused = |reply: &Result<ApplyReply, _>| match reply {
                        Ok(reply) => {
                            assert_eq!(*reply, ApplyReply::Created);
                            false
                        }
                        Err(error) => {
                            let error: &schedd_store::StoreError = error;
                            assert!(error.is_passing(), "{error}");
                            true
                        }
                    };
                    left = left
                        .into_iter()
                        .zip(&replies)
                        .filter(|(_, reply)| refused(reply))
                        .map(|(order, _)| order)
                        .collect();
                    if left.is_empty() {
                        break;
                    }
                }
                left.len()
            })
        });
        is_over.store(true, Ordering::Relaxed);
        assert_eq!(work, 0, "definitions that never went in");
    });
    assert_eq!(world.raw::<i64>("ZCARD", "due:default", &[]), 500);
    world.assert_sound();
}

#[tokio::test]
async fn when_all_was_deleted_every_call_says_so_and_makes_nothing_up() {
    let world = World::new();
    let run = world.plant("a", 0).await;
    let order = world.order(&run).await;
    let job = world.job("a").await;
    let claim = world.win(0, &run).await;
    let cancelling = world.cancelling(&run, Some(5000)).await;
    let _: () = world.server(&["FLUSHALL"]);
    let store = world.at(1);
    assert!(matches!(world.claim(1, &order).await, ClaimReply::Gone));
    for verdict in
        [Verdict::Final(RunState::Succeeded), Verdict::Retry(Duration::ZERO), Verdict::Release]
    {
        assert_eq!(world.finish(1, &claim, verdict).await, FinishReply::Lost);
    }
    assert_eq!(
        store.renew_leases(LEASE, &[(run.clone(), claim.fence)]).await.unwrap(),
        [LeaseWord::Lost]
    );
    assert_eq!(
        store.recover_run(&expired(&claim, 10_000), &recovery(None)).await.unwrap(),
        RecoverReply::Gone
    );
    assert_eq!(store.cancel_run(&cancelling).await.unwrap(), CancelReply::Unknown);
    assert_eq!(
        store.remove_job(&removal(&job, StopRunning::Yes)).await.unwrap(),
        RemoveReply::Unknown
    );
    assert_eq!(store.pause_job(&job, None, &[]).await.unwrap(), PauseReply::Unknown);
    assert_eq!(
        store.plant_manual(&run, &queue("default"), None).await.unwrap(),
        ManualReply::Unknown
    );
    assert_eq!(store.write_output(&claim, &OutputFrames::new(0)).await.unwrap(), None);
    assert_eq!(store.forget_runs(None, t(5), 0).await.unwrap(), 0);
    assert_eq!(store.forget_jobs(t(5), 0).await.unwrap(), 0);
    assert_eq!(store.forget_outputs(None, t(5), 0).await.unwrap(), 0);
    let edit = ApplyOrder { read: Some((job.rev, job.lane)), ..definition("a", 0) };
    assert_eq!(store.apply_job(&edit).await.unwrap(), ApplyReply::Stale);
    assert!(world.snapshot().is_empty(), "{:?}", world.snapshot());
    assert_eq!(store.apply_job(&definition("a", 1000)).await.unwrap(), ApplyReply::Created);
    assert_eq!(world.job("a").await.pending, Some(run_of("a", 1000)));
    world.assert_sound();
}
