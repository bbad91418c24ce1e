//! Runs that have their place at a gate while their queue takes nothing, or no node carries their label: with whole nodes they keep
//! nobody out, and the rate of a key holds by when runs begin.

use schedd_schedule::time::unix_millis::UnixMillis;
use serde_json::json;

use crate::node::explain::explaining::explained;
use crate::support::ctl::Schedctl;
use crate::support::eye::Eye;
use crate::support::redis::TestRedis;
use crate::support::script::Script;
use crate::support::scripted_node::ScriptedNode;
use crate::support::wait::{LONG, until};

const SECTIONS: &str = "[queues.other]\nconcurrency = 4\n[groups.one]\nmode = \"exclusive\"\n\
    [groups.turns]\nmode = \"alternate\"\norder = [\"c\", \"d\"]\nturn_timeout = \"1s\"\n";

#[test]
fn whoever_cannot_begin_keeps_nobody_out_of_a_group_a_key_or_a_job() {
    let (redis, script) = (TestRedis::start(), Script::new());
    let (ctl, eye) = (Schedctl::on(&redis), Eye::on(&redis));
    let turn = |job: &str, queue: &str| {
        format!(
            "[jobs.{job}]\nevery = \"1s\"\ngroup = \"turns\"\nqueue = {queue:?}\nshell = \"true\"\n"
        )
    };
    let jobs = format!("{SECTIONS}{}{}", turn("c", "default"), turn("d", "other"));
    let _node = ScriptedNode::on(&redis, &script).jobs(&jobs).start();
    until("both take turns", LONG, || script.of("d").into_iter().next());
    let ctl_shows = |name: &str| ctl.run(&["show", name]).good().stdout;
    let holds = |gates: serde_json::Value, names: [&str; 2]| {
        for (name, more) in
            names.iter().zip([json!({"in": "0s"}), json!({"in": "1ms", "queue": "other"})])
        {
            let mut job = json!({"name": name, "shell": if name.ends_with('1') { "sleep 600" } else { "true" }});
            for part in [&gates, &more] {
                job.as_object_mut().unwrap().extend(part.as_object().unwrap().clone());
            }
            eye.add(&job);
            let is_there = || {
                if name.ends_with('1') {
                    !script.of(name).is_empty()
                } else {
                    ctl_shows(name).contains("waits for")
                }
            };
            until("it stands at its gate", LONG, || Some(()).filter(|()| is_there()));
        }
    };
    holds(json!({"group": "one"}), ["g1", "g2"]);
    holds(json!({"key": "k"}), ["k1", "k2"]);
    eye.add(&json!({"name": "g3", "in": "2ms", "group": "one", "shell": "true"}));
    eye.add(&json!({"name": "k3", "in": "2ms", "key": "k", "shell": "true"}));
    eye.add(&json!({"name": "g4", "in": "3ms", "group": "one", "requires": ["nobody"], "shell": "true"}));
    ctl.run(&["queue", "pause", "other"]).good();
    let begun = script.of("c").len();
    for job in ["g1", "k1"] {
        ctl.run(&["cancel", job]).good();
    }
    for job in ["g3", "k3"] {
        until("it comes behind one that cannot begin", LONG, || script.of(job).into_iter().next());
    }
    until("the turn of the other passes", LONG, || {
        Some(()).filter(|()| script.of("c").len() >= begun + 3)
    });
    assert!(script.of("g2").is_empty() && script.of("k2").is_empty(), "their queue is paused");
    eye.add(&json!({"name": "g5", "in": "0s", "group": "one", "shell": "true"}));
    until("no label keeps it out", LONG, || script.of("g5").into_iter().next());
    ctl.run(&["queue", "resume", "other"]).good();
    for job in ["g2", "k2", "d"] {
        let before = script.of(job).len();
        until("its queue takes it", LONG, || {
            Some(()).filter(|()| job != "d" && before > 0 || script.of(job).len() > before)
        });
    }
    assert!(script.of("g4").is_empty());
    let standing = ctl.run(&["groups", "--json"]).good().json();
    assert!(
        !standing[0]["running"].to_string().contains("g4"),
        "nothing runs that has not begun: {standing}"
    );
    let findings = ctl.run(&["doctor", "--json"]).json();
    assert!(!findings.to_string().contains("wrong:gate"), "{findings}");
}

