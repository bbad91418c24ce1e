//! `finish_run`: under its fence an attempt ends its run, or puts it back; nobody else's word counts.

use std::time::Duration;

use schedd_core::domain::job::job_spec::{Delivery, Overlap};
use schedd_core::domain::run::run_state::RunState;
use schedd_schedule::names::Fence;
use schedd_store::{
    Blocking, CancelReply, Claim, ClaimOrder, ClaimReply, FinishReply, LeaseWord, Verdict,
};

use super::recovering::{expired, recovery};
use crate::scripts::world::{LEASE, World, run_of, t};

async fn running(world: &World) -> Claim {
    let run = world.plant("a", 0).await;
    world.win_with(0, &run, Overlap::Skip, 100_000).await
}

#[tokio::test]
async fn every_final_state_is_written_counted_and_put_into_history() {
    let world = World::new();
    let states = [
        RunState::Succeeded,
        RunState::Failed,
        RunState::TimedOut,
        RunState::Cancelled,
        RunState::Lost,
    ];
    for (number, state) in states.into_iter().enumerate() {
        let job = format!("j{number}");
        let run = world.plant(&job, 0).await;
        let claim = world.win_with(0, &run, Overlap::Skip, 100_000).await;
        let facts = [("exit_code", "7".to_owned())];
        let reply = world
            .at(5)
            .finish_run(&claim, &Verdict::Final(state), "why", &facts, "")
            .await
            .unwrap();
        assert_eq!(reply, FinishReply::Finished(1));
        let record = world.run(&run).await;
        assert_eq!(
            (record.state, record.finished_at, record.exit_code),
            (state, Some(t(5)), Some(7))
        );
        assert_eq!(record.reason.as_deref(), Some("why"));
        assert_eq!(world.total(state.as_str()), 1);
    }
    assert_eq!(world.store.read_history(None, 0, 10).await.unwrap().runs.len(), states.len());
    assert_eq!(world.store.read_stats().await.unwrap().running, 0);
    world.assert_sound();
}

#[tokio::test]
async fn an_end_reported_twice_is_answered_alike_and_changes_nothing() {
    let wait = Duration::from_secs(5);
    let verdicts = [
        Verdict::Final(RunState::Failed),
        Verdict::Retry(wait),
        Verdict::Release,
        Verdict::AskLater(wait),
    ];
    for verdict in verdicts {
        let world = World::new();
        let claim = running(&world).await;
        let first = world.finish(10, &claim, verdict.clone()).await;
        let before = world.snapshot();
        let second = world.finish(20, &claim, verdict.clone()).await;
        assert_eq!((first, world.snapshot()), (second, before), "{verdict:?}");
        world.assert_sound();
    }
}

#[tokio::test]
async fn a_stale_holder_is_answered_lost_and_changes_nothing() {
    let world = World::new();
    let stale = running(&world).await;
    world.at(20_000).recover_run(&expired(&stale, 10_000), &recovery(None)).await.unwrap();
    let verdicts = [
        Verdict::Final(RunState::Succeeded),
        Verdict::Retry(Duration::ZERO),
        Verdict::Release,
        Verdict::AskLater(Duration::ZERO),
    ];
    for claimed in [false, true] {
        if claimed {
            assert!(world.win(20_001, &stale.run).await.fence > stale.fence);
        }
        let before = world.snapshot();
        for verdict in verdicts.clone() {
            assert_eq!(world.finish(20_002, &stale, verdict).await, FinishReply::Lost);
            assert_eq!(world.snapshot(), before);
        }
    }
    world.assert_sound();
}

#[tokio::test]
async fn a_stale_holder_whose_lease_was_left_behind_is_lost_too() {
    let world = World::new();
    let old = running(&world).await;
    world.at(20_000).recover_run(&expired(&old, 10_000), &recovery(None)).await.unwrap();
    let new = world.win(20_001, &old.run).await;
    let _: i64 = world.raw("ZADD", "leases", &["1", &format!("{}#{}", old.run, old.fence)]);
    let before = world.snapshot();
    assert_eq!(
        world.finish(20_002, &old, Verdict::Final(RunState::Succeeded)).await,
        FinishReply::Lost
    );
    assert_eq!(world.snapshot(), before);
    world.succeed(20_003, &new).await;
}

#[tokio::test]
async fn a_forged_fence_is_lost() {
    let world = World::new();
    let claim = running(&world).await;
    let before = world.snapshot();
    for number in [0, claim.fence.as_u64() + 1, Fence::MAX] {
        let forged = Claim { fence: Fence::new(number).unwrap(), ..claim.clone() };
        assert_eq!(
            world.finish(5, &forged, Verdict::Final(RunState::Succeeded)).await,
            FinishReply::Lost
        );
    }
    assert_eq!(world.snapshot(), before);
}

