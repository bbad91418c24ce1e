//! Questions of workers for runs: repeated, waiting, and by the rules of queues and jobs.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::thread;
use std::time::Duration;

use schedd_programs::secrets::tokens::TokenRole;
use serde_json::json;

use super::{QUEUE, add, claim, claim_at, claim_now, question, report, report_at, second_node};
use crate::api::http_probe::HttpProbe;
use crate::api::{ApiScene, DEFINING, entry};
use crate::support::wait::{LONG, until};

/// Returns the workers that ask the node `n1`, as its record has them.
fn workers_of(scene: &ApiScene) -> String {
    let mut redis = scene.redis.connection();
    let found = redis::cmd("HGET").arg("{schedd}:node:n1").arg("workers").query(&mut redis);
    found.unwrap_or_default()
}

/// Returns the number of commands that Redis has executed.
fn commands(scene: &ApiScene) -> u64 {
    let info: String =
        redis::cmd("INFO").arg("stats").query(&mut scene.redis.connection()).unwrap();
    let count = info.lines().find_map(|line| line.strip_prefix("total_commands_processed:"));
    count.unwrap().trim().parse().unwrap()
}

#[test]
fn a_question_with_the_same_id_gets_the_same_runs_at_every_node() {
    let scene = ApiScene::start(DEFINING, QUEUE);
    let (_second, other) = second_node(&scene);
    add(&scene, json!({"name": "a"}));
    add(&scene, json!({"name": "b"}));
    let first = claim(&scene, "c1", json!({"max": 1}));
    assert_eq!(first.len(), 1);
    let again = claim_at(&other, "c1", json!({"max": 1}));
    assert_eq!(again, first);
    assert_eq!(report_at(&other, "complete", &first[0], json!({}))["result"], "ok");
    assert_eq!(report(&scene, "complete", &first[0], json!({}))["result"], "ok");
    let second = claim(&scene, "c2", json!({}));
    assert_eq!(second.len(), 1);
    assert_ne!(second[0]["job"], first[0]["job"]);
}

#[test]
fn a_repeated_answer_begins_the_leases_of_its_runs_anew() {
    let scene = ApiScene::start(DEFINING, QUEUE);
    add(&scene, json!({"name": "a"}));
    let first = claim(&scene, "c1", json!({"lease_ms": 60_000}));
    let ends = || {
        let mut redis = scene.redis.connection();
        let leases: Vec<(String, f64)> = redis::cmd("ZRANGE")
            .arg(&["{schedd}:leases", "0", "-1", "WITHSCORES"])
            .query(&mut redis)
            .unwrap();
        leases[0].1
    };
    let before = ends();
    let second = claim(&scene, "c1", json!({"lease_ms": 120_000}));
    assert_eq!(
        (&second[0]["token"], &second[0]["lease_ms"]),
        (&first[0]["token"], &json!(120_000))
    );
    assert!(ends() >= before + 60_000.0, "{before} {}", ends());
}

/// Sends a question of the worker over a connection that nobody reads.
fn ask_in_vain(probe: &HttpProbe, id: &str) -> std::net::TcpStream {
    let body = question(id, json!({"wait_ms": 55_000}));
    let length = body.len().to_string();
    let headers = [("Content-Type", "application/json"), ("Content-Length", &*length)];
    let head = probe.head("worker", "POST", "/v1/queues/mail/claim", &headers);
    let mut stream = probe.connect();
    stream.write_all(format!("{head}\r\n{body}").as_bytes()).unwrap();
    stream
}

#[test]
fn a_question_sent_again_while_its_first_connection_hangs_gets_the_runs() {
    let scene = ApiScene::start(DEFINING, QUEUE);
    let (_second, other) = second_node(&scene);
    for (id, probe) in [("same", &scene.probe), ("other", &other)] {
        let _hangs = ask_in_vain(&scene.probe, id);
        until("the question waits", LONG, || workers_of(&scene).contains("mail").then_some(()));
        thread::scope(|scope| {
            let again = scope.spawn(|| claim_at(probe, id, json!({"wait_ms": 4_000})));
            add(&scene, json!({"name": id}));
            let runs = again.join().unwrap();
            assert_eq!(runs.len(), 1, "{id}: {runs:?}");
            report(&scene, "complete", &runs[0], json!({}));
        });
    }
}

