//! The rights that `schedctl acl` prints are enough for nodes and verbs, and are no more than those of
//! the commands that the code sends.

use std::collections::BTreeSet;
use std::path::Path;

use redis::Connection;

use crate::support::ctl::{Finished, Schedctl};
use crate::support::daemon::Schedd;
use crate::support::redis::TestRedis;
use crate::support::wait::{LONG, until};

/// Adds the user of a printed line, with the password `secret`, and returns the URL for that user.
fn add_user(redis: &TestRedis, printed: &Finished) -> String {
    let line = printed.stdout.trim().replace("PASSWORD", "secret");
    let rules: Vec<&str> = line.split(' ').skip(1).collect();
    let () = redis::cmd("ACL").arg("SETUSER").arg(&rules).query(&mut redis.connection()).unwrap();
    format!("{}?user={}&pass=secret", redis.url().split('?').next().unwrap(), rules[0])
}

/// Returns the commands, keys and channels that the server has refused, but for two commands that
/// schedd can do without.
fn refused(connection: &mut Connection) -> Vec<String> {
    let log: Vec<Vec<(String, redis::Value)>> =
        redis::cmd("ACL").arg("LOG").query(connection).unwrap();
    let object = |entry: &Vec<(String, redis::Value)>| {
        let found = entry.iter().find(|(name, _)| name == "object")?;
        redis::from_redis_value::<String>(found.1.clone()).ok()
    };
    let objects = log.iter().filter_map(object);
    objects.filter(|object| !["config|get", "slowlog|get"].contains(&&**object)).collect()
}

#[test]
fn a_node_and_all_verbs_work_with_the_printed_rights() {
    let redis = TestRedis::start();
    let url = add_user(&redis, &Schedctl::on(&redis).run(&["acl"]).good());
    let node = Schedd::at(&url)
        .jobs(
            "[jobs.hello]\nevery = \"1s\"\nshell = \"echo hi\"\n\
             [jobs.by-hand]\nshell = \"true\"\n[queues.slow]\nlimit = 1\n",
        )
        .start();
    node.wait_for_log("All jobs of the jobs file are applied");
    let ctl = Schedctl::alone().env("SCHEDD_REDIS_URL", &url);
    until("a run has ended", LONG, || {
        let runs = ctl.run(&["history", "hello", "--json"]).good().json();
        runs.as_array().is_some_and(|runs| !runs.is_empty()).then_some(())
    });
    ctl.run(&["add", "--name", "later", "--in", "1h", "--shell", "true"]).good();
    for words in [
        &["run", "by-hand", "--wait"][..],
        &["pause", "hello"],
        &["resume", "hello"],
        &["queue", "set", "slow", "limit=2"],
        &["explain", "hello"],
        &["logs", "hello"],
        &["export"],
        &["cancel", "later"],
        &["data-loss"],
    ] {
        ctl.run(words).good();
    }
    ctl.run(&["doctor", "--fix"]);
    assert_eq!(refused(&mut redis.connection()), Vec::<String>::new());
}

#[test]
fn a_user_who_only_reads_sees_all_and_changes_nothing() {
    let redis = TestRedis::start();
    let node =
        Schedd::on(&redis).jobs("[jobs.hello]\nevery = \"1h\"\nshell = \"echo hi\"\n").start();
    node.wait_for_log("All jobs of the jobs file are applied");
    let admin = Schedctl::on(&redis);
    let url = add_user(&redis, &admin.run(&["acl", "--read-only", "--user", "viewer"]).good());
    admin.run(&["run", "hello", "--wait"]).good();
    let ctl = Schedctl::alone().env("SCHEDD_REDIS_URL", &url);
    for words in [
        &["list"][..],
        &["show", "hello"],
        &["history"],
        &["next", "hello"],
        &["logs", "hello"],
        &["queues"],
        &["groups"],
        &["nodes"],
        &["stats"],
    ] {
        ctl.run(words).good();
    }
    assert_eq!(refused(&mut redis.connection()), Vec::<String>::new());
    ctl.run(&["pause", "hello"]).refused(69, &["ACL"]);
    ctl.run(&["add", "--in", "1h", "--shell", "true"]).refused(69, &["ACL"]);
}

#[test]
fn an_add_that_the_acl_stops_in_the_middle_is_no_success() {
    let redis = TestRedis::start();
    let mut printed = Schedctl::on(&redis).run(&["acl"]).good();
    printed.stdout = printed.stdout.replace(" +zadd", "");
    let ctl = Schedctl::alone().env("SCHEDD_REDIS_URL", &add_user(&redis, &printed));
    ctl.run(&["add", "--name", "half", "--in", "1h", "--shell", "true"]).refused(69, &["ACL"]);
}

#[test]
fn a_name_with_a_space_is_no_user() {
    let redis = TestRedis::start();
    Schedctl::on(&redis).run(&["acl", "--user", "a b"]).refused(2, &["without spaces"]);
}

/// Returns the first words of all commands that the store sends outside scripts, in lower case.
fn sent_commands(folder: &Path, found: &mut BTreeSet<String>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sent_commands(&path, found);
            continue;
        }
        let text = std::fs::read_to_string(&path).unwrap();
        let text = text.split("#[cfg(test)]").next().unwrap();
        for rest in text.split("cmd(\"").skip(1) {
            found.insert(rest.split('"').next().unwrap().to_ascii_lowercase());
        }
    }
}

#[test]
fn each_command_that_the_store_sends_is_in_the_line() {
    let mut sent = BTreeSet::new();
    sent_commands(&Path::new(env!("CARGO_MANIFEST_DIR")).join("crates/store/src"), &mut sent);
    let line = schedd_store::acl_line("u", &["n"], schedd_store::Rights::All, "redis 7.2", true);
    let allowed: BTreeSet<&str> = line
        .split(' ')
        .filter_map(|word| word.strip_prefix('+'))
        .map(|word| word.split('|').next().unwrap())
        .collect();
    // schedd does without the first two, and Sentinels have users of their own.
    let others = ["config", "slowlog", "sentinel"];
    let missing: Vec<&String> = sent
        .iter()
        .filter(|command| {
            !allowed.contains(command.as_str()) && !others.contains(&command.as_str())
        })
        .collect();
    assert!(missing.is_empty(), "{missing:?}");
    assert!(sent.len() > 20, "the search finds too little: {sent:?}");
}
