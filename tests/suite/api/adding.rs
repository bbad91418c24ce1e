//! Adding jobs, alone and in lines, and requests that are repeated.

use std::io::{Read as _, Write as _};

use serde_json::{Value, json};

use super::http_probe::HttpAnswer;
use super::{ApiScene, DEFINING};
use crate::support::wait::{LONG, until};

const LINES: [(&str, &str); 1] = [("Content-Type", "application/x-ndjson")];

/// Returns a line that adds a job of this name in an hour.
fn job(name: &str) -> String {
    format!("{{\"name\":\"{name}\",\"in\":\"1h\",\"shell\":\"true\"}}\n")
}

#[test]
fn a_job_is_added_once_and_a_different_one_of_its_name_is_a_conflict() {
    let scene = ApiScene::start(DEFINING, "");
    let add = |body: &str| scene.post("admin", "/v1/jobs", body);
    let pretty =
        "{\n  \"name\": \"x\",\r\n  \"at\": \"2099-01-01T00:00:00Z\",\n  \"shell\": \"true\"\n}\n";
    let added = add(pretty).of(201);
    assert_eq!((&added["name"], &added["result"]), (&json!("x"), &json!("created")));
    assert_eq!(added["run_id"], "x@4070908800000");
    add(pretty).problem(409, "conflict");
    let other = pretty.replace("true", "false");
    let conflict = add(&other).problem(409, "conflict");
    assert!(conflict["detail"].as_str().unwrap().contains("job x exists"), "{conflict}");
    let with = |flag: &str| other.replacen('{', &format!("{{\"{flag}\": true,"), 1);
    assert_eq!(add(&with("if_absent")).of(200)["result"], "exists");
    assert_eq!(add(&with("replace")).of(200)["result"], "updated");
    let drawn = add("{\"in\":\"1h\",\"command\":[\"true\"]}").of(201);
    assert!(drawn["name"].as_str().unwrap().starts_with("job-"), "{drawn}");
    let shown = scene.get("admin", "/v1/jobs/x").of(200);
    assert_eq!(shown["definition"]["shell"], "false");
    let runs = add("{\"name\":\"now\",\"in\":\"0s\",\"shell\":\"true\"}").of(201);
    let run = runs["run_id"].as_str().unwrap().to_owned();
    until("the added run ends", LONG, || {
        (scene.get("viewer", &format!("/v1/runs/{run}")).of(200)["state"] == "succeeded")
            .then_some(())
    });
}

#[test]
fn each_line_gets_a_line_and_what_is_refused_stops_nothing() {
    let scene = ApiScene::start(DEFINING, "");
    let body = format!(
        "{}{{\"name\":\"b\"}}\n\nnonsense\n{}{}",
        job("a"),
        job("c"),
        job("a").replace("1h", "2h")
    );
    let send = |path: &str| scene.probe.send("admin", "POST", path, &LINES, body.as_bytes());
    let answer = send("/v1/jobs/bulk");
    assert_eq!(answer.status, 200);
    let mut lines: Vec<Value> =
        answer.text().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    lines.sort_by_key(|line| line["line"].as_u64());
    let numbers: Vec<u64> = lines.iter().filter_map(|line| line["line"].as_u64()).collect();
    assert_eq!(numbers, [1, 2, 4, 5, 6], "{lines:?}");
    assert_eq!(lines[0]["result"], "created");
    assert_eq!(lines[1]["error"]["status"], 422);
    assert_eq!(lines[2]["error"]["code"], "invalid");
    assert_eq!(lines[3]["name"], "c");
    assert_eq!(lines[4]["error"]["status"], 409);
    let again = send("/v1/jobs/bulk?if_absent=1").text();
    assert_eq!(
        again.matches("\"exists\"").count() + again.matches("\"unchanged\"").count(),
        3,
        "{again}"
    );
}

#[test]
fn lines_are_added_as_they_arrive_and_a_lost_sender_loses_no_added_line() {
    let scene = ApiScene::start(DEFINING, "");
    let mut stream = scene.probe.connect();
    let head = scene.probe.head("admin", "POST", "/v1/jobs/bulk", &LINES);
    write!(stream, "{head}Transfer-Encoding: chunked\r\n\r\n").unwrap();
    let mut send = |text: &str| write!(stream, "{:x}\r\n{text}\r\n", text.len()).unwrap();
    send("{\"name\":\"first\",\"in\":\"1h\",\"shell\":\"true\"}\n");
    until("the first line is added", LONG, || {
        (scene.get("viewer", "/v1/jobs/first").status == 200).then_some(())
    });
    send("{\"name\":\"second\",\"in\":\"1h\",\"sh");
    drop(stream);
    assert_eq!(scene.get("viewer", "/v1/jobs/second").status, 404);
    assert_eq!(scene.get("viewer", "/v1/jobs/first").status, 200);
    let lines = (0..5_000).map(|n| job(&format!("m{n}")));
    let many = lines.collect::<Vec<_>>().concat();
    let answer = scene.probe.send("admin", "POST", "/v1/jobs/bulk", &LINES, many.as_bytes());
    assert_eq!(answer.text().lines().filter(|line| line.contains("created")).count(), 5_000);
}

