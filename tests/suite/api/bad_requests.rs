//! Requests that cannot be carried out: each gets one error document, and nothing changes.

use std::io::Write as _;
use std::time::Instant;

use serde_json::{Value, json};

use super::http_probe::HttpAnswer;
use super::{ApiScene, DEFINING};
use crate::support::wait::LONG;

const JSON: (&str, &str) = ("Content-Type", "application/json");

/// A request and its answer: method, path, header fields, body, status and code.
type BadRequest<'r> = (&'r str, &'r str, &'r [(&'r str, &'r str)], &'r str, u16, &'r str);

#[test]
#[expect(clippy::too_many_lines, reason = "a table of requests")]
fn each_malformed_request_is_one_problem_and_changes_nothing() {
    let scene = ApiScene::start(DEFINING, "[jobs.a]\nshell = \"true\"\n");
    let long_path = format!("/v1/jobs/{}", "x".repeat(8 * 1024));
    let deep = "[".repeat(10_000);
    let rows: &[BadRequest<'_>] = &[
        ("POST", "/v1/jobs", &[JSON], "{", 400, "bad_request"),
        ("POST", "/v1/jobs", &[JSON], "[]", 400, "bad_request"),
        ("POST", "/v1/jobs", &[JSON], &deep, 400, "bad_request"),
        ("POST", "/v1/jobs", &[JSON], "\u{feff}{}", 400, "bad_request"),
        ("POST", "/v1/jobs", &[], "{}", 415, "unsupported_type"),
        (
            "POST",
            "/v1/jobs",
            &[("Content-Type", "application/x-www-form-urlencoded")],
            "a=b",
            415,
            "unsupported_type",
        ),
        ("POST", "/v1/jobs", &[JSON, ("Content-Encoding", "gzip")], "{}", 415, "unsupported_type"),
        ("POST", "/v1/jobs", &[], "", 400, "bad_request"),
        ("POST", "/v1/jobs", &[JSON], "{\"name\":\"x\",\"in\":\"1h\"}", 422, "invalid"),
        (
            "POST",
            "/v1/jobs",
            &[JSON],
            "{\"name\":\"x\",\"name\":\"y\",\"in\":\"1h\",\"shell\":\"true\"}",
            422,
            "invalid",
        ),
        (
            "POST",
            "/v1/jobs",
            &[JSON],
            "{\"name\":\"../x\",\"in\":\"1h\",\"shell\":\"true\"}",
            422,
            "invalid",
        ),
        (
            "POST",
            "/v1/jobs",
            &[JSON],
            "{\"in\":\"1h\",\"shell\":\"true\",\"replace\":1}",
            422,
            "invalid",
        ),
        (
            "POST",
            "/v1/jobs",
            &[JSON],
            "{\"in\":\"1h\",\"shell\":\"true\",\"replace\":true,\"if_absent\":true}",
            422,
            "invalid",
        ),
        ("POST", "/v1/jobs?bogus=1", &[JSON], "{\"shell\":\"true\"}", 400, "bad_request"),
        ("POST", "/v1/jobs/a/backfill?max=1", &[JSON], "{\"from\":\"1h\"}", 400, "bad_request"),
        ("POST", "/v1/jobs/a/run?x=1", &[], "", 400, "bad_request"),
        ("POST", "/v1/jobs/a/backfill", &[], "", 422, "invalid"),
        ("POST", "/v1/queues/default/set", &[JSON], "{}", 422, "invalid"),
        ("POST", "/v1/jobs/a/run", &[JSON], "{\"when\":1}", 400, "bad_request"),
        ("POST", "/v1/jobs/a/backfill", &[JSON], "{\"from\":5}", 422, "invalid"),
        ("POST", "/v1/jobs/a/backfill", &[JSON], "{}", 422, "invalid"),
        ("POST", "/v1/jobs/a/backfill", &[JSON], "{\"from\":\"soon\"}", 422, "invalid"),
        ("POST", "/v1/queues/default/set", &[JSON], "{\"limit\":\"x\"}", 422, "invalid"),
        ("POST", "/v1/queues/default/set", &[JSON], "{\"limit\":[1]}", 422, "invalid"),
        ("GET", "/v1/jobs?limit=0", &[], "", 422, "invalid"),
        ("GET", "/v1/jobs?limit=1000000000", &[], "", 422, "invalid"),
        ("GET", "/v1/jobs?limit=-1", &[], "", 422, "invalid"),
        ("GET", "/v1/jobs?limit=1&limit=2", &[], "", 422, "invalid"),
        ("GET", "/v1/jobs?cursor=nonsense", &[], "", 400, "bad_request"),
        ("GET", "/v1/runs?cursor=cnVucyBOYU4gYQ", &[], "", 400, "bad_request"),
        ("GET", "/v1/jobs?failed=maybe", &[], "", 422, "invalid"),
        ("GET", "/v1/jobs?state=happy", &[], "", 422, "invalid"),
        ("GET", "/v1/jobs?tag=%00", &[], "", 422, "invalid"),
        ("GET", "/v1/runs?since=tomorrow+noon", &[], "", 422, "invalid"),
        ("GET", "/v1/runs?job=A+B", &[], "", 422, "invalid"),
        ("GET", "/v1/jobs/%2e%2e%2fetc", &[], "", 422, "invalid"),
        ("GET", "/v1/jobs/a%00", &[], "", 400, "bad_request"),
        ("GET", "/v1/jobs/%ff", &[], "", 400, "bad_request"),
        ("GET", "/v1/jobs/--json", &[], "", 422, "invalid"),
        ("GET", "/v1/jobs/a@last", &[], "", 404, "not_found"),
        ("GET", "/v1/jobs/nothing", &[], "", 404, "not_found"),
        ("GET", "/v1/runs/a", &[], "", 404, "not_found"),
        ("GET", "/v1/runs/a@1", &[], "", 404, "not_found"),
        ("GET", "/v1/runs/a@1/logs?follow=1", &[], "", 404, "not_found"),
        ("GET", "/v1/runs/a@1/logs?attempt=0", &[], "", 422, "invalid"),
        ("GET", "/v1/runs/a@1/logs?attempt=1&follow=1", &[], "", 422, "invalid"),
        ("GET", "/v1/jobs/a/explain?at=now&last=1", &[], "", 422, "invalid"),
        ("POST", "/v1/queues/nothing/pause", &[], "", 404, "not_found"),
        ("GET", &long_path, &[], "", 422, "invalid"),
        ("GET", "/v1", &[], "", 404, "not_found"),
        ("GET", "/v1/jobs/", &[], "", 404, "not_found"),
        ("GET", "//v1/jobs", &[], "", 404, "not_found"),
        ("PUT", "/v1/jobs", &[], "", 405, "method_not_allowed"),
        ("TRACE", "/v1/jobs", &[], "", 405, "method_not_allowed"),
        ("BREW", "/v1/jobs", &[], "", 405, "method_not_allowed"),
        ("DELETE", "/v1/runs", &[], "", 405, "method_not_allowed"),
        ("GET", "/v1/events?x=1", &[], "", 400, "bad_request"),
        ("GET", "/v1/events", &[("Last-Event-ID", "7")], "", 400, "bad_request"),
        (
            "POST",
            "/v1/jobs/bulk?replace=1&if_absent=1",
            &[("Content-Type", "application/x-ndjson")],
            "{}",
            422,
            "invalid",
        ),
        (
            "POST",
            "/v1/schedctl",
            &[("Content-Type", "application/x-ndjson")],
            "{\"words\":[]}\n",
            400,
            "bad_request",
        ),
        ("POST", "/v1/jobs/a/run", &[("Idempotency-Key", "")], "", 400, "bad_request"),
    ];
    let before = scene.ctl("admin").run(&["list", "--all", "--json"]).json();
    for (method, path, headers, body, status, code) in rows {
        let answer = scene.probe.send("admin", method, path, headers, body.as_bytes());
        let shown: String = body.chars().take(60).collect();
        assert_eq!(answer.status, *status, "{method} {path:.80} {shown}: {}", answer.text());
        let problem = answer.problem(*status, code);
        let errors = problem["errors"].as_array().map_or(0, Vec::len);
        assert_eq!(errors > 0, *status == 422, "{problem}");
        let detail = problem["detail"].as_str().unwrap();
        let has_flag = detail.contains("--") && !path.contains("--");
        assert!(!has_flag, "{method} {path:.80}: {detail}");
    }
    assert_eq!(scene.ctl("admin").run(&["list", "--all", "--json"]).json(), before);
}

