//! Groups whose members take turns: whose turn it is, the gap, turn timeout, and who is passed over.

use std::time::Duration;

use schedd_core::domain::job::job_spec::Overlap;
use schedd_schedule::names::RunId;
use schedd_store::{Blocking, Claim, ClaimOrder, ClaimReply, Verdict};

use crate::scripts::claims::recovering::{expired, recovery};
use crate::scripts::world::{World, gate, name, run_of};

/// Jobs a and b (and others) that take turns, each first due at 0 and then every 1,000 ms.
async fn turns(order: &str, gap_ms: i64, turn_timeout_ms: i64) -> World {
    let world = World::new();
    let settings = [
        "mode",
        "alternate",
        "order",
        order,
        "gap_ms",
        &gap_ms.to_string(),
        "turn_timeout_ms",
        &turn_timeout_ms.to_string(),
    ];
    let _: i64 = world.raw("HSET", "group:g", &settings);
    for job in order.split(' ') {
        world.plant(job, 0).await;
    }
    world
}

async fn try_one(world: &World, offset: i64, run: &RunId, next: i64) -> ClaimReply {
    let order = ClaimOrder {
        gates: vec![gate("group:g")],
        ..world.order_with(run, Overlap::Allow, next).await
    };
    let reply = world.claim(offset, &order).await;
    world.open_all(offset).await;
    world.assert_sound();
    reply
}

async fn win(world: &World, offset: i64, run: &RunId, next: i64) -> Claim {
    World::won(try_one(world, offset, run, next).await)
}

async fn wait(world: &World, offset: i64, run: &RunId, next: i64) {
    let reply = try_one(world, offset, run, next).await;
    assert!(matches!(reply, ClaimReply::Blocked(Blocking::AtGate)), "{run}: {reply:?}");
}

async fn end(world: &World, offset: i64, claim: &Claim) {
    world.succeed(offset, claim).await;
    world.open_all(offset).await;
    world.assert_sound();
}

fn turn(world: &World) -> String {
    world.raw::<Option<String>>("HGET", "gate:group:g", &["turn"]).unwrap_or_default()
}

fn is_due(world: &World, run: &RunId) -> Option<i64> {
    world.score("due:default", &run.to_string())
}

fn wake(world: &World) -> Option<i64> {
    world.score("gate_timers", "group:g")
}

#[tokio::test]
async fn members_take_turns_in_their_order_whoever_comes_first() {
    let world = turns("a b", 0, 60_000).await;
    wait(&world, 0, &run_of("b", 0), 1_000).await;
    assert_eq!(
        (turn(&world).as_str(), wake(&world)),
        ("a", Some(60_000)),
        "a is due, so its turn waits for it"
    );
    let a = win(&world, 1, &run_of("a", 0), 1_000).await;
    wait(&world, 1_000, &run_of("a", 1_000), 2_000).await;
    end(&world, 1_001, &a).await;
    assert_eq!((turn(&world).as_str(), is_due(&world, &run_of("b", 0))), ("b", Some(1_001)));
    let b = win(&world, 1_002, &run_of("b", 0), 2_000).await;
    end(&world, 1_003, &b).await;
    assert_eq!((turn(&world).as_str(), is_due(&world, &run_of("a", 1_000))), ("a", Some(1_003)));
    let a = win(&world, 1_004, &run_of("a", 1_000), 2_000).await;
    end(&world, 1_005, &a).await;
    let standing =
        world.store.read_group_standings(&["g".parse().unwrap()]).await.unwrap().remove(0);
    assert_eq!(standing.turn, Some((name("b"), crate::scripts::world::t(1_005))));
    assert_eq!((standing.waiting, standing.holders.len()), (0, 0));
}

#[tokio::test]
async fn the_next_begins_no_sooner_than_the_gap_after_the_end_of_the_last() {
    let world = turns("a b", 5_000, 60_000).await;
    let a = win(&world, 0, &run_of("a", 0), 100_000).await;
    wait(&world, 0, &run_of("b", 0), 100_000).await;
    end(&world, 1_000, &a).await;
    assert_eq!((is_due(&world, &run_of("b", 0)), wake(&world)), (None, Some(6_000)));
    world.open_all(5_999).await;
    assert_eq!(is_due(&world, &run_of("b", 0)), None);
    world.open_all(6_000).await;
    assert_eq!(is_due(&world, &run_of("b", 0)), Some(6_000));
    let b = win(&world, 6_001, &run_of("b", 0), 100_000).await;
    end(&world, 6_002, &b).await;
    // Also one that comes when nobody waits.
    world.plant_once("c", 6_003).await;
    assert!(matches!(
        try_one(&world, 6_003, &run_of("c", 6_003), 9_000).await,
        ClaimReply::Blocked(Blocking::AtGate)
    ));
}

