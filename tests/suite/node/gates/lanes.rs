//! Which runs a node takes, and in which order: priorities, labels, the queues it serves, shares.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use crate::support::ctl::Schedctl;
use crate::support::eye::Eye;
use crate::support::redis::TestRedis;
use crate::support::script::{Act, Script};
use crate::support::scripted_node::ScriptedNode;
use crate::support::wait::{LONG, until};

/// A script whose line `held` goes on until the test ends it.
fn script_with_held() -> Script {
    let script = Script::new();
    script.set("held", &[Act::GoOn]);
    script
}

/// The jobs whose runs have begun, in that order, once there are `count`.
#[track_caller]
fn began(script: &Script, count: usize) -> Vec<String> {
    let jobs = until(&format!("{count} runs have begun"), LONG, || {
        Some(script.all()).filter(|all| all.len() >= count)
    });
    jobs.iter().map(|effect| effect.run.split('@').next().unwrap().to_owned()).collect()
}

fn wait_for_queue(eye: &Eye, queue: &str) {
    until("the queue is known", LONG, || {
        eye.ask(eye.store().read_queues())
            .unwrap()
            .keys()
            .any(|known| known.as_str() == queue)
            .then_some(())
    });
}

#[test]
fn a_backlog_goes_by_priority_and_each_tenth_slot_to_the_oldest() {
    let (redis, script) = (TestRedis::start(), script_with_held());
    let eye = Eye::on(&redis);
    let _node = ScriptedNode::on(&redis, &script).jobs("[queues.q]\nconcurrency = 1\n").start();
    wait_for_queue(&eye, "q");
    let add = |name: &str, priority: i8, work: &str| {
        eye.add(
            &json!({"name": name, "in": "0s", "queue": "q", "priority": priority, "shell": work}),
        );
    };
    add("first", 0, "held");
    began(&script, 1);
    for number in 0..3 {
        add(&format!("low{number}"), -5, "true");
    }
    for number in 0..25 {
        add(&format!("high{number:02}"), 5, "true");
    }
    script.end("held");
    let order = began(&script, 29);
    let high: Vec<&String> = order.iter().filter(|job| job.starts_with("high")).collect();
    assert!(high.is_sorted(), "among equals the order is that of their times: {order:?}");
    // Between two polls a slot may be taken when not all is in view yet, so where the first of these comes is not told exactly.
    let low: Vec<usize> = (0..3)
        .map(|number| order.iter().position(|job| *job == format!("low{number}")).unwrap())
        .collect();
    assert!(low.is_sorted() && (8..=9).contains(&low[0]), "{order:?}");
    assert!(low[1] - low[0] == 10 && low[2] == 28, "{order:?}");
}

#[test]
fn a_hundred_thousand_runs_of_low_priority_do_not_hold_up_an_urgent_one() {
    let (redis, script) = (TestRedis::start(), script_with_held());
    let eye = Eye::on(&redis);
    let _node = ScriptedNode::on(&redis, &script).jobs("[queues.q]\nconcurrency = 1\n").start();
    wait_for_queue(&eye, "q");
    let add = |name: &str, priority: i8, when: &Value, work: &str| {
        let mut job = json!({"name": name, "queue": "q", "priority": priority, "shell": work, "overlap": "allow"});
        job.as_object_mut().unwrap().extend(when.as_object().unwrap().clone());
        eye.add(&job);
    };
    add("first", 0, &json!({"in": "0s"}), "held");
    began(&script, 1);
    add("low", -10, &json!({}), "true");
    let mut connection = redis.connection();
    for thousand in 0..100 {
        let mut pipeline = redis::pipe();
        for number in 0..1_000 {
            let due = 1_700_000_000_000_i64 + number;
            let id = format!("low@{due}~x{thousand}x{number}");
            // As a run asked for by hand is planted.
            let record = pipeline.cmd("HSET").arg(format!("{{schedd}}:run:{id}"));
            let record = record.arg("job").arg("low").arg("due").arg(due).arg("queue").arg("q!-10");
            record.arg("kind").arg("manual").arg("state").arg("scheduled").ignore();
            pipeline.cmd("ZADD").arg("{schedd}:due:q!-10").arg(due).arg(&id).ignore();
        }
        let () = pipeline.query(&mut connection).unwrap();
    }
    add("urgent", 10, &json!({"in": "0s"}), "true");
    script.end("held");
    let order = began(&script, 3);
    assert!(order[1..3].contains(&"urgent".to_owned()), "{order:?}");
}

