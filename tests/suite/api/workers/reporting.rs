//! Reports of workers about their runs.

use serde_json::{Value, json};

use super::{
    QUEUE, add, claim, claim_at, claim_now, question, report, report_at, second_node, shown,
};
use crate::api::{ApiScene, DEFINING};
use crate::support::wait::{LONG, until};

#[test]
fn a_worker_gets_a_run_and_completes_it_with_output() {
    let scene = ApiScene::start(DEFINING, QUEUE);
    add(&scene, json!({"name": "a", "timeout": "1m"}));
    let runs = claim(&scene, "c1", json!({"handlers": ["send"], "lease_ms": 60_000}));
    let [run] = runs.as_slice() else { panic!("{runs:?}") };
    assert_eq!(
        (&run["job"], &run["handler"], &run["payload"]["to"], &run["attempt"]),
        (&json!("a"), &json!("send"), &json!("ann"), &json!(1))
    );
    assert_eq!((&run["lease_ms"], &run["timeout_ms"]), (&json!(60_000), &json!(60_000)));
    assert_eq!(shown(&scene, run)["node"], "worker:w1");
    let alive = report(&scene, "heartbeat", run, json!({}));
    assert_eq!((&alive["result"], &alive["lease_ms"]), (&json!("ok"), &json!(60_000)));
    let progress = json!({"progress": {"percent": 40, "text": "rendering\n\u{1b}[1m"}});
    assert_eq!(report(&scene, "heartbeat", run, progress)["result"], "ok");
    let id = run["run_id"].as_str().unwrap();
    let noted = json!({"percent": 40, "text": "rendering  [1m"});
    assert_eq!(shown(&scene, run)["progress"], noted);
    for _ in 0..2 {
        assert_eq!(report(&scene, "complete", run, json!({"output": "sent\n"}))["result"], "ok");
    }
    let ended = shown(&scene, run);
    assert_eq!(ended["state"], "succeeded", "{ended}");
    assert_eq!(scene.get("viewer", &format!("/v1/runs/{id}/logs")).text(), "sent\n");
    assert_eq!(report(&scene, "heartbeat", run, json!({}))["result"], "lost");
    assert_eq!(report(&scene, "fail", run, json!({"error": "x"}))["result"], "stale");
    let unknown = json!({"run_id": "b@1", "token": run["token"]});
    assert_eq!(report(&scene, "complete", &unknown, json!({}))["result"], "unknown");
}

#[test]
fn a_redis_out_of_memory_takes_heartbeats_and_ends_and_drops_their_texts() {
    let scene = ApiScene::start(DEFINING, QUEUE);
    add(&scene, json!({"name": "a"}));
    let run = claim(&scene, "c1", json!({})).remove(0);
    let most = |bytes: &str| {
        let mut redis = scene.redis.connection();
        let () = redis::cmd("CONFIG").arg(&["SET", "maxmemory", bytes]).query(&mut redis).unwrap();
    };
    most("1");
    let progress = json!({"progress": {"percent": 40}});
    assert_eq!(report(&scene, "heartbeat", &run, progress)["result"], "ok");
    assert_eq!(report(&scene, "complete", &run, json!({"output": "sent\n"}))["result"], "ok");
    most("0");
    assert_eq!(shown(&scene, &run)["state"], "succeeded");
}

