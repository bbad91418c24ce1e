//! Rates of one key that differ from job to job, are edited, or meet a clock that was set back: each is counted by itself.

use schedd_core::domain::queue::gate::PerKey;
use schedd_core::domain::queue::rate::Rate;
use schedd_store::{ApplyOrder, ApplyReply, ClaimOrder, ClaimReply, DefinitionChange};

use super::gating::{KEY, is_queued, wake, yard};
use crate::scripts::world::{World, definition, gate, run_of, version};

async fn claim(
    world: &World,
    offset: i64,
    (job, due): (&str, i64),
    rate: &str,
    burst: u32,
) -> ClaimReply {
    let per_key =
        PerKey { limit: None, rate: Some(rate.parse::<Rate>().unwrap().with_burst(burst)) };
    world
        .claim(offset, &ClaimOrder { per_key, ..world.order_at(&run_of(job, due), KEY).await })
        .await
}

#[tokio::test]
async fn a_slow_rate_holds_up_no_job_of_another_and_is_kept_whatever_those_do() {
    let world = yard(&[("slow", 0), ("quick", 1), ("quicker", 2), ("later", 3)]).await;
    World::won(claim(&world, 10, ("slow", 0), "1/1h", 1).await);
    World::won(claim(&world, 11, ("quick", 1), "2/1s", 2).await);
    World::won(claim(&world, 12, ("quicker", 2), "2/1s", 2).await);
    assert!(is_queued(&claim(&world, 13, ("later", 3), "1/1h", 1).await));
    assert_eq!(wake(&world, "key:k"), Some(10 + 3_600_000), "an hour after the one that began");
    world.assert_sound();
}

#[tokio::test]
async fn a_run_that_waits_begins_as_soon_as_the_rate_its_job_has_after_an_edit_lets_it() {
    let world = yard(&[("a", 0), ("b", 1), ("c", 2)]).await;
    World::won(claim(&world, 10, ("a", 0), "1/1h", 1).await);
    assert!(is_queued(&claim(&world, 11, ("b", 1), "1/1h", 1).await));
    let job = world.job("b").await;
    let edited = ApplyOrder {
        definition: version("h2"),
        read: Some((job.rev, job.lane)),
        change: DefinitionChange::Rest,
        planted: None,
        is_once: true,
        old_gates: vec![gate("key:k")],
        ..definition("b", 1)
    };
    assert_eq!(world.at(20).apply_job(&edited).await.unwrap(), ApplyReply::Updated);
    World::won(claim(&world, 20, ("b", 1), "1/1s", 1).await);
    assert!(
        is_queued(&claim(&world, 21, ("c", 2), "1/1s", 1).await),
        "the one before counts by the new rate"
    );
    assert_eq!(world.open(1_020, "key:k").await, 1);
    World::won(claim(&world, 1_021, ("c", 2), "1/1s", 1).await);
    world.assert_sound();
}

#[tokio::test]
async fn a_clock_set_back_holds_up_no_run_for_longer_than_its_rate() {
    let world = yard(&[("a", 0), ("b", 1)]).await;
    World::won(claim(&world, 100_000, ("a", 0), "1/2s", 1).await);
    assert!(is_queued(&claim(&world, 5_000, ("b", 1), "1/2s", 1).await));
    let opens = wake(&world, "key:k").unwrap();
    assert!((5_000..=7_000).contains(&opens), "{opens}");
    for offset in (5_100..opens).step_by(100) {
        assert_eq!(world.open(offset, "key:k").await, 0);
    }
    assert_eq!(world.open(opens, "key:k").await, 1);
    World::won(claim(&world, opens + 1, ("b", 1), "1/2s", 1).await);
    world.assert_sound();
}