#[test]
fn a_question_that_waits_at_two_nodes_gets_no_more_runs_than_it_asks_for() {
    let scene = ApiScene::start(DEFINING, QUEUE);
    let (_second, other) = second_node(&scene);
    // The largest number of marks in the notes of questions.
    let marks = || {
        let mut redis = scene.redis.connection();
        let keys: Vec<String> =
            redis::cmd("KEYS").arg("{schedd}:answer:*").query(&mut redis).unwrap();
        let notes = keys.iter().map(|key| redis::cmd("GET").arg(key).query(&mut redis).unwrap());
        let notes: Vec<Option<String>> = notes.collect();
        let own = notes.iter().flatten().filter(|note| !note.contains('@'));
        own.map(|note| note.matches('!').count()).max()
    };
    for round in 0..4 {
        let id = format!("c{round}");
        let ask = |probe| claim_at(probe, &id, json!({"max": 2, "wait_ms": 6_000}));
        let handed: BTreeSet<String> = thread::scope(|scope| {
            let asks = [&scene.probe, &other].map(|probe| scope.spawn(move || ask(probe)));
            until("both nodes have the question", LONG, || marks().filter(|marks| *marks == 2));
            for number in 0..4 {
                let name = format!("j{round}-{number}");
                add(&scene, json!({"name": name, "delivery": "at-most-once"}));
            }
            let runs = asks.map(|ask| ask.join().unwrap()).concat();
            runs.iter().map(|run| run["run_id"].as_str().unwrap().to_owned()).collect()
        });
        assert!((1..=2).contains(&handed.len()), "round {round}: {handed:?}");
        // The other runs are due, and none is handed out again.
        let (mut all, mut asked) = (handed, 0);
        while all.len() < 4 {
            asked += 1;
            for run in claim(&scene, &format!("rest{round}-{asked}"), json!({})) {
                let run = run["run_id"].as_str().unwrap().to_owned();
                assert!(all.insert(run.clone()), "{run} twice");
            }
        }
    }
}

#[test]
fn an_answer_has_payloads_of_a_few_mebibytes_and_the_other_runs_stay_due() {
    let scene = ApiScene::start(DEFINING, QUEUE);
    for number in 0..30 {
        add(&scene, json!({"name": format!("j{number}"), "payload": "x".repeat(250_000)}));
    }
    let (mut got, mut asked) = (0, 0);
    while got < 30 {
        asked += 1;
        let runs = claim(&scene, &format!("c{asked}"), json!({"max": 500}));
        assert!(runs.len() < 20, "{} runs", runs.len());
        got += runs.len();
    }
}

#[test]
fn workers_that_ask_two_nodes_in_turn_for_one_run_each_get_every_run_once() {
    let scene = ApiScene::start(DEFINING, QUEUE);
    let (_second, other) = second_node(&scene);
    for number in 0..12 {
        add(&scene, json!({"name": format!("j{number}")}));
    }
    let mut got = Vec::new();
    for turn in 0..12 {
        let probe = if turn % 2 == 0 { &other } else { &scene.probe };
        let run = claim_at(probe, &format!("c{turn}"), json!({"max": 1})).remove(0);
        got.push(run["job"].as_str().unwrap().to_owned());
        assert_eq!(report_at(probe, "complete", &run, json!({}))["result"], "ok");
    }
    got.sort();
    got.dedup();
    assert_eq!(got.len(), 12);
    assert!(claim_now(&scene, "none").is_empty());
}

#[test]
fn a_run_whose_claim_was_tried_twice_is_handed_out_once() {
    let scene = ApiScene::start(DEFINING, QUEUE);
    add(&scene, json!({"name": "a"}));
    let first = claim(&scene, "c1", json!({}));
    let mut redis = scene.redis.connection();
    let noted: Vec<String> = redis::cmd("KEYS").arg("{schedd}:answer:*").query(&mut redis).unwrap();
    let is_noted = |key: &&String| {
        let text: String = redis::cmd("GET").arg(key).query(&mut redis).unwrap_or_default();
        text.contains(first[0]["run_id"].as_str().unwrap())
    };
    let noted: Vec<&String> = noted.iter().filter(is_noted).collect();
    assert_eq!(noted.len(), 1, "{noted:?}");
    let again = format!(" {}", first[0]["run_id"].as_str().unwrap());
    let mut redis = scene.redis.connection();
    redis::cmd("APPEND").arg(noted[0]).arg(again).exec(&mut redis).unwrap();
    assert_eq!(claim(&scene, "c1", json!({})), first);
}

#[test]
fn a_waiting_worker_gets_a_run_as_soon_as_it_is_due_and_idle_workers_cost_nothing() {
    let scene = ApiScene::start(DEFINING, QUEUE);
    thread::scope(|threads| {
        let waiting: Vec<_> = (0..20)
            .map(|number| {
                let scene = &scene;
                threads.spawn(move || {
                    claim(scene, &format!("c{number}"), json!({"wait_ms": 55_000, "max": 1}))
                })
            })
            .collect();
        until("the workers are known", LONG, || (workers_of(&scene) == "mail|*|").then_some(()));
        // An idle node sends two commands a second, a heartbeat each 5 s, and rarely more. After its
        // start it needs more for some seconds.
        until("the node and its workers are idle", LONG, || {
            let before = commands(&scene);
            thread::sleep(Duration::from_secs(2));
            (commands(&scene) - before <= 12).then_some(())
        });
        for number in 0..20 {
            add(&scene, json!({"name": format!("a{number}"), "in": "1s"}));
        }
        for thread in waiting {
            assert_eq!(thread.join().unwrap().len(), 1);
        }
    });
}