#[test]
fn a_failed_attempt_is_retried_by_the_rules_of_its_job_or_as_its_worker_says() {
    let scene = ApiScene::start(DEFINING, QUEUE);
    let retry = json!({"limit": 3, "delay": "0s"});
    add(&scene, json!({"name": "a", "retry": retry}));
    let first = claim(&scene, "c1", json!({}))[0].clone();
    for _ in 0..2 {
        let failed = report(&scene, "fail", &first, json!({"error": "no route"}));
        assert_eq!(failed["result"], "ok");
    }
    let second = claim(&scene, "c2", json!({}))[0].clone();
    assert_eq!((&second["run_id"], &second["attempt"]), (&first["run_id"], &json!(2)));
    for verb in ["complete", "release"] {
        assert_eq!(report(&scene, verb, &first, json!({}))["result"], "stale", "{verb}");
    }
    report(&scene, "fail", &second, json!({"error": "later", "retry_in_ms": 3_600_000}));
    let waits = shown(&scene, &second);
    assert_eq!(
        (&waits["state"], &waits["attempts"][1]["error"]),
        (&json!("scheduled"), &json!("later")),
        "{waits}"
    );
    add(&scene, json!({"name": "b", "retry": retry}));
    let only = claim(&scene, "c3", json!({}))[0].clone();
    let failed = report(&scene, "fail", &only, json!({"error": "no such user", "retry": false}));
    assert_eq!(failed["result"], "ok");
    let ended = shown(&scene, &only);
    assert_eq!(
        (&ended["state"], &ended["error"]),
        (&json!("failed"), &json!("no such user")),
        "{ended}"
    );
}

#[test]
fn a_worker_that_dies_loses_its_run_and_its_late_report_changes_nothing() {
    let scene = ApiScene::start(DEFINING, QUEUE);
    add(&scene, json!({"name": "a"}));
    let first = claim(&scene, "c1", json!({"lease_ms": 1_000}))[0].clone();
    let second = until("the run is claimable again", LONG, || {
        claim(&scene, "c2", json!({"wait_ms": 5_000})).first().cloned()
    });
    assert_eq!(second["run_id"], first["run_id"]);
    for verb in ["complete", "release"] {
        assert_eq!(report(&scene, verb, &first, json!({}))["result"], "stale", "{verb}");
    }
    assert_eq!(report(&scene, "heartbeat", &first, json!({}))["result"], "lost");
    assert_eq!(report(&scene, "complete", &second, json!({}))["result"], "ok");
}

#[test]
fn a_late_report_to_the_node_that_handed_out_the_run_changes_nothing() {
    let scene = ApiScene::start(DEFINING, QUEUE);
    let (_second, other) = second_node(&scene);
    add(&scene, json!({"name": "a"}));
    let first = claim(&scene, "c1", json!({"lease_ms": 1_000}))[0].clone();
    let second = until("the run is claimable again", LONG, || {
        claim_at(&other, "c2", json!({"wait_ms": 5_000})).first().cloned()
    });
    assert_eq!(second["run_id"], first["run_id"]);
    assert_eq!(report_at(&other, "complete", &second, json!({"output": "second"}))["result"], "ok");
    assert_eq!(report(&scene, "heartbeat", &first, json!({}))["result"], "lost");
    assert_eq!(report(&scene, "complete", &first, json!({}))["result"], "stale");
    assert_eq!(report(&scene, "complete", &first, json!({"output": "late"}))["result"], "stale");
    let logs = scene.ctl("admin").run(&["logs", second["run_id"].as_str().unwrap()]).good().stdout;
    assert!(logs.contains("second") && !logs.contains("late"), "{logs}");
}