#[test]
fn faults_of_a_definition_are_named_each_with_its_key() {
    let scene = ApiScene::start(DEFINING, "");
    let body = json!({"name": "x", "in": "2x", "comand": ["true"], "timeout": 5});
    let problem = scene.post("admin", "/v1/jobs", &body.to_string()).problem(422, "invalid");
    let paths: Vec<&str> = problem["errors"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|fault| fault["path"].as_str())
        .collect();
    assert_eq!(paths, ["in", "comand", "timeout"], "{problem}");
    assert!(problem["errors"][0]["wanted"].as_str().unwrap().contains("units"), "{problem}");
}

#[test]
fn too_many_lines_are_refused_at_once_or_where_they_end() {
    let scene = ApiScene::start(DEFINING, "");
    let lines = [("Content-Type", "application/x-ndjson")];
    let head = scene.probe.head("admin", "POST", "/v1/jobs/bulk", &lines);
    let said =
        scene.probe.raw(format!("{head}Content-Length: {}\r\n\r\n", 64 << 20 | 1).as_bytes());
    said.problem(413, "too_large");
    let mut stream = scene.probe.connect();
    write!(stream, "{head}Transfer-Encoding: chunked\r\n\r\n").unwrap();
    let blank = [vec![b' '; 4095], vec![b'\n']].concat().repeat(256);
    let chunk = [b"100000\r\n".as_slice(), &blank, b"\r\n"].concat();
    for _ in 0..64 {
        stream.write_all(&chunk).unwrap();
    }
    stream.write_all(b"1\r\n\n\r\n").unwrap();
    let answer = HttpAnswer::read(stream);
    let text = answer.text();
    let last: Value = serde_json::from_str(text.lines().last().unwrap()).unwrap();
    assert_eq!((answer.status, &last["error"]["code"]), (200, &json!("too_large")), "{last}");
    assert_eq!(last["error"]["status"], 413, "{last}");
    assert!(!text.contains("standard input"), "{text}");
}

