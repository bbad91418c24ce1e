//! The overlap rules as `claim_runs` judges them, and how a waiting run gets its turn.

use std::time::Duration;

use schedd_core::domain::job::job_spec::Overlap;
use schedd_core::domain::run::run_state::RunState;
use schedd_store::{
    Blocking, CancelReply, ClaimOrder, ClaimReply, FinishReply, LeaseWord, RemoveReply,
    StopRunning, Verdict,
};

use super::recovering::{expired, recovery};
use crate::scripts::jobs::removing::removal;
use crate::scripts::world::{LEASE, World, definition, name, run_of, successor, version};

const QUEUE: Overlap = Overlap::Queue { max: 1 };

/// A job with one open run at 0 and one that came due at 1000 under `overlap`; the next is due at 2000.
async fn collide(overlap: Overlap) -> (World, schedd_store::Claim, ClaimReply) {
    let world = World::new();
    let first = world.plant("a", 0).await;
    let open = world.win_with(0, &first, overlap, 1000).await;
    let order = world.order_with(&run_of("a", 1000), overlap, 2000).await;
    let reply = world.claim(1000, &order).await;
    world.assert_sound();
    assert_eq!(
        world.job("a").await.pending,
        Some(run_of("a", 2000)),
        "the successor is planted whatever becomes of the run"
    );
    (world, open, reply)
}

fn is_waiting(reply: &ClaimReply) -> bool {
    matches!(reply, ClaimReply::Blocked(Blocking::Waiting))
}

fn is_skipped(reply: &ClaimReply) -> bool {
    matches!(reply, ClaimReply::Blocked(Blocking::Skipped))
}

#[tokio::test]
async fn under_skip_the_later_run_ends_skipped_with_its_reason() {
    let (world, _, reply) = collide(Overlap::Skip).await;
    assert!(is_skipped(&reply), "{reply:?}");
    let record = world.run(&run_of("a", 1000)).await;
    assert_eq!((record.state, record.reason.as_deref()), (RunState::Skipped, Some("overlap")));
    assert_eq!(world.total("skipped"), 1);
}

#[tokio::test]
async fn a_run_that_was_due_before_a_caught_up_run_began_waits_for_it() {
    for (began, is_caught_up) in [(999, false), (1_000, true), (1_400, true)] {
        let world = World::new();
        let first = world.plant("a", 0).await;
        world.win_with(began, &first, Overlap::Skip, 1_000).await;
        let order = ClaimOrder {
            max_caught_up: Some(5),
            ..world.order_with(&run_of("a", 1_000), Overlap::Skip, 2_000).await
        };
        let reply = world.claim(1_500, &order).await;
        assert_eq!((is_waiting(&reply), is_skipped(&reply)), (is_caught_up, !is_caught_up));
        world.assert_sound();
    }
}

#[tokio::test]
async fn under_allow_both_run() {
    let (world, open, reply) = collide(Overlap::Allow).await;
    let second = World::won(reply);
    assert!(second.fence > open.fence);
    assert_eq!(world.store.list_open(&name("a")).await.unwrap().len(), 2);
}

#[tokio::test]
async fn under_queue_one_waits_and_the_next_is_skipped() {
    let (world, open, reply) = collide(QUEUE).await;
    assert!(is_waiting(&reply), "{reply:?}");
    assert_eq!(world.store.list_waiting(&name("a")).await.unwrap(), [run_of("a", 1000)]);
    let third = world.claim(2000, &world.order_with(&run_of("a", 2000), QUEUE, 3000).await).await;
    assert!(is_skipped(&third), "{third:?}");
    world.succeed(2500, &open).await;
    assert_eq!(
        world.score("due:default", &run_of("a", 1000).to_string()),
        Some(2500),
        "ready from when it was freed"
    );
    world.assert_sound();
    let second = world.win_with(2501, &run_of("a", 1000), QUEUE, 9000).await;
    assert_eq!(
        world.job("a").await.pending,
        Some(run_of("a", 3000)),
        "its successor was planted when it began to wait"
    );
    world.succeed(2600, &second).await;
    world.assert_sound();
}