#[test]
fn a_worker_hears_of_a_stop_and_gives_a_run_back() {
    let scene = ApiScene::start(DEFINING, QUEUE);
    add(&scene, json!({"name": "a"}));
    let run = claim(&scene, "c1", json!({}))[0].clone();
    assert_eq!(report(&scene, "release", &run, json!({}))["result"], "ok");
    assert_eq!(report(&scene, "release", &run, json!({}))["result"], "ok");
    let again = claim(&scene, "c2", json!({}))[0].clone();
    assert_eq!((&again["run_id"], &again["attempt"]), (&run["run_id"], &json!(1)));
    let id = again["run_id"].as_str().unwrap();
    scene.post("operator", &format!("/v1/runs/{id}/cancel"), "").of(200);
    let said = scene.ctl("operator").run(&["cancel", id]).good().stdout;
    assert!(said.contains("its worker was asked to stop the run"), "{said}");
    assert_eq!(report(&scene, "heartbeat", &again, json!({}))["result"], "cancel");
    assert_eq!(report(&scene, "fail", &again, json!({"error": "stopped"}))["result"], "ok");
    assert_eq!(shown(&scene, &again)["state"], "cancelled");
    add(&scene, json!({"name": "done"}));
    let done = claim(&scene, "c2b", json!({}))[0].clone();
    let id = done["run_id"].as_str().unwrap();
    scene.post("operator", &format!("/v1/runs/{id}/cancel"), "").of(200);
    assert_eq!(report(&scene, "complete", &done, json!({}))["result"], "ok");
    assert_eq!(shown(&scene, &done)["state"], "succeeded");
    add(&scene, json!({"name": "b"}));
    let later = claim(&scene, "c3", json!({}))[0].clone();
    report(&scene, "release", &later, json!({"delay_ms": 3_600_000}));
    assert!(claim_now(&scene, "c4").is_empty());
}

#[test]
fn an_attempt_whose_worker_is_silent_ends_after_its_timeout_and_not_with_the_lease() {
    let scene = ApiScene::start(DEFINING, QUEUE);
    add(&scene, json!({"name": "a", "timeout": "1s", "retry": {"limit": 1, "delay": "1h"}}));
    let run = claim(&scene, "c1", json!({"lease_ms": 3_600_000}))[0].clone();
    let half = report(&scene, "heartbeat", &run, json!({"progress": {"percent": 33.3}}));
    assert_ne!(half["result"], "lost");
    let ended = until("the attempt has timed out", LONG, || {
        Some(shown(&scene, &run)).filter(|shown| shown["state"] == "scheduled")
    });
    assert_eq!(ended["attempts"][0]["state"], "timed_out", "{ended}");
    assert_eq!(report(&scene, "complete", &run, json!({}))["result"], "stale");
}

#[test]
fn a_job_that_leaves_its_worker_runs_with_its_retries_by_the_new_definition() {
    let scene = ApiScene::start(DEFINING, QUEUE);
    let retry = json!({"limit": 3, "delay": "2s"});
    for name in ["often", "asked", "busy"] {
        let mut job = json!({"name": name, "queue": "mail", "handler": "send", "retry": retry});
        if name == "often" {
            job["every"] = "1s".into();
        }
        scene.post("admin", "/v1/jobs", &job.to_string()).of(201);
    }
    scene.post("admin", "/v1/jobs/asked/run", "").of(200);
    scene.post("admin", "/v1/jobs/busy/run", "").of(200);
    let (mut left, mut busy) = (vec!["asked", "often", "busy"], Value::Null);
    while !left.is_empty() {
        for run in claim(&scene, &format!("c{}", left.len()), json!({"wait_ms": 5_000})) {
            left.retain(|name| run["job"] != *name);
            if run["job"] == "busy" {
                busy = run;
            } else {
                report(&scene, "fail", &run, json!({"error": "no"}));
            }
        }
    }
    for name in ["often", "asked", "busy"] {
        let mut words = vec!["add", "--name", name, "--replace", "--queue", "mail"];
        words.extend(["--retry", "3", "--retry-delay", "2s", "--shell", "echo shell"]);
        if name == "often" {
            words.extend(["--every", "1s"]);
        }
        scene.ctl("admin").run(&words).good();
        if name == "busy" {
            // Its attempt began before the change.
            assert_eq!(report(&scene, "fail", &busy, json!({"error": "no"}))["result"], "ok");
        }
        until(&format!("a run of {name} was retried by the new definition"), LONG, || {
            let runs = scene.get("viewer", &format!("/v1/runs?job={name}")).of(200);
            let runs = runs["items"].as_array()?.clone();
            runs.iter().find(|run| run["state"] == "succeeded" && run["attempt"] == 2).map(drop)
        });
    }
    let found = scene.ctl("admin").run(&["doctor", "--json"]);
    assert!(!found.stdout.contains("wrong:"), "{}", found.stdout);
}

