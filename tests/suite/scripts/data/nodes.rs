//! `beat_node` and `leave_node`: who is there, and under which name.

use std::time::Duration;

use schedd_schedule::names::NodeName;
use schedd_store::{BeatFacts, BeatReply, NameClaim, NodeBeat};

use crate::scripts::world::{World, t};
use crate::support::facts::node_facts;

fn facts() -> BeatFacts {
    BeatFacts { running: 3, ..node_facts(t(0)) }
}

async fn beat(world: &World, at: i64, incarnation: &str, claim: NameClaim) -> BeatReply {
    let node: NodeName = "n1".parse().unwrap();
    let gone_after = Duration::from_secs(30);
    let beat = NodeBeat { node: &node, incarnation, gone_after, claim, facts: &facts() };
    world.at(at).beat_node(&beat).await.unwrap()
}

fn present(at: i64) -> BeatReply {
    BeatReply::Present { now: t(at) }
}

#[tokio::test]
async fn a_node_that_beats_is_listed_and_its_second_beat_changes_only_when_it_was_seen() {
    let world = World::new();
    assert_eq!(beat(&world, 0, "i1", NameClaim::Ask).await, present(0));
    let before = world.snapshot();
    assert_eq!(beat(&world, 0, "i1", NameClaim::Ask).await, present(0));
    assert_eq!(world.snapshot(), before);
    assert_eq!(beat(&world, 9, "i1", NameClaim::Ask).await, present(9));
    let (_, nodes) = world.at(10).list_nodes().await.unwrap();
    assert_eq!(
        (nodes[0].name.as_str(), nodes[0].last_seen, nodes[0].running),
        ("n1", Some(t(9)), Some(3))
    );
}

#[tokio::test]
async fn a_name_is_another_s_until_that_is_long_unseen_or_known_to_be_dead() {
    let world = World::new();
    beat(&world, 0, "i1", NameClaim::Ask).await;
    let before = world.snapshot();
    let taken = beat(&world, 29_999, "i2", NameClaim::Ask).await;
    let BeatReply::Taken { incarnation, host, pid, boot_id, seen_ago } = taken else {
        panic!("{taken:?}")
    };
    assert_eq!(
        (&*incarnation, &*host, pid, &*boot_id, seen_ago.as_millis()),
        ("i1", "h1", 7, "boot", 29_999)
    );
    assert_eq!(world.snapshot(), before);
    assert_eq!(
        beat(&world, 30_000, "i2", NameClaim::Ask).await,
        present(30_000),
        "the data is still the same"
    );
    assert_eq!(beat(&world, 30_001, "i3", NameClaim::Take).await, present(30_001));
}

#[tokio::test]
async fn a_node_leaves_under_its_own_incarnation_only() {
    let world = World::new();
    beat(&world, 0, "i2", NameClaim::Ask).await;
    let node: NodeName = "n1".parse().unwrap();
    let before = world.snapshot();
    world.at(1).leave_node(&node, "i1").await.unwrap();
    assert_eq!(world.snapshot(), before, "a predecessor that ends late takes nobody off the list");
    for _ in 0..2 {
        world.at(2).leave_node(&node, "i2").await.unwrap();
        assert!(world.at(3).list_nodes().await.unwrap().1.is_empty());
    }
}
