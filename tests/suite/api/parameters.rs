//! The parameters of requests: which values are taken, and how messages name them.

use serde_json::{Value, json};

use super::{ApiScene, DEFINING};
use crate::support::wait::{LONG, until};

/// Returns the path, the found and the wanted value of the only fault in a problem.
#[track_caller]
fn only_fault(problem: &Value) -> (&str, &str, &str) {
    let errors = problem["errors"].as_array().unwrap();
    assert_eq!(errors.len(), 1, "{problem}");
    let part = |name: &str| errors[0][name].as_str().unwrap_or_default();
    (part("path"), part("found"), part("wanted"))
}

#[test]
fn each_faulty_parameter_is_named_with_what_it_takes() {
    let scene = ApiScene::start("", "[jobs.a]\nshell = \"true\"\nevery = \"1h\"\n");
    for (path, name, found, wanted) in [
        ("/v1/jobs?state=bogus", "state", "bogus", "one of scheduled, running, retrying, paused, "),
        ("/v1/jobs?source=disk", "source", "disk", "one of file, api"),
        ("/v1/runs?state=failed,odd", "state", "failed,odd", "some of scheduled, running, "),
        ("/v1/jobs/a/next?count=0", "count", "0", "a whole number from 1 to 1000"),
        ("/v1/jobs?limit=1001", "limit", "1001", "a whole number from 1 to 1000"),
        ("/v1/jobs?tag=A%20B", "tag", "A B", "NAME or NAME=VALUE"),
        ("/v1/jobs?failed=maybe", "failed", "maybe", "1 or 0"),
        ("/v1/runs?since=never", "since", "never", "\"2026-12-24T09:00:00+01:00\", "),
        ("/v1/jobs/a/explain?at=now&last=1", "at", "at together with last", "one of them"),
        ("/v1/jobs?queue=", "queue", "", ""),
        ("/v1/runs?job=TICK", "job", "TICK", ""),
        ("/v1/runs/a@1/logs?attempt=1&follow=1", "attempt", "together with follow", "one of them"),
    ] {
        let problem = scene.get("viewer", path).problem(422, "invalid");
        let fault = only_fault(&problem);
        assert_eq!(fault.0, name, "{problem}");
        assert!(fault.1.contains(found), "{problem}");
        assert!(fault.2.starts_with(wanted), "{problem}");
        assert!(!problem["detail"].as_str().unwrap().contains("--help"), "{problem}");
    }
    let two = scene.get("viewer", "/v1/jobs?state=bogus&limit=0").problem(422, "invalid");
    assert_eq!(two["errors"].as_array().map(Vec::len), Some(2), "{two}");
    let post = |path: &str, body: &str| {
        let problem = scene.post("operator", path, body).problem(422, "invalid");
        let (path, found, wanted) = only_fault(&problem);
        format!("{path}: {found}, {wanted}")
    };
    assert_eq!(post("/v1/jobs/a/backfill", "{}"), "from: nothing, a text with a time");
    let most = post("/v1/jobs/a/backfill", "{\"from\":\"1h\",\"max\":10001}");
    assert_eq!(most, "max: \"10001\", a whole number from 1 to 10000");
    let none = post("/v1/queues/default/set", "{}");
    assert_eq!(none, ": no setting, settings of a queue such as {\"limit\": 3}");
    let empty = post("/v1/jobs/a/run", "{\"note\":\"\"}");
    assert_eq!(empty, "note: a note of 0 characters, 1 to 200");
    let object = post("/v1/queues/default/set", "{\"rate\":{\"a\":1}}");
    assert_eq!(object, "rate: {\"a\":1}, a text, a number, true, false or null");
    let twice = post("/v1/jobs/a/run", "{\"note\":\"a\",\"note\":\"b\"}");
    assert_eq!(twice, ": key \"note\" is given twice, once");
    let long = scene.post("operator", "/v1/jobs/a/backfill", "{\"from\":\"10y\"}").text();
    assert!(long.contains("is not understood, wanted"), "{long}");
}

#[test]
fn runs_before_the_job_was_added_need_the_parameter_yes() {
    let scene = ApiScene::start(DEFINING, "");
    let job = "{\"name\":\"cr\",\"cron\":\"* * * * *\",\"shell\":\"true\"}";
    scene.post("admin", "/v1/jobs", job).of(201);
    let ask = |body: &str| scene.post("operator", "/v1/jobs/cr/backfill", body);
    let refused = ask("{\"from\":\"1h\",\"max\":2}").problem(422, "invalid");
    let detail = refused["detail"].as_str().unwrap();
    assert!(detail.contains("before the job was added") && !detail.contains("--"), "{detail}");
    assert!(detail.contains("wanted yes to run them, a later from, or dry_run to list them"));
    let added = ask("{\"from\":\"1h\",\"max\":2,\"yes\":true}").of(200);
    assert_eq!(added["added"], 2, "{added}");
}

