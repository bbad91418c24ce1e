//! The fence: strictly rising, unique and within its bounds, also when its counter was lost or damaged.

use std::time::Duration;

use schedd_core::domain::job::job_spec::Overlap;
use schedd_schedule::names::Fence;
use schedd_store::{Claim, ClaimOrder, StoreError, Verdict};

use crate::scripts::world::{World, claimant, queue, t, token};

async fn claim_batch(world: &World, offset: i64, prefix: &str, count: usize) -> Vec<Claim> {
    let mut orders: Vec<ClaimOrder> = Vec::new();
    for number in 0..count {
        let run = world.plant(&format!("{prefix}{number}"), 0).await;
        orders.push(world.order(&run).await);
    }
    let replies = world
        .at(offset)
        .claim_runs(usize::MAX, &claimant("n1"), &queue("default"), &token(), &orders)
        .await
        .unwrap();
    replies.into_iter().map(World::won).collect()
}

fn assert_rising(claims: &[Claim]) {
    assert!(claims.is_sorted_by(|one, next| one.fence < next.fence), "{claims:?}");
}

#[tokio::test]
async fn fences_rise_within_a_batch_and_from_batch_to_batch_at_one_instant() {
    let world = World::new();
    let mut claims = claim_batch(&world, 0, "a", 5).await;
    claims.extend(claim_batch(&world, 0, "b", 5).await);
    assert_rising(&claims);
    assert_eq!(claims[0].fence.as_u64(), u64::try_from(t(0).as_i64()).unwrap() * 1000);
}

#[tokio::test]
async fn fences_rise_although_the_clock_is_set_back() {
    let world = World::new();
    let mut claims = claim_batch(&world, 9_000_000, "a", 2).await;
    claims.extend(claim_batch(&world, 0, "b", 2).await);
    assert_rising(&claims);
}

#[tokio::test]
async fn a_lost_or_damaged_counter_is_rebuilt_from_the_clock() {
    for damaged in [
        "",
        "abc",
        "-5",
        "inf",
        "nan",
        "9007199254740992",
        "1e300",
        "0x10",
        "1.5",
        "4000000000000000.5",
    ] {
        let world = World::new();
        let _: () = world.raw("SET", "fence", &[damaged]);
        let mut claims = claim_batch(&world, 0, "a", 4).await;
        claims.extend(claim_batch(&world, 1, "b", 4).await);
        assert_rising(&claims);
        assert!(
            claims[0].fence.as_u64() >= u64::try_from(t(0).as_i64()).unwrap() * 1000,
            "{damaged:?}"
        );
        world.assert_sound();
    }
}

#[tokio::test]
async fn a_counter_at_its_end_gives_no_two_runs_one_fence_and_none_that_is_out_of_bounds() {
    let world = World::new();
    let _: () = world.raw("SET", "fence", &[&(Fence::MAX - 2).to_string()]);
    let claims = claim_batch(&world, 0, "a", 6).await;
    let mut fences: Vec<Fence> = claims.iter().map(|claim| claim.fence).collect();
    fences.sort_unstable();
    fences.dedup();
    assert_eq!(fences.len(), 6, "{claims:?}");
    for claim in &claims {
        world.succeed(1, claim).await;
    }
    world.assert_sound();
}

#[tokio::test]
async fn a_run_s_own_fence_rises_although_the_counter_is_lost_and_the_clock_set_back() {
    let world = World::new();
    let run = world.plant("a", 0).await;
    let first = world.win_with(5_000_000, &run, Overlap::Skip, 9_000_000).await;
    world.finish(5_000_001, &first, Verdict::Release).await;
    let _: i64 = world.raw("DEL", "fence", &[]);
    let _: i64 = world.raw("ZADD", "due:default", &["1", &run.to_string()]);
    let second = world.win(0, &run).await;
    assert!(second.fence > first.fence);
    let third = world.finish(1, &second, Verdict::Retry(Duration::ZERO)).await;
    assert!(matches!(third, schedd_store::FinishReply::Retrying(_)));
}

#[tokio::test]
async fn a_counter_of_another_type_is_reported_by_name_and_no_run_leaves_the_due_set() {
    let world = World::new();
    let run = world.plant("a", 0).await;
    let order = world.order(&run).await;
    let _: i64 = world.raw("RPUSH", "fence", &["x"]);
    let before = world.snapshot();
    let error = world
        .at(0)
        .claim_runs(usize::MAX, &claimant("n1"), &queue("default"), &token(), &[order])
        .await
        .unwrap_err();
    assert!(matches!(&error, StoreError::WrongType { key, .. } if key == "{w}:fence"), "{error}");
    assert_eq!(world.snapshot(), before);
}
