//! The rules of keys: each has a name that is known, holds what that says, and stays.

use serde_json::json;

use crate::doctor::desk::{Desk, unreadable};
use crate::scripts::world::t;

#[tokio::test]
async fn a_key_that_expires_stays() {
    let desk = Desk::new();
    desk.minutely("a").await;
    desk.break_by("EXPIRE", "job:a", &["1000"]);
    desk.mend("extra:expiry", "job:a").await;
    assert_eq!(desk.get::<i64>("TTL", "job:a", &[]), -1);
}

#[tokio::test]
async fn a_key_that_holds_something_else_goes_to_quarantine_and_is_made_anew() {
    for key in [
        "jobs",
        "leases",
        "due:default",
        "history",
        "dead",
        "stop_requests",
        "counters",
        "quarantine",
        "open:a",
        "output_bytes",
        "consistency_check",
    ] {
        let mut desk = Desk::new();
        let run = desk.minutely("a").await;
        desk.break_by("DEL", key, &[]);
        desk.break_by("RPUSH", key, &["not ours"]);
        desk.mend(&unreadable(key), key).await;
        let aside: Vec<String> =
            desk.snapshot().into_keys().filter(|found| found.contains(":quarantined:")).collect();
        assert_eq!(aside.len(), 1, "{key}");
        let claim = desk.win_due(&run).await;
        desk.succeed(desk.now(), &claim).await;
        desk.demand_sound(key).await;
    }
}

#[tokio::test]
async fn entries_that_cannot_stand_where_they_do_go_to_quarantine() {
    for (set, score, member) in [
        ("due:default", "inf", "a@5"),
        ("due:default", "-5", "a@5"),
        ("due:default", "5", "garbage"),
        ("leases", "5", "a@5"),
        ("history", "5", "garbage"),
        ("open:a", "5", "b@5"),
        ("waiting:a", "5", ""),
        ("jobs", "5", "No Name"),
        ("backfills", "5", "No Name"),
        ("backfill:a", "5", "a@5"),
        ("backfill:a", "inf", "a@5~backfill"),
        ("outputs", "5", "garbage"),
        ("nodes", "5", "No Node"),
        ("nodes", "inf", "one"),
        ("event_nodes", "5", "No Node"),
        ("boots", "5", "garbage"),
        ("boot_runs", "5", "a @host"),
        ("ledger:a", "5", "garbage"),
        ("audit_log:a", "5", "garbage"),
        ("events:one", "5", "{\"what\":"),
        ("data_losses", "5", "garbage"),
    ] {
        let desk = Desk::new();
        desk.minutely("a").await;
        desk.break_by("ZADD", set, &[score, member]);
        desk.mend(&unreadable(set), set).await;
        assert_eq!(desk.get::<Vec<String>>("HKEYS", "quarantine", &[]), [member], "{set}");
    }
}

#[tokio::test]
async fn a_planned_run_with_a_score_no_instant_has_is_planted_anew_at_its_own_time() {
    let desk = Desk::new();
    let run = desk.minutely("a").await;
    desk.break_by("ZADD", "due:default", &["inf", &run.to_string()]);
    desk.mend("unreadable:due", "due:default").await;
    assert_eq!(
        desk.score("due:default", &run.to_string()),
        Some(run.due().as_i64() - t(0).as_i64())
    );
}

#[tokio::test]
async fn fields_that_cannot_be_read_are_taken_out_and_what_they_held_is_said() {
    let hash = "0123456789abcdef0123456789abcdef01234567";
    for (key, field, value) in [
        ("queues", "default", "many"),
        ("queues", "No Queue", "3"),
        ("counters", "succeeded", "-1"),
        ("counters", "No Word", "5"),
        ("node:one", "pid", "x"),
        ("node:one", "clock_offset_ms", "1e300"),
        ("source:one", "a", "no hash"),
        ("source:one", "No Name", hash),
        ("ledger_before:a", "failed", "x"),
        ("ledger_before:a", "until", "-1"),
    ] {
        let mut desk = Desk::new();
        desk.done("a").await;
        desk.break_by("ZADD", "nodes", &["5", "one"]);
        desk.break_by("HSET", "node:one", &["state", "running"]);
        desk.break_by("HSET", "source:one", &["a", hash]);
        desk.demand_sound(key).await;
        desk.break_by("HSET", key, &[field, value]);
        let mended = desk.mend(&unreadable(key), key).await;
        assert_eq!(
            mended[0].done,
            [format!("field \"{field}\" removed, content: \"{value}\"")],
            "{key}"
        );
        assert_eq!(desk.get::<i64>("HEXISTS", key, &[field]), 0, "{key}");
    }
}

#[tokio::test]
async fn a_hash_with_many_damaged_fields_is_one_finding_and_its_sound_ones_stay() {
    let mut desk = Desk::new();
    desk.done("a").await;
    for at in 0..1_200 {
        desk.break_by("HSET", "counters", &[&format!("No Word {at}"), "1"]);
    }
    let reported = desk.findings().await;
    assert_eq!(reported.len(), 1, "{reported:#?}");
    assert!(reported[0].found.starts_with("cannot be read: 1200 of its fields"), "{}", reported[0]);
    desk.mend("unreadable:counters", "counters").await;
    assert_eq!(desk.total("succeeded"), 1);
}

#[tokio::test]
async fn a_lane_nobody_wrote_down_is_written_down() {
    let desk = Desk::new();
    desk.add("a", json!({"every": "1m", "priority": 5, "requires": ["gpu"]})).await;
    assert!(desk.findings().await.is_empty(), "{:#?}", desk.findings().await);
    desk.break_by("DEL", "lanes", &[]);
    desk.mend("missing:lanes", &format!("key {}", desk.key("due:default!5+gpu"))).await;
    assert_eq!(desk.store.read_lanes().await.unwrap(), ["default!5+gpu".parse().unwrap()].into());
}