#[tokio::test]
async fn no_later_run_overtakes_one_whose_turn_has_come() {
    let (world, open, _) = collide(QUEUE).await;
    world.succeed(1999, &open).await;
    let later = world.claim(2000, &world.order_with(&run_of("a", 2000), QUEUE, 3000).await).await;
    assert!(is_waiting(&later), "{later:?}");
    world.assert_sound();
    let second = world.win(2001, &run_of("a", 1000)).await;
    world.succeed(2002, &second).await;
    world.win(2003, &run_of("a", 2000)).await;
    world.assert_sound();
}

#[tokio::test]
async fn under_replace_the_open_run_is_asked_to_stop_and_the_later_waits_in_its_place() {
    let (world, open, reply) = collide(Overlap::Replace).await;
    assert!(is_waiting(&reply), "{reply:?}");
    let words =
        world.at(1001).renew_leases(LEASE, &[(open.run.clone(), open.fence)]).await.unwrap();
    assert_eq!(words, [LeaseWord::Stop("replaced".to_owned())]);
    let reply = world.finish(1002, &open, Verdict::Final(RunState::Cancelled)).await;
    assert_eq!(reply, FinishReply::Finished(1));
    world.win(1003, &run_of("a", 1000)).await;
    world.assert_sound();
}

#[tokio::test]
async fn a_replaced_run_that_waits_for_its_retry_is_claimed_at_once_to_end() {
    let world = World::new();
    let first = world.plant("a", 0).await;
    let open = world.win_with(0, &first, Overlap::Replace, 1000).await;
    world.finish(1, &open, Verdict::Retry(Duration::from_secs(600))).await;
    assert!(is_waiting(
        &world
            .claim(1000, &world.order_with(&run_of("a", 1000), Overlap::Replace, 2000).await)
            .await
    ));
    assert!(matches!(
        world.claim(1000, &world.order(&first).await).await,
        ClaimReply::Blocked(Blocking::Cancelled)
    ));
    assert_eq!(world.run(&first).await.reason.as_deref(), Some("replaced"));
    world.win(1001, &run_of("a", 1000)).await;
    world.assert_sound();
}

#[tokio::test]
async fn of_a_chain_of_three_under_replace_the_newest_runs_and_each_older_ends_replaced() {
    let (world, open, reply) = collide(Overlap::Replace).await;
    assert!(is_waiting(&reply), "{reply:?}");
    let third = world
        .claim(2000, &world.order_with(&run_of("a", 2000), Overlap::Replace, 3000).await)
        .await;
    assert!(is_waiting(&third), "{third:?}");
    world.assert_sound();
    let second = world.claim(2001, &world.order(&run_of("a", 1000)).await).await;
    assert!(matches!(second, ClaimReply::Blocked(Blocking::Cancelled)), "{second:?}");
    assert_eq!(world.run(&run_of("a", 1000)).await.reason.as_deref(), Some("replaced"));
    assert!(
        matches!(world.claim(2001, &world.order(&run_of("a", 2000)).await).await, ClaimReply::Gone),
        "two at once"
    );
    world.finish(2002, &open, Verdict::Final(RunState::Cancelled)).await;
    // The third has its turn and is replaced before it starts.
    let fourth = world
        .claim(3000, &world.order_with(&run_of("a", 3000), Overlap::Replace, 4000).await)
        .await;
    assert!(is_waiting(&fourth), "{fourth:?}");
    let third = world.claim(3001, &world.order(&run_of("a", 2000)).await).await;
    assert!(matches!(third, ClaimReply::Blocked(Blocking::Cancelled)), "{third:?}");
    world.win(3002, &run_of("a", 3000)).await;
    world.assert_sound();
}

#[tokio::test]
async fn a_replaced_run_whose_node_dies_ends_replaced_and_not_again() {
    let (world, open, _) = collide(Overlap::Replace).await;
    world.at(20_000).recover_run(&expired(&open, 10_000), &recovery(None)).await.unwrap();
    let record = world.run(&open.run).await;
    assert_eq!((record.state, record.reason.as_deref()), (RunState::Cancelled, Some("replaced")));
    world.win(20_001, &run_of("a", 1000)).await;
    world.assert_sound();
}

