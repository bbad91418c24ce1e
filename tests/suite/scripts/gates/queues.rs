//! Limits and pauses of queues, as the claim judges them and polls show them.

use schedd_core::domain::queue::queue_rules::{NoRoomReason, QueueSettings};
use schedd_schedule::names::RunId;
use schedd_store::{ClaimReply, LaneAsk, LanePoll, Section, SectionText, Verdict};

use crate::scripts::world::{World, claimant, queue, t, token};

/// Declares what holds for the queue `default`.
pub(crate) async fn declare(world: &World, settings: QueueSettings) {
    let section = Section::Queue("default".parse().unwrap());
    let text = SectionText::Queue(settings);
    world.at(0).declare_section(&"n1".parse().unwrap(), &section, Some(&text)).await.unwrap();
}

pub(crate) fn limited(limit: u32) -> QueueSettings {
    QueueSettings { limit: Some(limit), ..QueueSettings::default() }
}

/// Plants so many one-shots, all due at zero.
pub(crate) async fn plant(world: &World, count: usize) -> Vec<RunId> {
    let mut runs = Vec::new();
    for number in 0..count {
        runs.push(world.plant_once(&format!("j{number}"), 0).await);
    }
    runs
}

/// Claims all of `runs` in one call: which of them were won.
pub(crate) async fn claim_all(
    world: &World,
    offset: i64,
    token: &str,
    runs: &[RunId],
) -> Vec<ClaimReply> {
    let mut orders = Vec::new();
    for run in runs {
        orders.push(world.order(run).await);
    }
    world
        .at(offset)
        .claim_runs(usize::MAX, &claimant("n1"), &queue("default"), token, &orders)
        .await
        .unwrap()
}

pub(crate) fn won(replies: &[ClaimReply]) -> usize {
    replies.iter().filter(|reply| matches!(reply, ClaimReply::Claimed(_))).count()
}

/// What a poll at `offset` shows: how many due runs, for how many there is room, why there is none, when to look again.
pub(crate) async fn poll(
    world: &World,
    offset: i64,
) -> (usize, Option<usize>, Option<NoRoomReason>, Option<i64>) {
    let poll = world.at(offset).list_due(&[LaneAsk::new(queue("default"), 50)]).await.unwrap();
    match &poll.lanes[0] {
        LanePoll::Due { due, next, capacity, no_room } => {
            (due.len(), *capacity, *no_room, next.map(|next| next.as_i64() - t(0).as_i64()))
        }
        LanePoll::WrongType(error) => panic!("{error}"),
    }
}

#[tokio::test]
async fn no_more_than_its_limit_run_of_a_queue_at_once() {
    let world = World::new();
    declare(&world, limited(2)).await;
    let runs = plant(&world, 4).await;
    assert_eq!(poll(&world, 0).await, (4, Some(2), None, None));
    let before = world.snapshot();
    let replies = claim_all(&world, 0, "t1", &runs).await;
    assert_eq!(won(&replies), 2);
    assert!(replies[2..].iter().all(|reply| matches!(reply, ClaimReply::NoRoom)), "{replies:?}");
    for run in &runs[2..] {
        assert_eq!(world.score("due:default", &run.to_string()), Some(0), "it stays where it is");
        assert!(
            !world
                .snapshot()
                .keys()
                .any(|key| key.contains(&format!("run:{run}")) && !before.contains_key(key))
        );
    }
    // A full queue shows nothing, so that nobody tries, and no time at which to look again.
    assert_eq!(poll(&world, 5).await, (0, Some(0), Some(NoRoomReason::Full), None));
    assert_eq!(won(&claim_all(&world, 5, "t2", &runs[2..]).await), 0);
    world.assert_sound();

    let ClaimReply::Claimed(first) = &replies[0] else { panic!() };
    world.succeed(6, first).await;
    assert_eq!(poll(&world, 6).await, (2, Some(1), None, None));
    assert_eq!(won(&claim_all(&world, 6, "t3", &runs[2..]).await), 1);
    world.assert_sound();
}

#[tokio::test]
async fn a_claim_repeated_with_its_token_is_not_refused_for_what_it_took_itself() {
    let world = World::new();
    declare(&world, limited(2)).await;
    let runs = plant(&world, 3).await;
    assert_eq!(won(&claim_all(&world, 0, "t1", &runs).await), 2);
    assert_eq!(won(&claim_all(&world, 1, "t1", &runs).await), 2);
    world.assert_sound();
}