#[test]
fn too_much_is_refused_and_the_connection_of_others_is_not_touched() {
    let scene = ApiScene::start(DEFINING, "");
    let large = format!("{{\"name\":\"{}\"}}", "x".repeat(1024 * 1024));
    scene.post("admin", "/v1/jobs", &large).problem(413, "too_large");
    let fields: Vec<(String, &str)> = (0..200).map(|number| (format!("X-{number}"), "y")).collect();
    let fields: Vec<(&str, &str)> = fields.iter().map(|(name, value)| (&**name, *value)).collect();
    let request = scene.probe.head("admin", "GET", "/v1/stats", &fields);
    scene.probe.raw(format!("{request}\r\n").as_bytes()).problem(431, "too_large");
    let path = format!("/v1/stats?{}", "x".repeat(20 * 1024));
    scene.get("admin", &path).problem(414, "too_large");
    let wide = format!("X-Wide: {}\r\n\r\n", "y".repeat(100 * 1024));
    let head = scene.probe.head("admin", "GET", "/v1/stats", &[]);
    assert_eq!(scene.probe.raw(format!("{head}{wide}").as_bytes()).status, 431);
    let wide = format!("X-Wide: {}\r\n\r\n", "y".repeat(80 * 1024));
    scene.probe.raw(format!("{head}{wide}").as_bytes()).problem(431, "too_large");
    for smuggled in [
        "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n",
        "Content-Length: 3\r\nContent-Length: 4\r\n\r\nabcd",
        "Content-Length: -1\r\n\r\n",
        "Transfer-Encoding: chunked\r\n\r\nzz\r\nabc\r\n0\r\n\r\n",
    ] {
        let head = scene.probe.head("admin", "POST", "/v1/jobs", &[JSON]);
        let answer = scene.probe.raw(format!("{head}{smuggled}").as_bytes());
        assert!([400, 415].contains(&answer.status), "{smuggled}: {answer:?}");
        assert!(!answer.text().contains("\"status\":\"ok\""), "{smuggled}: {answer:?}");
    }
    // The chunks count, and the connection ends with the answer: RFC 9112, section 6.1.
    let both = "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let head = scene.probe.head("admin", "POST", "/v1/jobs/nothing/run", &[]);
    let head = head.replace("Connection: close\r\n", "");
    let answer = scene.probe.raw(format!("{head}{both}").as_bytes());
    assert!(answer.status == 404 && !answer.text().contains("\"ok\""), "{answer:?}");
    assert_eq!(scene.get("admin", "/healthz").status, 200);
}

#[test]
fn a_sender_of_half_a_request_is_disconnected_and_delays_nobody() {
    let scene = ApiScene::start("", "");
    let mut slow: Vec<_> = (0..50).map(|_| scene.probe.connect()).collect();
    for stream in &mut slow {
        stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: local").unwrap();
    }
    let began = Instant::now();
    assert_eq!(scene.get("viewer", "/healthz").status, 200);
    assert!(began.elapsed() < LONG / 6, "{:?}", began.elapsed());
    for stream in slow {
        // An answer with 408, or the end of the connection.
        let answer = HttpAnswer::read(stream);
        assert!([0, 408].contains(&answer.status), "{answer:?}");
    }
}