#[tokio::test]
async fn runs_that_began_to_wait_run_when_the_rule_has_become_allow() {
    let (world, _open, _) = collide(QUEUE).await;
    world.win_with(2000, &run_of("a", 2000), Overlap::Allow, 3000).await;
    world.win(2001, &run_of("a", 1000)).await;
    world.assert_sound();
}

#[tokio::test]
async fn a_run_that_gets_its_turn_while_its_job_is_paused_ends_skipped() {
    let (world, open, _) = collide(QUEUE).await;
    world.at(1500).pause_job(&world.job("a").await, None, &[]).await.unwrap();
    world.succeed(1600, &open).await;
    assert!(is_skipped(&world.claim(1601, &world.order(&run_of("a", 1000)).await).await));
    let record = world.run(&run_of("a", 1000)).await;
    assert_eq!((record.state, record.reason.as_deref()), (RunState::Skipped, Some("paused")));
    world.assert_sound();
}

#[tokio::test]
async fn a_run_that_waits_for_its_retry_counts_as_open_and_is_never_skipped_itself() {
    let world = World::new();
    let first = world.plant("a", 0).await;
    let open = world.win_with(0, &first, Overlap::Skip, 1000).await;
    world.finish(1, &open, Verdict::Retry(Duration::from_secs(5))).await;
    assert!(is_skipped(
        &world.claim(1000, &world.order_with(&run_of("a", 1000), Overlap::Skip, 2000).await).await
    ));
    let again = world.win(5001, &first).await;
    assert_eq!(again.attempt, 2);
    world.assert_sound();
}

#[tokio::test]
async fn a_waiting_run_gets_its_turn_when_its_blocker_ends_with_its_node() {
    let (world, open, _) = collide(QUEUE).await;
    world
        .at(20_000)
        .recover_run(&expired(&open, 10_000), &recovery(Some(RunState::Failed)))
        .await
        .unwrap();
    world.assert_sound();
    world.win(20_001, &run_of("a", 1000)).await;
    world.assert_sound();
}

#[tokio::test]
async fn a_waiting_run_gets_its_turn_when_its_blocker_is_cancelled() {
    let world = World::new();
    let first = world.plant("a", 0).await;
    let open = world.win_with(0, &first, QUEUE, 1000).await;
    world.finish(1, &open, Verdict::Retry(Duration::from_secs(600))).await;
    world.claim(1000, &world.order_with(&run_of("a", 1000), QUEUE, 2000).await).await;
    let reply = world.at(1001).cancel_run(&world.cancelling(&first, None).await).await.unwrap();
    assert_eq!(reply, CancelReply::Cancelled);
    world.assert_sound();
    world.win(1002, &run_of("a", 1000)).await;
    world.assert_sound();
}

#[tokio::test]
async fn a_run_cancelled_after_its_turn_came_gives_the_turn_to_the_next() {
    let world = World::new();
    let two = Overlap::Queue { max: 2 };
    let first = world.plant("a", 0).await;
    let open = world.win_with(0, &first, two, 1000).await;
    for due in [1000, 2000] {
        assert!(is_waiting(
            &world.claim(due, &world.order_with(&run_of("a", due), two, due + 1000).await).await
        ));
    }
    world.succeed(2001, &open).await;
    let reply =
        world.at(2002).cancel_run(&world.cancelling(&run_of("a", 1000), None).await).await.unwrap();
    assert_eq!(reply, CancelReply::Cancelled);
    world.assert_sound();
    world.win(2003, &run_of("a", 2000)).await;
    world.assert_sound();
}

#[tokio::test]
async fn a_manual_run_obeys_overlap_and_blocks_nothing() {
    let world = World::new();
    let first = world.plant("a", 0).await;
    let open = world.win_with(0, &first, Overlap::Skip, 1000).await;
    let hand = world.by_hand("a", 1).await;
    assert!(is_skipped(&world.claim(1, &world.order(&hand).await).await));
    world.succeed(2, &open).await;
    let hand = world.by_hand("a", 3).await;
    world.win(3, &hand).await;
    world.win_with(1000, &run_of("a", 1000), Overlap::Skip, 2000).await;
    assert_eq!(world.store.list_open(&name("a")).await.unwrap(), [run_of("a", 1000)]);
    world.assert_sound();
}

