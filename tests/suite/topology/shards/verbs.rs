//! Verbs that read or act on one job or run find the shard that has it.

use super::{add_eight, start};
use crate::support::ctl::Schedctl;
use crate::support::redis::TestRedis;
use crate::support::wait::{LONG, until};

#[test]
fn verbs_find_the_shard_of_a_job_that_waits() {
    let redis = TestRedis::start();
    let _node = start(&redis);
    let ctl = Schedctl::on(&redis);
    let names = add_eight(&redis, &ctl, |number| format!("{}m", 60 + number));
    let exported = ctl.run(&["export", "--json"]).good().json();
    assert!(exported["jobs"].as_object().unwrap().keys().eq(&names), "{exported}");
    for name in names {
        assert_eq!(ctl.run(&["show", &name, "--json"]).good().json()["name"], *name);
        let planned = ctl.run(&["next", &name, "--json"]).good().json();
        assert_eq!(planned.as_array().unwrap().len(), 1, "{planned}");
        for words in [
            &["explain", &name][..],
            &["describe", &name],
            &["show", &format!("{name}@next")],
            &["history", &name],
            &["logs", &name],
            &["history", &format!("{name}/on_failure")],
            &["pause", &name],
            &["resume", &name],
            &["next", &name, "--set", "in 2h"],
            &["cancel", &name],
        ] {
            ctl.run(words).good();
        }
        assert_eq!(ctl.run(&["show", &name, "--json"]).good().json()["state"], "finished");
    }
    let left = ctl.run(&["list", "--json"]).good().json();
    assert_eq!(left.as_array().unwrap().len(), 0, "{left}");
    ctl.run(&["show", "mail-77"]).refused(3, &["mail-77"]);
}

#[test]
fn verbs_find_the_shard_of_a_run_that_ended() {
    let redis = TestRedis::start();
    let _node = start(&redis);
    let ctl = Schedctl::on(&redis);
    let names = add_eight(&redis, &ctl, |_| "1s".to_owned());
    for (number, name) in names.iter().enumerate() {
        let runs = until("the run has ended", LONG, || {
            let runs = ctl.run(&["history", name, "--json"]).good().json();
            (runs[0]["state"] == "succeeded").then_some(runs)
        });
        let id = runs[0]["run_id"].as_str().unwrap();
        let (part, last) = (&id[..id.len() - 3], format!("{name}@last"));
        for run in [id, part, &last, name] {
            assert_eq!(ctl.run(&["logs", run]).good().stdout, format!("out {number}\n"), "{run}");
        }
        let followed = ctl.run(&["logs", "-f", id]).good();
        assert_eq!(followed.stdout, format!("out {number}\n"));
        for verb in ["show", "explain"] {
            ctl.run(&[verb, id]).good();
        }
        ctl.run(&["cancel", id]).refused(4, &["succeeded"]);
    }
    // A short id of the table names the run.
    let table = ctl.run(&["history", "--no-headers"]).good().stdout;
    let short = table.split_whitespace().find(|word| word.starts_with("mail-3@")).unwrap();
    ctl.run(&["show", short]).good();
    ctl.run(&["rerun", "mail-3@last", "--wait"]).good();
}

#[test]
fn dead_letters_of_all_shards_are_retried_and_purged() {
    let redis = TestRedis::start();
    let _node = start(&redis);
    let ctl = Schedctl::on(&redis);
    for number in 0..8 {
        let name = format!("mail-{number}");
        let words = ["--queue", "mail", "--in", "0s", "--shell", "exit 1"];
        ctl.run(&[&["add", "--name", &name][..], &words].concat()).good();
    }
    let dead = |count: usize| {
        until("all runs have failed", LONG, || {
            let dead = ctl.run(&["history", "--dead", "--json"]).good().json();
            (dead.as_array().unwrap().len() == count).then_some(())
        });
    };
    dead(8);
    let retried = ctl.run(&["retry", "--dead", "--json"]).good().json();
    assert_eq!(retried.as_array().unwrap().len(), 8, "{retried}");
    dead(8);
    let purged = ctl.run(&["purge", "--dead", "--keep", "3", "--json"]).good().json();
    assert_eq!(purged["purged"], 5, "{purged}");
    dead(3);
}

#[test]
fn a_pause_of_a_spread_queue_stops_all_shards() {
    let redis = TestRedis::start();
    let _node = start(&redis);
    let ctl = Schedctl::on(&redis);
    ctl.run(&["queue", "pause", "mail"]).good();
    let names = add_eight(&redis, &ctl, |_| "0s".to_owned());
    let queue = || {
        let queues = ctl.run(&["queues", "--json"]).good().json();
        queues.as_array().unwrap().iter().find(|queue| queue["name"] == "mail").unwrap().clone()
    };
    until("all runs are ready", LONG, || (queue()["depth"] == 8).then_some(()));
    assert_eq!(queue()["state"], "paused");
    ctl.run(&["queue", "set", "mail", "concurrency=3"]).good();
    ctl.run(&["queue", "resume", "mail"]).good();
    for name in &names {
        until("the run has ended", LONG, || {
            let runs = ctl.run(&["history", name, "--json"]).good().json();
            (runs[0]["state"] == "succeeded").then_some(())
        });
    }
    assert_eq!(queue()["concurrency"], 3);
}

#[test]
fn a_data_loss_of_a_shard_is_listed_with_the_shard() {
    let redis = TestRedis::start();
    let _node = start(&redis);
    let ctl = Schedctl::on(&redis);
    add_eight(&redis, &ctl, |_| "1h".to_owned());
    assert_eq!(ctl.run(&["data-loss", "--json"]).good().json(), serde_json::json!([]));
    let () = redis::cmd("DEL").arg("{schedd.2}:epoch").query(&mut redis.connection()).unwrap();
    until("a node has noticed the loss", LONG, || {
        let losses = ctl.run(&["data-loss", "--json"]).good().json();
        (losses[0]["shard"] == 2).then_some(())
    });
    let table = ctl.run(&["data-loss"]).good().stdout;
    assert!(table.contains(", shard 2 "), "{table}");
    let nodes = ctl.run(&["nodes"]).good().stderr;
    assert!(nodes.contains("Redis has lost data once"), "{nodes}");
}
