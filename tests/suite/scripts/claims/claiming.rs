//! `claim_runs`: the step in which a run leaves the due set, gets its lease, and its job's next run is planted.

use std::time::Duration;

use schedd_core::domain::job::job_spec::Overlap;
use schedd_core::domain::run::run_state::RunState;
use schedd_schedule::names::RunId;
use schedd_store::{
    Blocking, CancelReply, ClaimOrder, ClaimReply, Claimant, Existing, StopRunning, Verdict,
};

use crate::scripts::jobs::removing::removal;
use crate::scripts::world::{
    LEASE, World, claimant, definition, name, queue, run_of, t, token, version,
};

#[tokio::test]
async fn a_claim_takes_the_run_and_plants_the_next_in_one_step() {
    let world = World::new();
    let run = world.plant("a", 0).await;
    assert_eq!(world.indexed("a"), Some(0));
    let claim = world.win_with(5, &run, Overlap::Skip, 1000).await;
    assert_eq!(
        (claim.attempt, claim.recoveries, claim.failures, claim.claimed_at),
        (1, 0, 0, t(5))
    );
    assert_eq!(world.job("a").await.pending, Some(run_of("a", 1000)));
    assert_eq!(world.indexed("a"), Some(1000));
    assert_eq!(world.score("due:default", &run.to_string()), None);
    assert_eq!(world.score("due:default", &run_of("a", 1000).to_string()), Some(1000));
    assert_eq!(world.score("leases", &format!("{run}#{}", claim.fence)), Some(10_005));
    assert_eq!(world.store.list_open(&name("a")).await.unwrap(), std::slice::from_ref(&run));
    let record = world.run(&run).await;
    assert_eq!(
        (record.state, record.attempt, record.fence),
        (RunState::Running, 1, Some(claim.fence))
    );
    assert_eq!((record.node.as_deref(), record.started_at), (Some("n1"), Some(t(5))));
    world.assert_sound();
}

#[tokio::test]
async fn a_noted_claim_names_the_runs_it_wanted_also_those_that_it_did_not_win() {
    let world = World::new();
    let (plain, gone) = (world.plant("a", 0).await, world.plant("b", 0).await);
    let mut orders = vec![world.order_with(&plain, Overlap::Skip, 1000).await];
    orders.push(world.order_with(&gone, Overlap::Skip, 1000).await);
    let store = world.at(5);
    let of_other = std::slice::from_ref(&orders[1]);
    let lane = queue("default");
    store.claim_runs(1, &claimant("n2"), &lane, "other", of_other).await.unwrap();
    let worker = Claimant { claim_note: Some(("@x".to_owned(), LEASE)), ..claimant("n1") };
    let mut replies = store.claim_runs(2, &worker, &lane, "question", &orders).await.unwrap();
    assert!(matches!(replies.pop(), Some(ClaimReply::Gone)));
    World::won(replies.remove(0));
    let noted = store.read_worker_claim("question").await.unwrap();
    assert_eq!(noted, Some(format!(" @x {plain} {gone}")));
    assert_eq!(store.read_worker_claim("other").await.unwrap(), None);
}

#[tokio::test]
async fn a_claim_repeated_with_its_token_gives_the_same_fence_and_changes_nothing() {
    let world = World::new();
    let run = world.plant("a", 0).await;
    let order = world.order_with(&run, Overlap::Skip, 1000).await;
    let call = |at, token: &'static str, order: ClaimOrder| {
        let store = world.at(at);
        async move {
            World::won(
                store
                    .claim_runs(usize::MAX, &claimant("n1"), &queue("default"), token, &[order])
                    .await
                    .unwrap()
                    .remove(0),
            )
        }
    };
    let first = call(0, "once", order.clone()).await;
    let before = world.snapshot();
    let second = call(7, "once", order.clone()).await;
    assert_eq!((second.fence, second.attempt), (first.fence, first.attempt));
    assert_eq!(world.snapshot(), before);
    // A worker may ask several nodes with the same claim id, which is the token of their claims.
    let judged = ClaimOrder { max_runs: Some(9), ..order.clone() };
    for (node, token, order) in
        [("n1", "other", &order), ("n2", "once", &order), ("n2", "once", &judged)]
    {
        let (store, lane) = (world.at(7), queue("default"));
        let orders = std::slice::from_ref(order);
        let replies = store.claim_runs(usize::MAX, &claimant(node), &lane, token, orders).await;
        assert!(matches!(replies.unwrap()[..], [ClaimReply::Gone]), "{node} {token}");
        assert_eq!(world.snapshot(), before);
    }
}

