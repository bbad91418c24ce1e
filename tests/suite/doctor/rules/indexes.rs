//! The rules of indexes and counters: they name what is there, all of it, and count it.

use schedd::engine::planning::backfill_plan;
use schedd_core::domain::job::job_spec::Overlap;
use schedd_schedule::names::RunId;
use schedd_store::{OutputFrames, OutputStream, WatchReply};
use serde_json::json;

use crate::doctor::desk::Desk;
use crate::scripts::world::{run_of, t};

#[tokio::test]
async fn the_list_of_backfills_is_made_to_name_the_jobs_that_have_some() {
    let desk = Desk::new();
    desk.minutely("a").await;
    let runs = [
        RunId::backfill("a".parse().unwrap(), t(-60_000)),
        RunId::backfill("a".parse().unwrap(), t(-120_000)),
    ];
    desk.at(0).queue_backfill(&"a".parse().unwrap(), &runs).await.unwrap();
    backfill_plan::advance(&desk.at(0), &"a".parse().unwrap()).await.unwrap();
    desk.demand_sound("").await;
    desk.break_by("DEL", "backfills", &[]);
    desk.mend("missing:backfills", "job a").await;
    assert_eq!(desk.get::<Vec<String>>("ZRANGE", "backfills", &["0", "-1"]), ["a"]);
    desk.break_by("DEL", "backfill:a", &[]);
    desk.mend("extra:backfills", "job a").await;
    desk.break_by("ZADD", "backfills", &["5", "nobody"]);
    desk.mend("extra:backfills", "job nobody").await;
    assert_eq!(desk.get::<i64>("ZCARD", "backfills", &[]), 0);
}

#[tokio::test]
async fn outputs_and_their_index_are_made_to_agree() {
    let desk = Desk::new();
    desk.minutely("a").await;
    desk.break_by("ZADD", "outputs", &["5", "a@5#1"]);
    desk.mend("wrong:outputs", "outputs").await;
    desk.break_by("HSET", "output:a@7#1", &["head", "x", "size", "1"]);
    desk.break_by("SET", "output_bytes", &["1"]);
    desk.mend("wrong:outputs", "outputs").await;
    assert_eq!(desk.get::<i64>("ZCARD", "outputs", &[]), 1);
}

#[tokio::test]
async fn the_index_of_a_job_s_outputs_is_made_to_agree() {
    let mut desk = Desk::new();
    let claim = desk.printing("a").await;
    let member = format!("{}#1", claim.run);
    desk.break_by("DEL", "outputs:a", &[]);
    desk.mend("wrong:outputs", "outputs").await;
    assert!(desk.score("outputs:a", &member).is_some());
    desk.break_by("ZADD", "outputs:a", &["5", "a@5#1"]);
    desk.mend("wrong:outputs", "outputs").await;
    assert_eq!(desk.get::<i64>("ZCARD", "outputs:a", &[]), 1);
    desk.break_by("ZADD", "outputs:a", &["5", "b@5#1"]);
    desk.mend("unreadable:outputs", "outputs:a").await;
}

#[tokio::test]
async fn counters_are_set_to_what_they_count() {
    let mut desk = Desk::new();
    desk.printing("a").await;
    desk.demand_sound("").await;
    for (bytes, waiting) in [("7", "3"), ("damaged", "-1"), ("0", "x")] {
        desk.break_by("SET", "output_bytes", &[bytes]);
        desk.break_by("HSET", "counters", &["waiting", waiting]);
        let mended = desk.mend("wrong:output_bytes", "output_bytes").await;
        let done: Vec<(String, Vec<String>)> = mended
            .into_iter()
            .map(|mended| (mended.finding.subject.to_string(), mended.done))
            .collect();
        let key = |rest: &str| format!("key {}", desk.key(rest));
        let bytes = (key("output_bytes"), vec!["counter of output bytes set to 10".to_owned()]);
        assert_eq!(
            done,
            [(key("counters"), vec!["counter of waiting runs set to 0".to_owned()]), bytes],
            "each under its own key"
        );
        assert_eq!(desk.get::<String>("GET", "output_bytes", &[]), "10");
        assert_eq!(desk.total("waiting"), 0);
    }
    // A counter may hold what is no text at all.
    let damaged = redis::cmd("SET")
        .arg(desk.key("output_bytes"))
        .arg(b"\xff\xfe\x00")
        .exec(&mut desk.redis.connection());
    damaged.unwrap();
    desk.mend("wrong:output_bytes", "output_bytes").await;
}

