//! With `durability = "replicated"`, what schedd acknowledges is on a replica. The replica is real,
//! and its connection is cut.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use serde_json::json;

use super::tcp_server::TcpServer;
use super::watched::Watched;

use crate::api::{ApiScene, DEFINING};
use crate::support::ctl::Schedctl;
use crate::support::daemon::Schedd;
use crate::support::effects::Effects;
use crate::support::redis::TestRedis;
use crate::support::replica::Replica;
use crate::support::wait::{LONG, until};

fn replicated(redis: &TestRedis) -> String {
    format!("{}?durability=replicated", redis.url())
}

/// Returns true if `redis` has a key of this name in the namespace.
fn has(redis: &TestRedis, key: &str) -> bool {
    let key = format!("{{schedd}}:{key}");
    redis::cmd("EXISTS").arg(key).query(&mut redis.connection()).unwrap()
}

#[test]
fn an_acknowledged_add_is_on_the_replica_and_another_ends_with_75() {
    let redis = TestRedis::start();
    let ctl = Schedctl::alone().env("SCHEDD_REDIS_URL", &replicated(&redis));
    let add = |name: &str| ctl.run(&["add", "--name", name, "--in", "1h", "--shell", "true"]);
    add("alone").refused(75, &["0 of 1 replicas", "a failover may lose it"]);
    let replica = Replica::of(&redis);
    for number in 0..5 {
        let name = format!("kept{number}");
        add(&name).good();
        assert!(has(&replica.redis, &format!("job:{name}")), "{name}");
    }
    replica.cut();
    add("cut").refused(75, &["0 of 1 replicas"]);
    let error = ctl.run(&["add", "--json", "--in", "1h", "--shell", "true"]);
    let error: serde_json::Value = serde_json::from_str(&error.stderr).unwrap();
    assert_eq!((&error["kind"], &error["exit_code"]), (&json!("not_replicated"), &json!(75)));
    let bulk = ctl.run_with_input(
        &["add", "--stdin"],
        b"{\"name\":\"bulk\",\"in\":\"1h\",\"shell\":\"true\"}\n",
    );
    bulk.refused(75, &["line 1", "0 of 1 replicas"]);
    let other = ctl.run_with_input(
        &["add", "--stdin"],
        b"{\"name\":\"cut\",\"in\":\"2h\",\"shell\":\"true\"}\n{}\n",
    );
    assert_eq!(other.code, 1, "{other:?}");
    for name in ["alone", "cut", "bulk"] {
        ctl.run(&["show", name]).good();
        assert_eq!(has(&replica.redis, &format!("job:{name}")), name == "alone", "{name}");
    }
    let if_absent = ["add", "--name", "cut", "--in", "1h", "--shell", "true", "--if-absent"];
    ctl.run(&if_absent).refused(75, &["0 of 1 replicas"]);
    replica.mend();
    let mut number = 0;
    until("an add is acknowledged again", LONG, || {
        number += 1;
        (add(&format!("again{number}")).code == 0).then_some(())
    });
    assert!(has(&replica.redis, &format!("job:again{number}")) && has(&replica.redis, "job:cut"));
}

#[test]
fn an_at_most_once_run_starts_when_a_replica_has_its_mark_and_others_do_not_wait() {
    let redis = TestRedis::start();
    let replica = Replica::of(&redis);
    let effects = Effects::new();
    let jobs = format!(
        "[jobs.once]\ndelivery = \"at-most-once\"\nshell = {0:?}\n[jobs.often]\nshell = {0:?}\n",
        effects.shell("true")
    );
    let node = Schedd::at(&replicated(&redis)).jobs(&jobs).start();
    node.wait_for_log("All jobs of the jobs file are applied");
    replica.cut();
    let ctl = Schedctl::alone().env("SCHEDD_REDIS_URL", &redis.url());
    ctl.run(&["run", "once"]).good();
    ctl.run(&["run", "often", "--wait"]).good();
    node.wait_for_log("runs with at-most-once delivery do not start");
    node.wait_for_log("a failover may lose the ends of runs");
    assert_eq!((effects.of("once").len(), effects.of("often").len()), (0, 1));
    replica.mend();
    until("the run has ended", LONG, || {
        let run = ctl.run(&["history", "once", "--json"]).json();
        (run[0]["state"] == "succeeded").then_some(())
    });
    assert_eq!(effects.of("once").len(), 1);
    ctl.run(&["doctor"]).good();
}

