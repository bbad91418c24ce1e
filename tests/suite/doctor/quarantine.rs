//! Moving aside and back, by the command line.

use redis::Commands;
use serde_json::json;

use crate::support::ctl::Schedctl;
use crate::support::daemon::Schedd;
use crate::support::eye::Eye;
use crate::support::redis::TestRedis;
use crate::support::wait::{LONG, until};

#[test]
fn a_corrupt_definition_set_aside_is_restored_only_once_it_can_be_read() {
    let redis = TestRedis::start();
    let eye = Eye::on(&redis);
    let ctl = Schedctl::on(&redis);
    eye.add(&json!({"name": "a", "every": "1h", "shell": "true"}));
    ctl.run(&["doctor", "--set-aside", "a"]).refused(4, &["can be read"]);
    ctl.run(&["doctor", "--set-aside", "nobody"]).refused(3, &["does not exist"]);
    let good: String = redis.connection().hget("{schedd}:job:a", "def").unwrap();
    let _: () = redis.connection().hset("{schedd}:job:a", "def", "{\"every\":").unwrap();
    let reported = ctl.run(&["doctor"]);
    assert!(reported.code == 1 && reported.stdout.contains("--set-aside a"), "{reported:?}");
    let aside = ctl.run(&["doctor", "--set-aside", "a", "--json"]).good().json()["aside"]
        .as_str()
        .unwrap()
        .to_owned();
    // What named it is mended without it.
    ctl.run(&["doctor", "--fix"]).good();
    let entries = ctl.run(&["doctor", "--json"]).good().json()["quarantine"]["entries"].clone();
    let entry = entries.as_array().unwrap().iter().find(|entry| entry["aside"] == *aside).unwrap();
    let name = entry["name"].as_str().unwrap().to_owned();
    ctl.run(&["doctor", "--restore", &name]).refused(4, &["damaged"]);
    let _: () = redis.connection().hset(&aside, "def", good).unwrap();
    ctl.run(&["doctor", "--restore", &name]).good();
    ctl.run(&["doctor", "--restore", &name]).refused(3, &["no entry"]);
    ctl.run(&["doctor", "--fix"]).good();
    ctl.run(&["doctor"]).good();
    assert!(eye.job("a").unwrap().pending.is_some());
}

#[test]
fn a_job_of_a_file_that_was_set_aside_comes_back_with_the_file() {
    let redis = TestRedis::start();
    let eye = Eye::on(&redis);
    let node = Schedd::on(&redis)
        .node("one")
        .jobs("[jobs.a]\ncron = \"0 0 1 1 *\"\nshell = \"true\"\n")
        .start();
    node.wait_for_log("All jobs of the jobs file are applied");
    let _: () = redis.connection().hset("{schedd}:job:a", "def", "{\"every\":").unwrap();
    Schedctl::on(&redis).run(&["doctor", "--set-aside", "a"]).good();
    assert!(eye.job("a").is_none());
    node.hup();
    crate::support::wait::until("it is defined again", crate::support::wait::LONG, || eye.job("a"));
    Schedctl::on(&redis).run(&["doctor", "--fix"]).good();
}

#[test]
fn a_file_job_that_lost_its_record_comes_back_on_reload_mended_or_not() {
    let redis = TestRedis::start();
    let (eye, ctl) = (Eye::on(&redis), Schedctl::on(&redis));
    let node = Schedd::on(&redis)
        .node("one")
        .jobs("[jobs.a]\ncron = \"0 0 1 1 *\"\nshell = \"true\"\n")
        .start();
    node.wait_for_log("All jobs of the jobs file are applied");
    for is_mended in [true, false] {
        // A push that was under way defines it again: then once more.
        until("doctor tells that it is gone, and mends it where it is to", LONG, || {
            let _: () = redis.connection().del("{schedd}:job:a").unwrap();
            let reported = ctl.run(&["doctor"]);
            let is_reported = reported.code == 1
                && reported
                    .stdout
                    .contains("is listed as a job of the jobs file of node one, but has no record");
            let is_off = || {
                ctl.run(&["doctor", "--fix"]).good().stdout.contains("removed from the list of one")
            };
            (is_reported && (!is_mended || is_off())).then_some(())
        });
        let pushes = || node.log().matches("All jobs of the jobs file are applied").count();
        let before = pushes();
        node.hup();
        until("it is defined again", LONG, || eye.job("a"));
        // Else the end of this push defines it once more, after the next step has taken it out.
        until("the push is over", LONG, || (pushes() > before).then_some(()));
        ctl.run(&["doctor", "--fix"]).good();
        ctl.run(&["doctor"]).good();
    }
}