#[test]
fn a_run_goes_only_to_a_node_that_carries_all_it_requires_and_serves_its_queue() {
    let (redis, script) = (TestRedis::start(), Script::new());
    let eye = Eye::on(&redis);
    let ctl = Schedctl::on(&redis);
    let file =
        "[queues.q]\n[queues.r]\n[daemon]\nlabels = [\"eu\"]\nqueues = [\"default\", \"q\"]\n";
    let plain = ScriptedNode::on(&redis, &script)
        .node("plain")
        .jobs("[queues.q]\n")
        .queues(&["default"])
        .start();
    let _eu = ScriptedNode::on(&redis, &script).node("eu").jobs(file).start();
    let _both = ScriptedNode::on(&redis, &script)
        .node("both")
        .jobs(file)
        .labels(&["eu", "gpu"])
        .queues(&["q"])
        .start();
    until("all are there", LONG, || {
        Some(()).filter(|()| eye.ask(eye.store().list_nodes()).unwrap().1.len() == 3)
    });
    wait_for_queue(&eye, "q");
    let cases: [(&str, &[&str], &[&str]); 5] = [
        ("default", &[], &["plain", "eu"]),
        ("default", &["eu"], &["eu"]),
        ("q", &[], &["eu", "both"]),
        ("q", &["gpu"], &["both"]),
        ("q", &["eu", "gpu"], &["both"]),
    ];
    for (at, (queue, requires, _)) in cases.iter().enumerate() {
        for number in 0..8 {
            let name = format!("j{at}-{number}");
            eye.add(
                &json!({"name": name, "in": "0s", "queue": queue, "requires": requires, "priority": number - 4, "shell": "true"}),
            );
        }
    }
    for (at, (queue, requires, nodes)) in cases.iter().enumerate() {
        for number in 0..8 {
            let run = eye.wait_for_history(&format!("j{at}-{number}"), 1).remove(0);
            let node = run.node.unwrap();
            assert!(nodes.contains(&node.as_str()), "{queue} {requires:?} ran on {node}");
        }
    }

    let nodes: Value = ctl.run(&["nodes", "--json"]).json();
    let of = |name: &str| {
        nodes.as_array().unwrap().iter().find(|node| node["name"] == name).unwrap().clone()
    };
    assert_eq!(
        (of("plain")["queues"].clone(), of("plain")["labels"].clone()),
        (json!(["default"]), json!([]))
    );
    assert_eq!(
        (of("both")["queues"].clone(), of("both")["labels"].clone()),
        (json!(["q"]), json!(["eu", "gpu"]))
    );

    // What nobody takes is told, until a node does.
    eye.add(&json!({"name": "far", "in": "0s", "requires": ["ssd"], "shell": "true"}));
    let doctor = ctl.run(&["doctor"]).stdout;
    assert!(
        doctor.contains("lane default+ssd")
            && doctor.contains("no running node that serves this queue has the required label ssd"),
        "{doctor}"
    );
    until("explain tells", LONG, || {
        let reported = ctl.run(&["explain", "far"]).stdout;
        (reported.contains("No node takes the run: no running node that serves this queue has the required label ssd")
            && reported.contains("Each of the nodes eu and plain does not take the run: it does not have the label ssd."))
        .then_some(())
    });
    plain.reload("[queues.q]\n[daemon]\nlabels = [\"ssd\"]\n");
    assert_eq!(eye.wait_for_history("far", 1)[0].node.as_deref(), Some("plain"));
}

