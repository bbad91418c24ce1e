//! Workers on other hosts: they ask for runs, wait for them, and report about them.

mod claiming;
mod reporting;
mod work_verb;

use serde_json::{Value, json};

use super::ApiScene;

/// The queue of the workers.
const QUEUE: &str = "[queues.mail]\n";

/// Adds a job that workers of the handler `mail` execute.
fn add(scene: &ApiScene, keys: Value) {
    let mut job = json!({"in": "0s", "queue": "mail", "handler": "send", "payload": {"to": "ann"}});
    for (key, value) in keys.as_object().unwrap() {
        job[key] = value.clone();
    }
    scene.post("admin", "/v1/jobs", &job.to_string()).of(201);
}

fn question(id: &str, keys: Value) -> String {
    let mut body = json!({"claim_id": id, "worker": {"name": "w1"}, "max": 10, "wait_ms": 20_000});
    for (key, value) in keys.as_object().unwrap() {
        body[key] = value.clone();
    }
    body.to_string()
}

/// Asks for runs of the queue `mail`.
fn claim(scene: &ApiScene, id: &str, keys: Value) -> Vec<Value> {
    let answer = scene.post("worker", "/v1/queues/mail/claim", &question(id, keys)).of(200);
    answer["runs"].as_array().unwrap().clone()
}

/// Asks for runs without waiting for them.
fn claim_now(scene: &ApiScene, id: &str) -> Vec<Value> {
    claim(scene, id, json!({"wait_ms": 0}))
}

/// Reports about one run. Returns the answer.
fn report(scene: &ApiScene, verb: &str, run: &Value, keys: Value) -> Value {
    let mut item = json!({"run_id": run["run_id"], "token": run["token"]});
    for (key, value) in keys.as_object().unwrap() {
        item[key] = value.clone();
    }
    let body = json!({"runs": [item]}).to_string();
    let answer = scene.post("worker", &format!("/v1/runs/{verb}"), &body).of(200);
    assert_eq!(answer["runs"][0]["run_id"], run["run_id"]);
    answer["runs"][0].clone()
}

fn shown(scene: &ApiScene, run: &Value) -> Value {
    let id = run["run_id"].as_str().unwrap();
    scene.get("viewer", &format!("/v1/runs/{id}")).of(200)
}
