//! The slow check of a running node: what does not agree is logged once, shown in `stats`, and gone when it is mended.

use redis::Commands;
use schedd_core::domain::queue::lane::Lane;
use serde_json::{Value, json};

use crate::support::ctl::Schedctl;
use crate::support::daemon::Schedd;
use crate::support::eye::Eye;
use crate::support::redis::TestRedis;
use crate::support::wait::{LONG, until};

/// Has the next turn begin at once, and waits until it has been.
#[track_caller]
fn turn(redis: &TestRedis) -> Value {
    let ctl = Schedctl::on(redis);
    let audit = "{schedd}:consistency_check";
    let _: () = redis.connection().hdel(audit, &["at", "taken_at"][..]).unwrap();
    // While nothing changes, nothing is checked. What a test writes by hand counts as no change.
    redis.count_change();
    until("the data was checked", LONG, || {
        let at: Option<String> = redis.connection().hget(audit, "at").unwrap();
        at
    });
    ctl.run(&["stats", "--json"]).good().json()
}

#[test]
fn a_node_finds_what_does_not_agree_says_it_once_and_no_more_when_it_is_mended() {
    let redis = TestRedis::start();
    let eye = Eye::on(&redis);
    let node = Schedd::on(&redis).start();
    eye.add(&json!({"name": "a", "every": "1h", "shell": "true"}));
    let sound = turn(&redis);
    assert_eq!(sound["findings"], 0, "{sound}");
    assert!(sound["checked_at"].is_string(), "{sound}");
    let _: () = redis.connection().del("{schedd}:due:default").unwrap();
    assert_eq!(turn(&redis)["findings"], 1);
    assert_eq!(turn(&redis)["findings"], 1);
    assert_eq!(node.log().matches("Consistency check failed").count(), 1, "{}", node.log());
    node.wait_for_log("missing:due");
    Schedctl::on(&redis).run(&["doctor", "--fix"]).good();
    assert_eq!(turn(&redis)["findings"], 0);
    node.wait_for_log("The consistency check passes again");
}

#[test]
fn a_node_also_finds_wrong_counters_damaged_fields_and_keys_that_no_index_names() {
    let redis = TestRedis::start();
    let eye = Eye::on(&redis);
    let node = Schedd::on(&redis).start();
    eye.add(&json!({"name": "a", "every": "1h", "shell": "true"}));
    assert_eq!(turn(&redis)["findings"], 0);
    let mut connection = redis.connection();
    let _: i64 = connection.hset("{schedd}:counters", "waiting", 7).unwrap();
    let _: i64 = connection.hset("{schedd}:counters", "failed", "many").unwrap();
    let _: i64 = connection.hset("{schedd}:run:a@5", "state", "of_tomorrow").unwrap();
    let _: () = connection.set("{schedd}:of_another", "x").unwrap();
    assert_eq!(turn(&redis)["findings"], 4, "{}", node.log());
    assert_eq!(turn(&redis)["findings"], 4, "they still hold");
    for code in ["wrong:counters", "unreadable:counters", "unreadable:run", "unknown_key"] {
        assert_eq!(node.log().matches(code).count(), 1, "{code}: {}", node.log());
    }
    let _: i64 = connection.del(&["{schedd}:run:a@5", "{schedd}:of_another"][..]).unwrap();
    Schedctl::on(&redis).run(&["doctor", "--fix"]).good();
    assert_eq!(turn(&redis)["findings"], 0);
    node.wait_for_log("The consistency check passes again");
}

#[test]
fn a_turn_looks_at_so_many_keys_also_if_most_are_of_others_and_the_next_goes_on() {
    let redis = TestRedis::start();
    let _node = Schedd::on(&redis).start();
    let mut connection = redis.connection();
    let mut pipeline = redis::pipe();
    for at in 0..3_000 {
        pipeline.set(format!("of_others:{at}"), "x").ignore();
    }
    let () = pipeline.query(&mut connection).unwrap();
    let mut place = || -> String {
        turn(&redis);
        connection.hget("{schedd}:consistency_check", "place").unwrap()
    };
    let first = place();
    assert!(first.starts_with("keys ") && first != "keys 0", "{first}");
    assert_ne!(place(), first);
}

#[test]
fn a_node_whose_user_may_not_go_over_all_keys_checks_the_rest_all_the_same() {
    let redis = TestRedis::start();
    let rules = ["SETUSER", "weak", "on", ">pw", "~*", "&*", "+@all", "-scan", "-dbsize"];
    let () = redis::cmd("ACL").arg(&rules).query(&mut redis.connection()).unwrap();
    let _node = Schedd::at(&format!("{}?user=weak&pass=pw", redis.url())).start();
    Eye::on(&redis).add(&json!({"name": "a", "every": "1h", "shell": "true"}));
    assert_eq!(turn(&redis)["findings"], 0);
    let _: () = redis.connection().del("{schedd}:due:default").unwrap();
    assert_eq!(turn(&redis)["findings"], 1);
}

#[test]
fn a_slice_costs_the_same_however_many_lanes_there_are() {
    let redis = TestRedis::start();
    let eye = Eye::on(&redis);
    let _node = Schedd::on(&redis).start();
    for number in 0..50 {
        eye.add(&json!({"name": format!("j{number}"), "every": "1h", "shell": "true"}));
    }
    let types = || -> u64 {
        let text: String =
            redis::cmd("INFO").arg("commandstats").query(&mut redis.connection()).unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix("cmdstat_type:calls="));
        line.map_or(0, |facts| facts.split(',').next().unwrap().parse().unwrap())
    };
    assert_eq!(turn(&redis)["findings"], 0);
    let before = types();
    assert_eq!(turn(&redis)["findings"], 0);
    let with_few = types() - before;
    let lanes: Vec<Lane> = (0..400).map(|at| format!("default!5+l{at}").parse().unwrap()).collect();
    eye.ask(eye.store().note_lanes(&lanes)).unwrap();
    let before = types();
    assert_eq!(turn(&redis)["findings"], 0);
    let with_many = types() - before;
    // The scripts of each job and run ask for the type of each key. One lane more would be one key
    // more of each.
    assert!(with_many < with_few + 2_000, "{with_few} {with_many}");
}

#[test]
fn a_run_in_a_wrong_lane_is_found_by_the_lane() {
    let redis = TestRedis::start();
    let eye = Eye::on(&redis);
    let _node = Schedd::on(&redis).start();
    eye.add(&json!({"name": "a", "every": "1h", "shell": "true"}));
    let lane: Lane = "default!5".parse().unwrap();
    eye.ask(eye.store().note_lanes([&lane])).unwrap();
    let pending = eye.job("a").unwrap().pending.unwrap();
    let at = pending.due().as_i64();
    let _: i64 =
        redis.connection().zadd("{schedd}:due:default!5", pending.to_string(), at).unwrap();
    assert_eq!(turn(&redis)["findings"], 1);
    assert_eq!(turn(&redis)["findings"], 1, "also where it is only confirmed");
    let _: i64 = redis.connection().zrem("{schedd}:due:default!5", pending.to_string()).unwrap();
    assert_eq!(turn(&redis)["findings"], 0);
}
