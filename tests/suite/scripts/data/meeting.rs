//! `record_server`: a Redis server the data was not on before is written down, and nothing is due there for a moment.

use std::time::Duration;

use schedd_schedule::names::Fence;
use schedd_store::{ClaimOrder, ClaimReply, LaneAsk, LanePoll, Met, Poll, StoreError};

use crate::scripts::world::{World, claimant, queue, t};

async fn poll(world: &World, at: i64) -> Poll {
    world.at(at).list_due(&[LaneAsk::new(queue("default"), 5)]).await.unwrap()
}

/// What is due, and when the next is.
fn found(poll: &Poll) -> (usize, Option<i64>) {
    let LanePoll::Due { due, next, .. } = &poll.lanes[0] else { panic!("{poll:?}") };
    (due.len(), next.map(schedd_schedule::time::unix_millis::UnixMillis::as_i64))
}

#[tokio::test]
async fn a_server_just_met_has_nothing_due_for_a_moment_and_is_met_once() {
    let world = World::new();
    let run = world.plant("a", 0).await;
    world.at(0).begin_epoch("", "20-n1-b", None, 0, Duration::ZERO).await.unwrap();
    let claim = world.win(0, &world.by_hand("a", 0).await).await;
    let unmet = poll(&world, 10).await;
    assert_eq!(
        (unmet.marks.met, unmet.is_on_new_server, found(&unmet).0),
        (Met::No, false, 1),
        "whoever polls judges that"
    );
    let server = unmet.marks.server.clone();
    assert!(!server.is_empty());
    for at in [10, 500] {
        world.at(at).record_server(&server).await.unwrap();
    }
    let met = Met::At(claim.fence.as_u64());
    let held = poll(&world, 1_509).await;
    assert_eq!(
        (held.marks.met, held.is_on_new_server, found(&held)),
        (met, true, (0, Some(t(1_510).as_i64())))
    );
    let open = poll(&world, 1_510).await;
    assert_eq!(
        (open.marks.met, open.is_on_new_server, found(&open).0),
        (met, false, 1),
        "{run} is due"
    );
    // A clock set back meanwhile must not hold anything for long.
    assert!(!poll(&world, 5).await.is_on_new_server);
    world.assert_sound();
}

#[tokio::test]
async fn where_there_is_no_data_yet_nobody_is_waited_for() {
    let world = World::new();
    let server = poll(&world, 0).await.marks.server;
    world.at(0).record_server(&server).await.unwrap();
    let poll = poll(&world, 1).await;
    assert_eq!((poll.marks.met, poll.is_on_new_server), (Met::At(0), false));
}

#[tokio::test]
async fn of_the_servers_met_the_newest_are_remembered() {
    let world = World::new();
    world.at(0).begin_epoch("", "20-n1-b", None, 0, Duration::ZERO).await.unwrap();
    for number in 0..15 {
        world.at(number).record_server(&format!("server{number}")).await.unwrap();
    }
    let mut known: Vec<String> = world.raw("HKEYS", "known_servers", &[]);
    known.sort_by_key(|server| server["server".len()..].parse::<u32>().unwrap());
    assert_eq!((known.len(), known[0].as_str(), known[9].as_str()), (10, "server5", "server14"));
}

#[tokio::test]
async fn damaged_marks_hold_nobody_up() {
    let world = World::new();
    world.plant("a", 0).await;
    for key in ["epoch", "fence"] {
        let _: i64 = world.raw("DEL", key, &[]);
        let _: i64 = world.raw("RPUSH", key, &["x"]);
    }
    let server = poll(&world, 0).await.marks.server;
    world.at(0).record_server(&server).await.unwrap();
    assert_eq!(poll(&world, 1).await.marks.met, Met::At(0));
    for value in ["garbage", "5", "5:x", "-5:1", ":7"] {
        let _: i64 = world.raw("HSET", "known_servers", &[&server, value]);
        let poll = poll(&world, 1).await;
        assert_eq!(
            (poll.marks.met == Met::No, poll.is_on_new_server, found(&poll).0),
            (value == ":7", false, 1),
            "{value}"
        );
    }
    let _: i64 = world.raw("DEL", "known_servers", &[]);
    let _: i64 = world.raw("RPUSH", "known_servers", &["x"]);
    assert_eq!(poll(&world, 1).await.marks.met, Met::Unknown);
}

#[tokio::test]
async fn a_claim_made_from_a_poll_is_not_sent_to_another_server() {
    let mut world = World::new();
    let run = world.plant("a", 0).await;
    let order = ClaimOrder {
        max_caught_up: None,
        run: run.clone(),
        rev: world.job("a").await.rev,
        delivery: schedd_core::domain::job::job_spec::Delivery::AtLeastOnce,
        overlap: schedd_core::domain::job::job_spec::Overlap::Skip,
        max_age: None,
        latest_start: None,
        max_runs: None,
        successor: None,
        job_lane: queue("default"),
        gates: Vec::new(),
        known_places: Vec::new(),
        per_key: schedd_core::domain::queue::gate::PerKey::default(),
    };
    let store = world.at(0);
    let polled = store.list_due(&[LaneAsk::new(queue("default"), 5)]).await.unwrap().marks.server;
    store.trust(&polled);
    let () = redis::cmd("SAVE").query(&mut world.redis.connection()).unwrap();
    world.redis.restart();
    let (n1, queues) = (claimant("n1"), queue("default"));
    let claim =
        || store.claim_runs(usize::MAX, &n1, &queues, "token", std::slice::from_ref(&order));
    // The first call finds its connection broken.
    let mut refused = claim().await.unwrap_err();
    for _ in 0..100 {
        if matches!(refused, StoreError::Replaced { .. }) {
            break;
        }
        refused = claim().await.unwrap_err();
    }
    assert!(matches!(refused, StoreError::Replaced { .. }), "{refused}");
    assert_eq!(world.score("due:default", &run.to_string()), Some(0));
    let poll = store.list_due(&[LaneAsk::new(queue("default"), 5)]).await.unwrap();
    assert_ne!(poll.marks.server, polled);
    store.trust(&poll.marks.server);
    let ClaimReply::Claimed(won) = claim().await.unwrap().remove(0) else { panic!("not claimed") };
    assert!(won.fence > Fence::new(0).unwrap());
}