#[test]
fn a_key_s_rate_is_kept_by_runs_that_were_held_up_together() {
    let (redis, script) = (TestRedis::start(), Script::new());
    let (ctl, eye) = (Schedctl::on(&redis), Eye::on(&redis));
    let _node = ScriptedNode::on(&redis, &script).jobs(SECTIONS).start();
    until("the queue is known", LONG, || {
        Some(()).filter(|()| ctl.run(&["queue", "pause", "other"]).code == 0)
    });
    let jobs: Vec<String> = (0..4).map(|number| format!("r{number}")).collect();
    for job in &jobs {
        let per_key = json!({"rate": "1/1s", "burst": 1});
        eye.add(
            &json!({"name": job, "in": "0s", "queue": "other", "key": "k", "per_key": per_key, "shell": "true"}),
        );
    }
    eye.add(&json!({"name": "later", "in": "3s", "shell": "true"}));
    until("time passes", LONG, || script.of("later").into_iter().next());
    ctl.run(&["queue", "resume", "other"]).good();
    let mut begun: Vec<UnixMillis> =
        jobs.iter().map(|job| eye.wait_for_history(job, 1)[0].started_at.unwrap()).collect();
    begun.sort_unstable();
    for pair in begun.windows(2) {
        assert!(pair[1].as_i64() - pair[0].as_i64() >= 1_000, "by Redis' clock: {begun:?}");
    }
}

/// Runs by hand of `crowd` in its lane, due one after the other, as `run` plants them.
fn plant_crowd(redis: &TestRedis, lane: &str, count: i64) {
    let mut connection = redis.connection();
    for first in (0..count).step_by(1_000) {
        let mut pipeline = redis::pipe();
        for number in first..count.min(first + 1_000) {
            let due = 1_700_000_000_000_i64 + number;
            let id = format!("crowd@{due}~x");
            let record = pipeline.cmd("HSET").arg(format!("{{schedd}}:run:{id}"));
            let record = record.arg("job").arg("crowd").arg("due").arg(due).arg("queue").arg(lane);
            record.arg("kind").arg("manual").arg("state").arg("scheduled").ignore();
            pipeline.cmd("ZADD").arg(format!("{{schedd}}:due:{lane}")).arg(due).arg(&id).ignore();
        }
        let () = pipeline.query(&mut connection).unwrap();
    }
}

#[test]
fn a_free_run_starts_behind_11_000_nobody_serves_and_is_reported_of_their_lane() {
    const CROWD: i64 = 11_000;
    let (redis, script) = (TestRedis::start(), Script::new());
    let (ctl, eye) = (Schedctl::on(&redis), Eye::on(&redis));
    let _plain = ScriptedNode::on(&redis, &script).node("plain").jobs("").start();
    let mut gpu = ScriptedNode::on(&redis, &script)
        .node("gpu")
        .jobs("[daemon]\nlabels = [\"gpu\"]\n")
        .start();
    eye.add(&json!({"name": "holder", "in": "0s", "key": "k", "shell": "sleep 600"}));
    until("the key is taken", LONG, || script.of("holder").into_iter().next());
    let crowd = json!({"name": "crowd", "key": "k", "requires": ["gpu"], "overlap": "allow", "shell": "true"});
    eye.add(&crowd);
    let lane =
        eye.ask(eye.store().read_job(&"crowd".parse().unwrap())).unwrap().unwrap().lane.to_string();
    plant_crowd(&redis, &lane, CROWD);
    redis.count_change();
    until("all of them wait", LONG, || {
        let waiting: i64 = redis::cmd("ZCARD")
            .arg("{schedd}:gate_waiters:key:k")
            .query(&mut redis.connection())
            .unwrap();
        (waiting == CROWD).then_some(())
    });
    gpu.stop();
    until("one node is left", LONG, || {
        Some(()).filter(|()| eye.ask(eye.store().list_nodes()).unwrap().1.len() == 1)
    });
    eye.add(&json!({"name": "free", "in": "0s", "key": "k", "shell": "true"}));
    let reported =
        |of: &str, part: &str| Some(explained(&redis, &[of]).0).filter(|text| text.contains(part));
    let before = format!(
        "Runs of lane {lane} wait before this run. No node serves that lane, so this run passes them."
    );
    let text = until("it is told what it passes", LONG, || reported("free", &before));
    assert!(text.contains(" waits for a place at key k, behind run holder@"), "{text}");
    let unserved = format!("No node takes runs of lane {lane}: no running node");
    until("one of them is reported so", LONG, || reported("crowd@1700000000007~x", &unserved));
    let doctor = ctl.run(&["doctor"]).stdout;
    assert!(
        doctor.contains("gate key k") && doctor.contains(&format!("lane {lane} (no running node")),
        "{doctor}"
    );
    ctl.run(&["cancel", "holder", "--stop"]).good();
    eye.wait_for_history("free", 1);
    assert_eq!((script.of("free").len(), script.of("crowd").len()), (1, 0));
    let first = "No node serves the lane";
    until("the first of them is reported so", LONG, || reported("crowd@1700000000000~x", first));
    gpu.start_again();
    until("they come to their right in due order", LONG, || script.of("crowd").into_iter().nth(1));
    let begun: Vec<String> = script.of("crowd").into_iter().map(|effect| effect.run).collect();
    assert_eq!(begun[..2], ["crowd@1700000000000~x", "crowd@1700000000001~x"]);
}