#[tokio::test]
async fn every_way_a_lease_ends_gives_the_place_back() {
    let world = World::new();
    declare(&world, limited(1)).await;
    let run = world.plant("j", 0).await;
    let claim = world.win(0, &run).await;
    world.finish(1, &claim, Verdict::Release).await;
    assert_eq!(poll(&world, 1).await.1, Some(1), "handed back");
    let claim = world.win(2, &run).await;
    world.finish(3, &claim, Verdict::Retry(std::time::Duration::from_millis(5))).await;
    assert_eq!(poll(&world, 3).await.1, Some(1), "a failed attempt");
    let claim = world.win(10, &run).await;
    assert_eq!(world.raw::<u64>("ZCARD", "running:default", &[]), 1);
    let lease = crate::scripts::claims::recovering::expired(&claim, 10 + 10_000);
    world
        .at(20_000)
        .recover_run(&lease, &crate::scripts::claims::recovering::recovery(None))
        .await
        .unwrap();
    assert_eq!(poll(&world, 20_000).await.1, Some(1), "taken back");
    world.assert_sound();
    let claim = world.win(20_001, &run).await;
    let lost = crate::scripts::claims::recovering::recovery(Some(
        schedd_core::domain::run::run_state::RunState::Failed,
    ));
    world
        .at(40_000)
        .recover_run(&crate::scripts::claims::recovering::expired(&claim, 30_001), &lost)
        .await
        .unwrap();
    assert_eq!(world.raw::<u64>("ZCARD", "running:default", &[]), 0, "ended");
    world.assert_sound();
}

#[tokio::test]
async fn a_place_given_back_in_a_full_queue_wakes_the_nodes_and_one_in_another_does_not() {
    use futures_util::StreamExt;
    let world = World::new();
    declare(&world, limited(2)).await;
    let runs = plant(&world, 3).await;
    let replies = claim_all(&world, 0, "t1", &runs[..2]).await;
    let mut nudges = std::pin::pin!(world.store.nudges().await.unwrap());
    let claims: Vec<_> = replies.into_iter().map(World::won).collect();
    world.succeed(1, &claims[0]).await;
    assert_eq!(nudges.next().await.as_deref(), Some("due"), "it was full");
    // Not full any more: the end of the other wakes nobody. What is published next is told first.
    world.succeed(2, &claims[1]).await;
    let _: i64 = world.raw("SPUBLISH", "nudge", &["mark"]);
    assert_eq!(nudges.next().await.as_deref(), Some("mark"));
}

#[tokio::test]
async fn a_paused_queue_starts_nothing_and_keeps_what_is_due() {
    let world = World::new();
    let runs = plant(&world, 2).await;
    let claim = world.win(0, &runs[0]).await;
    declare(&world, QueueSettings { is_paused: true, ..QueueSettings::default() }).await;
    assert_eq!(poll(&world, 1).await, (0, Some(0), Some(NoRoomReason::Paused), None));
    assert!(matches!(claim_all(&world, 1, "t1", &runs[1..]).await[0], ClaimReply::NoRoom));
    world.succeed(2, &claim).await;
    world.assert_sound();
    declare(&world, QueueSettings::default()).await;
    assert_eq!(poll(&world, 3).await, (1, None, None, None));
}

#[tokio::test]
async fn a_limit_lowered_below_the_open_runs_stops_none_and_starts_none_until_room() {
    let world = World::new();
    declare(&world, limited(3)).await;
    let runs = plant(&world, 5).await;
    let replies = claim_all(&world, 0, "t1", &runs).await;
    let claims: Vec<_> = replies.into_iter().take(3).map(World::won).collect();
    declare(&world, limited(1)).await;
    for (at, claim) in claims.iter().enumerate() {
        assert_eq!(won(&claim_all(&world, 1, &token(), &runs[3..]).await), 0, "{at} have ended");
        world.succeed(2, claim).await;
    }
    assert_eq!(won(&claim_all(&world, 3, &token(), &runs[3..]).await), 1);
    declare(&world, limited(2)).await;
    assert_eq!(won(&claim_all(&world, 4, &token(), &runs[4..]).await), 1);
    world.assert_sound();
}

#[tokio::test]
async fn a_run_that_ends_without_starting_needs_no_room() {
    let world = World::new();
    declare(&world, limited(1)).await;
    let first = world.plant("j", 0).await;
    world.win_with(0, &first, schedd_core::domain::job::job_spec::Overlap::Skip, 10).await;
    let second = crate::scripts::world::run_of("j", 10);
    let reply = world
        .claim(
            10,
            &world.order_with(&second, schedd_core::domain::job::job_spec::Overlap::Skip, 20).await,
        )
        .await;
    assert!(matches!(reply, ClaimReply::Blocked(_)), "{reply:?}");
    world.assert_sound();
}

#[tokio::test]
async fn settings_that_are_damaged_hold_nothing_up() {
    let world = World::new();
    for (field, value) in [
        ("limit", "x"),
        ("rate_count", "-3"),
        ("rate_ms", "1e300"),
        ("burst", ""),
        ("weight", "\u{1}"),
    ] {
        let _: i64 = world.raw("HSET", "queue:default", &[field, value]);
    }
    let _: i64 =
        world.raw("HSET", "queue_state:default", &["tat", "inf", "part", "x", "at", "nan"]);
    let runs = plant(&world, 2).await;
    assert_eq!(poll(&world, 0).await.0, 2);
    assert_eq!(won(&claim_all(&world, 0, "t1", &runs).await), 2);
    world.assert_sound();
}