#[test]
fn a_worker_gets_and_ends_runs_as_far_as_the_replica_has_them() {
    let redis = TestRedis::start();
    let replica = Replica::of(&redis);
    let url = replicated(&redis);
    let scene = ApiScene::start_at(redis, &url, DEFINING, "[queues.mail]\n");
    let add = |name: &str, delivery: &str| {
        let job = json!({"name": name, "in": "0s", "queue": "mail", "handler": "send", "delivery": delivery});
        scene.post("admin", "/v1/jobs", &job.to_string()).status
    };
    let claim = |id: &str| {
        let question = json!({"claim_id": id, "worker": {"name": "w"}, "max": 5, "wait_ms": 1});
        let path = "/v1/queues/mail/claim";
        scene.post("worker", path, &question.to_string()).of(200)["runs"].clone()
    };
    let complete = |run: &serde_json::Value| {
        let body = json!({"runs": [{"run_id": run["run_id"], "token": run["token"]}]});
        scene.post("worker", "/v1/runs/complete", &body.to_string())
    };
    assert_eq!((add("often", "at-least-once"), add("once", "at-most-once")), (201, 201));
    replica.cut();
    let runs = claim("first");
    assert_eq!((runs.as_array().unwrap().len(), &runs[0]["job"]), (1, &json!("often")));
    let refused = complete(&runs[0]);
    assert_eq!((refused.status, &refused.json()["code"]), (503, &json!("not_replicated")));
    replica.mend();
    let done = until("the report is taken", LONG, || {
        Some(complete(&runs[0])).filter(|answer| answer.status == 200)
    });
    assert_eq!(done.json()["runs"][0]["result"], "ok");
    let once = until("the other run is handed out", LONG, || {
        claim("second").as_array().unwrap().first().cloned()
    });
    assert_eq!((&once["job"], &once["attempt"]), (&json!("once"), &json!(1)));
    assert_eq!(complete(&once).of(200)["runs"][0]["result"], "ok");
}

/// The primary is killed while jobs are added, again and again. Each job whose add was acknowledged
/// is on the new primary. `SCHEDD_FAILOVERS` is the number of rounds.
#[test]
fn no_acknowledged_add_is_lost_by_a_killed_primary() {
    const ADDERS: usize = 3;
    let rounds = std::env::var("SCHEDD_FAILOVERS").map_or(2, |count| count.parse().unwrap());
    let mut watched = Watched::start();
    let hosts = watched.sentinels.iter().map(TcpServer::address);
    let hosts = hosts.collect::<Vec<_>>().join(",");
    let url = format!("redis+sentinel://{hosts}/prime?durability=replicated");
    let acknowledged = Mutex::new(Vec::new());
    for round in 0..rounds {
        let before = acknowledged.lock().unwrap().len();
        let is_over = AtomicBool::new(false);
        thread::scope(|scope| {
            for adder in 0..ADDERS {
                let (url, is_over, acknowledged) = (&url, &is_over, &acknowledged);
                scope.spawn(move || {
                    let ctl = Schedctl::alone().env("SCHEDD_REDIS_URL", url);
                    for number in 0.. {
                        if is_over.load(Ordering::SeqCst) {
                            break;
                        }
                        let name = format!("r{round}-{adder}-{number}");
                        let add = ["add", "--name", &name, "--in", "1h", "--shell", "true"];
                        if ctl.run(&add).code == 0 {
                            acknowledged.lock().unwrap().push(name);
                        }
                    }
                });
            }
            let count = || acknowledged.lock().unwrap().len();
            until("some adds are acknowledged", LONG, || (count() > before + 5).then_some(()));
            thread::sleep(Duration::from_millis(fastrand::u64(..300)));
            watched.servers[0].kill9();
            watched.until_promoted(1);
            watched.until_named(1);
            is_over.store(true, Ordering::SeqCst);
        });
        watched.servers.swap(0, 1);
        for name in &*acknowledged.lock().unwrap() {
            let key = format!("{{schedd}}:job:{name}");
            assert_eq!(watched.servers[0].ask(&["EXISTS", &key]), Ok(1), "{name} is lost");
        }
        watched.restart_as_replica(1, 0);
        watched.until_complete();
    }
    let count = acknowledged.lock().unwrap().len();
    eprintln!("{count} acknowledged adds are there after {rounds} failovers");
}
