//! Jobs that run on certain nodes, and jobs with `on = "each-node"`: a run on each node.

use std::collections::{BTreeMap, BTreeSet};

use schedd_core::domain::run::run_state::RunState;
use schedd_store::JobRecord;
use serde_json::json;

use crate::support::ctl::Schedctl;
use crate::support::eye::Eye;
use crate::support::redis::TestRedis;
use crate::support::script::{Act, Script, exit};
use crate::support::scripted_node::ScriptedNode;
use crate::support::wait::{LONG, until};

const NODES: [&str; 3] = ["one", "two", "three"];

fn nodes(redis: &TestRedis, script: &Script, toml: &str) -> Vec<ScriptedNode> {
    let started = NODES.map(|name| ScriptedNode::on(redis, script).node(name).jobs(toml).start());
    started.into()
}

/// Waits until each of these nodes has an instance of the job.
fn wait_for_instances(eye: &Eye, job: &str, nodes: &[&str]) {
    for node in nodes {
        let name = format!("{job}/{node}");
        until(&format!("{name} is there"), LONG, || eye.job(&name).filter(JobRecord::is_live));
    }
}

/// The due times of the ended runs of an instance.
fn dues(eye: &Eye, instance: &str) -> BTreeSet<i64> {
    eye.history(instance).iter().map(|run| run.run.due().as_i64()).collect()
}

#[test]
fn a_job_on_each_node_has_one_run_on_each_for_one_occurrence() {
    let (redis, script) = (TestRedis::start(), Script::new());
    let eye = Eye::on(&redis);
    let toml = "[jobs.clean]\nevery = \"1s\"\non = \"each-node\"\nshell = \"true\"\n";
    let _nodes = nodes(&redis, &script, toml);
    wait_for_instances(&eye, "clean", &NODES);
    let late = ScriptedNode::on(&redis, &script).node("late").jobs(toml).start();
    wait_for_instances(&eye, "clean", &["late"]);
    late.wait_for_log("All jobs of the jobs file are applied");

    let all = ["one", "two", "three", "late"];
    until("two occurrences had a run on each node", LONG, || {
        let sets = all.map(|node| dues(&eye, &format!("clean/{node}")));
        let common = sets.into_iter().reduce(|a, b| &a & &b)?;
        (common.len() >= 2).then_some(())
    });
    for node in all {
        for run in eye.history(&format!("clean/{node}")) {
            assert_eq!(run.node.as_deref(), Some(node), "{}", run.run);
        }
    }
    let mut by_run: BTreeMap<String, usize> = BTreeMap::new();
    for effect in script.all() {
        *by_run.entry(effect.run).or_default() += 1;
    }
    assert!(by_run.values().all(|starts| *starts == 1), "{by_run:?}");
    assert!(eye.history("clean").is_empty() && eye.job("clean").unwrap().pending.is_none());
}

#[test]
fn an_edit_a_pause_and_a_removal_reach_the_job_on_each_node() {
    let (redis, script) = (TestRedis::start(), Script::new());
    let (eye, ctl) = (Eye::on(&redis), Schedctl::on(&redis));
    let _nodes = nodes(&redis, &script, "");
    until("all nodes are there", LONG, || {
        Some(()).filter(|()| eye.ask(eye.store().list_nodes()).unwrap().1.len() == 3)
    });
    let add = |words: &[&str]| {
        let given = ["add", "--name", "c", "--on", "each-node"];
        ctl.run(&[&given[..], words].concat()).good();
    };
    add(&["--every", "1h", "--shell", "true"]);
    // The answer of `add` comes after the instances are planned.
    let pending = |node: &str| eye.job(&format!("c/{node}")).unwrap().pending;
    let due: BTreeSet<i64> =
        NODES.iter().map(|node| pending(node).unwrap().due().as_i64()).collect();
    assert_eq!(due.len(), 1, "all nodes count from the same time: {due:?}");

    add(&["--replace", "--every", "2h", "--shell", "exit 3"]);
    script.set("exit 3", &[Act::End(exit(3))]);
    assert_eq!(ctl.run(&["run", "c", "--wait"]).code, 3);
    for node in NODES {
        let run = eye.wait_for_history(&format!("c/{node}"), 1).remove(0);
        assert_eq!((run.state, run.node.as_deref()), (RunState::Failed, Some(node)));
    }

    ctl.run(&["pause", "c"]).good();
    for node in NODES {
        let job = eye.job(&format!("c/{node}")).unwrap();
        assert!(job.paused_at.is_some() && job.pending.is_none(), "{node}");
    }
    // A node that comes while the job is paused does not run it.
    let _late = ScriptedNode::on(&redis, &script).node("late").start();
    wait_for_instances(&eye, "c", &["late"]);
    until("the new instance is paused", LONG, || eye.job("c/late").unwrap().paused_at);
    ctl.run(&["resume", "c"]).good();
    for node in NODES.iter().chain(&["late"]) {
        assert!(pending(node).is_some(), "{node}");
    }

    add(&["--replace", "--every", "2h", "--shell", "true"]);
    ctl.run(&["add", "--name", "c", "--replace", "--every", "2h", "--shell", "true"]).good();
    for node in NODES {
        assert!(!eye.job(&format!("c/{node}")).unwrap().is_live(), "{node}");
    }
    assert!(eye.job("c").unwrap().pending.is_some(), "the job has runs of its own again");
    add(&["--replace", "--every", "2h", "--shell", "true"]);
    ctl.run(&["cancel", "c"]).good();
    for node in NODES {
        assert!(!eye.job(&format!("c/{node}")).unwrap().is_live(), "{node}");
    }
    let checked = ctl.run(&["doctor"]).stdout;
    assert!(checked.contains("no findings"), "{checked}");
}

