//! What is kept stays within its bounds, and a job that floods takes nothing from others; past occurrences are made up for in
//! their order.

use std::time::Duration;

use redis::Commands;
use schedd::engine::planning::job_operations;
use schedd::engine::planning::planting;
use schedd::engine::planning::planting::Request;
use schedd_core::config;
use schedd_core::domain::run::run_state::RunState;
use schedd_schedule::time::zone::Zone;
use schedd_store::{Existing, SourceKind};
use serde_json::json;

use crate::support::ctl::Schedctl;
use crate::support::daemon::Schedd;
use crate::support::effects::Effects;
use crate::support::eye::Eye;
use crate::support::redis::TestRedis;
use crate::support::wait::until;

/// Runs of the job that floods: batches, and runs of one. Past the bounds of all together, and never so at once.
const BATCHES: usize = 4;
const BATCH: usize = 40;
const FLOODED: &str = "[history]\nkeep_per_job = 5\nkeep = 110\n[output]\nkeep_bytes_per_job = \"16KiB\"\nkeep_bytes = \"256KiB\"\n";

#[test]
fn a_job_that_floods_history_and_output_takes_nothing_from_a_quiet_one() {
    let (redis, tail) = (TestRedis::start(), "head -c 2000 /dev/zero");
    let eye = Eye::on(&redis);
    let node = Schedd::on(&redis).jobs(FLOODED).start();
    node.wait_for_log("Started.");
    eye.add(&json!({"name": "quiet", "in": "0s", "shell": "echo hello"}));
    let quiet = eye.wait_for_history("quiet", 1).remove(0).run;
    eye.add(&json!({"name": "loud", "shell": format!("{tail}; false"), "overlap": "allow"}));
    let total = |word: &str| {
        eye.ask(eye.store().read_stats()).unwrap().totals.get(word).copied().unwrap_or(0)
    };
    for batch in 1..=BATCHES {
        for _ in 0..BATCH {
            eye.ask(job_operations::run_by_hand(eye.store(), &"loud".parse().unwrap(), None))
                .unwrap()
                .remove(0);
        }
        until("a batch has ended and is trimmed", Duration::from_secs(60), || {
            let is_trimmed = eye.history("loud").len() <= 55;
            (total("failed") == (batch * BATCH) as u64 && is_trimmed).then_some(())
        });
    }
    let mut connection = redis.connection();
    until("the loud job's output is trimmed", Duration::from_secs(60), || {
        let bytes: Option<u64> = connection.hget("{schedd}:output_sizes", "loud").unwrap();
        bytes.is_some_and(|bytes| bytes <= 18 * 1024).then_some(())
    });
    assert!(total("trimmed_runs") == 0, "dead letters keep their records, by bounds of their own");
    assert!(total("trimmed_outputs") > 100, "{}", total("trimmed_outputs"));
    assert_eq!(eye.history("quiet").len(), 1);
    let output = eye.ask(eye.store().read_output(&quiet, 1)).unwrap().unwrap();
    assert_eq!(output.stdout, b"hello\n");
    let ctl = Schedctl::on(&redis);
    let stats = ctl.run(&["stats", "--json"]).good().json();
    assert!(
        stats["redis_memory_bytes"].as_u64().unwrap() > 0
            && stats["redis_maxmemory_bytes"].is_null(),
        "{stats}"
    );
    assert_eq!((&stats["trimmed_ranges"], &stats["not_recorded"]), (&0.into(), &0.into()));
    assert!(ctl.run(&["stats"]).good().stdout.contains("trimmed_outputs"));
}

/// A job in the list of a node's file.
fn list_for(eye: &Eye, node: &str, job: &str) {
    let spec =
        config::job_from_value(&json!({"name": job, "shell": "true"}), &Zone::utc()).unwrap().spec;
    let request = Request {
        name: job.parse().unwrap(),
        is_drawn: false,
        spec,
        start_in: None,
        kind: SourceKind::File,
        source: node.to_owned(),
        existing: Existing::Edit,
        seen: None,
    };
    eye.ask(planting::apply_one(eye.store(), &Zone::utc(), &request)).unwrap();
}

