//! The figures that a node counts itself.

use rustix::process::Signal;
use serde_json::Value;

use super::{ApiNode, request};
use crate::support::ctl::Schedctl;
use crate::support::daemon::Schedd;
use crate::support::redis::TestRedis;
use crate::support::wait::{LONG, until};

const JOBS: &str = r#"
[queues.one]
concurrency = 1

[jobs.good]
shell = "true"

[jobs.bad]
shell = "exit 3"

[jobs.slow]
shell = "sleep 1.2"
queue = "one"

[jobs.waiter]
shell = "true"
queue = "one"
"#;

/// A job that runs for a minute, on a node with short leases.
const LONG_JOB: &str = "[daemon]\nlease = \"1s\"\n\
                        [jobs.long]\nshell = \"sleep 60\"\ndelivery = \"at-most-once\"\n";

#[test]
fn runs_are_counted_by_state_and_queue_with_lateness_and_duration() {
    let redis = TestRedis::start();
    let node = ApiNode::start(&redis, JOBS);
    assert_eq!(node.run("good"), 0);
    assert_ne!(node.run("bad"), 0);
    node.ctl.run(&["run", "slow"]).good();
    assert_eq!(node.run("waiter"), 0);
    // The node counts an end a moment after Redis has recorded it.
    let scraped = node.scrape_until("schedd_runs_total{state=\"succeeded\",queue=\"one\"}", 2.0);
    scraped.has(&[
        ("schedd_runs_total{state=\"succeeded\",queue=\"default\"}", 1.0),
        ("schedd_runs_total{state=\"failed\",queue=\"default\"}", 1.0),
        ("schedd_runs_total{state=\"skipped\",queue=\"default\"}", 0.0),
        ("schedd_runs_total{state=\"failed\",queue=\"one\"}", 0.0),
        // Only the run that waited for the slot was late.
        ("schedd_run_lateness_seconds_count{queue=\"one\"}", 2.0),
        ("schedd_run_lateness_seconds_bucket{le=\"0.5\",queue=\"one\"}", 1.0),
        ("schedd_run_lateness_seconds_bucket{le=\"+Inf\",queue=\"one\"}", 2.0),
        ("schedd_run_lateness_seconds_count{queue=\"default\"}", 2.0),
        ("schedd_run_duration_seconds_count{queue=\"one\"}", 2.0),
        ("schedd_run_duration_seconds_count{queue=\"default\"}", 2.0),
        ("schedd_claims_total{outcome=\"claimed\"}", 4.0),
        ("schedd_claims_total{outcome=\"unanswered\"}", 0.0),
        ("schedd_leases_lost_total", 0.0),
        ("schedd_recoveries_total", 0.0),
        ("schedd_running", 0.0),
        ("schedd_slots{queue=\"one\"}", 1.0),
        ("schedd_redis_up", 1.0),
        ("schedd_keeper_up", 1.0),
        ("schedd_config_last_reload_success", 1.0),
    ]);
    assert!(scraped.value("schedd_run_duration_seconds_sum{queue=\"one\"}") >= 1.2);
    assert!(scraped.value("schedd_clock_offset_seconds").abs() < 2.0);
    assert!(scraped.value("schedd_redis_script_seconds_count{script=\"list_due\"}") > 0.0);
    let version = env!("CARGO_PKG_VERSION");
    let build =
        format!("schedd_build_info{{version=\"{version}\",node=\"n1\",namespace=\"schedd\"}}");
    scraped.has(&[(&build, 1.0)]);
}

#[test]
fn head_has_the_type_of_get_and_the_description_of_routes_names_it() {
    let redis = TestRedis::start();
    let node = ApiNode::start(&redis, "");
    let head = request(&node.socket(), "HEAD", "/metrics");
    let kind = "content-type: application/openmetrics-text; version=1.0.0; charset=utf-8";
    assert!(head.head.starts_with("http/1.1 200") && head.head.contains(kind), "{}", head.head);
    assert!(head.body.is_empty());
    assert!(request(&node.socket(), "GET", "/metrics").head.contains(kind));
    let routes = request(&node.socket(), "GET", "/v1/openapi.json").body;
    let routes: Value = serde_json::from_str(&routes).unwrap();
    let answer = &routes["paths"]["/metrics"]["get"]["responses"]["200"]["content"];
    assert!(answer[kind.split_once(' ').unwrap().1].is_object(), "{answer}");
}

#[test]
fn a_refused_file_and_an_outage_of_redis_are_shown() {
    let mut redis = TestRedis::start();
    let node = ApiNode::start(&redis, "[jobs.a]\nshell = \"true\"\n");
    let applied = "schedd_config_last_reload_timestamp_seconds";
    let before = node.scrape().value(applied);
    node.reload("[jobs.a]\nshel = \"true\"\n");
    let refused = node.scrape_until("schedd_config_last_reload_success", 0.0);
    refused.has(&[(applied, before)]);
    node.reload("[jobs.a]\nshell = \"false\"\n");
    let accepted = node.scrape_until("schedd_config_last_reload_success", 1.0);
    assert!(accepted.value(applied) > before);
    redis.kill9();
    node.scrape_until("schedd_redis_up", 0.0);
    let down = node.scrape_until("schedd_namespace_up", 0.0);
    assert!(!down.samples.contains_key("schedd_namespace_jobs"), "{}", down.text);
    redis.restart();
    let up = node.scrape_until("schedd_redis_up", 1.0);
    assert!(up.value("schedd_redis_reconnects_total") >= 1.0);
}

#[test]
fn a_run_of_a_lost_node_counts_as_recovered_by_the_node_that_took_it_back() {
    let redis = TestRedis::start();
    let mut lost = Schedd::on(&redis).node("n2").jobs(LONG_JOB).start();
    lost.wait_for_log("All jobs of the jobs file are applied.");
    Schedctl::on(&redis).run(&["run", "long"]).good();
    lost.wait_for_log("Run started.");
    lost.kill9();
    let node = ApiNode::start(&redis, "[daemon]\nlease = \"1s\"\n");
    let scraped = node.scrape_until("schedd_recoveries_total", 1.0);
    scraped.has(&[("schedd_runs_total{state=\"lost\",queue=\"default\"}", 1.0)]);
}

#[test]
fn a_run_that_lost_its_lease_during_an_outage_is_counted() {
    let redis = TestRedis::start();
    let node = ApiNode::start(&redis, LONG_JOB);
    node.ctl.run(&["run", "long"]).good();
    node.scrape_until("schedd_running", 1.0).has(&[("schedd_leases_lost_total", 0.0)]);
    redis.stop_signal(Signal::STOP);
    node.schedd.wait_for_log("The run lost its lease and was stopped.");
    redis.stop_signal(Signal::CONT);
    node.scrape_until("schedd_leases_lost_total", 1.0);
}

#[test]
fn occurrences_that_a_running_run_blocks_count_as_skipped() {
    let redis = TestRedis::start();
    let jobs =
        "[queues.two]\n[jobs.often]\nevery = \"1s\"\nshell = \"sleep 60\"\nqueue = \"two\"\n";
    let node = ApiNode::start(&redis, jobs);
    let skipped = "schedd_runs_total{state=\"skipped\",queue=\"two\"}";
    let scraped = until("an occurrence is skipped", LONG, || {
        Some(node.scrape()).filter(|scraped| scraped.value(skipped) >= 1.0)
    });
    assert!(scraped.value("schedd_claims_total{outcome=\"blocked\"}") >= 1.0);
    scraped.has(&[("schedd_running", 1.0)]);
}