#[test]
fn queues_share_a_full_node_the_strict_first_and_the_others_by_weight() {
    let (redis, script) = (TestRedis::start(), script_with_held());
    let eye = Eye::on(&redis);
    let file = "[daemon]\nmax_running = 1\n[queues.a]\nweight = 3\n[queues.b]\n[queues.c]\nstrict = true\n";
    let _node = ScriptedNode::on(&redis, &script).jobs(file).start();
    wait_for_queue(&eye, "c");
    eye.add(&json!({"name": "first", "in": "0s", "shell": "held"}));
    began(&script, 1);
    until("the node says that it is full", LONG, || {
        let (_, nodes) = eye.ask(eye.store().list_nodes()).unwrap();
        nodes[0].at_limit.clone().filter(|(why, _)| why == "running 1 of 1 runs")
    });
    for queue in ["a", "b", "c"] {
        for number in 0..if queue == "c" { 3 } else { 16 } {
            let name = format!("{queue}{number:02}");
            eye.add(&json!({"name": name, "in": "0s", "queue": queue, "shell": "true"}));
        }
    }
    script.end("held");
    let order = began(&script, 20);
    let queues: String = order[1..20].iter().map(|job| &job[..1]).collect();
    assert!(queues.starts_with("ccc"), "{queues}");
    let count = |queue: char| queues[3..19].chars().filter(|of| *of == queue).count();
    assert_eq!((count('a'), count('b')), (12, 4), "{queues}");
}

#[test]
fn a_run_nobody_can_deal_with_keeps_the_last_slot_of_a_node_from_no_other_queue() {
    let (redis, script) = (TestRedis::start(), Script::new());
    let eye = Eye::on(&redis);
    let file = "[daemon]\nmax_running = 1\n[queues.urgent]\nstrict = true\n[queues.heavy]\nweight = 1000\n[queues.bulk]\n";
    // Written by a newer schedd.
    for queue in ["urgent", "heavy"] {
        let definition =
            json!({"at": "2001-01-01T00:00:00Z", "queue": queue, "shell": "true", "newer_key": 1})
                .to_string();
        eye.add(
            &json!({"name": format!("of-{queue}"), "in": "0s", "queue": queue, "shell": "true"}),
        );
        redis::cmd("HSET")
            .arg(format!("{{schedd}}:job:of-{queue}"))
            .arg(&["def", &definition])
            .exec(&mut redis.connection())
            .unwrap();
    }
    let _node = ScriptedNode::on(&redis, &script).jobs(file).start();
    wait_for_queue(&eye, "urgent");
    for number in 0..3 {
        eye.add(
            &json!({"name": format!("b{number}"), "in": "0s", "queue": "bulk", "shell": "true"}),
        );
    }
    began(&script, 3);
    assert!(
        ["urgent", "heavy"].iter().all(|queue| eye.history(&format!("of-{queue}")).is_empty()),
        "they are still owed"
    );
}