#[tokio::test]
async fn a_member_with_nothing_due_in_time_is_passed_at_once_a_late_one_on_timeout() {
    let world = turns("a b", 0, 10_000).await;
    let a = win(&world, 0, &run_of("a", 0), 500_000).await;
    let b_next = run_of("b", 0);
    end(&world, 1, &a).await;
    let b = win(&world, 2, &b_next, 7_000).await;
    end(&world, 3, &b).await;
    // a has nothing before 500,000: the turn comes back to b.
    wait(&world, 7_000, &run_of("b", 7_000), 494_990).await;
    assert_eq!((turn(&world).as_str(), is_due(&world, &run_of("b", 7_000))), ("b", Some(7_000)));
    let b = win(&world, 7_001, &run_of("b", 7_000), 494_990).await;
    end(&world, 7_002, &b).await;
    // Its turn timeout with a is long over.
    wait(&world, 494_990, &run_of("b", 494_990), 900_000).await;
    let b = win(&world, 494_991, &run_of("b", 494_990), 900_000).await;
    end(&world, 494_999, &b).await;
    let hand = world.by_hand("b", 495_000).await;
    wait(&world, 495_000, &hand, 900_000).await;
    assert_eq!(
        (turn(&world).as_str(), wake(&world)),
        ("a", Some(504_999)),
        "a is due within its turn timeout"
    );
    world.open_all(504_998).await;
    assert_eq!(is_due(&world, &hand), None);
    world.open_all(504_999).await;
    assert_eq!(is_due(&world, &hand), Some(504_999), "it did not come in time");
}

#[tokio::test]
async fn a_member_that_is_paused_or_gone_is_passed_over_at_once() {
    let world = turns("a b c", 0, 60_000).await;
    world.at(0).pause_job(&world.job("a").await, None, &[]).await.unwrap();
    let removal = crate::scripts::jobs::removing::removal(
        &world.job("b").await,
        schedd_store::StopRunning::No,
    );
    world.at(0).remove_job(&removal).await.unwrap();
    let reply = try_one(&world, 1, &run_of("c", 0), 1_000).await;
    assert!(
        matches!(reply, ClaimReply::Blocked(Blocking::AtGate)),
        "its turn is judged by who looks at the gate: {reply:?}"
    );
    assert_eq!((turn(&world).as_str(), is_due(&world, &run_of("c", 0))), ("c", Some(1)));
    World::won(try_one(&world, 2, &run_of("c", 0), 1_000).await);
}

#[tokio::test]
async fn a_run_handed_back_keeps_the_turn_and_a_failed_or_lost_attempt_passes_it() {
    let world = turns("a b", 0, 60_000).await;
    let a = win(&world, 0, &run_of("a", 0), 100_000).await;
    wait(&world, 0, &run_of("b", 0), 100_000).await;
    world.finish(1, &a, Verdict::Release).await;
    world.open_all(1).await;
    assert_eq!((turn(&world).as_str(), is_due(&world, &run_of("b", 0))), ("a", None));
    let a = win(&world, 2, &run_of("a", 0), 100_000).await;
    world.finish(3, &a, Verdict::Retry(Duration::from_millis(1))).await;
    world.open_all(3).await;
    assert_eq!((turn(&world).as_str(), is_due(&world, &run_of("b", 0))), ("b", Some(3)));
    wait(&world, 4, &run_of("a", 0), 100_000).await;
    let b = win(&world, 5, &run_of("b", 0), 100_000).await;
    world.at(20_000).recover_run(&expired(&b, 10_005), &recovery(None)).await.unwrap();
    world.open_all(20_000).await;
    assert_eq!((turn(&world).as_str(), is_due(&world, &run_of("a", 0))), ("a", Some(20_000)));
    world.assert_sound();
}

#[tokio::test]
async fn a_job_that_is_no_member_comes_after_all_of_them() {
    let world = turns("a b", 0, 60_000).await;
    world.plant("z", 0).await;
    wait(&world, 0, &run_of("z", 0), 100_000).await;
    let a = win(&world, 0, &run_of("a", 0), 100_000).await;
    wait(&world, 0, &run_of("b", 0), 100_000).await;
    end(&world, 1, &a).await;
    let b = win(&world, 2, &run_of("b", 0), 100_000).await;
    end(&world, 3, &b).await;
    assert_eq!(is_due(&world, &run_of("z", 0)), Some(3));
    let z = win(&world, 4, &run_of("z", 0), 100_000).await;
    end(&world, 5, &z).await;
    assert_eq!(turn(&world), "a");
}

#[tokio::test]
async fn settings_that_change_are_looked_at_at_once_and_damaged_ones_keep_runs_apart() {
    let world = turns("a b", 0, 60_000).await;
    wait(&world, 0, &run_of("b", 0), 1_000).await;
    assert_eq!(is_due(&world, &run_of("b", 0)), None);
    let section = schedd_store::Section::Group("g".parse().unwrap());
    let text = schedd_store::SectionText::Group(
        schedd_core::domain::queue::group_rules::GroupSettings::Exclusive,
    );
    world.at(1).declare_section(&"n1".parse().unwrap(), &section, Some(&text)).await.unwrap();
    world.open_all(1).await;
    assert_eq!(is_due(&world, &run_of("b", 0)), Some(1));
    let _: i64 = world.raw("DEL", "group:g", &[]);
    wait(&world, 2, &run_of("a", 0), 1_000).await;
    let b = win(&world, 2, &run_of("b", 0), 1_000).await;
    end(&world, 3, &b).await;
    win(&world, 4, &run_of("a", 0), 1_000).await;
}