#[test]
fn a_node_that_comes_back_catches_up_by_the_rule_of_the_job() {
    let (redis, script) = (TestRedis::start(), Script::new());
    let eye = Eye::on(&redis);
    let toml = "[jobs.c]\nevery = \"1s\"\non = \"each-node\"\nshell = \"true\"\n";
    let mut nodes = nodes(&redis, &script, toml);
    eye.wait_for_history("c/three", 1);
    nodes[2].stop();
    let before = eye.history("c/three").len();
    let others = eye.history("c/one").len();
    eye.wait_for_history("c/one", others + 3);
    assert_eq!(eye.history("c/three").len(), before, "only its node runs an instance");
    nodes[2].start_again();
    let ran = eye.wait_for_history("c/three", before + 3);
    let skipped = ran.iter().filter(|run| run.state == RunState::Skipped).count();
    assert!(skipped >= 1, "the older missed occurrences are skipped: {ran:?}");
}

#[test]
fn max_parallel_bounds_the_nodes_that_run_the_job_at_once() {
    let (redis, script) = (TestRedis::start(), Script::new());
    let (eye, ctl) = (Eye::on(&redis), Schedctl::on(&redis));
    let toml = "[jobs.r]\non = \"each-node\"\nmax_parallel = 1\nshell = \"sleep 0.1\"\n";
    let _nodes = nodes(&redis, &script, toml);
    wait_for_instances(&eye, "r", &NODES);
    assert_eq!(ctl.run(&["run", "r", "--wait"]).code, 0);
    let mut done = script.all();
    done.sort_by_key(|effect| effect.began);
    assert!(
        done.windows(2).all(|pair| pair[0].ended.unwrap() <= pair[1].began),
        "one node after the other: {done:?}"
    );
    let ran: BTreeSet<String> = script
        .all()
        .iter()
        .map(|effect| effect.run.split('@').next().unwrap().to_owned())
        .collect();
    assert_eq!(ran, NODES.map(|node| format!("r/{node}")).into());
}

#[test]
fn an_instance_is_shown_as_a_job_on_a_node() {
    let (redis, script) = (TestRedis::start(), Script::new());
    let (eye, ctl) = (Eye::on(&redis), Schedctl::on(&redis));
    script.set("false", &[Act::End(exit(1))]);
    let toml = "[jobs.clean]\nevery = \"1h\"\non = \"each-node\"\nmax_parallel = 1\n\
                shell = \"false\"\non_failure = { shell = \"true\" }\n";
    let _nodes = nodes(&redis, &script, toml);
    wait_for_instances(&eye, "clean", &["one"]);
    let shown = ctl.run(&["show", "clean/one"]).good().stdout;
    assert!(shown.contains("job clean on node one (on = \"each-node\")"), "{shown}");
    assert!(shown.contains("max_parallel of job clean, 1 at once"), "{shown}");
    assert!(!shown.contains("each-node:") && !shown.contains("each-node/"), "{shown}");
    assert_eq!(ctl.run(&["run", "clean/one", "--wait"]).code, 1);
    until("the notice is sent", LONG, || eye.job("clean/one/on_failure"));
    let shown = ctl.run(&["show", "clean/one/on_failure"]).good().stdout;
    assert!(shown.contains("the notices of job clean on node one"), "{shown}");
}

#[test]
fn list_takes_the_next_time_from_the_nodes_that_run() {
    let (redis, script) = (TestRedis::start(), Script::new());
    let (eye, ctl) = (Eye::on(&redis), Schedctl::on(&redis));
    let toml = "[jobs.c]\nevery = \"1s\"\non = \"each-node\"\nshell = \"true\"\n";
    let mut started = nodes(&redis, &script, toml);
    wait_for_instances(&eye, "c", &NODES);
    started[0].stop();
    let left = eye.job("c/one").unwrap().pending.unwrap().due();
    until("the next time is that of a node that runs", LONG, || {
        let listed = ctl.run(&["list", "--json"]).good().json();
        let next: jiff::Timestamp = listed[0]["next_due"].as_str()?.parse().ok()?;
        (next.as_millisecond() > left.as_i64()).then_some(())
    });
}