#[tokio::test]
async fn a_retry_keeps_the_run_open_and_remembers_the_attempt() {
    let world = World::new();
    let claim = running(&world).await;
    let reply = world.finish(100, &claim, Verdict::Retry(Duration::from_secs(5))).await;
    assert_eq!(reply, FinishReply::Retrying(t(5100)));
    let record = world.run(&claim.run).await;
    assert_eq!(
        (record.state, record.attempt, record.ready, record.failures),
        (RunState::Scheduled, 1, Some(t(5100)), 1)
    );
    assert_eq!(record.past.len(), 1);
    world.assert_sound();
    let second = world.win(5100, &claim.run).await;
    assert_eq!((second.attempt, second.failures), (2, 1));
    assert_eq!(
        world.run(&claim.run).await.reason,
        None,
        "what was said of the last attempt does not stand with this one"
    );
    world.assert_sound();
}

#[tokio::test]
async fn a_run_handed_back_takes_its_attempt_back_and_is_due_at_once() {
    let world = World::new();
    let claim = running(&world).await;
    assert_eq!(world.finish(100, &claim, Verdict::Release).await, FinishReply::Released);
    let record = world.run(&claim.run).await;
    assert_eq!((record.state, record.attempt, record.failures), (RunState::Scheduled, 0, 0));
    world.assert_sound();
    let again = world.win(100, &claim.run).await;
    assert_eq!(again.attempt, 1);
    assert!(again.fence > claim.fence);
    world.assert_sound();
}

#[tokio::test]
async fn each_start_that_was_cut_short_is_kept_beside_the_attempt_that_is_made_anew() {
    let world = World::new();
    let mut claim = running(&world).await;
    for start in 1..=25_u32 {
        let past = format!("{{\"start\":{start}}}");
        let now = i64::from(start) * 100;
        assert_eq!(
            world
                .at(now)
                .finish_run(&claim, &Verdict::Release, "shutdown", &[], &past)
                .await
                .unwrap(),
            FinishReply::Released
        );
        let record = world.run(&claim.run).await;
        assert_eq!(
            (record.state, record.attempt, record.handed_back.as_deref()),
            (RunState::Scheduled, 0, None)
        );
        assert!(record.is_cut_short() && !record.has_current());
        let last = record.past.last().unwrap();
        assert_eq!((last.number, last.is_cut_short, &last.record), (1, true, &past));
        claim = world.win(now, &claim.run).await;
        assert_eq!(claim.attempt, 1);
        assert!(
            world.run(&claim.run).await.has_current(),
            "the attempt that is made anew is told beside those of before"
        );
    }
    let record = world.run(&claim.run).await;
    assert_eq!(
        (record.past.len(), record.first_start),
        (20, Some(t(0))),
        "only so many are kept, and when it began first"
    );
    world.finish(3_000, &claim, Verdict::Retry(Duration::ZERO)).await;
    let record = world.run(&claim.run).await;
    assert_eq!(
        (record.past.len(), record.past[20].is_cut_short, record.has_current()),
        (21, false, false)
    );
    world.assert_sound();
}

/// Has the run of `claim` asked about again in 5 s, `unclear` answers in a row being none.
async fn ask_later(world: &World, offset: i64, claim: &Claim, unclear: &str) -> FinishReply {
    let facts = [("exit_code", String::new()), ("unclear", unclear.to_owned())];
    let verdict = Verdict::AskLater(Duration::from_secs(5));
    world
        .at(offset)
        .finish_run(claim, &verdict, "done_check gave no clear answer: exit code 2", &facts, "")
        .await
        .unwrap()
}

#[tokio::test]
async fn a_run_to_be_asked_about_again_takes_its_attempt_back_and_waits() {
    let world = World::new();
    let claim = running(&world).await;
    assert_eq!(ask_later(&world, 100, &claim, "1").await, FinishReply::AskingLater(t(5_100)));
    let record = world.run(&claim.run).await;
    assert_eq!(
        (record.state, record.attempt, record.ready),
        (RunState::Scheduled, 0, Some(t(5_100)))
    );
    assert_eq!(
        (record.failures, record.recoveries, record.unclear, record.past.len()),
        (0, 0, 1, 0)
    );
    assert_eq!(record.reason.as_deref(), Some("done_check gave no clear answer: exit code 2"));
    world.assert_sound();
    assert!(matches!(
        world.claim(5_099, &world.order(&claim.run).await).await,
        schedd_store::ClaimReply::Early
    ));
    let again = world.win(5_100, &claim.run).await;
    assert_eq!((again.attempt, again.unclear, again.claimed_before), (1, 1, true));
    assert!(again.fence > claim.fence);
    world.assert_sound();
}

