//! Questions of workers whose claim Redis carried out, although its answer never came.

use serde_json::{Value, json};

use super::{DEFINING, QUEUE, add, claim, claim_now, question, report, shown};
use crate::api::ApiScene;
use crate::support::host::proxy::{Loss, Proxy};
use crate::support::redis::TestRedis;
use crate::support::wait::{LONG, until};

/// The delivery of the job `work`. Of the calls to Redis, only the claim has it as an argument.
const DELIVERY: &str = "at-most-once";

/// Starts a node that reaches Redis through a proxy, and adds the job `work`, which is due. `lease` is
/// the length of a lease. The node repeats a claim that gets no answer for half of this time.
fn scene(lease: &str) -> (ApiScene, Proxy) {
    let redis = TestRedis::start();
    let proxy = Proxy::to(&redis);
    let jobs = format!("[daemon]\nlease = \"{lease}\"\n{QUEUE}");
    let scene = ApiScene::start_at(redis, &proxy.url(), DEFINING, &jobs);
    // This run lets Redis load the scripts. Otherwise the first claim would be refused and sent again.
    add(&scene, json!({"name": "first"}));
    let first = claim(&scene, "of-first", json!({}));
    assert_eq!(report(&scene, "complete", &first[0], json!({}))["result"], "ok");
    add(&scene, json!({"name": "work", "delivery": DELIVERY}));
    (scene, proxy)
}

fn completes_once(scene: &ApiScene, runs: &[Value]) {
    assert_eq!((runs.len(), &runs[0]["attempt"]), (1, &json!(1)), "{runs:?}");
    assert_eq!(report(scene, "complete", &runs[0], json!({}))["result"], "ok");
    let run = shown(scene, &runs[0]);
    assert_eq!((&run["state"], &run["attempt"]), (&json!("succeeded"), &json!(1)), "{run}");
    assert!(claim_now(scene, "later").is_empty());
}

#[test]
fn a_worker_gets_its_run_although_the_answer_to_the_claim_is_lost() {
    for loss in [Loss::Cut, Loss::Silence] {
        let (scene, proxy) = scene("10s");
        proxy.lose_answer_to(DELIVERY, loss);
        let runs = claim_now(&scene, "c1");
        proxy.wait_lost();
        completes_once(&scene, &runs);
    }
}

#[test]
fn a_question_that_failed_gets_its_run_when_it_is_asked_again() {
    let (scene, proxy) = scene("3s");
    // The node waits a second for an answer. After two such calls more than half of the lease is over,
    // and the node gives up.
    proxy.lose_answer_to(DELIVERY, Loss::Silence);
    let ask = || {
        let json = [("Content-Type", "application/json")];
        let body = question("c1", json!({"wait_ms": 0}));
        scene.probe.send("worker", "POST", "/v1/queues/mail/claim", &json, body.as_bytes())
    };
    ask().problem(503, "redis_unreachable");
    proxy.wait_lost();
    let answer = until("the question is answered", LONG, || {
        let answer = ask();
        (answer.status != 503).then_some(answer)
    });
    completes_once(&scene, answer.of(200)["runs"].as_array().unwrap());
}
