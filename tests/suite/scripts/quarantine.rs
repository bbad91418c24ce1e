//! `quarantine_run`: what cannot be understood is put aside whole, and only as it was seen.

use schedd::store::{QueuePoll, RipeEntry};

use super::world::{World, queue};

async fn first_ripe(world: &World) -> Option<RipeEntry> {
    let poll = world.at(0).list_ripe(&[(queue("default"), 5)]).await.unwrap();
    match poll.queues.into_iter().next() {
        Some(QueuePoll::Due { ripe, .. }) => ripe.into_iter().next(),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn any_entry_is_put_aside_once_whatever_its_bytes_and_its_score() {
    let world = World::new();
    let members = [&b"garbage"[..], b"", b"\xff\xfe\x00", b"a\\x41", b"a\n\"b\"", b"a@5"];
    let scores = ["+inf", "-inf", "1e300", "-5", "0.1", "4102444800000"];
    for (member, score) in members.into_iter().zip(scores) {
        let mut connection = world.redis.connection();
        let () = redis::cmd("ZADD").arg(world.key("due:default")).arg(score).arg(member).query(&mut connection).unwrap();
    }
    while let Some(entry) = first_ripe(&world).await {
        assert!(world.at(0).quarantine_run(&queue("default"), &entry, "a test").await.unwrap(), "{entry:?}");
        assert!(!world.at(0).quarantine_run(&queue("default"), &entry, "a test").await.unwrap(), "{entry:?}");
    }
    let mut kept: Vec<Vec<u8>> = world.raw("HKEYS", "quarantine", &[]);
    let mut wanted: Vec<Vec<u8>> = members.into_iter().map(<[u8]>::to_vec).collect();
    kept.sort();
    wanted.sort();
    assert_eq!(kept, wanted, "nothing is lost");
    assert_eq!(world.store.read_stats().await.unwrap().quarantined, 6);
}

#[tokio::test]
async fn an_entry_that_has_moved_meanwhile_is_left() {
    let world = World::new();
    let run = world.plant("a", 0).await;
    let entry = first_ripe(&world).await.unwrap();
    let _: i64 = world.raw("ZADD", "due:default", &["5", &run.to_string()]);
    let before = world.snapshot();
    assert!(!world.at(0).quarantine_run(&queue("default"), &entry, "a test").await.unwrap());
    assert_eq!(world.snapshot(), before);
}

#[tokio::test]
async fn what_is_no_lease_is_told_as_it_stands_and_put_aside() {
    let world = World::new();
    let run = world.plant("a", 0).await;
    world.win(0, &run).await;
    for member in ["a@5", "nothing#5", "a@5#x", "a@5#99999999999999999999"] {
        let _: i64 = world.raw("ZADD", "leases", &["5", member]);
    }
    let bad: Vec<(String, String)> = world.store.list_leases(10).await.unwrap().into_iter().filter_map(Result::err).collect();
    assert_eq!(bad.len(), 4);
    for (member, score) in bad {
        assert!(world.at(0).quarantine_lease(&RipeEntry { member, score }, "a test").await.unwrap());
    }
    assert_eq!(world.store.list_leases(10).await.unwrap().len(), 1);
    world.assert_sound();
}
