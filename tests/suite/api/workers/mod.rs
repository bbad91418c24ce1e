//! Workers on other hosts: they ask for runs, wait for them, and report about them.

mod claiming;
mod clients;
mod lost_answers;
mod migration;
mod on_shards;
mod reporting;
mod work_verb;

use serde_json::{Value, json};

use super::http_probe::HttpProbe;
use super::{ApiScene, DEFINING, node_at};
use crate::support::daemon::Schedd;

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

/// Starts another node. Returns it, and a client of its API.
fn second_node(scene: &ApiScene) -> (Schedd, HttpProbe) {
    let (node, address) = node_at(&scene.redis.url(), "n2", scene.tokens.path(), DEFINING, QUEUE);
    let tokens = vec![("worker".to_owned(), scene.probe.token("worker").to_owned())];
    (node, HttpProbe::new(address, tokens))
}

/// Asks for runs of the queue `mail`.
fn claim(scene: &ApiScene, id: &str, keys: Value) -> Vec<Value> {
    claim_at(&scene.probe, id, keys)
}

fn claim_at(probe: &HttpProbe, id: &str, keys: Value) -> Vec<Value> {
    let answer = post(probe, "/v1/queues/mail/claim", &question(id, keys));
    answer["runs"].as_array().unwrap().clone()
}

fn post(probe: &HttpProbe, path: &str, body: &str) -> Value {
    let json = [("Content-Type", "application/json")];
    probe.send("worker", "POST", path, &json, body.as_bytes()).of(200)
}

/// Asks for runs without waiting for them.
fn claim_now(scene: &ApiScene, id: &str) -> Vec<Value> {
    claim(scene, id, json!({"wait_ms": 0}))
}

/// Reports about one run. Returns the answer.
fn report(scene: &ApiScene, verb: &str, run: &Value, keys: Value) -> Value {
    report_at(&scene.probe, verb, run, keys)
}

fn report_at(probe: &HttpProbe, verb: &str, run: &Value, keys: Value) -> Value {
    let item = json!({"run_id": run["run_id"], "token": run["token"]});
    let item = with(item, keys);
    let body = json!({"runs": [item]}).to_string();
    let answer = post(probe, &format!("/v1/runs/{verb}"), &body);
    assert_eq!(answer["runs"][0]["run_id"], run["run_id"]);
    answer["runs"][0].clone()
}

fn shown(scene: &ApiScene, run: &Value) -> Value {
    let id = run["run_id"].as_str().unwrap();
    scene.get("viewer", &format!("/v1/runs/{id}")).of(200)
}
