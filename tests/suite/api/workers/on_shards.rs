//! Workers of a queue whose jobs are on several shards.

use std::collections::BTreeSet;

use rustix::process::Signal;
use serde_json::{Value, json};

use super::{add, claim, claim_now, report, shown};
use crate::api::{ApiScene, DEFINING};
use crate::support::redis::TestRedis;
use crate::topology::await_shards;
use crate::topology::place::Place;
use crate::topology::tcp_server::TcpServer;

/// A spread queue on three shards.
const SPREAD: &str = "[redis]\nshards = 3\n[queues.mail]\nspread = true\n";

fn shard_of(run: &Value) -> String {
    run["token"].as_str().unwrap().split('-').next().unwrap().to_owned()
}

#[test]
fn a_worker_gets_the_runs_of_all_shards_and_never_more_than_it_asks_for() {
    let scene = ApiScene::start(DEFINING, SPREAD);
    await_shards(&scene.daemon, 3);
    let names: BTreeSet<String> = (0..12).map(|number| format!("mail{number}")).collect();
    for name in &names {
        add(&scene, json!({"name": name}));
    }
    let (mut jobs, mut shards) = (BTreeSet::new(), BTreeSet::new());
    let mut number = 0;
    while jobs.len() < names.len() {
        let id = format!("c{number}");
        number += 1;
        let runs = claim(&scene, &id, json!({"max": 2}));
        assert!((1..=2).contains(&runs.len()), "{runs:?}");
        assert_eq!(claim(&scene, &id, json!({"max": 2})), runs, "the same question");
        for run in runs {
            shards.insert(shard_of(&run));
            assert!(jobs.insert(run["job"].as_str().unwrap().to_owned()), "twice: {run}");
            assert_eq!(report(&scene, "heartbeat", &run, json!({}))["result"], "ok");
            assert_eq!(report(&scene, "complete", &run, json!({}))["result"], "ok");
            assert_eq!(report(&scene, "complete", &run, json!({}))["result"], "ok", "again");
            assert_eq!(shown(&scene, &run)["state"], "succeeded");
        }
    }
    assert_eq!((jobs, shards.len()), (names, 3));
    assert!(claim_now(&scene, "last").is_empty());
}

#[test]
fn without_a_shard_its_heartbeats_are_to_be_repeated_and_other_runs_are_served() {
    let [home, shard] = [0; 2].map(|_| TcpServer::of_data(&Place::here(), &[]));
    let url = format!("redis://{}", home.address());
    let file = format!(
        "[redis]\nurl = {url:?}\nshards = [{:?}]\n[queues.mail]\nspread = true\n[groups.g]\nmode = \"exclusive\"\n[groups.h]\nmode = \"exclusive\"\n",
        shard.address()
    );
    let scene = ApiScene::start_at(TestRedis::start(), &url, DEFINING, &file);
    await_shards(&scene.daemon, 1);
    add(&scene, json!({"name": "spread"}));
    add(&scene, json!({"name": "at-home", "group": "g"}));
    let mut runs = Vec::new();
    while runs.len() < 2 {
        runs.extend(claim(&scene, &format!("c{}", runs.len()), json!({})));
    }
    add(&scene, json!({"name": "later", "in": "3s", "group": "h"}));
    shard.signal(Signal::STOP);
    let item = |run: &Value| json!({"run_id": run["run_id"], "token": run["token"]});
    let body = json!({"runs": runs.iter().map(item).collect::<Value>()}).to_string();
    let answer = scene.post("worker", "/v1/runs/heartbeat", &body).of(200);
    for (run, answer) in runs.iter().zip(answer["runs"].as_array().unwrap()) {
        let wanted = if run["job"] == "spread" { "again" } else { "ok" };
        assert_eq!(answer["result"], wanted, "{run}");
    }
    let later = claim(&scene, "later", json!({"wait_ms": 20_000}));
    assert_eq!(later.iter().map(|run| &run["job"]).collect::<Vec<_>>(), ["later"]);
    shard.signal(Signal::CONT);
    for run in runs.iter().chain(&later) {
        assert_eq!(report(&scene, "complete", run, json!({}))["result"], "ok");
    }
}