#[test]
fn a_due_entry_that_nobody_planned_is_never_executed_nor_put_back() {
    let redis = TestRedis::start();
    let (eye, ctl) = (Eye::on(&redis), Schedctl::on(&redis));
    eye.add(&serde_json::json!({"name": "a", "every": "1h", "shell": "true"}));
    let _: i64 = redis.connection().zadd("{schedd}:due:default", "a@99", 2).unwrap();
    let node = Schedd::on(&redis).start();
    node.wait_for_log("the job does not plan this run");
    assert!(eye.run("a@99").is_none() && eye.history("a").is_empty());
    ctl.run(&["doctor", "--restore", "a@99"]).refused(4, &["the job does not plan this run"]);
    ctl.run(&["doctor"]).good();
}

#[test]
fn doctor_shows_entries_until_a_user_discards_them_then_names_who_did() {
    let redis = TestRedis::start();
    let ctl = Schedctl::on(&redis);
    let put = |member: &str| {
        let entry = json!({"key": "{schedd}:due:default", "score": "2", "why": "the job does not plan this run", "at": "5"});
        let _: i64 =
            redis.connection().hset("{schedd}:quarantine", member, entry.to_string()).unwrap();
    };
    for member in ["a@99", "b@99", "c@99"] {
        put(member);
    }
    let reported = ctl.run(&["doctor"]).good().stdout;
    assert!(
        reported.contains("3 of at most 10,000") && reported.contains("--discard ENTRY"),
        "{reported}"
    );
    let gone = ctl.run(&["doctor", "--discard", "a@99"]).good().stdout;
    assert_eq!(
        gone,
        "a@99, from {schedd}:due:default with score 2: the job does not plan this run\n1 quarantine entry discarded\n",
        "what went is printed"
    );
    ctl.run(&["doctor", "--discard", "a@99"]).refused(3, &["no entry \"a@99\""]);
    for wrong in [
        &["--yes"][..],
        &["--discard", "b@99", "--fix"],
        &["--discard", "b@99", "--restore", "b@99"],
        &["--discard"],
    ] {
        ctl.run(&[&["doctor"], wrong].concat()).refused(2, &["--discard"]);
    }
    ctl.run(&["doctor", "--discard", "all"])
        .refused(2, &["every entry in the quarantine of namespace schedd", "--yes"]);
    let asked = ctl.answer_on_terminal(&["doctor", "--discard", "all"], "y\n");
    assert!(
        asked.code == 2
            && asked.stdout.contains("2 quarantine entries of namespace schedd will be discarded"),
        "{asked:?}"
    );
    assert!(asked.stdout.contains("nothing is discarded"), "{asked:?}");
    assert_eq!(ctl.run(&["stats", "--json"]).good().json()["quarantined"], 2);
    let asked = ctl.answer_on_terminal(&["doctor", "--discard", "all"], "schedd\n");
    assert!(
        asked.code == 0 && asked.stdout.contains("2 quarantine entries discarded"),
        "{asked:?}"
    );
    put("d@99");
    let _: i64 = redis.connection().hset("{schedd}:counters", "quarantine_dropped", 4).unwrap();
    assert!(ctl.run(&["doctor"]).good().stdout.contains("only in the logs of nodes: 4;"));
    let gone = ctl.run(&["doctor", "--discard", "all", "--yes", "--json"]).good().json();
    assert_eq!((&gone["discarded"][0]["name"], &gone["dropped"]), (&json!("d@99"), &json!(4)));
    let reported = ctl.run(&["doctor"]).good().stdout;
    assert!(
        reported.contains("entry d@99 from {schedd}:due:default was deleted at ")
            && reported.contains("; earlier deletions: 3")
            && !reported.contains("did not fit"),
        "{reported}"
    );
    let document = ctl.run(&["doctor", "--json"]).good().json();
    let notes = document["quarantine"]["discarded"].as_array().unwrap();
    assert!(
        notes.len() == 4
            && notes.iter().all(|note| note["by"].as_str().is_some_and(|by| by.contains('@'))),
        "{document}"
    );
    let empty = ctl.run(&["doctor", "--discard", "all", "--yes"]).good().stdout;
    assert_eq!(empty, "0 quarantine entries discarded\n");
}