#[test]
fn a_sender_that_expects_to_be_asked_for_its_lines_is_asked_before_the_answer() {
    let scene = ApiScene::start(DEFINING, "");
    let mut stream = scene.probe.connect();
    let head = scene.probe.head("admin", "POST", "/v1/jobs/bulk", &LINES);
    let line = job("asked");
    write!(stream, "{head}Content-Length: {}\r\nExpect: 100-continue\r\n\r\n", line.len()).unwrap();
    let mut asked = [0; 25];
    stream.read_exact(&mut asked).unwrap();
    assert_eq!(&asked, b"HTTP/1.1 100 Continue\r\n\r\n");
    stream.write_all(line.as_bytes()).unwrap();
    let answer = HttpAnswer::read(stream);
    assert_eq!(answer.status, 200);
    assert!(answer.text().contains("\"created\""), "{}", answer.text());
}

#[test]
fn a_repeated_request_with_a_key_gets_the_first_answer() {
    let scene = ApiScene::start(DEFINING, "[jobs.a]\nshell = \"true\"\n");
    let send = |caller: &str, key: &str, path: &str, body: &str| -> HttpAnswer {
        let headers = [("Content-Type", "application/json"), ("Idempotency-Key", key)];
        scene.probe.send(caller, "POST", path, &headers, body.as_bytes())
    };
    let job = "{\"in\":\"1h\",\"shell\":\"true\"}";
    let first = send("admin", "k1", "/v1/jobs", job);
    let again = send("admin", "k1", "/v1/jobs", job);
    assert_eq!((first.of(201), first.status), (again.of(201), again.status));
    assert!(again.head.contains("idempotency-replayed: true") && !first.head.contains("replayed"));
    send("admin", "k1", "/v1/jobs", "{\"in\":\"2h\",\"shell\":\"true\"}").problem(409, "conflict");
    // Another key, path or caller is another request.
    assert_ne!(send("admin", "k2", "/v1/jobs", job).of(201)["name"], first.json()["name"]);
    let run = send("admin", "k1", "/v1/jobs/a/run", "").of(200);
    assert_eq!(send("admin", "k1", "/v1/jobs/a/run", "").of(200), run);
    assert_ne!(send("operator", "k1", "/v1/jobs/a/run", "").of(200), run);
    // A refusal is repeated too.
    let refused = send("admin", "k3", "/v1/jobs/nothing/run", "");
    assert_eq!(
        refused.problem(404, "not_found"),
        send("admin", "k3", "/v1/jobs/nothing/run", "").problem(404, "not_found")
    );
    assert_eq!(scene.ctl("admin").run(&["doctor", "--json"]).json()["findings"], json!([]));
}

#[test]
fn a_one_shot_belongs_to_the_trace_of_its_request_unless_its_body_names_one() {
    let scene = ApiScene::start(DEFINING, "");
    let trace = |number: u8| format!("00-{number:032x}-00f067aa0ba902b7-01");
    let mut count = 0;
    let mut added = |headers: &[String], keys: &str| {
        count += 1;
        let mut all = vec![("Content-Type", "application/json")];
        all.extend(headers.iter().map(|value| ("Traceparent", value.as_str())));
        let body = format!("{{\"name\": \"t{count}\", \"shell\": \"true\"{keys}}}");
        scene.probe.send("admin", "POST", "/v1/jobs", &all, body.as_bytes()).of(201);
        let shown = scene.get("admin", &format!("/v1/jobs/t{count}")).of(200);
        shown["definition"].get("traceparent").cloned()
    };
    let own = format!(", \"in\": \"1h\", \"traceparent\": \"{}\"", trace(9));
    assert_eq!(added(&[trace(1)], ", \"in\": \"1h\""), Some(json!(trace(1))));
    assert_eq!(
        added(&[trace(2)], ", \"at\": \"2099-01-01T00:00:00Z\", \"if_absent\": true"),
        Some(json!(trace(2)))
    );
    assert_eq!(added(&[trace(1)], &own), Some(json!(trace(9))));
    // W3C: a faulty or repeated header is ignored.
    assert_eq!(added(&[trace(1).to_uppercase().replace('F', "G")], ", \"in\": \"1h\""), None);
    assert_eq!(added(&[trace(1), trace(2)], ", \"in\": \"1h\""), None);
    // The runs of a recurring job are no effect of one request.
    assert_eq!(added(&[trace(1)], ", \"cron\": \"0 0 1 1 *\""), None);
    assert_eq!(added(&[], &own), Some(json!(trace(9))));
    let bad = "{\"in\": \"1h\", \"shell\": \"true\", \"traceparent\": \"00-x\"}";
    let problem = scene.post("admin", "/v1/jobs", bad).problem(422, "invalid");
    let fault = &problem["errors"][0];
    assert_eq!((&fault["path"], &fault["found"]), (&json!("traceparent"), &json!("\"00-x\"")));
}

#[test]
fn a_unique_key_is_free_when_its_recurring_job_has_no_further_runs() {
    let scene = ApiScene::start(DEFINING, "");
    let job = |name: &str| json!({"name": name, "every": "1s", "max_runs": 1, "unique": "k", "shell": "true"});
    scene.post("admin", "/v1/jobs", &job("first").to_string()).of(201);
    let refused = scene.post("admin", "/v1/jobs", &job("second").to_string());
    refused.problem(409, "conflict");
    until("the first job has finished", LONG, || {
        let shown = scene.get("viewer", "/v1/jobs/first").of(200);
        (shown["state"] == "finished").then_some(())
    });
    scene.post("admin", "/v1/jobs", &job("second").to_string()).of(201);
    let third = scene.post("admin", "/v1/jobs", &job("third").to_string());
    third.problem(409, "conflict");
}