#[test]
fn limits_keys_priorities_and_labels_hold_for_workers_too() {
    let queue = "[queues.mail]\nlimit = 2\n";
    let scene = ApiScene::start(DEFINING, queue);
    for number in 0..4 {
        add(&scene, json!({"name": format!("a{number}")}));
    }
    let runs = claim(&scene, "c1", json!({}));
    assert_eq!(runs.len(), 2, "the queue has room for two runs");
    assert!(claim_now(&scene, "c2").is_empty());
    report(&scene, "complete", &runs[0], json!({}));
    let next = claim(&scene, "c3", json!({}));
    assert_eq!(next.len(), 1);
    let scene = ApiScene::start(DEFINING, QUEUE);
    add(&scene, json!({"name": "low", "priority": -1}));
    add(&scene, json!({"name": "high", "priority": 1}));
    add(&scene, json!({"name": "other", "handler": "resize"}));
    add(&scene, json!({"name": "gpu", "requires": ["gpu"]}));
    let runs = claim(&scene, "c1", json!({"handlers": ["send"], "max": 1}));
    assert_eq!(runs[0]["job"], "high");
    let runs = claim(&scene, "c2", json!({"handlers": ["send"]}));
    assert_eq!(runs.len(), 1, "{runs:?}");
    assert_eq!(runs[0]["job"], "low");
    let with = json!({"worker": {"name": "w2", "labels": ["gpu"]}, "handlers": ["send"]});
    assert_eq!(claim(&scene, "c3", with)[0]["job"], "gpu");
    for number in 0..2 {
        add(&scene, json!({"name": format!("k{number}"), "key": "one", "handler": "keyed"}));
    }
    let keyed = json!({"handlers": ["keyed"]});
    let runs = claim(&scene, "c4", keyed.clone());
    assert_eq!(runs.len(), 1, "{runs:?}");
    report(&scene, "complete", &runs[0], json!({}));
    assert_eq!(claim(&scene, "c5", keyed).len(), 1);
}

#[test]
fn explain_says_that_no_worker_asks_until_one_asks() {
    let scene = ApiScene::start(DEFINING, QUEUE);
    add(&scene, json!({"name": "a", "handler": "resize"}));
    let why = || scene.get("viewer", "/v1/jobs/a/explain").text();
    let said = until("explain names the handler", LONG, || {
        let said = why();
        said.contains("no worker asks for runs of handler resize in queue mail").then_some(said)
    });
    assert!(!said.contains("no running node"), "{said}");
    claim(&scene, "c1", json!({"handlers": ["send"], "wait_ms": 0}));
    assert!(why().contains("no worker asks"));
    let runs = claim(&scene, "c2", json!({"handlers": ["resize"]}));
    assert_eq!(runs.len(), 1);
    // A worker that is busy is present.
    add(&scene, json!({"name": "b", "handler": "resize"}));
    until("explain knows the worker", LONG, || {
        let said = scene.get("viewer", "/v1/jobs/b/explain").text();
        (!said.contains("no worker asks")).then_some(())
    });
}

#[test]
fn a_token_of_a_worker_is_bound_to_its_queues() {
    let mut scene = ApiScene::start(DEFINING, QUEUE);
    let text = schedd_programs::secrets::tokens::TokenText::random().unwrap();
    let mut bound = entry("bound", TokenRole::Worker, text.as_str(), None);
    bound.queues = vec!["thumbs".to_owned()];
    scene.tokens.add(|_| bound).unwrap();
    scene.probe.add_token("bound", text.as_str());
    let body = question("c1", json!({"wait_ms": 0}));
    let problem = scene.post("bound", "/v1/queues/mail/claim", &body).problem(403, "forbidden");
    assert!(problem["detail"].as_str().unwrap().contains("the token is for thumbs"), "{problem}");
    // Nobody declared the queue, so no run of it can exist.
    let unknown = scene.post("bound", "/v1/queues/thumbs/claim", &body).problem(404, "not_found");
    assert!(unknown["detail"].as_str().unwrap().contains("queue thumbs is not known"), "{unknown}");
    add(&scene, json!({"name": "a"}));
    let run = claim(&scene, "c1", json!({}))[0].clone();
    let body = json!({"runs": [{"run_id": run["run_id"], "token": run["token"]}]}).to_string();
    let answer = scene.post("bound", "/v1/runs/complete", &body).of(200);
    assert_eq!(answer["runs"][0]["result"], "unknown");
    assert_eq!(report(&scene, "complete", &run, json!({}))["result"], "ok");
}

#[test]
fn waiting_workers_are_answered_when_their_node_stops() {
    let mut scene = ApiScene::start(DEFINING, QUEUE);
    let address = scene.probe.address().to_owned();
    let token = scene.probe.token("worker").to_owned();
    let probe = HttpProbe::new(address, vec![("worker".to_owned(), token)]);
    let waiting = thread::spawn(move || {
        let json = [("Content-Type", "application/json")];
        let body = question("c1", json!({"wait_ms": 55_000}));
        probe.send("worker", "POST", "/v1/queues/mail/claim", &json, body.as_bytes()).of(200)
    });
    until("the worker waits", LONG, || (workers_of(&scene) == "mail|*|").then_some(()));
    scene.daemon.term();
    scene.daemon.wait_exit();
    let answer = waiting.join().unwrap();
    assert_eq!((&answer["runs"], &answer["drain"]), (&json!([]), &json!(true)));
}
