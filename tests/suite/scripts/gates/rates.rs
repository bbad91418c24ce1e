//! Rates of queues: never more than a burst beyond the share of any time, by Redis' time, and nothing held for longer than needed.

use schedd_core::domain::queue::queue_rules::{NoRoomReason, QueueSettings};
use schedd_core::domain::queue::rate::Rate;
use schedd_store::Verdict;

use super::queues::{claim_all, declare, plant, poll, won};
use crate::scripts::world::{World, token};

fn rated(text: &str, burst: u32) -> QueueSettings {
    let rate: Rate = text.parse().unwrap();
    QueueSettings { rate: Some(rate.with_burst(burst)), ..QueueSettings::default() }
}

#[tokio::test]
async fn a_burst_begins_at_once_and_then_one_for_each_share_of_the_time() {
    let world = World::new();
    declare(&world, rated("10/1s", 3)).await;
    let runs = plant(&world, 6).await;
    assert_eq!(poll(&world, 0).await, (6, Some(3), None, None));
    assert_eq!(won(&claim_all(&world, 0, "t1", &runs).await), 3);
    // The poll tells when there is one again, to the millisecond.
    assert_eq!(poll(&world, 1).await, (0, Some(0), Some(NoRoomReason::Rate), Some(100)));
    assert_eq!(won(&claim_all(&world, 99, &token(), &runs[3..]).await), 0);
    assert_eq!(poll(&world, 100).await, (3, Some(1), None, None));
    assert_eq!(won(&claim_all(&world, 100, &token(), &runs[3..]).await), 1);
    assert_eq!(won(&claim_all(&world, 300, &token(), &runs[4..]).await), 2);
    world.assert_sound();
}

#[tokio::test]
async fn a_claim_repeated_with_its_token_counts_once() {
    let world = World::new();
    declare(&world, rated("1/1s", 4)).await;
    let runs = plant(&world, 4).await;
    for _ in 0..3 {
        assert_eq!(won(&claim_all(&world, 0, "t1", &runs[..2]).await), 2);
    }
    assert_eq!(poll(&world, 0).await.1, Some(2), "two of four are left");
}

#[tokio::test]
async fn a_retry_counts_like_any_start_and_one_refused_costs_nothing() {
    let world = World::new();
    declare(&world, rated("1/1s", 2)).await;
    let run = world.plant("j", 0).await;
    let claim = world.win(0, &run).await;
    world.finish(0, &claim, Verdict::Retry(std::time::Duration::ZERO)).await;
    let claim = world.win(0, &run).await;
    world.finish(0, &claim, Verdict::Retry(std::time::Duration::ZERO)).await;
    for _ in 0..5 {
        assert_eq!(won(&claim_all(&world, 999, &token(), std::slice::from_ref(&run)).await), 0);
    }
    assert_eq!(won(&claim_all(&world, 1_000, &token(), &[run]).await), 1);
}

/// Rates that do not divide, asked at every millisecond in turn and in steps that are no multiple: over a long time the count is
/// the share, and never more than the burst beyond it.
#[tokio::test]
async fn over_a_long_time_no_more_begin_than_the_share_and_one_burst() {
    for (text, count, per, burst, step) in
        [("7/1s", 7, 1_000, 3, 13), ("3/11ms", 3, 11, 3, 5), ("1/7ms", 1, 7, 1, 1)]
    {
        let world = World::new();
        declare(&world, rated(text, burst)).await;
        let runs = plant(&world, 400).await;
        let burst = i64::from(burst);
        let (mut begun, mut at, mut longest) = (0, 0, 0);
        while begun + 10 < runs.len() && at < 30_000 {
            let (_, capacity, _, next) = poll(&world, at).await;
            let some = &runs[begun..(begun + 10).min(runs.len())];
            let now = if capacity == Some(0) {
                0
            } else {
                won(&claim_all(&world, at, &token(), some).await)
            };
            assert_eq!(now, capacity.unwrap().min(some.len()), "{text} at {at}");
            begun += now;
            // In shares of one run, each as long as `per`.
            let left = burst * per + at * count - i64::try_from(begun).unwrap() * per;
            assert!(left >= 0, "{text}: {begun} by {at} ms are more than may");
            assert!(
                left < (burst + 1) * per + step * count,
                "{text}: {begun} by {at} ms are fewer than may"
            );
            longest = longest.max(next.unwrap_or(at) - at);
            at += step;
        }
        assert!(longest <= per / count + 1, "{text}: asked to wait for {longest} ms");
    }
}

#[tokio::test]
async fn a_changed_rate_holds_at_once_and_owes_no_more_than_its_own_burst() {
    let world = World::new();
    declare(&world, rated("1/1h", 5)).await;
    let runs = plant(&world, 8).await;
    assert_eq!(won(&claim_all(&world, 0, "t1", &runs).await), 5);
    assert_eq!(poll(&world, 0).await.3, Some(3_600_000));
    declare(&world, rated("10/1s", 2)).await;
    assert_eq!(
        poll(&world, 0).await,
        (0, Some(0), Some(NoRoomReason::Rate), Some(100)),
        "the old burst is not owed in the new rate"
    );
    assert_eq!(won(&claim_all(&world, 100, "t2", &runs[5..]).await), 1);
    declare(&world, QueueSettings::default()).await;
    assert_eq!(poll(&world, 101).await, (2, None, None, None));
}

#[tokio::test]
async fn a_clock_set_back_does_not_hold_a_queue_for_as_long() {
    let world = World::new();
    declare(&world, rated("1/1s", 1)).await;
    let runs = plant(&world, 3).await;
    assert_eq!(won(&claim_all(&world, 7_200_000, "t1", &runs).await), 1);
    // An hour back: not waited for. A little back: no more begin for it.
    assert_eq!(won(&claim_all(&world, 3_600_000, "t2", &runs[1..]).await), 1);
    assert_eq!(won(&claim_all(&world, 3_599_000, "t3", &runs[2..]).await), 0);
    assert_eq!(won(&claim_all(&world, 3_601_000, "t4", &runs[2..]).await), 1);
}

#[tokio::test]
async fn limit_and_rate_hold_together() {
    let world = World::new();
    declare(&world, QueueSettings { limit: Some(2), ..rated("10/1s", 10) }).await;
    let runs = plant(&world, 5).await;
    assert_eq!(poll(&world, 0).await.1, Some(2));
    assert_eq!(won(&claim_all(&world, 0, "t1", &runs).await), 2);
    assert_eq!(poll(&world, 0).await, (0, Some(0), Some(NoRoomReason::Full), None));
}
