//! `note_backlog`: all nodes that see one backlog get the same time of its beginning.

use crate::scripts::world::{World, t};

const MINUTE: i64 = 60_000;

#[tokio::test]
async fn nodes_that_see_one_backlog_get_the_same_time_of_its_beginning() {
    let world = World::new();
    let mail = "mail".parse().unwrap();
    let note = async |now: i64| world.at(now).note_backlog(&mail).await.unwrap();
    assert_eq!(note(0).await, t(0));
    assert_eq!(note(5).await, t(0));
    // A record that is renewed stays, however long the backlog lasts.
    assert_eq!(note(MINUTE).await, t(0));
    assert_eq!(note(2 * MINUTE - 1).await, t(0));
    assert_eq!(note(4 * MINUTE).await, t(4 * MINUTE), "no node renewed the record");
    world.assert_sound();
}

#[tokio::test]
async fn a_backlog_that_is_over_is_followed_by_another_one() {
    let world = World::new();
    let mail = "mail".parse().unwrap();
    let first = world.at(0).note_backlog(&mail).await.unwrap();
    world.at(1).end_backlog(&mail, first).await.unwrap();
    let second = world.at(2).note_backlog(&mail).await.unwrap();
    assert_eq!(second, t(2));
    // A node that notices the end of the first one late does not end the second one.
    world.at(3).end_backlog(&mail, first).await.unwrap();
    assert_eq!(world.at(4).note_backlog(&mail).await.unwrap(), second);
    world.assert_sound();
}
