//! `recover_run`: a run is taken back only under the lease that was watched, and counted.

use std::time::Duration;

use schedd_core::domain::job::job_spec::Overlap;
use schedd_core::domain::queue::lane::Lane;
use schedd_core::domain::run::run_state::RunState;
use schedd_store::{CancelReply, Claim, ExpiredLease, RecoverReply, Recovery, Verdict};

use crate::scripts::world::{LEASE, World, t};

/// The lease of `claim` as it was seen to end at `offset`.
pub(crate) fn expired(claim: &Claim, offset: i64) -> ExpiredLease {
    ExpiredLease { run: claim.run.clone(), fence: claim.fence, end: t(offset).as_i64().to_string() }
}

/// What to do: try again, or end it.
pub(crate) fn recovery(verdict: Option<RunState>) -> Recovery {
    Recovery {
        verdict,
        reason: "the node of the run was lost".to_owned(),
        past: "{}".to_owned(),
        lane: Lane::default_lane(),
        job_lane: Lane::default_lane(),
        places: Vec::new(),
    }
}

async fn running(world: &World) -> Claim {
    let run = world.plant("a", 0).await;
    world.win_with(0, &run, Overlap::Skip, 1_000_000).await
}

#[tokio::test]
async fn a_run_is_due_again_and_its_recovery_counted() {
    let world = World::new();
    let claim = running(&world).await;
    let lease = world.store.list_leases(10).await.unwrap().remove(0).unwrap();
    assert_eq!(lease, expired(&claim, 10_000));
    assert_eq!(
        world.at(20_000).recover_run(&lease, &recovery(None)).await.unwrap(),
        RecoverReply::Recovered
    );
    let record = world.run(&claim.run).await;
    assert_eq!((record.state, record.recoveries, record.failures), (RunState::Scheduled, 1, 0));
    assert_eq!((record.past.len(), record.ready), (1, Some(t(20_000))));
    assert_eq!(world.total("recovered"), 1);
    world.assert_sound();
    let again = world.win(20_000, &claim.run).await;
    assert_eq!((again.attempt, again.recoveries), (2, 1));
    assert!(again.fence > claim.fence);
    world.assert_sound();
}

#[tokio::test]
async fn of_two_that_recover_a_run_the_second_finds_nothing() {
    let world = World::new();
    let claim = running(&world).await;
    let store = world.at(20_000);
    assert_eq!(
        store.recover_run(&expired(&claim, 10_000), &recovery(None)).await.unwrap(),
        RecoverReply::Recovered
    );
    let before = world.snapshot();
    assert_eq!(
        store.recover_run(&expired(&claim, 10_000), &recovery(None)).await.unwrap(),
        RecoverReply::Gone
    );
    assert_eq!(world.snapshot(), before);
}

#[tokio::test]
async fn a_lease_that_has_moved_is_alive() {
    let world = World::new();
    let claim = running(&world).await;
    world.at(3_000).renew_leases(LEASE, &[(claim.run.clone(), claim.fence)]).await.unwrap();
    let before = world.snapshot();
    let reply =
        world.at(20_000).recover_run(&expired(&claim, 10_000), &recovery(None)).await.unwrap();
    assert_eq!(reply, RecoverReply::Alive);
    assert_eq!(world.snapshot(), before);
}

#[tokio::test]
async fn a_run_that_may_not_be_tried_again_ends() {
    for state in [RunState::Failed, RunState::Lost] {
        let world = World::new();
        let claim = running(&world).await;
        let reply = world
            .at(20_000)
            .recover_run(&expired(&claim, 10_000), &recovery(Some(state)))
            .await
            .unwrap();
        assert_eq!(reply, RecoverReply::Ended);
        let record = world.run(&claim.run).await;
        assert_eq!((record.state, record.finished_at), (state, Some(t(20_000))));
        world.assert_sound();
    }
}

