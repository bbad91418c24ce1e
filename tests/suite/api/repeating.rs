//! Requests that are repeated with an idempotency key, and changes whose sender hangs up.

use std::io::Write as _;

use serde_json::json;

use super::http_probe::HttpAnswer;
use super::{ApiScene, DEFINING};
use crate::support::host::proxy::Proxy;
use crate::support::redis::TestRedis;
use crate::support::wait::{LONG, until};

const JOBS: &str = "[jobs.a]\nshell = \"true\"\n[jobs.b]\nshell = \"exit 1\"\n";

/// Starts a schedd whose Redis can be slow.
fn slow_scene() -> (ApiScene, Proxy) {
    let redis = TestRedis::start();
    let proxy = Proxy::to(&redis);
    let scene = ApiScene::start_at(redis, &proxy.url(), "", JOBS);
    // The API connects to Redis at its first request.
    assert_eq!(runs_of_a(&scene), 0);
    (scene, proxy)
}

fn send(scene: &ApiScene, key: &str, path: &str, body: &str) -> HttpAnswer {
    let headers = [("Content-Type", "application/json"), ("Idempotency-Key", key)];
    scene.probe.send("operator", "POST", path, &headers, body.as_bytes())
}

/// Sends a request with the key `k`, and hangs up when its mark is stored.
fn hang_up(scene: &ApiScene) {
    let mut redis = scene.redis.connection();
    let mut stream = scene.probe.connect();
    let head = scene.probe.head("operator", "POST", "/v1/jobs/a/run", &[("Idempotency-Key", "k")]);
    write!(stream, "{head}\r\n").unwrap();
    until("the mark is stored", LONG, || marks(&mut redis).pop());
}

fn marks(redis: &mut redis::Connection) -> Vec<String> {
    redis::cmd("KEYS").arg("{schedd}:answer:*").query(redis).unwrap()
}

fn runs_of_a(scene: &ApiScene) -> usize {
    scene.get("viewer", "/v1/runs?job=a").of(200)["items"].as_array().unwrap().len()
}

#[test]
fn a_request_whose_sender_hung_up_ends_and_its_answer_is_kept() {
    let (scene, proxy) = slow_scene();
    proxy.delay_answers(300);
    hang_up(&scene);
    proxy.delay_answers(0);
    let answer = until("the answer is kept", LONG, || {
        let answer = send(&scene, "k", "/v1/jobs/a/run", "");
        (answer.status != 409).then_some(answer)
    });
    answer.of(200);
    assert!(answer.head.contains("idempotency-replayed: true"), "{answer:?}");
    assert_eq!(runs_of_a(&scene), 1);
}

#[test]
fn a_change_whose_sender_hung_up_is_made_before_the_api_stops() {
    let (mut scene, proxy) = slow_scene();
    proxy.delay_answers(300);
    hang_up(&scene);
    scene.daemon.term();
    proxy.delay_answers(0);
    scene.daemon.wait_exit();
    let mut redis = scene.redis.connection();
    let answer: String = redis::cmd("GET").arg(marks(&mut redis).pop()).query(&mut redis).unwrap();
    assert!(answer.contains("\\\"run_id\\\""), "{answer}");
}

#[test]
fn the_mark_of_a_long_request_is_renewed() {
    let (scene, proxy) = slow_scene();
    // The work asks Redis several times, so it lasts for seconds.
    proxy.delay_answers(700);
    hang_up(&scene);
    let mut redis = scene.redis.connection();
    let mark = marks(&mut redis).pop().unwrap();
    let mut lowest = i64::MAX;
    until("the mark is renewed", LONG, || {
        let left: i64 = redis::cmd("PTTL").arg(&mark).query(&mut redis).unwrap();
        let is_renewed = left > lowest.saturating_add(1_000) && left <= 60_000;
        lowest = lowest.min(left);
        is_renewed.then_some(())
    });
}

#[test]
fn a_key_belongs_to_the_body_of_its_first_request() {
    let scene = ApiScene::start(DEFINING, JOBS);
    scene.ctl("admin").run(&["run", "b", "--wait"]);
    let run = "/v1/runs/b@last/retry";
    let dry = r#"{"dry_run":true}"#;
    let checked = send(&scene, "m", run, dry).of(200);
    assert_eq!(checked["result"], "would_retry", "{checked}");
    let conflict = send(&scene, "m", run, "").problem(409, "conflict");
    assert!(conflict["detail"].as_str().unwrap().contains("body"), "{conflict}");
    assert_eq!(send(&scene, "n", run, "").of(200)["result"], "retried");
    assert_eq!(send(&scene, "m", run, dry).of(200), checked);
}

#[test]
fn routes_of_lines_refuse_a_key() {
    let scene = ApiScene::start(DEFINING, JOBS);
    for path in ["/v1/jobs/bulk", "/v1/schedctl"] {
        let headers = [("Content-Type", "application/x-ndjson"), ("Idempotency-Key", "k")];
        let line = b"{\"name\":\"x\",\"in\":\"1h\",\"shell\":\"true\"}\n";
        let problem =
            scene.probe.send("admin", "POST", path, &headers, line).problem(400, "bad_request");
        let detail = problem["detail"].as_str().unwrap();
        assert!(
            detail.starts_with("Idempotency-Key: ") && detail.contains("if_absent"),
            "{detail}"
        );
    }
    scene.get("viewer", "/v1/jobs/x").problem(404, "not_found");
    assert_eq!(scene.ctl("admin").run(&["doctor", "--json"]).json()["findings"], json!([]));
}