#[tokio::test]
async fn runs_that_wait_at_a_gate_are_counted_among_those_that_wait() {
    let mut desk = Desk::new();
    for job in ["a", "b"] {
        desk.add(job, json!({"at": t(0).to_string(), "key": "k"})).await;
    }
    desk.go_on_to(1);
    let claim = desk.win_at(1, &run_of("a", 0), &["key:k"]).await;
    let order = desk.order_at(&run_of("b", 0), &["key:k"]).await;
    desk.claim(1, &order).await;
    assert_eq!(desk.total("waiting"), 1);
    desk.demand_sound("while one waits at a gate").await;
    desk.break_by("HSET", "counters", &["waiting", "0"]);
    desk.mend("wrong:counters", "counters").await;
    assert_eq!(desk.total("waiting"), 1);
    desk.succeed(2, &claim).await;
}

#[tokio::test]
async fn entries_of_a_gate_without_a_holder_or_a_waiting_run_are_removed() {
    let mut desk = Desk::new();
    desk.add("a", json!({"at": t(0).to_string(), "key": "k"})).await;
    desk.go_on_to(1);
    let claim = desk.win_at(1, &run_of("a", 0), &["key:k"]).await;
    desk.succeed(2, &claim).await;
    let ended = run_of("a", 0).to_string();
    let (by_job, by_lane) =
        (format!("a default 000000000000005 {ended}"), format!("default 000000000000005 {ended}"));
    for (key, command, words) in [
        ("gate_waiters_by_job:key:k", "ZADD", ["0", by_job.as_str()]),
        ("gate_waiters_by_lane:key:k", "ZADD", ["0", by_lane.as_str()]),
        ("gate_waiter_lanes:key:k", "ZADD", ["5", &format!("{ended} default")]),
        ("gate:key:k", "HSET", [&format!("lane:{ended}"), "default"]),
        ("gate:key:k", "HSET", [&format!("before:{ended}"), "group:g"]),
    ] {
        desk.demand_sound(key).await;
        desk.break_by(command, key, &words);
        desk.mend("wrong:gate", "gate_waiters:key:k").await;
        assert!(!desk.get::<bool>("EXISTS", key, &[]), "{key} is still there");
    }
}

#[tokio::test]
async fn a_place_whose_run_stands_in_quarantine_and_nowhere_else_is_given_up() {
    let mut desk = Desk::new();
    for job in ["a", "b", "c"] {
        desk.add(job, json!({"at": t(0).to_string(), "key": "k"})).await;
    }
    desk.go_on_to(1);
    let claim = desk.win_at(1, &run_of("a", 0), &["key:k"]).await;
    for job in ["b", "c"] {
        let order = desk.order_at(&run_of(job, 0), &["key:k"]).await;
        desk.claim(1, &order).await;
    }
    desk.succeed(2, &claim).await;
    desk.open_all(2).await;
    let woken = run_of("b", 0).to_string();
    assert!(desk.score("gate_holders:key:k", &woken).is_some());
    let due = format!("due:{}", desk.run(&run_of("b", 0)).await.lane);
    assert!(desk.score(&due, &woken).is_some());
    let entry =
        json!({"key": desk.key(&due), "score": "1", "why": "a test", "at": "1"}).to_string();
    // As it stands when it was put back and its entry stayed.
    desk.break_by("HSET", "quarantine", &[&woken, &entry]);
    desk.demand_sound("while it is due too").await;
    // As a quarantine of before left it: out of its lane, with its place.
    desk.break_by("ZREM", &due, &[&woken]);
    desk.mend("wrong:gate", "gate_waiters:key:k").await;
    assert_eq!(desk.score("gate_holders:key:k", &woken), None);
    desk.open_all(3).await;
    assert!(
        desk.score("gate_holders:key:k", &run_of("c", 0).to_string()).is_some(),
        "the next has it"
    );
}