#[tokio::test]
async fn the_runs_behind_a_waiting_manual_one_get_their_turn_also_when_it_is_dropped() {
    let world = World::new();
    let two = Overlap::Queue { max: 2 };
    let first = world.plant("a", 0).await;
    let open = world.win_with(0, &first, two, 1000).await;
    let hand = world.by_hand("a", 1).await;
    let mut order = world.order(&hand).await;
    order.overlap = two;
    assert!(is_waiting(&world.claim(1, &order).await));
    assert!(is_waiting(
        &world.claim(1000, &world.order_with(&run_of("a", 1000), two, 2000).await).await
    ));
    world.succeed(1001, &open).await;
    world.assert_sound();
    assert_eq!(world.score("due:default", &hand.to_string()), Some(1001));
    let removed =
        world.at(1002).remove_job(&removal(&world.job("a").await, StopRunning::No)).await.unwrap();
    assert_eq!(removed, RemoveReply::Removed(0));
    assert!(matches!(
        world.claim(1003, &world.order(&hand).await).await,
        ClaimReply::Blocked(Blocking::Cancelled)
    ));
    world.assert_sound();
    let last = world.claim(1004, &world.order(&run_of("a", 1000)).await).await;
    assert!(matches!(last, ClaimReply::Blocked(Blocking::Cancelled)), "{last:?}");
    assert_eq!(world.total("waiting"), 0);
    world.assert_sound();
}

#[tokio::test]
async fn a_run_of_a_one_shot_that_waited_runs_and_is_not_dropped_with_its_job_done() {
    let world = World::new();
    let first = world.plant_once("a", 0).await;
    let open = world.win(0, &first).await;
    let job = world.job("a").await;
    let mut edit = definition("a", 1000);
    (edit.is_once, edit.definition, edit.read) = (true, version("v2"), Some((job.rev, job.lane)));
    edit.planted = Some(successor("a", 1000));
    world.at(1).apply_job(&edit).await.unwrap();
    let mut order = world.order(&run_of("a", 1000)).await;
    order.overlap = QUEUE;
    assert!(is_waiting(&world.claim(1000, &order).await));
    world.succeed(1001, &open).await;
    assert!(world.job("a").await.is_live(), "a run of it is still to come");
    let second = world.win(1002, &run_of("a", 1000)).await;
    world.succeed(1003, &second).await;
    assert_eq!(world.job("a").await.ended.as_deref(), Some("finished"));
    world.assert_sound();
}

#[tokio::test]
async fn a_run_handed_back_is_not_judged_again_and_does_not_wait_for_itself() {
    let world = World::new();
    let first = world.plant("a", 0).await;
    let one = world.win_with(0, &first, Overlap::Allow, 1000).await;
    let two = world.win_with(1000, &run_of("a", 1000), Overlap::Allow, 2000).await;
    world.finish(1001, &one, Verdict::Release).await;
    // The rule has become another one meanwhile.
    for overlap in [Overlap::Skip, Overlap::Replace] {
        let mut order = world.order(&first).await;
        order.overlap = overlap;
        let one = World::won(world.claim(1003, &order).await);
        assert_eq!(one.attempt, 1);
        world.finish(1003, &one, Verdict::Release).await;
    }
    world.succeed(1005, &two).await;
    world.assert_sound();
}

#[tokio::test]
async fn a_manual_run_handed_back_waits_for_a_run_that_began_meanwhile() {
    for overlap in [Overlap::Skip, QUEUE] {
        let world = World::new();
        let first = world.plant("a", 0).await;
        let hand = world.by_hand("a", -10).await;
        let mut order = world.order(&hand).await;
        order.overlap = overlap;
        let claim = World::won(world.claim(-9, &order).await);
        world.finish(-8, &claim, Verdict::Release).await;
        let open = world.win_with(0, &first, overlap, 1000).await;
        assert!(is_waiting(&world.claim(1, &order).await), "{overlap:?}");
        world.assert_sound();
        world.succeed(2, &open).await;
        let claim = World::won(world.claim(3, &order).await);
        assert_eq!(claim.attempt, 1);
        world.succeed(4, &claim).await;
        world.assert_sound();
    }
}
