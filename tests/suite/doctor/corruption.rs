//! Garbage in every key while a node runs: it lives on, other jobs run, `doctor` names the key, and mends what it says.

use redis::Commands;
use serde_json::json;

use crate::support::ctl::Schedctl;
use crate::support::daemon::Schedd;
use crate::support::eye::Eye;
use crate::support::redis::TestRedis;
use crate::support::wait::{LONG, until};

/// What is written, and whether the key is lost for it.
const GARBAGE: [(&str, &[&[u8]]); 3] = [
    ("RPUSH", &[b"not ours"]),
    ("SET", &[b"\xff\xfe\x00 no text"]),
    ("SADD", &[b"{\"every\":", b"-1", b"1e300"]),
];

const FILE: &str = "[daemon]\nlease = \"2s\"\n[queues.other]\nconcurrency = 2\n[jobs.filed]\nevery = \"1h\"\nshell = \"true\"\n\
    [jobs.booted]\ncron = \"@reboot\"\nshell = \"true\"\n";

/// Values a field is damaged with.
const DAMAGED: [&[u8]; 7] =
    [b"", b"\xff\xfe", b"-1", b"nan", b"1e300", b"{\"every\":", &[b'x'; 100_000]];

/// Every key there is but what was moved aside.
fn keys(redis: &TestRedis) -> Vec<String> {
    let mut keys: Vec<String> = redis.connection().keys("{schedd}:*").unwrap();
    keys.retain(|key| !key.contains(":quarantined:"));
    keys.sort();
    keys
}

/// Whoever asks is answered: what cannot be read is one clear line at worst.
#[track_caller]
fn assert_answers(redis: &TestRedis, what: &str) {
    let ctl = Schedctl::on(redis);
    for words in [
        &["explain", "beat", "--last"][..],
        &["stats"],
        &["list"],
        &["nodes"],
        &["history"],
        &["data-loss"],
        &["show", "beat"],
    ] {
        let reported = ctl.run(words);
        assert!(reported.code < 70, "{words:?} beside {what}: {reported:?}");
        assert!(!reported.stderr.contains("panicked"), "{words:?} beside {what}: {reported:?}");
    }
}

fn type_of(redis: &TestRedis, key: &str) -> String {
    redis::cmd("TYPE").arg(key).query(&mut redis.connection()).unwrap()
}

/// A namespace with something of every kind in it, and a node at work.
fn busy() -> (TestRedis, Schedd) {
    let redis = TestRedis::start();
    let eye = Eye::on(&redis);
    let node = Schedd::on(&redis).node("one").jobs(FILE).start();
    node.wait_for_log("All jobs of the jobs file are applied");
    eye.add(&json!({"name": "ended", "in": "0s", "shell": "echo hello"}));
    eye.add(&json!({"name": "failed", "in": "0s", "shell": "exit 3"}));
    eye.add(&json!({"name": "beat", "every": "1h", "shell": "true"}));
    eye.add(&json!({"name": "slow", "every": "1h", "shell": "sleep 300"}));
    let ctl = Schedctl::on(&redis);
    ctl.run(&["backfill", "slow", "--from", "5h ago", "--to", "now", "--yes"]).good();
    ctl.run(&["pause", "beat"]).good();
    ctl.run(&["resume", "beat"]).good();
    let mut connection = redis.connection();
    let _: i64 = connection
        .zadd("{schedd}:ledger:beat", "1700000060000:2:succeeded:", 1_700_000_000_000_i64)
        .unwrap();
    let _: i64 = connection.hset("{schedd}:counters", "ledger_ranges", 1).unwrap();
    let _: i64 =
        connection.hset("{schedd}:ledger_before:beat", "latest", 1_700_000_060_000_i64).unwrap();
    let report =
        r#"{"report":{"epoch":"x","node":"one","restored":0,"lost":0,"jobs_gone":0,"gone":[]}}"#;
    let _: i64 = connection.zadd("{schedd}:data_losses", report, 1_700_000_000_000_i64).unwrap();
    let _: i64 = connection.zadd("{schedd}:due:default", "garbage", 5).unwrap();
    redis.count_change();
    until("garbage is in quarantine", LONG, || {
        Some(()).filter(|()| connection.exists("{schedd}:quarantine").unwrap())
    });
    until("the boot is noted", LONG, || {
        Some(()).filter(|()| connection.exists("{schedd}:boots").unwrap())
    });
    eye.wait_for_history("ended", 1);
    eye.wait_for_history("failed", 1);
    (redis, node)
}

#[track_caller]
fn assert_alive(redis: &TestRedis, node: &Schedd, number: usize, what: &str) {
    let ctl = Schedctl::on(redis);
    let name = format!("after{number}");
    ctl.run(&["add", "--name", &name, "--in", "0s", "--shell", "true"]).good();
    let eye = Eye::on(redis);
    until(&format!("another job runs beside {what}; {}", node.log()), LONG, || {
        eye.history(&name).into_iter().next()
    });
}