#[tokio::test]
async fn a_run_named_twice_in_one_claim_is_won_once() {
    let world = World::new();
    let run = world.plant("a", 0).await;
    let order = world.order_with(&run, Overlap::Skip, 1000).await;
    for _ in 0..2 {
        let orders = [order.clone(), order.clone()];
        let mut replies = world
            .at(0)
            .claim_runs(usize::MAX, &claimant("n1"), &queue("default"), "once", &orders)
            .await
            .unwrap();
        assert!(matches!(replies.pop(), Some(ClaimReply::Gone)));
        World::won(replies.remove(0));
    }
    world.assert_sound();
}

#[tokio::test]
async fn a_run_named_in_two_calls_of_one_claim_is_won_once() {
    let world = World::new();
    let run = world.plant("a", 0).await;
    let order = world.order_with(&run, Overlap::Skip, 1000).await;
    // A claim judges 25 runs a call. With `max_age`, a run is not plain.
    let order = ClaimOrder { max_age: Some(Duration::from_secs(60)), ..order };
    for slots in [usize::MAX, 2] {
        let mut replies = world
            .at(0)
            .claim_runs(slots, &claimant("n1"), &queue("default"), "once", &vec![order.clone(); 60])
            .await
            .unwrap();
        assert_eq!(replies.len(), 60);
        World::won(replies.remove(0));
        assert!(replies.iter().all(|reply| matches!(reply, ClaimReply::Gone)), "{replies:?}");
    }
    world.assert_sound();
}

#[tokio::test]
async fn claimed_before_is_the_same_for_a_repeated_claim_and_for_any_attempt() {
    let world = World::new();
    let run = world.plant("a", 0).await;
    for (at, claimed_before) in [(0, false), (10, true)] {
        let (token, order) = (token(), world.order(&run).await);
        let call = || async {
            let store = world.at(at);
            let orders = std::slice::from_ref(&order);
            World::won(
                store
                    .claim_runs(usize::MAX, &claimant("n1"), &queue("default"), &token, orders)
                    .await
                    .unwrap()
                    .remove(0),
            )
        };
        for claim in [call().await, call().await] {
            assert_eq!((claim.claimed_before, claim.attempt), (claimed_before, 1), "at {at}");
        }
        let _: i64 = world.raw("HSET", &format!("run:{run}"), &["claimed_before", "damaged"]);
        let claim = call().await;
        assert!(claim.claimed_before, "what cannot be read must not pass for a first claim");
        world.finish(at + 1, &claim, Verdict::Release).await;
    }
    world.assert_sound();
}

#[tokio::test]
async fn a_run_is_not_claimed_before_it_is_ready() {
    let world = World::new();
    let run = world.plant("a", 10).await;
    let before = world.snapshot();
    assert!(matches!(world.claim(9, &world.order(&run).await).await, ClaimReply::Early));
    assert_eq!(world.snapshot(), before);
}

#[tokio::test]
async fn a_claim_made_from_an_older_definition_is_stale() {
    let world = World::new();
    let run = world.plant("a", 0).await;
    let order = world.order(&run).await;
    let mut edit = definition("a", 0);
    let job = world.job("a").await;
    (edit.read, edit.definition) = (Some((job.rev, job.lane)), version("v2"));
    world.at(0).apply_job(&edit).await.unwrap();
    let before = world.snapshot();
    assert!(matches!(world.claim(0, &order).await, ClaimReply::Stale));
    assert_eq!(world.snapshot(), before);
    world.win(0, &run).await;
}

#[tokio::test]
async fn a_run_of_a_job_that_is_not_there_is_an_orphan() {
    let world = World::new();
    let run = world.plant("a", 0).await;
    let order = world.order(&run).await;
    let _: i64 = world.raw("DEL", "job:a", &[]);
    let before = world.snapshot();
    assert!(matches!(world.claim(0, &order).await, ClaimReply::JobMissing));
    assert_eq!(world.snapshot(), before);
}

#[tokio::test]
async fn a_regular_run_that_nobody_planned_is_not_claimed() {
    let world = World::new();
    world.plant("a", 5000).await;
    let run = run_of("a", 10);
    let _: i64 = world.raw("ZADD", "due:default", &["2", &run.to_string()]);
    let order = world.order(&run).await;
    let before = world.snapshot();
    assert!(matches!(world.claim(20, &order).await, ClaimReply::Unplanned));
    assert_eq!(world.snapshot(), before);
}