#[test]
fn a_job_with_named_nodes_runs_only_there() {
    let (redis, script) = (TestRedis::start(), Script::new());
    let (eye, ctl) = (Eye::on(&redis), Schedctl::on(&redis));
    let _nodes = nodes(&redis, &script, "");
    for number in 0..6 {
        let (at, on) =
            if number % 2 == 0 { ("two", json!("two")) } else { ("", json!(["one", "two"])) };
        let name = format!("job{number}");
        eye.add(&json!({"name": name, "in": "0s", "shell": "true", "on": on}));
        let run = eye.wait_for_history(&name, 1).remove(0);
        let node = run.node.unwrap();
        assert!(node == at || at.is_empty() && ["one", "two"].contains(&node.as_str()), "{node}");
    }
    eye.add(&json!({"name": "far", "in": "0s", "shell": "true", "on": "four"}));
    let said = ctl.run(&["explain", "far"]).good();
    assert!(said.stdout.contains("node four does not run"), "{}", said.stdout);
}

#[test]
fn a_job_that_gets_instances_while_it_is_due_has_no_further_run_of_its_own() {
    let (redis, script) = (TestRedis::start(), Script::new());
    let (eye, ctl) = (Eye::on(&redis), Schedctl::on(&redis));
    let node = ScriptedNode::on(&redis, &script).node("one").jobs("[queues.q]\n").start();
    until("the queue is known", LONG, || {
        Some(()).filter(|()| !eye.ask(eye.store().read_queues()).unwrap().is_empty())
    });
    ctl.run(&["queue", "pause", "q"]).good();
    let add = |more: &[&str]| {
        let words = ["add", "--name", "c", "--replace", "--every", "1s", "--queue", "q"];
        ctl.run(&[&words[..], more, &["--shell", "true"]].concat()).good();
    };
    add(&[]);
    let pending = eye.job("c").unwrap().pending.unwrap();
    until("a run is due", LONG, || {
        Some(()).filter(|()| eye.ask(eye.store().now()).unwrap() > pending.due())
    });
    add(&["--on", "each-node"]);
    assert_eq!(eye.job("c").unwrap().pending, None);
    let owed = eye.run(&pending.to_string()).unwrap();
    assert_eq!(owed.reason.as_deref(), Some("the job runs on each node now"));
    ctl.run(&["queue", "resume", "q"]).good();
    eye.wait_for_history("c/one", 2);
    assert_eq!(script.of("c").len(), 0, "{:?}", script.all());
    node.wait_for_log("Run started.");
}

#[test]
fn a_job_that_must_not_run_beside_a_job_on_each_node_waits_for_all_of_them() {
    let (redis, script) = (TestRedis::start(), Script::new());
    let (eye, ctl) = (Eye::on(&redis), Schedctl::on(&redis));
    script.set("hold", &[Act::GoOn]);
    let toml = "[jobs.c]\non = \"each-node\"\nshell = \"hold\"\n\
                [jobs.b]\nnot_while = [\"c\"]\nshell = \"true\"\n";
    let _nodes = nodes(&redis, &script, toml);
    wait_for_instances(&eye, "c", &NODES);
    ctl.run(&["run", "c"]).good();
    until("all nodes run it at once", LONG, || Some(()).filter(|()| script.all().len() == 3));
    let run = ctl.run(&["run", "b"]).good().stdout.trim().to_owned();
    until("the other job waits", LONG, || {
        eye.run(&run).filter(|run| run.waiting_for.as_deref() == Some("job c"))
    });
    script.end("hold");
    assert_eq!(eye.wait_for_history("b", 1)[0].state, RunState::Succeeded);
}

#[test]
fn an_instance_is_no_job_to_cancel_and_no_node_has_a_reserved_name() {
    let (redis, script) = (TestRedis::start(), Script::new());
    let (eye, ctl) = (Eye::on(&redis), Schedctl::on(&redis));
    let toml = "[jobs.c]\nevery = \"1h\"\non = \"each-node\"\nshell = \"true\"\n";
    let _nodes = nodes(&redis, &script, toml);
    wait_for_instances(&eye, "c", &NODES);
    ctl.run(&["cancel", "c/one"]).refused(4, &["job c/one is the instance of job c on one node"]);
    // A lost entry of the index removes no instance.
    let mut connection = redis.connection();
    let _: i64 = redis::cmd("DEL").arg("{schedd}:job_gates").query(&mut connection).unwrap();
    ctl.run(&["add", "--name", "x", "--in", "1h", "--shell", "true"]).good();
    let checked = ctl.run(&["doctor"]).stdout;
    assert!(checked.contains("job_gates"), "{checked}");
    ctl.run(&["doctor", "--fix"]);
    for node in NODES {
        assert!(eye.job(&format!("c/{node}")).unwrap().is_live());
    }
}