#[tokio::test]
async fn the_bytes_of_output_of_each_job_and_the_ranges_of_ledgers_are_counted() {
    let mut desk = Desk::new();
    let claim = desk.printing("a").await;
    let kept: u64 = desk.get("HGET", "output_sizes", &["a"]);
    for (command, args) in [
        ("HSET", &["a", "1"][..]),
        ("HSET", &["a", "x"][..]),
        ("HDEL", &["a"][..]),
        ("HSET", &["b", "7"][..]),
    ] {
        desk.break_by(command, "output_sizes", args);
        desk.mend("wrong:output_sizes", "output_sizes").await;
        assert_eq!(
            desk.get::<Vec<(String, u64)>>("HGETALL", "output_sizes", &[]),
            [("a".to_owned(), kept)]
        );
    }
    desk.succeed(desk.now(), &claim).await;
    desk.at(desk.now()).forget_runs(None, t(0), 0).await.unwrap();
    for said in ["5", "x", ""] {
        desk.break_by("HSET", "counters", &["ledger_ranges", said]);
        desk.mend("wrong:counters", "counters").await;
        assert_eq!(desk.total("ledger_ranges"), 1);
    }
}

#[tokio::test]
async fn a_fence_below_one_in_use_is_raised() {
    let mut desk = Desk::new();
    let run = desk.minutely("a").await;
    let claim = desk.win_due(&run).await;
    for (command, args) in [("SET", &["5"][..]), ("SET", &["x"][..]), ("DEL", &[][..])] {
        desk.break_by(command, "fence", args);
        desk.mend("wrong:fence", "fence").await;
        assert_eq!(desk.get::<u64>("GET", "fence", &[]), claim.fence.as_u64());
    }
}

#[tokio::test]
async fn a_counter_that_moves_while_it_is_counted_is_no_finding() {
    let mut desk = Desk::new();
    let claim = desk.printing("a").await;
    let store = desk.at(desk.now());
    let writer = tokio::spawn(async move {
        for size in (1..200).cycle() {
            let mut frames = OutputFrames::new(0);
            frames.push_head(OutputStream::Stdout, &vec![b'x'; size]);
            store.write_output(&claim, &frames).await.unwrap();
        }
    });
    for _ in 0..20 {
        desk.demand_sound("output is written").await;
    }
    writer.abort();
}

#[tokio::test]
async fn a_time_kept_of_a_run_that_is_over_or_was_never_planned_is_taken_off() {
    let mut desk = Desk::new();
    let run = desk.done("a").await;
    let planned = desk.pending("a").await;
    for entry in [
        format!("{run} start"),
        format!("{run} finish"),
        "a@5 finish".to_owned(),
        format!("{planned} finish"),
    ] {
        desk.break_by("ZADD", "deadlines", &["1800000000000", &entry]);
    }
    desk.mend("extra:deadlines", &run.to_string()).await;
    assert_eq!(
        desk.get::<Vec<String>>("ZRANGE", "deadlines", &["0", "-1"]),
        [format!("{planned} finish")]
    );
}

#[tokio::test]
async fn times_of_an_overdue_a_held_and_an_open_run_and_of_one_behind_it_are_sound() {
    let mut desk = Desk::new();
    let rules = json!({"every": "1m", "on_late": {"shell": "true"}, "must_start_within": "200d", "must_finish_within": "300d"});
    let open = desk.add("a", rules.clone()).await;
    let held = desk.add("b", rules).await;
    assert_eq!(
        desk.at(held.due().as_i64() - t(0).as_i64()).watch_run(&held).await.unwrap(),
        WatchReply::Watched
    );
    desk.at(desk.now()).pause_job(&desk.job("b").await, None, &[]).await.unwrap();
    let _open = desk.win_due(&open).await;
    let skipped = desk.pending("a").await;
    let now = skipped.due().as_i64() - t(0).as_i64();
    let order = desk.order_with(&skipped, Overlap::Skip, now + 60_000).await;
    desk.claim(now, &order).await;
    desk.go_on_to(now);
    assert!(desk.state(&skipped).await.is_final());
    let mut wanted = vec![
        format!("{held} start"),
        format!("{held} finish"),
        format!("{open} finish"),
        format!("{skipped} start"),
    ];
    let mut kept = desk.get::<Vec<String>>("ZRANGE", "deadlines", &["0", "-1"]);
    wanted.sort();
    kept.sort();
    assert_eq!(kept, wanted);
    desk.demand_sound("each of them may yet be told of").await;
}