#[test]
fn faulty_questions_and_reports_of_workers_are_refused_with_their_reason() {
    let scene = ApiScene::start(DEFINING, QUEUE);
    for (keys, words) in [
        (json!({"max": 0}), "max: found 0, wanted 1 to 500"),
        (json!({"max": 501}), "max: found 501"),
        (json!({"wait_ms": 55_001}), "wait_ms: found 55001, wanted 0 to 55000"),
        (json!({"lease_ms": 1}), "lease_ms: found 1, wanted 1000 to 43200000"),
        (json!({"claim_id": ""}), "claim_id"),
        (json!({"worker": {"name": "A b"}}), "worker.name"),
        (json!({"worker": {"name": "w", "labels": ["handler:x"]}}), "worker.labels"),
        (json!({"handlers": ["A"]}), "handlers"),
        (json!({"handlers": []}), "handlers: found an empty list"),
        (json!({"max": "many"}), "max: found string \"many\", wanted a whole number"),
        (json!({"max": -1}), "max: found integer -1, wanted a whole number"),
        (json!({"claim_id": 5}), "claim_id: found integer 5, wanted a string"),
        (json!({"worker": {}}), "worker.name: found nothing, wanted a value"),
        (json!({"worker": {"name": 1}}), "worker.name: found integer 1, wanted a string"),
        (json!({"worker": "w"}), "worker: found string \"w\", wanted an object"),
        (json!({"other": 1}), "other: found an unknown member, wanted one of claim_id"),
    ] {
        let answer = scene.post("worker", "/v1/queues/mail/claim", &question("c", keys));
        let problem = answer.problem(422, "invalid");
        assert!(problem["detail"].as_str().unwrap().contains(words), "{words}: {problem}");
    }
    scene.post("worker", "/v1/queues/mail/claim", "{").problem(400, "bad_request");
    scene.post("worker", "/v1/queues/mail/claim", "").problem(400, "bad_request");
    for (verb, item, words) in [
        ("heartbeat", json!({"run_id": "a", "token": "1.x"}), "runs[0].run_id"),
        ("heartbeat", json!({"run_id": "a@1", "token": "x"}), "runs[0].token"),
        ("heartbeat", json!({"run_id": "a@1", "token": "1.x", "output": "y"}), "runs[0].output"),
        (
            "heartbeat",
            json!({"run_id": "a@1", "token": "1.x", "progress": {"percent": 101}}),
            "progress",
        ),
        ("complete", json!({"run_id": 5, "token": "1.x"}), "runs[0].run_id: found integer 5"),
        ("complete", json!({"run_id": "a@1"}), "runs[0].token: found nothing"),
        (
            "heartbeat",
            json!({"run_id": "a@1", "token": "1.x", "progress": {"percent": "x"}}),
            "runs[0].progress.percent: found string \"x\"",
        ),
        ("fail", json!({"run_id": "a@1", "token": "1.x"}), "runs[0].error"),
        (
            "release",
            json!({"run_id": "a@1", "token": "1.x", "delay_ms": 2_592_000_001_u64}),
            "delay_ms",
        ),
    ] {
        let body = json!({"runs": [item]}).to_string();
        let problem =
            scene.post("worker", &format!("/v1/runs/{verb}"), &body).problem(422, "invalid");
        assert!(problem["detail"].as_str().unwrap().contains(words), "{words}: {problem}");
    }
    let key = [("Content-Type", "application/json"), ("Idempotency-Key", "k")];
    let body = question("c", json!({}));
    let answer = scene.probe.send("worker", "POST", "/v1/queues/mail/claim", &key, body.as_bytes());
    answer.problem(400, "bad_request");
}