#[test]
fn a_key_that_holds_something_else_is_named_and_mended_and_the_node_lives_on() {
    let (redis, node) = busy();
    let ctl = Schedctl::on(&redis);
    ctl.run(&["doctor"]).good();
    let mut number = 0;
    for key in keys(&redis) {
        let (command, values) = GARBAGE[number % GARBAGE.len()];
        let wanted = type_of(&redis, &key);
        let mark: Option<Vec<u8>> =
            key.ends_with(":epoch").then(|| redis.connection().get(&key).unwrap());
        let _: () = redis.connection().del(&key).unwrap();
        let _: redis::Value =
            redis::cmd(command).arg(&key).arg(values).query(&mut redis.connection()).unwrap();
        if type_of(&redis, &key) == wanted {
            // A text where a text belongs: the counters' own tests. The epoch of the data is mended by hand, as doctor says.
            if let Some(mark) = mark {
                let reported = ctl.run(&["doctor"]);
                assert!(
                    reported.code == 1 && reported.stdout.contains("the epoch of the data"),
                    "{reported:?}"
                );
                let _: () = redis.connection().set(&key, mark).unwrap();
            }
            continue;
        }
        assert_answers(&redis, &key);
        let reported = ctl.run(&["doctor", "--json"]);
        assert_eq!(reported.code, 1, "{key}: {reported:?}");
        let findings = reported.json()["findings"].clone();
        let is_named = findings.as_array().unwrap().iter().any(|item| {
            item["finding"].as_str().unwrap().starts_with("unreadable:") && item["key"] == *key
        });
        assert!(is_named, "{key} is not named: {findings:#}");
        let fixed = ctl.run(&["doctor", "--fix", "--json"]);
        assert_eq!(fixed.json()["findings"], json!([]), "{key} is not mended: {:#}", fixed.json());
        // A node that met it tells so until it looks again.
        until(&format!("all is well after {key}"), LONG, || {
            Some(()).filter(|()| ctl.run(&["doctor"]).code == 0)
        });
        assert_alive(&redis, &node, number, &key);
        number += 1;
    }
    assert!(number > 15, "only {number} keys");
    // The list of what was moved aside was moved aside too, so the keys themselves are counted.
    let kept: Vec<String> = redis.connection().keys("{schedd}:quarantined:*").unwrap();
    assert!(kept.len() >= number, "{} of {number} are kept", kept.len());
}

#[test]
fn corruption_in_any_key_stops_nothing_and_doctor_mends_it_or_says_how() {
    let (redis, node) = busy();
    let ctl = Schedctl::on(&redis);
    let mut connection = redis.connection();
    for (number, key) in keys(&redis).into_iter().enumerate() {
        let value = DAMAGED[number % DAMAGED.len()];
        match type_of(&redis, &key).as_str() {
            "hash" => {
                let fields: Vec<Vec<u8>> = connection.hkeys(&key).unwrap();
                for field in fields {
                    let _: () = connection.hset(&key, field, value).unwrap();
                }
            }
            "zset" => {
                for (score, member) in [
                    ("inf", &b"a@5"[..]),
                    ("-inf", b"\xff\xfe"),
                    ("1e300", b"garbage"),
                    ("5", value),
                ] {
                    let _: i64 = redis::cmd("ZADD")
                        .arg(&key)
                        .arg(score)
                        .arg(member)
                        .query(&mut connection)
                        .unwrap();
                }
            }
            _ => {
                let _: () = connection.set(&key, value).unwrap();
            }
        }
        assert_answers(&redis, &key);
        assert_alive(&redis, &node, number, &key);
    }
    // What no rule mends says what a person can do, who does it; what that uncovers is mended or told again.
    for _ in 0..3 {
        for finding in
            ctl.run(&["doctor", "--fix", "--json"]).json()["findings"].as_array().unwrap()
        {
            assert_eq!(finding["fixable"], false, "{finding:#}");
            let advice = finding["mend"].as_str().unwrap();
            let words = advice.split_once("schedctl ").unwrap_or_else(|| panic!("{finding:#}")).1;
            let words: Vec<&str> = match words.split_once("--set-aside ") {
                Some((_, target)) => vec!["doctor", "--set-aside", target],
                None => words.split(' ').take(2).collect(),
            };
            // One may be gone with what was done about another.
            let done = ctl
                .run(&words.iter().map(|word| word.split(';').next().unwrap()).collect::<Vec<_>>());
            assert!(matches!(done.code, 0 | 1 | 3 | 4), "{words:?}: {done:?}");
        }
    }
    // What a node tells of itself is right again when it has the name again that its damaged record gave to another.
    until("doctor is clean", LONG, || {
        Some(()).filter(|()| ctl.run(&["doctor", "--fix", "--json"]).code == 0)
    });
    assert_alive(&redis, &node, 1_000, "what was mended");
}
