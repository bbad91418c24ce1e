//! The warnings of requests that are carried out.

use serde_json::{Value, json};

use super::{ApiScene, DEFINING};

/// A job with a name in `not_while` that no job has, labels that no node has, and a faulty template.
fn doubtful(name: &str) -> Value {
    json!({
        "name": name, "in": "1h", "shell": "true", "not_while": ["ghost"], "requires": ["gpu"],
        "ping_url": "https://hc.example/{jobb}",
    })
}

/// Parts of the warnings about such a job.
const DOUBTS: [&str; 3] = ["no job ghost exists", "gpu", "{jobb}"];

#[test]
fn warnings_about_an_added_job_are_in_a_header_and_in_its_line() {
    let scene = ApiScene::start(DEFINING, "");
    let answer = scene.post("admin", "/v1/jobs", &doubtful("x").to_string());
    assert!(answer.of(201)["warnings"].is_null());
    let header = answer.head.lines().find(|line| line.starts_with("schedd-warning: ")).unwrap();
    let body = format!("{}\n{{\"in\":\"1h\",\"shell\":\"true\"}}\n", doubtful("y"));
    let lines = [("Content-Type", "application/x-ndjson")];
    let added = scene.probe.send("admin", "POST", "/v1/jobs/bulk", &lines, body.as_bytes()).text();
    let added: Vec<Value> = added.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let warnings = added[0]["warnings"].to_string();
    for doubt in DOUBTS {
        assert!(header.contains(doubt), "{doubt}: {header}");
        assert!(warnings.contains(doubt), "{doubt}: {warnings}");
    }
    assert_eq!(added[0]["warnings"].as_array().map(Vec::len), Some(3), "{warnings}");
    assert_eq!(added[1]["warnings"], json!([]));
    // A job that was there already is not looked at again.
    let path = "/v1/jobs/bulk?if_absent=1";
    let again = scene.probe.send("admin", "POST", path, &lines, body.as_bytes()).text();
    assert_eq!(again.matches("\"warnings\":[]").count(), 2, "{again}");
    // A paused job that is changed stays paused.
    scene.post("operator", "/v1/jobs/x/pause", "").of(200);
    let changed = json!({"name": "x", "in": "2h", "shell": "true", "replace": true}).to_string();
    let answer = scene.post("admin", "/v1/jobs", &changed);
    assert!(answer.head.contains("schedd-warning: job x is paused"), "{}", answer.head);
}

#[test]
fn a_repeated_request_gets_the_warnings_of_the_first() {
    let scene = ApiScene::start(DEFINING, "");
    let headers = [("Content-Type", "application/json"), ("Idempotency-Key", "k")];
    let body = doubtful("x").to_string();
    let warnings = || {
        let answer = scene.probe.send("admin", "POST", "/v1/jobs", &headers, body.as_bytes());
        answer.of(201);
        answer.head.lines().find(|line| line.starts_with("schedd-warning: ")).map(str::to_owned)
    };
    let first = warnings();
    assert!(first.as_ref().is_some_and(|text| text.contains(DOUBTS[0])), "{first:?}");
    assert_eq!(warnings(), first);
    // An answer that an earlier version kept has no warnings.
    let mut redis = scene.redis.connection();
    let keys: Vec<String> = redis::cmd("KEYS").arg("{schedd}:answer:*").query(&mut redis).unwrap();
    let kept: String = redis::cmd("GET").arg(&keys).query(&mut redis).unwrap();
    let mut kept: Value = serde_json::from_str(&kept).unwrap();
    kept.as_object_mut().unwrap().remove("warnings").unwrap();
    let set = redis::cmd("SET").arg(&keys).arg(kept.to_string()).exec(&mut redis);
    set.unwrap();
    assert_eq!(warnings(), None);
}

#[test]
fn a_local_time_that_the_clock_skips_is_explained_with_a_warning() {
    let scene = ApiScene::start("", "[jobs.a]\nshell = \"true\"\n");
    let path = "/v1/jobs/a/explain?at=2026-03-29T02:30&tz=Europe/Berlin";
    let answer = scene.get("viewer", path);
    answer.of(200);
    assert!(answer.head.contains("schedd-warning: "), "{}", answer.head);
    assert!(answer.head.contains("does not exist in europe/berlin"), "{}", answer.head);
}
