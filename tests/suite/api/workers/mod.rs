//! Workers on other hosts: they ask for runs, wait for them, and report about them.

mod claiming;
mod clients;
mod migration;
mod on_shards;
mod reporting;
mod work_verb;

use serde_json::{Value, json};

use super::ApiScene;

/// The queue of the workers.
const QUEUE: &str = "[queues.mail]\n";

/// Returns `base` with the members of `keys` in it.
fn with(mut base: Value, keys: Value) -> Value {
    let Value::Object(keys) = keys else { panic!("{keys} is no object") };
    for (key, value) in keys {
        base[key] = value;
    }
    base
}

/// Adds a job that workers of the handler `mail` execute.
fn add(scene: &ApiScene, keys: Value) {
    let job = json!({"in": "0s", "queue": "mail", "handler": "send", "payload": {"to": "ann"}});
    let job = with(job, keys);
    scene.post("admin", "/v1/jobs", &job.to_string()).of(201);
}

fn question(id: &str, keys: Value) -> String {
    let body = json!({"claim_id": id, "worker": {"name": "w1"}, "max": 10, "wait_ms": 20_000});
    let body = with(body, keys);
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
    let item = json!({"run_id": run["run_id"], "token": run["token"]});
    let item = with(item, keys);
    let body = json!({"runs": [item]}).to_string();
    let answer = scene.post("worker", &format!("/v1/runs/{verb}"), &body).of(200);
    assert_eq!(answer["runs"][0]["run_id"], run["run_id"]);
    answer["runs"][0].clone()
}

fn shown(scene: &ApiScene, run: &Value) -> Value {
    let id = run["run_id"].as_str().unwrap();
    scene.get("viewer", &format!("/v1/runs/{id}")).of(200)
}
