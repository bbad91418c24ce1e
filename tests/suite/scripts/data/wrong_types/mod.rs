//! Each script with each of its keys holding something else: it is told by name, and nothing has been changed.

mod calls;
mod scene;

use std::collections::{BTreeMap, BTreeSet};

use calls::call;
use scene::{key_named, scene, stage_of};
use schedd_store::StoreError;

use super::coverage::headers;
use crate::support::redis::TestRedis;

/// Keys of which a script only asks whether they are there, and those of many items at which a bad one is passed over.
fn is_only_passed_over(script: &str, name: &str) -> bool {
    // A mark that is damaged must not stop what it only marks.
    matches!(
        (script, name),
        ("list_due", "epoch" | "fence" | "restoring_until" | "known_servers" | "gate_timers")
            | ("record_server", "epoch" | "fence")
    ) || matches!(name, "successor_run" | "planted_run")
        || matches!(
            (script, name),
            (
                "forget_jobs",
                "counters"
                    | "not_while"
                    | "not_while_recent"
                    | "job_gates"
                    | "job"
                    | "open"
                    | "manual"
                    | "waiting"
                    | "catch_up"
                    | "ledger"
                    | "ledger_before"
                    | "audit_log"
                    | "schedule_versions"
            ) | ("restore_run", "ledger" | "ledger_before")
                | (
                    "forget_runs",
                    "run"
                        | "job"
                        | "job_history"
                        | "job_dead"
                        | "ledger"
                        | "ledger_before"
                        | "audit_log"
                        | "backfill"
                )
        )
        || matches!(
            (script, name),
            ("forget_uniques", "unique" | "holder") | ("unlist_job_gates", "job")
        )
        || matches!(
            (script, name),
            ("queue_backfill" | "quarantine_run" | "repair_chain", "run")
                | ("forget_lanes", "due")
                | ("forget_nodes", "node" | "source" | "declared")
        )
        || matches!(
            (script, name),
            ("forget_outputs", "output" | "job_outputs")
                | ("quarantine_key", "aside" | "source")
                | ("restore_key", "aside" | "key")
        )
}

#[tokio::test]
async fn every_script_reports_each_key_of_a_wrong_type_and_changes_nothing() {
    let mut redis = TestRedis::start();
    let mut cases = 0;
    for header in headers() {
        let script = header.script.as_str();
        for name in &header.keys {
            let namespace = format!("w{cases}");
            let scene = scene(redis, &namespace, stage_of(script)).await;
            if let Some(key) = key_named(script, name, &scene) {
                let _: i64 = scene.world.raw("DEL", &key, &[]);
                let _: i64 = scene.world.raw("RPUSH", &key, &["not ours"]);
                let before = scene.world.snapshot();
                let answer = call(script, &scene).await;
                if is_only_passed_over(script, name) {
                    assert!(
                        answer.is_ok() || matches!(answer, Err(StoreError::WrongType { .. })),
                        "{script} {name}: {answer:?}"
                    );
                    assert_eq!(
                        scene.world.raw::<String>("LINDEX", &key, &["0"]),
                        "not ours",
                        "{script} {name}"
                    );
                } else {
                    let Err(StoreError::WrongType { key: reported, .. }) = answer else {
                        panic!("{script} {name}: {answer:?}")
                    };
                    assert_eq!(reported, scene.world.key(&key), "{script} {name}");
                    assert_eq!(scene.world.snapshot(), before, "{script} {name}");
                }
                cases += 1;
            }
            redis = scene.world.redis;
            let () = redis::cmd("FLUSHALL").query(&mut redis.connection()).unwrap();
        }
    }
    assert!(cases > 100, "only {cases} cases");
}

#[tokio::test]
async fn every_call_made_above_does_its_work_when_no_key_is_damaged() {
    let mut redis = TestRedis::start();
    for header in headers() {
        let scene = scene(redis, "w", stage_of(&header.script)).await;
        let before = scene.world.snapshot();
        let answer = call(&header.script, &scene).await.unwrap();
        // A call that changes nothing in a sound world would pass the test above whatever it does.
        let is_reading = matches!(
            header.script.as_str(),
            "drop_fields"
                | "list_behind"
                | "read_page"
                | "list_job_gates"
                | "unlist_job_gates"
                | "list_due"
                | "forget_jobs"
                | "beat_node"
                | "inspect_job"
                | "inspect_runs"
                | "repair_counts"
                | "repair_job"
                | "open_gate"
                | "repair_run"
        );
        assert_eq!(scene.world.snapshot() == before, is_reading, "{}: {answer}", header.script);
        // What is put aside here is a job's pending run, which is what no sound world has to put aside.
        if header.script != "quarantine_run" {
            scene.world.assert_sound();
        }
        redis = scene.world.redis;
        let () = redis::cmd("FLUSHALL").query(&mut redis.connection()).unwrap();
    }
}

/// The first entry of each set whose first entry wakes a loop of a node.
fn firsts(scene: &scene::Scene) -> BTreeMap<String, (f64, String)> {
    let wakes = |key: &str| {
        key.contains(":due:")
            || [":gate_timers", ":deadlines", ":notices", ":chain_ends"]
                .iter()
                .any(|end| key.ends_with(end))
    };
    let first = |(key, content): (String, String)| {
        let mut words = content.strip_prefix("zset ")?.split(' ').collect::<Vec<_>>().into_iter();
        // A member may have spaces; the score of the first is the first number behind it.
        let member = words.next()?.to_owned();
        let score = words.find_map(|word| word.parse::<f64>().ok())?;
        Some((key, (score, member)))
    };
    scene.world.snapshot().into_iter().filter(|(key, _)| wakes(key)).filter_map(first).collect()
}

#[tokio::test]
async fn every_call_after_which_something_comes_first_counts_a_change_or_gives_a_fence() {
    let mut redis = TestRedis::start();
    let mut counted = BTreeSet::new();
    for header in headers() {
        let scene = scene(redis, "w", stage_of(&header.script)).await;
        let marks = || ["nudge", "fence"].map(|key| scene.world.raw::<Vec<u8>>("GET", key, &[]));
        let (before, marks_before) = (firsts(&scene), marks());
        call(&header.script, &scene).await.unwrap();
        let came_first = firsts(&scene).into_iter().find(|(key, first)| {
            before.get(key).is_none_or(|known| first.0 <= known.0 && first != known)
        });
        if let Some((key, _)) = came_first {
            // The node that makes this call looks at the deadlines next.
            assert!(
                marks() != marks_before || header.script == "watch_run",
                "{} makes no node look at {key}",
                header.script
            );
            counted.insert(header.script.clone());
        }
        redis = scene.world.redis;
        let () = redis::cmd("FLUSHALL").query(&mut redis.connection()).unwrap();
    }
    assert!(counted.len() >= 5, "{counted:?}");
}
