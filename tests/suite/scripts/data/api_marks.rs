//! The marks of the HTTP API: `replace_mark`, `begin_answer` and `use_link`.

use schedd_store::MarkSuccessor::{Answer, Mark, Nothing};

use crate::scripts::world::World;

#[tokio::test]
async fn only_the_request_that_made_a_mark_replaces_it() {
    let world = World::new();
    let store = &world.store;
    let text = || world.raw::<Option<String>>("GET", "answer:x", &[]);
    let left = || world.raw::<i64>("PTTL", "answer:x", &[]);
    assert_eq!(store.begin_answer("x", "one").await.unwrap(), None);
    assert_eq!(store.begin_answer("x", "two").await.unwrap().as_deref(), Some("one"));
    for successor in [Mark, Answer("answer of two"), Nothing] {
        assert!(!store.replace_mark("x", "two", successor).await.unwrap(), "{successor:?}");
        assert_eq!(text().as_deref(), Some("one"), "{successor:?}");
    }
    let _: i64 = world.raw("PEXPIRE", "answer:x", &["1000"]);
    assert!(store.replace_mark("x", "one", Mark).await.unwrap());
    assert_eq!(text().as_deref(), Some("one"));
    assert!((50_000..=60_000).contains(&left()), "{}", left());
    assert!(store.replace_mark("x", "one", Answer("answer of one")).await.unwrap());
    assert_eq!(text().as_deref(), Some("answer of one"));
    assert!(left() > 86_000_000, "{}", left());
    assert!(!store.replace_mark("x", "one", Mark).await.unwrap(), "it was answered");
    // A mark that ended while nobody else began is its request's still.
    let _: i64 = world.raw("DEL", "answer:x", &[]);
    assert!(store.replace_mark("x", "one", Mark).await.unwrap());
    assert!(store.replace_mark("x", "one", Nothing).await.unwrap());
    assert_eq!(text(), None);
}

#[tokio::test]
async fn a_link_is_used_once() {
    let world = World::new();
    assert!(world.store.use_link("h").await.unwrap());
    assert!(!world.store.use_link("h").await.unwrap());
    assert!(world.store.use_link("another").await.unwrap());
    world.assert_sound();
}