#[test]
fn a_time_that_the_api_prints_can_be_sent_back_as_it_is() {
    let scene = ApiScene::start(
        "",
        "[jobs.a]\nshell = \"true\"\ntz = \"Etc/UTC\"\n[jobs.b]\nshell = \"true\"\ntz = \"Africa/Lagos\"\n",
    );
    for (job, end) in [("a", "Z"), ("b", "+01:00")] {
        let run = scene.post("operator", &format!("/v1/jobs/{job}/run"), "").of(200);
        let path = format!("/v1/runs/{}", run["run_id"].as_str().unwrap());
        let finished = until("the run ends", LONG, || {
            let shown = scene.get("viewer", &path).of(200);
            shown["finished_at"].as_str().map(str::to_owned)
        });
        assert!(finished.ends_with(end), "{finished}");
        let page = scene.get("viewer", &format!("/v1/runs?job={job}&since={finished}")).of(200);
        assert_eq!(page["items"].as_array().map(Vec::len), Some(1), "{page}");
    }
}

#[test]
fn a_job_may_have_the_last_word_of_another_route_as_its_name() {
    let scene = ApiScene::start(DEFINING, "");
    let job = "{\"name\":\"bulk\",\"in\":\"1h\",\"shell\":\"true\"}";
    scene.post("admin", "/v1/jobs", job).of(201);
    assert_eq!(scene.get("viewer", "/v1/jobs/bulk").of(200)["name"], "bulk");
    let wrong = scene.probe.send("viewer", "PUT", "/v1/jobs/bulk", &[], b"");
    let wrong = wrong.problem(405, "method_not_allowed");
    assert_eq!(wrong["detail"], "found the method PUT, wanted POST or GET or DELETE");
    let removed = scene.probe.send("operator", "DELETE", "/v1/jobs/bulk", &[], b"").of(200);
    assert_eq!(removed["job"], "bulk", "{removed}");
}

#[test]
fn conflicts_and_malformed_bodies_are_reported_in_the_words_of_the_api() {
    let scene = ApiScene::start(DEFINING, "");
    let job = |shell: &str| format!("{{\"name\":\"x\",\"in\":\"1h\",\"shell\":\"{shell}\"}}");
    scene.post("admin", "/v1/jobs", &job("true")).of(201);
    let conflict = scene.post("admin", "/v1/jobs", &job("false")).problem(409, "conflict");
    let detail = conflict["detail"].as_str().unwrap();
    assert!(detail.contains("; replace changes the job, if_absent leaves"), "{detail}");
    for switch in ["", ",\"replace\":true"] {
        let twice =
            format!("{{\"name\":\"x\",\"name\":\"y\",\"in\":\"1h\",\"shell\":\"true\"{switch}}}");
        let twice = scene.post("admin", "/v1/jobs", &twice).problem(422, "invalid");
        assert_eq!(only_fault(&twice), ("", "key \"name\" is given twice", "once"));
    }
    let unknown = "{\"name\":\"z\",\"in\":\"1h\",\"shell\":\"true\",\"queue\":\"mial\"}";
    let unknown = scene.post("admin", "/v1/jobs", unknown).problem(422, "invalid");
    assert_eq!(only_fault(&unknown).0, "queue", "{unknown}");
    let text = scene.post("admin", "/v1/jobs", "nonsense").problem(400, "bad_request");
    assert_eq!(
        text["detail"],
        "the body: found text that is not JSON at line 1 column 2, wanted one JSON object"
    );
}

#[test]
fn a_past_time_needs_the_key_allow_past_in_a_job_and_in_lines() {
    let scene = ApiScene::start(DEFINING, "");
    let mut job = json!({"name": "x", "at": "2026-01-01T00:00:00Z", "shell": "true"});
    let refused = scene.post("admin", "/v1/jobs", &job.to_string()).problem(422, "invalid");
    let fault = only_fault(&refused);
    assert_eq!(fault.0, "at", "{refused}");
    assert_eq!(fault.2, "a future time, or allow_past to run the job at once", "{refused}");
    let lines = [("Content-Type", "application/x-ndjson")];
    let bulk = |path: &str, line: &Value| -> Value {
        let line = line.to_string();
        scene.probe.send("admin", "POST", path, &lines, line.as_bytes()).of(200)
    };
    assert_eq!(bulk("/v1/jobs/bulk", &job)["error"]["errors"][0]["path"], "at");
    scene.get("viewer", "/v1/jobs/x").problem(404, "not_found");
    assert_eq!(bulk("/v1/jobs/bulk?allow_past=1", &job)["result"], "created");
    job["name"] = "y".into();
    job["allow_past"] = true.into();
    scene.post("admin", "/v1/jobs", &job.to_string()).of(201);
    let misplaced = bulk("/v1/jobs/bulk", &job);
    let fault = &misplaced["error"]["errors"][0];
    assert_eq!(fault["path"], "allow_past", "{misplaced}");
    assert!(fault["wanted"].as_str().unwrap().contains("?allow_past=1"), "{misplaced}");
}