#[tokio::test]
async fn unclear_answers_count_as_no_failure_or_recovery_and_a_recovery_resets_them() {
    let world = World::new();
    let mut claim = running(&world).await;
    world.finish(1, &claim, Verdict::Retry(Duration::ZERO)).await;
    claim = world.win(2, &claim.run).await;
    world.at(20_000).recover_run(&expired(&claim, 10_002), &recovery(None)).await.unwrap();
    for unclear in 1..=2 {
        claim = world.win(20_000 + unclear * 10_000, &claim.run).await;
        ask_later(&world, 20_000 + unclear * 10_000, &claim, &unclear.to_string()).await;
    }
    claim = world.win(50_000, &claim.run).await;
    assert_eq!((claim.attempt, claim.failures, claim.recoveries, claim.unclear), (3, 1, 1, 2));
    world.at(70_000).recover_run(&expired(&claim, 60_000), &recovery(None)).await.unwrap();
    claim = world.win(70_000, &claim.run).await;
    assert_eq!((claim.attempt, claim.failures, claim.recoveries, claim.unclear), (4, 1, 2, 0));
    world.assert_sound();
}

#[tokio::test]
async fn a_stop_request_outlives_the_attempt_it_was_made_in() {
    let wait = Duration::from_secs(5);
    for verdict in [Verdict::Retry(wait), Verdict::Release, Verdict::AskLater(wait)] {
        let world = World::new();
        let claim = running(&world).await;
        let reply =
            world.at(1).cancel_run(&world.cancelling(&claim.run, None).await).await.unwrap();
        assert_eq!(reply, CancelReply::Requested);
        let words =
            world.at(2).renew_leases(LEASE, &[(claim.run.clone(), claim.fence)]).await.unwrap();
        assert_eq!(words, [LeaseWord::Stop("by a test".to_owned())]);
        let first = world.finish(3, &claim, verdict.clone()).await;
        assert_eq!(first, FinishReply::Finished(1));
        let record = world.run(&claim.run).await;
        assert_eq!(
            (record.state, record.reason.as_deref()),
            (RunState::Cancelled, Some("by a test"))
        );
        assert_eq!(
            world.finish(4, &claim, verdict).await,
            first,
            "told twice it is answered alike"
        );
        world.assert_sound();
    }
}

#[tokio::test]
async fn an_end_is_reported_once_more_after_the_next_attempt_began_and_is_lost() {
    let world = World::new();
    let claim = running(&world).await;
    world.finish(1, &claim, Verdict::Retry(Duration::ZERO)).await;
    world.win(2, &claim.run).await;
    let before = world.snapshot();
    assert_eq!(world.finish(3, &claim, Verdict::Retry(Duration::ZERO)).await, FinishReply::Lost);
    assert_eq!(world.snapshot(), before);
    assert_eq!(world.job("a").await.pending, Some(run_of("a", 100_000)));
}

#[tokio::test]
async fn the_record_keeps_the_delivery_rule_of_the_last_claim() {
    let world = World::new();
    let run = world.plant("a", 0).await;
    let order = ClaimOrder {
        delivery: Delivery::AtMostOnce,
        ..world.order_with(&run, Overlap::Skip, 100_000).await
    };
    let claim = World::won(world.claim(0, &order).await);
    assert_eq!(world.run(&run).await.delivery, Delivery::AtMostOnce);
    let () = world.raw("HSET", &format!("run:{run}"), &["delivery", "garbage"]);
    assert_eq!(world.run(&run).await.delivery, Delivery::AtMostOnce, "no second start");
    world.finish(10, &claim, Verdict::Release).await;
    world.win(20, &run).await;
    assert_eq!(world.run(&run).await.delivery, Delivery::AtLeastOnce);
    world.assert_sound();
}

#[tokio::test]
async fn a_run_handed_back_unexecuted_is_as_late_as_one_that_was_never_claimed() {
    let handed_back = async |past: &str| {
        let world = World::new();
        let run = world.plant("a", 0).await;
        let claim = world.win_with(0, &run, Overlap::Skip, 100_000).await;
        world.at(10).finish_run(&claim, &Verdict::Release, "", &[], past).await.unwrap();
        (world, run)
    };
    let late = |order: ClaimOrder, is_by_age: bool| ClaimOrder {
        max_age: is_by_age.then_some(Duration::from_secs(5)),
        latest_start: (!is_by_age).then(|| t(5_000)),
        ..order
    };
    for is_by_age in [true, false] {
        let (world, run) = handed_back("").await;
        assert_eq!(world.run(&run).await.first_start, None);
        let order = late(world.order(&run).await, is_by_age);
        let reply = world.claim(5_001, &order).await;
        assert!(matches!(reply, ClaimReply::Blocked(Blocking::Skipped)), "{reply:?}");
        assert_eq!(world.run(&run).await.reason.as_deref(), Some("missed"));
        world.assert_sound();
        let (world, run) = handed_back("").await;
        let order = late(world.order(&run).await, is_by_age);
        World::won(world.claim(5_000, &order).await);
        assert_eq!(world.job("a").await.begun, 1, "it counts once for max_runs");
        // An attempt that was cut short has executed.
        let (world, run) = handed_back("{\"x\":1}").await;
        assert_eq!(world.run(&run).await.first_start, Some(t(0)));
        let order = late(world.order(&run).await, is_by_age);
        World::won(world.claim(5_001, &order).await);
    }
}