#[tokio::test]
async fn a_run_by_hand_that_nobody_asked_for_is_not_claimed_though_its_job_has_ended() {
    let world = World::new();
    world.plant("a", 5000).await;
    let asked = world.by_hand("a", 1).await;
    let forged = RunId::manual(name("a"), t(10), "forged").unwrap();
    let _: i64 = world.raw("ZADD", "due:default", &["2", &forged.to_string()]);
    let order = world.order(&forged).await;
    let before = world.snapshot();
    assert!(matches!(world.claim(20, &order).await, ClaimReply::Unplanned));
    let _: i64 = world.raw("HSET", "job:a", &["ended", "finished"]);
    assert!(matches!(world.claim(20, &order).await, ClaimReply::Unplanned));
    let _: i64 = world.raw("HDEL", "job:a", &["ended"]);
    assert_eq!(world.snapshot(), before);
    world.win(20, &asked).await;
}

#[tokio::test]
async fn an_occurrence_with_a_record_is_not_planted_again() {
    let world = World::new();
    let first = world.plant("a", 0).await;
    let claim = world.win_with(0, &first, Overlap::Skip, 1000).await;
    world.succeed(1, &claim).await;
    let before = world.snapshot();
    // As a node with a clock set back, or another zone file, would compute it.
    let order = world.order_with(&run_of("a", 1000), Overlap::Skip, 0).await;
    assert!(matches!(world.claim(1000, &order).await, ClaimReply::Occupied));
    assert_eq!(world.snapshot(), before);
}

#[tokio::test]
async fn only_the_pending_run_plants_a_successor() {
    let world = World::new();
    let first = world.plant("a", 0).await;
    let claim = world.win_with(0, &first, Overlap::Skip, 1000).await;
    world.finish(1, &claim, Verdict::Retry(std::time::Duration::ZERO)).await;
    world.win_with(1, &first, Overlap::Skip, 500).await;
    assert_eq!(world.job("a").await.pending, Some(run_of("a", 1000)));
    assert_eq!(world.score("due:default", &run_of("a", 500).to_string()), None);
    world.assert_sound();
}

#[tokio::test]
async fn one_damaged_run_of_a_batch_keeps_no_other_from_being_claimed() {
    let world = World::new();
    let mut orders = Vec::new();
    for job in ["a", "b", "c"] {
        let run = world.plant(job, 0).await;
        orders.push(world.order(&run).await);
    }
    let _: i64 = world.raw("RPUSH", &format!("run:{}", orders[1].run), &["x"]);
    let replies = world
        .at(0)
        .claim_runs(usize::MAX, &claimant("n1"), &queue("default"), &token(), &orders)
        .await
        .unwrap();
    assert!(
        matches!(replies[0], ClaimReply::Claimed(_))
            && matches!(replies[2], ClaimReply::Claimed(_))
    );
    let ClaimReply::WrongType(error) = &replies[1] else { panic!("{:?}", replies[1]) };
    assert!(error.to_string().contains(&format!("run:{}", orders[1].run)), "{error}");
}

#[tokio::test]
async fn a_run_whose_job_was_removed_ends_cancelled_and_a_started_one_goes_on() {
    let world = World::new();
    let run = world.plant("a", 0).await;
    let claim = world.win_with(0, &run, Overlap::Skip, 1000).await;
    let hand = world.by_hand("a", 1).await;
    world.at(2).remove_job(&removal(&world.job("a").await, StopRunning::No)).await.unwrap();
    assert!(matches!(
        world.claim(3, &world.order(&hand).await).await,
        ClaimReply::Blocked(Blocking::Cancelled)
    ));
    assert_eq!(world.state(&hand).await, RunState::Cancelled);
    // Handed back by a node that stops: it has been started, so it goes on elsewhere.
    world.finish(4, &claim, Verdict::Release).await;
    let again = world.win(5, &run).await;
    world.succeed(6, &again).await;
    world.assert_sound();
}

#[tokio::test]
async fn a_run_asked_to_stop_while_it_waits_for_its_retry_ends_at_its_claim() {
    let world = World::new();
    let run = world.plant("a", 0).await;
    let claim = world.win_with(0, &run, Overlap::Skip, 1000).await;
    world.finish(1, &claim, Verdict::Retry(std::time::Duration::from_secs(60))).await;
    world.at(2).remove_job(&removal(&world.job("a").await, StopRunning::Yes)).await.unwrap();
    assert_eq!(
        world.score("due:default", &run.to_string()),
        Some(2),
        "claimed at once, to end there"
    );
    assert!(matches!(
        world.claim(3, &world.order(&run).await).await,
        ClaimReply::Blocked(Blocking::Cancelled)
    ));
    assert_eq!(world.state(&run).await, RunState::Cancelled);
    world.assert_sound();
}