#[test]
fn whoever_was_let_in_and_cannot_begin_is_named_so_and_what_became_of_its_place() {
    let (redis, script) = (TestRedis::start(), Script::new());
    let (ctl, eye) = (Schedctl::on(&redis), Eye::on(&redis));
    let _node = ScriptedNode::on(&redis, &script).jobs(SECTIONS).start();
    let reported = |job: &str, part: &str| {
        Some(explained(&redis, &[job]).0).filter(|text| text.contains(part))
    };
    let run_of = |job: &str| {
        eye.ask(eye.store().list_open(&job.parse().unwrap())).unwrap().remove(0).to_string()
    };
    let shown = |job: &str, part: &str| {
        Some(ctl.run(&["show", &run_of(job)]).good().stdout).filter(|text| text.contains(part))
    };
    for (name, key) in [("holder", json!("k")), ("keyed", json!("k"))] {
        let group = if name == "keyed" { json!("one") } else { json!(null) };
        let mut job =
            json!({"name": name, "in": "0s", "key": key, "group": group, "shell": "sleep 600"});
        job.as_object_mut().unwrap().retain(|_, value| !value.is_null());
        eye.add(&job);
        let stands = || {
            (name == "holder" && !script.of(name).is_empty())
                || reported(name, " waits for a place at key k").is_some()
        };
        until("it stands at its gate", LONG, || Some(()).filter(|()| stands()));
    }
    // It has its place in the group while it waits for its key.
    eye.add(&json!({"name": "shut", "in": "0s", "queue": "other", "group": "one", "shell": "sleep 600"}));
    let behind = "which has a place but has not started: that run waits for a place at key k.";
    until("who waits is told why", LONG, || reported("shut", behind));
    ctl.run(&["queue", "pause", "other"]).good();
    ctl.run(&["cancel", "keyed"]).good();
    let text = until("it is let in", LONG, || reported("shut", " got a place at group one on "));
    assert!(text.contains(". No node has claimed the run yet."), "{text}");
    assert!(text.contains("Queue other is paused by "), "what it waits for: {text}");
    until("its record is shown so", LONG, || {
        shown("shut", "has a place at group one but has not started")
    });
    eye.add(&json!({"name": "next", "in": "0s", "group": "one", "shell": "sleep 600"}));
    until("the next comes in its place", LONG, || script.of("next").into_iter().next());
    let text = until("it gave its place up", LONG, || reported("shut", "lost the place"));
    let next = run_of("next");
    assert!(text.contains(&format!("lost the place. Run {next} has the place now.")), "{text}");
    until("its record is shown so", LONG, || shown("shut", "lost its place at group one"));
}

#[test]
fn groups_names_the_run_that_gave_its_place_up_and_keeps_those_of_its_lane_out() {
    let (redis, script) = (TestRedis::start(), Script::new());
    let (ctl, eye) = (Schedctl::on(&redis), Eye::on(&redis));
    let _node = ScriptedNode::on(&redis, &script).jobs(SECTIONS).start();
    let reported = |job: &str, part: &str| {
        Some(explained(&redis, &[job]).0).filter(|text| text.contains(part))
    };
    let run_of = |job: &str| {
        eye.ask(eye.store().list_open(&job.parse().unwrap())).unwrap().remove(0).to_string()
    };
    eye.add(&json!({"name": "holder", "in": "0s", "group": "one", "shell": "sleep 600"}));
    until("it has its place", LONG, || script.of("holder").into_iter().next());
    for name in ["first", "second"] {
        eye.add(&json!({"name": name, "in": "0s", "queue": "other", "group": "one", "shell": "sleep 600"}));
        until("it waits for that", LONG, || {
            reported(name, " waits for a place at group one, behind run holder@")
        });
    }
    ctl.run(&["queue", "pause", "other"]).good();
    ctl.run(&["cancel", "holder", "--stop"]).good();
    let group_one = || {
        let groups = ctl.run(&["groups", "--json"]).good().json();
        groups.as_array().unwrap().iter().find(|group| group["name"] == "one").unwrap().clone()
    };
    let group = until("the first gave its place up", LONG, || {
        Some(group_one()).filter(|group| group["gave_up"] != json!([]))
    });
    assert_eq!(
        (&group["gave_up"], &group["first_waiting"]),
        (&json!([run_of("first")]), &json!([run_of("second")]))
    );
    let rows = ctl.run(&["groups"]).good().stdout;
    assert!(
        rows.contains(&format!("{} (lost its place) {}", run_of("first"), run_of("second"))),
        "{rows}"
    );
    ctl.run(&["queue", "resume", "other"]).good();
    until("the first begins", LONG, || script.of("first").into_iter().next());
    let group = group_one();
    assert_eq!((&group["gave_up"], &group["running"]), (&json!([]), &json!([run_of("first")])));
}