#[tokio::test]
async fn recoveries_in_a_row_count_and_a_failure_of_its_own_begins_anew() {
    let world = World::new();
    let mut claim = running(&world).await;
    for number in 1..=3_u32 {
        let now = i64::from(number) * 20_000;
        let lease = world.store.list_leases(1).await.unwrap().remove(0).unwrap();
        world.at(now).recover_run(&lease, &recovery(None)).await.unwrap();
        claim = world.win(now, &claim.run).await;
        assert_eq!((claim.recoveries, claim.attempt), (number, number + 1));
    }
    world.finish(60_001, &claim, Verdict::Retry(Duration::ZERO)).await;
    let claim = world.win(60_002, &claim.run).await;
    assert_eq!((claim.recoveries, claim.failures, claim.attempt), (0, 1, 5));
    assert_eq!(world.run(&claim.run).await.past.len(), 4);
    world.assert_sound();
}

#[tokio::test]
async fn a_run_asked_to_stop_ends_cancelled_although_its_node_died() {
    let world = World::new();
    let claim = running(&world).await;
    let reply = world.at(1).cancel_run(&world.cancelling(&claim.run, None).await).await.unwrap();
    assert_eq!(reply, CancelReply::Requested);
    let reply =
        world.at(20_000).recover_run(&expired(&claim, 10_000), &recovery(None)).await.unwrap();
    assert_eq!(reply, RecoverReply::Ended);
    assert_eq!(world.state(&claim.run).await, RunState::Cancelled);
    world.assert_sound();
}

#[tokio::test]
async fn of_two_leases_of_one_run_the_later_is_kept() {
    let world = World::new();
    let claim = running(&world).await;
    let left_behind =
        Claim { fence: schedd_schedule::names::Fence::new(5).unwrap(), ..claim.clone() };
    let _: i64 =
        world.raw("ZADD", "leases", &[&t(9_000).as_i64().to_string(), &format!("{}#5", claim.run)]);
    let reply =
        world.at(20_000).recover_run(&expired(&left_behind, 9_000), &recovery(None)).await.unwrap();
    assert_eq!(reply, RecoverReply::Gone);
    assert_eq!(world.state(&claim.run).await, RunState::Running);
    world.assert_sound();
    world.succeed(20_001, &claim).await;
}

#[tokio::test]
async fn a_lease_with_an_end_no_lease_has_can_be_taken_back() {
    for end in ["+inf", "-inf", "1e300", "0.5"] {
        let world = World::new();
        let claim = running(&world).await;
        let _: i64 = world.raw("ZADD", "leases", &[end, &format!("{}#{}", claim.run, claim.fence)]);
        let lease = world.store.list_leases(10).await.unwrap().remove(0).unwrap();
        assert_eq!((&lease.run, lease.fence), (&claim.run, claim.fence), "{end}");
        assert_eq!(
            world.at(20_000).recover_run(&lease, &recovery(None)).await.unwrap(),
            RecoverReply::Recovered,
            "{end}"
        );
        world.assert_sound();
    }
}

#[tokio::test]
async fn a_run_that_is_over_is_not_taken_back_nor_ended_anew_and_its_lease_goes() {
    for state in ["succeeded", "cancelled", "lost"] {
        for verdict in [None, Some(RunState::Lost)] {
            let world = World::new();
            let claim = running(&world).await;
            let key = format!("run:{}", claim.run);
            let _: i64 = world.raw("HSET", &key, &["state", state]);
            let record: std::collections::BTreeMap<String, String> =
                world.raw("HGETALL", &key, &[]);
            let before = world.snapshot();
            let reply = world
                .at(5)
                .finish_run(&claim, &Verdict::Final(RunState::Failed), "", &[], "")
                .await
                .unwrap();
            assert_eq!((reply, world.snapshot()), (schedd_store::FinishReply::Lost, before));
            let lease = expired(&claim, 10_000);
            assert_eq!(
                world.at(20_000).recover_run(&lease, &recovery(verdict)).await.unwrap(),
                RecoverReply::Gone
            );
            assert_eq!(
                world.raw::<std::collections::BTreeMap<String, String>>("HGETALL", &key, &[]),
                record
            );
            assert_eq!(world.store.list_leases(10).await.unwrap().len(), 0);
            assert_eq!(world.score("due:default", &claim.run.to_string()), None);
            assert_eq!(
                (world.total("recovered"), world.raw::<i64>("ZCARD", "running:default", &[])),
                (0, 0)
            );
        }
    }
}