#[tokio::test]
async fn a_one_shot_that_is_done_leaves_the_list_and_frees_its_name() {
    let world = World::new();
    let run = world.plant_once("a", 0).await;
    let claim = world.win(0, &run).await;
    assert_eq!(world.indexed("a"), None);
    world.assert_sound();
    world.succeed(1, &claim).await;
    assert_eq!(world.job("a").await.ended.as_deref(), Some("finished"));
    assert_eq!(world.store.list_jobs(0, 10).await.unwrap(), []);
    assert_eq!(world.store.list_finished(0, 10).await.unwrap(), [name("a")]);
    world.assert_sound();
    let mut again = definition("a", 5000);
    again.existing = Existing::Refuse;
    world.plant_as(again).await;
    assert_eq!(world.store.list_finished(0, 10).await.unwrap(), []);
    assert_eq!(world.run(&run).await.state, RunState::Succeeded, "its history stays");
    world.assert_sound();
}

#[tokio::test]
async fn a_manual_run_of_a_one_shot_runs_although_the_one_shot_is_done_first() {
    let world = World::new();
    let run = world.plant_once("a", 0).await;
    let claim = world.win(0, &run).await;
    let hand = world.by_hand("a", 1).await;
    world.succeed(2, &claim).await;
    let claim = world.win(3, &hand).await;
    world.succeed(4, &claim).await;
    assert_eq!(world.state(&hand).await, RunState::Succeeded);
    assert!(matches!(
        world.at(5).cancel_run(&world.cancelling(&hand, None).await).await.unwrap(),
        CancelReply::Over { .. }
    ));
    world.assert_sound();
}

#[tokio::test]
async fn a_planned_run_whose_record_is_over_is_not_claimed_and_the_next_is_planted() {
    for state in ["succeeded", "skipped", "lost"] {
        let world = World::new();
        let run = world.plant("a", 0).await;
        let _: i64 = world.raw("HSET", &format!("run:{run}"), &["state", state]);
        let stale = world.order_with(&run, Overlap::Skip, 1000).await;
        let _: i64 = world.raw("HSET", "job:a", &["rev", "7"]);
        let before = world.snapshot();
        assert!(matches!(world.claim(5, &stale).await, ClaimReply::Stale));
        assert_eq!(world.snapshot(), before);
        let order = world.order_with(&run, Overlap::Skip, 1000).await;
        assert!(matches!(world.claim(5, &order).await, ClaimReply::Gone), "{state}");
        assert_eq!(world.job("a").await.pending, Some(run_of("a", 1000)));
        assert_eq!(
            (world.score("due:default", &run.to_string()), world.indexed("a")),
            (None, Some(1000))
        );
        assert_eq!(world.raw::<String>("HGET", &format!("run:{run}"), &["state"]), state);
        world.win(1000, &run_of("a", 1000)).await;
    }
    // A one-shot is over with it.
    let world = World::new();
    let run = world.plant_once("a", 0).await;
    let _: i64 = world.raw("HSET", &format!("run:{run}"), &["state", "failed"]);
    assert!(matches!(world.claim(5, &world.order(&run).await).await, ClaimReply::Gone));
    assert_eq!(world.job("a").await.ended.as_deref(), Some("finished"));
    assert_eq!(world.score("due:default", &run.to_string()), None);
}

#[tokio::test]
async fn a_run_whose_state_cannot_be_read_stays_due_to_be_put_aside_and_its_job_goes_on() {
    for state in ["sched", "", "Running"] {
        let world = World::new();
        let run = world.plant("a", 0).await;
        let _: i64 = world.raw("HSET", &format!("run:{run}"), &["state", state]);
        let order = world.order_with(&run, Overlap::Skip, 1000).await;
        for _ in 0..2 {
            assert!(matches!(world.claim(5, &order).await, ClaimReply::BadState), "{state:?}");
        }
        assert_eq!(world.score("due:default", &run.to_string()), Some(0));
        assert_eq!(world.job("a").await.pending, Some(run_of("a", 1000)));
        world.win(1000, &run_of("a", 1000)).await;
    }
    // That of a one-shot is not taken for one that ran.
    let world = World::new();
    let run = world.plant_once("a", 0).await;
    let _: i64 = world.raw("HSET", &format!("run:{run}"), &["state", "sched"]);
    let before = world.snapshot();
    assert!(matches!(world.claim(5, &world.order(&run).await).await, ClaimReply::BadState));
    assert_eq!(world.snapshot(), before);
}
