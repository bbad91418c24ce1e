//! The spans of runs, as a collector receives them from real nodes on a real Redis. Built with the
//! cargo feature `otel`, and run by script/otel-test.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod collector;
#[allow(dead_code, reason = "the tests' support, of which this needs a part")]
#[path = "../suite/support/mod.rs"]
mod support;

use std::fs;
use std::net::TcpListener;
use std::time::{Duration, Instant};

use serde_json::json;

use collector::{Collector, Manner, Received};
use support::daemon::{Schedd, ScheddBuilder};
use support::eye::Eye;
use support::redis::TestRedis;
use support::wait::{LONG, until};

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const PARENT: &str = "00f067aa0ba902b7";

fn traceparent(flags: &str) -> String {
    format!("00-{TRACE}-{PARENT}-{flags}")
}

fn node(redis: &TestRedis, name: &str, endpoint: &str) -> ScheddBuilder {
    Schedd::on(redis).node(name).env("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint)
}

/// Stops a node, which sends its last spans, and returns how long the stop took.
fn stop(mut node: Schedd) -> Duration {
    let begun = Instant::now();
    node.term();
    assert!(node.wait_exit().success(), "{}", node.log());
    begun.elapsed()
}

fn names(span: &Received) -> Vec<&str> {
    span.events.iter().map(|event| event.name.as_str()).collect()
}

fn only(spans: &[Received]) -> &Received {
    let [span] = spans else { panic!("wanted one span: {spans:#?}") };
    let in_order = span.events.is_sorted_by_key(|event| event.at);
    assert!(in_order && span.start <= span.end, "{span:#?}");
    span
}

#[test]
fn each_run_has_one_span_in_the_trace_of_its_job_with_its_retries_as_events() {
    let (redis, collector) = (TestRedis::start(), Collector::start(Manner::Takes));
    let eye = Eye::on(&redis);
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("out");
    let node = node(&redis, "n1", &collector.url())
        .env("OTEL_EXPORTER_OTLP_HEADERS", "x-key=secret")
        .env("OTEL_SERVICE_NAME", "night")
        .jobs("[jobs.daily]\nshell = \"exit 3\"\n")
        .start();
    node.wait_for_log("All jobs of the jobs file are applied");
    let line =
        format!("echo $TRACEPARENT >> {}; test $SCHEDD_ATTEMPT = 2 || exit 7", out.display());
    eye.add(&json!({
        "name": "retried", "in": "0s", "shell": line, "traceparent": traceparent("01"),
        "retry": {"limit": 1, "delay": "100ms"},
    }));
    eye.add(&json!({"name": "http", "in": "0s", "http": format!("{}/x", "http://127.0.0.1:9")}));
    eye.add(&json!({"name": "unrecorded", "in": "0s", "shell": "true", "traceparent": traceparent("00")}));
    let ctl = support::ctl::Schedctl::on(&redis);
    ctl.run(&["run", "daily"]).good();
    for job in ["retried", "http", "unrecorded", "daily"] {
        eye.wait_for_history(job, 1);
    }
    until("the spans come", LONG, || {
        let has = |job: &str| !collector.spans_of(job).is_empty();
        (has("retried") && has("http") && has("daily")).then_some(())
    });
    let head = collector.heads().remove(0);
    assert!(
        head.starts_with("post /v1/traces ") && head.contains("\r\nx-key: secret\r\n"),
        "{head}"
    );
    stop(node);

    let retried = collector.spans_of("retried");
    let span = only(&retried);
    assert_eq!((span.trace.as_str(), span.parent.as_str()), (TRACE, PARENT));
    assert_eq!((span.name.as_str(), span.status.0), ("schedd.run", 0));
    let given = format!("00-{TRACE}-{}-01", span.span);
    assert_eq!(fs::read_to_string(&out).unwrap(), format!("{given}\n{given}\n"));
    assert_eq!(names(span), ["due", "ready", "started", "ended", "started", "ended"]);
    let [.., started, ended] = &span.events[..] else { panic!() };
    assert_eq!(span.events[3].attributes["process.exit.code"], "7");
    assert_eq!(span.events[3].attributes["schedd.state"], "failed");
    assert_eq!(started.attributes["schedd.attempt"], "2");
    assert_eq!(ended.attributes["schedd.state"], "succeeded");
    let run = eye.history("retried").remove(0);
    assert_eq!(span.start, u64::try_from(run.run.due().as_i64()).unwrap());
    assert_eq!((span.end, ended.at), (ended.at, span.end));
    let wanted = [
        ("schedd.run", run.run.to_string()),
        ("schedd.queue", "default".to_owned()),
        ("schedd.state", "succeeded".to_owned()),
        ("schedd.node", "n1".to_owned()),
        ("schedd.attempt", "2".to_owned()),
        ("process.exit.code", "0".to_owned()),
    ];
    for (name, value) in wanted {
        assert_eq!(span.attributes.get(name), Some(&value), "{name}: {span:#?}");
    }
    assert_eq!(span.service["service.name"], "night");
    assert_eq!(span.service["service.instance.id"], "n1");

    let daily = collector.spans_of("daily");
    let span = only(&daily);
    assert_eq!((span.name.as_str(), span.parent.as_str(), span.status.0), ("daily", "", 2));
    assert!(span.trace != TRACE && span.trace.len() == 32, "{span:#?}");
    assert_eq!(span.attributes["error.type"], "failed");
    assert_eq!(span.attributes["process.exit.code"], "3");
    assert_eq!(span.attributes["schedd.kind"], "manual");
    let http = collector.spans_of("http");
    assert!(only(&http).status.1.contains("cannot connect"), "{http:#?}");
    assert!(collector.spans_of("unrecorded").is_empty());
}

#[test]
fn the_waits_of_a_run_are_events_and_a_skipped_run_has_a_span() {
    let (redis, collector) = (TestRedis::start(), Collector::start(Manner::Takes));
    let eye = Eye::on(&redis);
    let dir = tempfile::tempdir().unwrap();
    let begun = dir.path().join("begun");
    let jobs = "[jobs.often]\nevery = \"1s\"\nshell = \"sleep 1.5\"\n";
    let node = node(&redis, "n1", &collector.url()).jobs(jobs).start();
    let line = format!("touch {}; sleep 1", begun.display());
    eye.add(&json!({"name": "first", "in": "0s", "shell": line, "key": "k"}));
    until("the first run begins", LONG, || begun.exists().then_some(()));
    eye.add(&json!({"name": "second", "in": "0s", "shell": "true", "key": "k"}));
    eye.wait_for_history("second", 1);
    eye.wait_for_history("often", 2);
    stop(node);
    let second = collector.spans_of("second");
    let span = only(&second);
    assert_eq!(names(span), ["due", "ready", "waiting", "admitted", "started", "ended"]);
    assert!(span.events[3].attributes["schedd.gate"].contains('k'), "{span:#?}");
    assert!(span.events[3].at > span.events[2].at);
    let mut often = collector.spans_of("often");
    let skipped = often.iter().find(|span| span.attributes["schedd.state"] == "skipped").unwrap();
    assert_eq!((skipped.attributes["schedd.reason"].as_str(), skipped.status.0), ("overlap", 0));
    let count = often.len();
    often.dedup_by_key(|span| span.span.clone());
    assert_eq!((count, often.len()), (eye.history("often").len(), count));
}

#[test]
fn a_run_that_another_node_takes_over_keeps_its_trace_and_its_span() {
    let (redis, collector) = (TestRedis::start(), Collector::start(Manner::Takes));
    let eye = Eye::on(&redis);
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("out");
    let jobs = "[daemon]\nlease = \"2s\"\n";
    let mut first = node(&redis, "n1", &collector.url()).jobs(jobs).start();
    let line =
        format!("echo $TRACEPARENT >> {}; test $SCHEDD_NODE = n2 || sleep 60", out.display());
    eye.add(&json!({"name": "a", "in": "0s", "shell": line}));
    until("the run begins", LONG, || fs::read_to_string(&out).ok().filter(|text| !text.is_empty()));
    let second = node(&redis, "n2", &collector.url()).jobs(jobs).start();
    first.kill9();
    eye.wait_for_history("a", 1);
    stop(second);
    let spans = collector.spans_of("a");
    let span = only(&spans);
    let given = format!("00-{}-{}-01\n", span.trace, span.span);
    assert_eq!(fs::read_to_string(&out).unwrap(), given.repeat(2));
    assert_eq!(names(span), ["due", "ready", "started", "started", "ended"]);
    let nodes: Vec<&str> = span
        .events
        .iter()
        .filter_map(|event| event.attributes.get("schedd.node"))
        .map(String::as_str)
        .collect();
    assert_eq!(nodes, ["n1", "n2"]);
}

#[test]
fn a_collector_that_is_away_or_silent_delays_no_run_and_no_stop() {
    let away = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let silent = Collector::start(Manner::Silent);
    for endpoint in [format!("http://{away}"), silent.url()] {
        let redis = TestRedis::start();
        let eye = Eye::on(&redis);
        let node = node(&redis, "n1", &endpoint).start();
        let begun = Instant::now();
        for number in 0..20 {
            eye.add(&json!({"name": format!("j{number}"), "in": "0s", "shell": "true"}));
        }
        for number in 0..20 {
            eye.wait_for_history(&format!("j{number}"), 1);
        }
        assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
        if endpoint == silent.url() {
            until("a request comes", LONG, || (silent.requests() > 0).then_some(()));
        } else {
            node.wait_for_log("Spans of runs were not sent to the OpenTelemetry collector");
        }
        let took = stop(node);
        assert!(took < Duration::from_secs(8), "{endpoint}: {took:?}");
    }
}

#[test]
fn a_refused_batch_is_sent_again() {
    let (redis, collector) = (TestRedis::start(), Collector::start(Manner::RefusesFirst(1)));
    let eye = Eye::on(&redis);
    let node = node(&redis, "n1", &collector.url()).start();
    eye.add(&json!({"name": "a", "in": "0s", "shell": "true"}));
    until("the span comes", LONG, || collector.spans_of("a").first().cloned());
    stop(node);
    assert_eq!(collector.requests(), 2);
    only(&collector.spans_of("a"));
}

#[test]
fn nothing_is_sent_without_an_endpoint_or_when_the_environment_says_so() {
    let collector = Collector::start(Manner::Takes);
    for (name, value) in [("OTEL_SDK_DISABLED", "TRUE"), ("OTEL_TRACES_EXPORTER", "none")] {
        let redis = TestRedis::start();
        let eye = Eye::on(&redis);
        let dir = tempfile::tempdir().unwrap();
        let out = dir.path().join("out");
        let node = node(&redis, "n1", &collector.url()).env(name, value).start();
        let line = format!("echo \"<$TRACEPARENT>\" > {}", out.display());
        eye.add(&json!({"name": "a", "in": "0s", "shell": line}));
        eye.wait_for_history("a", 1);
        stop(node);
        assert_eq!(fs::read_to_string(&out).unwrap(), "<>\n");
    }
    assert_eq!(collector.requests(), 0);
}