#[test]
fn a_node_long_gone_is_forgotten_unless_it_alone_lists_a_job() {
    let redis = TestRedis::start();
    let eye = Eye::on(&redis);
    for (node, job) in [("ghost", "shared"), ("other", "shared"), ("sole", "only")] {
        list_for(&eye, node, job);
    }
    let mut connection = redis.connection();
    for node in ["ghost", "sole"] {
        let () = connection.zadd("{schedd}:nodes", node, 1).unwrap();
        let () = connection.hset(format!("{{schedd}}:node:{node}"), "state", "running").unwrap();
    }
    // While a node was there a moment ago, the time of Redis is trusted.
    let now = eye.ask(eye.store().now()).unwrap().as_i64();
    let () = connection.zadd("{schedd}:nodes", "other", now).unwrap();
    let node = Schedd::on(&redis).jobs("[history]\nkeep_per_job = 1\n").start();
    node.wait_for_log("Started.");
    // What wakes the janitor is a history that is too long.
    eye.add(&json!({"name": "loud", "shell": "true", "overlap": "allow"}));
    for _ in 0..60 {
        eye.ask(job_operations::run_by_hand(eye.store(), &"loud".parse().unwrap(), None))
            .unwrap()
            .remove(0);
    }
    until("the node that is gone is forgotten", Duration::from_secs(60), || {
        let there: Option<f64> = connection.zscore("{schedd}:nodes", "ghost").unwrap();
        there.is_none().then_some(())
    });
    let left: Vec<String> = connection.keys("{schedd}:*:ghost").unwrap();
    assert_eq!(left, Vec::<String>::new());
    assert_eq!(eye.job("shared").unwrap().listed_by.into_keys().collect::<Vec<_>>(), ["other"]);
    assert!(eye.job("shared").unwrap().ended.is_none() && eye.job("only").unwrap().ended.is_none());
    assert!(
        connection.zscore::<_, _, Option<f64>>("{schedd}:nodes", "sole").unwrap().is_some(),
        "its file still counts"
    );
}

#[test]
fn what_is_kept_of_an_output_is_as_long_as_the_file_says() {
    let redis = TestRedis::start();
    let eye = Eye::on(&redis);
    let node = Schedd::on(&redis).jobs("[output]\nhead = \"3B\"\ntail = \"100KiB\"\n").start();
    node.wait_for_log("Started.");
    eye.add(
        &json!({"name": "a", "in": "0s", "shell": "printf 0123456789; head -c 200000 /dev/zero"}),
    );
    let run = eye.wait_for_history("a", 1).remove(0).run;
    let output = eye.ask(eye.store().read_output(&run, 1)).unwrap().unwrap();
    assert_eq!(
        (output.stdout.len(), output.dropped_bytes),
        (3 + 100 * 1024, 200_010 - 3 - 100 * 1024)
    );
    assert_eq!(&output.stdout[..4], b"012\0");
}

#[test]
fn past_occurrences_run_one_after_the_other_the_oldest_first() {
    let (redis, effects) = (TestRedis::start(), Effects::new());
    let eye = Eye::on(&redis);
    let node = Schedd::on(&redis).start();
    node.wait_for_log("Started.");
    eye.add(
        &json!({"name": "a", "cron": "0 0 1 1 *", "tz": "UTC", "shell": effects.shell("sleep 0.1; test $SCHEDD_DUE_MS -gt 0")}),
    );
    let pending = eye.job("a").unwrap().pending;
    let ctl = Schedctl::on(&redis);
    let (from, to) = ("2020-01-01T00:00:00Z", "2025-01-01T00:00:00Z");
    let window = ["backfill", "a", "--yes", "--from", from, "--to", to];
    ctl.run(&window).good();
    let runs = eye.wait_for_history("a", 5);
    assert!(runs.iter().all(|run| run.state == RunState::Succeeded), "{runs:?}");
    let seen = effects.of("a");
    let dues: Vec<&str> =
        seen.iter().map(|effect| effect.run.split(['@', '~']).nth(1).unwrap()).collect();
    assert!(dues.is_sorted() && dues[0] == "1577836800000", "{dues:?}");
    assert!(seen.windows(2).all(|pair| pair[0].ended.unwrap() <= pair[1].began), "{seen:?}");
    assert_eq!(eye.job("a").unwrap().pending, pending);
    ctl.run(&window).good();
    assert_eq!(eye.history("a").len(), 5);
}

#[test]
fn a_server_that_evicts_is_used_and_warned_of_where_the_file_allows_it() {
    let redis = TestRedis::start();
    let () = redis::cmd("CONFIG")
        .arg(&["SET", "maxmemory-policy", "allkeys-lru"])
        .query(&mut redis.connection())
        .unwrap();
    let mut refused = Schedd::on(&redis).start();
    refused.wait_for_log("allow_eviction = true");
    assert_eq!(refused.wait_exit().code(), Some(69));
    let node = Schedd::on(&redis).jobs("[redis]\nallow_eviction = true\n").start();
    node.wait_for_log("deletes keys when memory is short");
    node.wait_for_log("Started.");
}
