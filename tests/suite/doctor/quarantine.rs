//! Moving aside and back, by the command line.

use redis::Commands;
use serde_json::json;

use crate::support::ctl::Schedctl;
use crate::support::daemon::Schedd;
use crate::support::eye::Eye;
use crate::support::redis::TestRedis;
use crate::support::wait::{LONG, until};

#[test]
fn a_spoilt_definition_is_set_aside_restored_only_when_it_can_be_read_and_runs_again() {
    let redis = TestRedis::start();
    let eye = Eye::on(&redis);
    let ctl = Schedctl::on(&redis);
    eye.add(&json!({"name": "a", "every": "1h", "shell": "true"}));
    ctl.run(&["doctor", "--set-aside", "a"]).refused(4, &["can be read"]);
    ctl.run(&["doctor", "--set-aside", "nobody"]).refused(3, &["not there"]);
    let good: String = redis.connection().hget("{schedd}:job:a", "def").unwrap();
    let _: () = redis.connection().hset("{schedd}:job:a", "def", "{\"every\":").unwrap();
    let told = ctl.run(&["doctor"]);
    assert!(told.code == 1 && told.stdout.contains("--set-aside a"), "{told:?}");
    let aside = ctl.run(&["doctor", "--set-aside", "a", "--json"]).good().json()["aside"].as_str().unwrap().to_owned();
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
    let node = Schedd::on(&redis).node("one").jobs("[jobs.a]\ncron = \"0 0 1 1 *\"\nshell = \"true\"\n").start();
    node.wait_for_log("Jobs are as the file says");
    let _: () = redis.connection().hset("{schedd}:job:a", "def", "{\"every\":").unwrap();
    Schedctl::on(&redis).run(&["doctor", "--set-aside", "a"]).good();
    assert!(eye.job("a").is_none());
    node.hup();
    crate::support::wait::until("it is defined again", crate::support::wait::LONG, || eye.job("a"));
    Schedctl::on(&redis).run(&["doctor", "--fix"]).good();
}

#[test]
fn a_job_of_a_file_whose_record_is_gone_comes_back_with_the_file_whether_or_not_it_was_mended() {
    let redis = TestRedis::start();
    let (eye, ctl) = (Eye::on(&redis), Schedctl::on(&redis));
    let node = Schedd::on(&redis).node("one").jobs("[jobs.a]\ncron = \"0 0 1 1 *\"\nshell = \"true\"\n").start();
    node.wait_for_log("Jobs are as the file says");
    for is_mended in [true, false] {
        // A push that was under way defines it again: then once more.
        until("doctor tells that it is gone, and mends it where it is to", LONG, || {
            let _: () = redis.connection().del("{schedd}:job:a").unwrap();
            let told = ctl.run(&["doctor"]);
            let is_told = told.code == 1 && told.stdout.contains("the jobs file of node one lists it, and it has no record");
            let is_off = || ctl.run(&["doctor", "--fix"]).good().stdout.contains("taken off the list of one");
            (is_told && (!is_mended || is_off())).then_some(())
        });
        let pushes = || node.log().matches("Jobs are as the file says").count();
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
    node.wait_for_log("its job does not plan it");
    assert!(eye.run("a@99").is_none() && eye.history("a").is_empty());
    ctl.run(&["doctor", "--restore", "a@99"]).refused(4, &["its job does not plan it"]);
    ctl.run(&["doctor"]).good();
}
