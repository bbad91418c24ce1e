//! `schedctl doctor` as its users meet it: its groups, its codes, its JSON.

use redis::Commands;
use serde_json::{Value, json};

use crate::support::ctl::Schedctl;
use crate::support::daemon::Schedd;
use crate::support::eye::Eye;
use crate::support::redis::TestRedis;
use crate::support::wait::{LONG, until};

fn level(document: &Value, group: &str, name: &str) -> String {
    let lines = document[group].as_array().unwrap_or_else(|| panic!("no {group}: {document:#}"));
    let line = lines
        .iter()
        .find(|line| line["name"] == name)
        .unwrap_or_else(|| panic!("no {name}: {lines:#?}"));
    line["level"].as_str().unwrap().to_owned()
}

#[test]
fn nothing_wrong_is_code_0_with_every_group_there_and_warnings_change_no_code() {
    let redis = TestRedis::start();
    let ctl = Schedctl::on(&redis);
    let reported = ctl.run(&["doctor"]).good();
    for word in [
        "redis",
        "nodes",
        "sources",
        "consistency",
        "quarantine",
        "host",
        "eviction",
        "memory",
        "script time",
        "replicas",
    ] {
        assert!(reported.stdout.contains(word), "no {word}: {}", reported.stdout);
    }
    let document = ctl.run(&["doctor", "--json"]).good().json();
    assert_eq!((document["ok"].clone(), document["findings"].clone()), (json!(true), json!([])));
    assert_eq!(level(&document, "redis", "persistence"), "warn");
    assert_eq!(level(&document, "nodes", "nodes"), "warn");
    assert_eq!(level(&document, "host", "limits"), "note");
}

#[test]
fn a_finding_is_code_1_and_mending_it_says_what_was_done_and_is_code_0() {
    let redis = TestRedis::start();
    let ctl = Schedctl::on(&redis);
    Eye::on(&redis).add(&json!({"name": "a", "every": "1h", "shell": "true"}));
    let _: () = redis.connection().zrem("{schedd}:jobs", "a").unwrap();
    let reported = ctl.run(&["doctor"]);
    assert_eq!(reported.code, 1, "{reported:?}");
    assert!(
        reported.stdout.contains("missing:jobs")
            && reported.stdout.contains("--fix adds the missing entry"),
        "{}",
        reported.stdout
    );
    let document = ctl.run(&["doctor", "--fix", "--json"]).good().json();
    assert_eq!(document["mended"][0]["finding"], "missing:jobs", "{document:#}");
    assert_eq!(document["mended"][0]["done"], json!(["added to the index of live jobs"]));
    ctl.run(&["doctor"]).good();
}

#[test]
fn no_node_checking_the_records_for_long_is_a_warning_only_while_a_node_runs() {
    let redis = TestRedis::start();
    let ctl = Schedctl::on(&redis);
    let eye = Eye::on(&redis);
    let now = eye.ask(eye.store().now()).unwrap().as_i64();
    let ago = |minutes: i64| now - minutes * 60_000;
    let mut connection = redis.connection();
    let mut reported = |started: i64, looked: Option<i64>| {
        // Seen last in a moment to come, so that it stays there however slow the test is.
        let _: i64 = connection.zadd("{schedd}:nodes", "one", now + 600_000).unwrap();
        let fields = [
            ("state", "running".to_owned()),
            ("incarnation", "i".to_owned()),
            ("version", "0".to_owned()),
        ];
        let _: () = connection.hset_multiple("{schedd}:node:one", &fields).unwrap();
        let _: () = connection.hset("{schedd}:node:one", "started_at", started).unwrap();
        if let Some(at) = looked {
            let _: () = connection
                .hset_multiple(
                    "{schedd}:consistency_check",
                    &[("at", at), ("findings", 0), ("round_at", ago(60))],
                )
                .unwrap();
        }
        let document = ctl.run(&["doctor", "--json"]).good().json();
        let row = document["consistency"]
            .as_array()
            .unwrap()
            .iter()
            .find(|row| row["name"] == "slow check")
            .unwrap()
            .clone();
        (row["level"].as_str().unwrap().to_owned(), row["text"].as_str().unwrap().to_owned())
    };
    assert_eq!(reported(ago(5), None).0, "ok", "it has hardly begun");
    assert_eq!(reported(ago(300), None).0, "warn");
    let (level, text) = reported(ago(300), Some(ago(120)));
    assert!(
        level == "warn"
            && text.contains("last checked 2h")
            && text.contains("no node checked a part of the data"),
        "{level} {text}"
    );
    let (level, text) = reported(ago(300), Some(ago(2)));
    assert!(
        level == "ok" && text.contains("the last check of all data ended 1h"),
        "{level} {text}"
    );
    // After a night in which no node was there nothing is wrong yet.
    assert_eq!(reported(ago(5), Some(ago(500))).0, "ok");
}

#[test]
fn a_redis_that_may_drop_keys_is_reported_and_is_code_1() {
    let redis = TestRedis::start();
    let () = redis::cmd("CONFIG")
        .arg("SET")
        .arg("maxmemory-policy")
        .arg("allkeys-lru")
        .query(&mut redis.connection())
        .unwrap();
    let reported = Schedctl::on(&redis).run(&["doctor"]);
    assert_eq!(reported.code, 1, "{reported:?}");
    assert!(
        reported.stdout.contains("allkeys-lru") && reported.stdout.contains("noeviction"),
        "{}",
        reported.stdout
    );
}

