//! Unique keys in the consistency check: each is held by a job, or on its way out.

use serde_json::json;

use super::desk::Desk;
use crate::scripts::world::t;

#[tokio::test]
async fn a_unique_key_that_points_at_nothing_goes_and_one_that_is_held_is_looked_at_again() {
    let mut desk = Desk::new();
    let run = desk.add("a", json!({"at": t(3_600_000).to_string(), "unique": "k \\x41 é"})).await;
    assert!(desk.findings().await.is_empty(), "{:#?}", desk.findings().await);
    desk.break_by("HSET", "unique:nothing", &["job", "ghost"]);
    desk.mend("extra:unique", "unique:nothing").await;
    desk.break_by("HSET", "unique:nobody", &["since", "5"]);
    desk.mend("unreadable:unique", "unique:nobody").await;
    desk.break_by("HSET", "unique:bad", &["job", "No Job"]);
    desk.mend("extra:unique", "unique:bad").await;
    desk.break_by("ZADD", "uniques", &["5", "gone"]);
    desk.mend("extra:uniques", "unique:gone").await;
    desk.break_by("DEL", "uniques", &[]);
    desk.mend("missing:uniques", "unique:k ").await;
    assert_eq!(desk.get::<Vec<String>>("ZRANGE", "uniques", &["0", "-1"]), ["k \\x41 é"]);
    desk.break_by("ZADD", "uniques", &["5", "a\tb"]);
    desk.mend("unreadable:uniques", "uniques").await;
    // What is over and about to go is in order.
    desk.go_on_to(3_600_000);
    let claim = desk.win(3_600_000, &run).await;
    desk.succeed(3_600_001, &claim).await;
    assert!(desk.findings().await.is_empty(), "{:#?}", desk.findings().await);
}