#[test]
fn a_held_node_claims_nothing_and_goes_on_renewing_what_it_runs() {
    let (redis, script) = (TestRedis::start(), script_with_held());
    let eye = Eye::on(&redis);
    let ctl = Schedctl::on(&redis);
    let limited = "[daemon]\nlease = \"1s\"\nmin_free_memory = \"1000000GiB\"\n";
    let node =
        ScriptedNode::on(&redis, &script).node("n1").jobs("[daemon]\nlease = \"1s\"\n").start();
    // A second one would take over what the first stopped renewing.
    let other = ScriptedNode::on(&redis, &script).node("n2").jobs(limited).start();
    eye.add(&json!({"name": "long", "in": "0s", "shell": "held"}));
    began(&script, 1);
    node.rewrite(limited);
    let at_limit = || {
        eye.ask(eye.store().list_nodes())
            .unwrap()
            .1
            .into_iter()
            .filter(|node| node.at_limit.is_some())
            .count()
    };
    until("both are held", LONG, || (at_limit() == 2).then_some(()));
    let lease = || eye.ask(eye.store().list_leases(1)).unwrap().remove(0).unwrap();
    let first = lease();
    eye.add(&json!({"name": "next", "in": "0s", "shell": "true"}));
    let mut ends = BTreeSet::new();
    until("the lease was renewed for several times its length", LONG, || {
        ends.insert(lease().end);
        Some(()).filter(|()| ends.len() > 12)
    });
    assert_eq!((lease().fence, eye.history("next").len()), (first.fence, 0));
    let nodes = ctl.run(&["nodes", "--json"]).json();
    let why = nodes[0]["at_limit"]["reason"].as_str().unwrap();
    assert!(why.starts_with("free memory ") && why.ends_with(" < 1024000000 MiB"), "{why}");
    until("explain tells", LONG, || {
        let reported = ctl.run(&["explain", "next"]).stdout;
        (reported.contains("A node limit kept n1 and n2 from claiming runs")
            && reported.contains(" claimed no runs from")
            && reported.contains(": free memory "))
        .then_some(())
    });
    script.end("held");
    let run = eye.wait_for_history("long", 1).remove(0);
    assert_eq!((run.attempt, run.recoveries, script.of("long").len()), (1, 0, 1));
    other.rewrite("[daemon]\nlease = \"1s\"\n");
    assert_eq!(eye.wait_for_history("next", 1)[0].node.as_deref(), Some("n2"));
}

#[test]
fn many_nodes_that_are_killed_at_random_run_everything_where_it_belongs() {
    const JOBS: usize = 80;
    let (redis, script) = (TestRedis::start(), Script::new());
    let eye = Eye::on(&redis);
    let file = |queues: &str, labels: &str| {
        format!(
            "[queues.q]\nconcurrency = 3\n[daemon]\nlease = \"1s\"\nqueues = [{queues}]\nlabels = [{labels}]\n"
        )
    };
    let kinds: BTreeMap<&str, (&str, &str)> = BTreeMap::from([
        ("n1", ("\"default\", \"q\"", "")),
        ("n2", ("\"default\"", "\"gpu\"")),
        ("n3", ("\"q\"", "\"gpu\", \"eu\"")),
        ("n4", ("\"default\", \"q\"", "\"gpu\", \"eu\"")),
    ]);
    let mut nodes: Vec<ScriptedNode> = kinds
        .iter()
        .map(|(name, (queues, labels))| {
            ScriptedNode::on(&redis, &script).node(name).jobs(&file(queues, labels)).start()
        })
        .collect();
    wait_for_queue(&eye, "q");
    let requires: [&[&str]; 4] = [&[], &["gpu"], &["eu"], &["eu", "gpu"]];
    for number in 0..JOBS {
        let (queue, requires) = (["default", "q"][number % 2], requires[number / 2 % 4]);
        let priority = i32::try_from(number % 21).unwrap() - 10;
        eye.add(&json!({"name": format!("j{number}"), "in": "0s", "queue": queue, "requires": requires, "priority": priority,
            "shell": "sleep 0.2"}));
    }
    let mut dice = fastrand::Rng::with_seed(7);
    let ended =
        || (0..JOBS).filter(|number| !eye.history(&format!("j{number}")).is_empty()).count();
    for round in 1..=8 {
        until("some more have run", LONG, || (ended() >= (round * 5).min(JOBS)).then_some(()));
        let at = dice.usize(..nodes.len());
        nodes[at].crash();
        nodes[at].start_again();
    }
    until("all have run", LONG, || (ended() == JOBS).then_some(()));
    let may_run = |job: &str, node: &str| {
        let number: usize = job[1..].parse().unwrap();
        let (queues, labels) = kinds[node];
        queues.contains(["default", "q"][number % 2])
            && requires[number / 2 % 4].iter().all(|label| labels.contains(label))
    };
    for attempt in script.attempts() {
        let (job, node) = (attempt.run.job().as_str(), attempt.node.as_str());
        assert!(may_run(job, node), "{job} ran on {node}");
    }
    assert!((0..JOBS).all(|number| eye.history(&format!("j{number}")).len() == 1));
}