#[test]
fn a_redis_nobody_reaches_is_code_69() {
    Schedctl::alone()
        .env("SCHEDD_REDIS_URL", "redis://127.0.0.1:1")
        .run(&["doctor"])
        .refused(69, &["reached"]);
}

#[test]
fn a_namespace_spelt_otherwise_is_reported() {
    let redis = TestRedis::start();
    let _: () = redis.connection().set("{SchedD}:fence", "5").unwrap();
    let document = Schedctl::on(&redis).run(&["doctor", "--json"]).good().json();
    assert_eq!(level(&document, "redis", "namespace"), "warn");
}

#[test]
fn a_node_publishes_how_far_its_clock_is_off_and_a_file_it_does_not_take_is_code_1() {
    let redis = TestRedis::start();
    let ctl = Schedctl::on(&redis);
    let node =
        Schedd::on(&redis).node("one").jobs("[jobs.a]\nevery = \"1h\"\nshell = \"true\"\n").start();
    let nodes = until("its clock is known", LONG, || {
        let nodes = ctl.run(&["nodes", "--json"]).good().json();
        Some(nodes).filter(|nodes| nodes[0]["clock_offset_ms"].is_i64())
    });
    assert!(nodes[0]["clock_offset_ms"].as_i64().unwrap().abs() < 1_000, "{nodes}");
    assert_eq!(level(&ctl.run(&["doctor", "--json"]).good().json(), "nodes", "one"), "ok");
    let _: () = redis.connection().hset("{schedd}:node:two", "clock_offset_ms", "-5000").unwrap();
    let _: () = redis.connection().hset("{schedd}:node:two", "state", "running").unwrap();
    let now: Vec<i64> = redis::cmd("TIME").query(&mut redis.connection()).unwrap();
    let _: i64 = redis.connection().zadd("{schedd}:nodes", "two", now[0] * 1_000).unwrap();
    let reported = ctl.run(&["doctor", "--json"]).good().json();
    assert_eq!(level(&reported, "nodes", "two"), "warn", "{reported:#}");
    std::fs::write(node.jobs_file(), "[jobs.a]\nevry = \"1h\"\n").unwrap();
    node.hup();
    let reported = until("the file is refused", LONG, || {
        Some(ctl.run(&["doctor", "--json"])).filter(|reported| reported.code == 1)
    });
    assert_eq!(level(&reported.json(), "sources", "one"), "fail");
}

#[test]
fn runs_that_are_due_while_no_schedd_is_there_are_code_1() {
    let redis = TestRedis::start();
    let (ctl, eye) = (Schedctl::on(&redis), Eye::on(&redis));
    eye.add(&json!({"name": "a", "in": "0s", "shell": "true"}));
    let reported = ctl.run(&["doctor", "--json"]);
    assert_eq!((reported.code, level(&reported.json(), "nodes", "overdue").as_str()), (1, "fail"));
    let _node = Schedd::on(&redis).start();
    eye.wait_for_history("a", 1);
    ctl.run(&["doctor"]).good();
}

#[test]
fn recent_data_loss_is_a_warning_with_details_and_after_a_week_a_note() {
    let redis = TestRedis::start();
    let (ctl, eye) = (Schedctl::on(&redis), Eye::on(&redis));
    let row = |ctl: &Schedctl| -> (Value, Value) {
        let reported = ctl.run(&["doctor", "--json"]).json();
        let row = reported["redis"]
            .as_array()
            .unwrap()
            .iter()
            .find(|row| row["name"] == "data loss")
            .unwrap()
            .clone();
        (row["level"].clone(), row["text"].clone())
    };
    let node = Schedd::on(&redis).start();
    eye.add(&json!({"name": "a", "every": "1h", "shell": "true"}));
    until("the node's journal knows the job", LONG, || {
        let files =
            std::fs::read_dir(node.state_home().join("schedd")).into_iter().flatten().flatten();
        let texts = files.filter_map(|file| std::fs::read_to_string(file.path()).ok());
        texts.into_iter().any(|text| text.contains("\"n\":\"a\"")).then_some(())
    });
    assert_eq!(row(&ctl), (json!("ok"), json!("none: no node ever found data missing")));
    let () = redis::cmd("FLUSHALL").query(&mut redis.connection()).unwrap();
    let (_, text) =
        until("the loss is told", LONG, || Some(row(&ctl)).filter(|(level, _)| *level == "warn"));
    let text = text.as_str().unwrap().to_owned();
    for word in ["(flushed)", "1 data loss so far, listed by schedctl data-loss"] {
        assert!(text.contains(word), "{text}");
    }
    until("what is gone is told", LONG, || {
        row(&ctl).1.as_str().filter(|text| text.contains("at least 1 job gone")).map(|_| ())
    });
    let members: Vec<(String, i64)> =
        redis.connection().zrange_withscores("{schedd}:data_losses", 0, -1).unwrap();
    for (member, at) in members {
        let _: i64 =
            redis.connection().zadd("{schedd}:data_losses", member, at - 8 * 86_400_000).unwrap();
    }
    assert_eq!(row(&ctl).0, "note");
}
