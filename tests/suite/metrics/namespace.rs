//! The figures of the whole namespace.

use std::time::{Duration, Instant};

use super::{ApiNode, scrape};
use crate::support::redis::TestRedis;

/// The time for which figures are answered again.
const FRESH_FOR: Duration = Duration::from_secs(5);

/// The number of calls of `ZCOUNT` so far. Only a reading of queue depths makes them.
fn counted(redis: &TestRedis) -> u64 {
    let info: String =
        redis::cmd("INFO").arg("commandstats").query(&mut redis.connection()).unwrap();
    let line = info.lines().find_map(|line| line.strip_prefix("cmdstat_zcount:calls="));
    line.map_or(0, |line| line.split(',').next().unwrap().parse().unwrap())
}

#[test]
fn redis_is_read_once_for_many_scrapes_and_never_without_one() {
    let redis = TestRedis::start();
    let node = ApiNode::start(&redis, "[queues.mail]\n[jobs.a]\nshell = \"true\"\n");
    assert_eq!(node.run("a"), 0);
    assert_eq!(counted(&redis), 0, "nobody asked");
    let started = Instant::now();
    node.scrape();
    let of_one = counted(&redis);
    assert!(of_one > 0);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| (0..25).for_each(|_| drop(scrape(&node.socket()))));
        }
    });
    let readings = 1 + started.elapsed().as_secs() / FRESH_FOR.as_secs();
    assert!(counted(&redis) <= of_one * readings, "{} for {readings}", counted(&redis));
}

#[test]
fn queues_jobs_dead_letters_and_findings_are_those_of_redis() {
    let redis = TestRedis::start();
    // A text that no node of today writes, with each character that must be escaped.
    let list = r#"[{"finding": "a\"b\\c\nd"}, {"finding": "missing:jobs"}]"#;
    let now = jiff::Timestamp::now().as_millisecond();
    let check = ["at", &now.to_string(), "list", list, "findings", "2"];
    let _: i64 = redis::cmd("HSET")
        .arg("{schedd}:consistency_check")
        .arg(&check)
        .query(&mut redis.connection())
        .unwrap();
    let jobs = "[queues.mail]\nconcurrency = 1\n[jobs.bad]\nshell = \"false\"\n\
                [jobs.mail]\nshell = \"true\"\nqueue = \"mail\"\n";
    let node = ApiNode::start(&redis, jobs);
    assert_ne!(node.run("bad"), 0);
    node.ctl.run(&["queue", "pause", "mail"]).good();
    for _ in 0..3 {
        node.ctl.run(&["run", "mail"]).good();
    }
    let scraped = node.scrape();
    scraped.has(&[
        ("schedd_namespace_up", 1.0),
        ("schedd_namespace_jobs", 2.0),
        ("schedd_namespace_dead_letters", 1.0),
        ("schedd_namespace_notices_waiting", 0.0),
        ("schedd_namespace_queue_depth{queue=\"mail\"}", 3.0),
        ("schedd_namespace_queue_depth{queue=\"default\"}", 0.0),
        ("schedd_namespace_queue_running{queue=\"mail\"}", 0.0),
        ("schedd_namespace_queue_oldest_seconds{queue=\"default\"}", 0.0),
        ("schedd_namespace_findings{rule=\"missing:jobs\"}", 1.0),
        (r#"schedd_namespace_findings{rule="a\"b\\c\nd"}"#, 1.0),
    ]);
    assert!(scraped.value("schedd_namespace_queue_oldest_seconds{queue=\"mail\"}") > 0.0);
}
