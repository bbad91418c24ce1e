//! `note_events`: what happened to a node is kept, bounded, and read back around an instant.

use schedd_core::domain::run::node_event::{NodeEvent, NodeEventKind};
use schedd_schedule::names::NodeName;
use schedd_store::EventNote;

use crate::scripts::world::{World, t};

fn away(from: i64, to: Option<i64>) -> NodeEvent {
    NodeEvent { what: NodeEventKind::RedisAway, from: t(from), to: to.map(t) }
}

fn note(event: NodeEvent) -> EventNote {
    EventNote { event, replaces: None }
}

#[tokio::test]
async fn what_hit_a_node_reads_back_and_its_end_takes_the_place_of_its_beginning() {
    let world = World::new();
    let node: NodeName = "n1".parse().unwrap();
    let started = NodeEvent {
        what: NodeEventKind::Started { seen_before: Some(t(-9)) },
        from: t(0),
        to: None,
    };
    world.at(0).note_events(&node, &[note(started.clone()), note(away(5, None))]).await.unwrap();
    let over = EventNote { event: away(5, Some(9)), replaces: Some(away(5, None)) };
    world.at(9).note_events(&node, std::slice::from_ref(&over)).await.unwrap();
    let before = world.snapshot();
    world.at(9).note_events(&node, &[over]).await.unwrap();
    assert_eq!(world.snapshot().keys().collect::<Vec<_>>(), before.keys().collect::<Vec<_>>());
    let read = world.at(9).read_events(&[node], t(4)).await.unwrap().remove(0);
    assert_eq!((read.node.as_str(), read.last_seen), ("n1", None));
    assert_eq!(read.events, [started, away(5, Some(9))]);
    assert!(
        world.raw::<i64>("PTTL", "events:n1", &[]) > 0,
        "a node that never comes back is forgotten"
    );
}

#[tokio::test]
async fn of_a_node_the_newest_thousand_are_kept_and_a_look_takes_a_hundred_on_each_side() {
    let world = World::new();
    let node: NodeName = "n1".parse().unwrap();
    for batch in 0..12 {
        let notes: Vec<EventNote> =
            (0..100).map(|n| batch * 100 + n).map(|n| note(away(n, Some(n)))).collect();
        world.at(batch).note_events(&node, &notes).await.unwrap();
    }
    assert_eq!(world.raw::<i64>("ZCARD", "events:n1", &[]), 1_000);
    let read = world.at(0).read_events(&[node], t(700)).await.unwrap().remove(0);
    assert_eq!((read.events.len(), read.events[99].clone()), (200, away(700, Some(700))));
}
