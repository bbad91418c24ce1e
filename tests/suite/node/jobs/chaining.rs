//! Chains on whole nodes: children run after their parents, once an occurrence, whatever befalls the nodes.

use std::collections::BTreeSet;

use serde_json::json;

use crate::support::ctl::Schedctl;
use crate::support::eye::Eye;
use crate::support::redis::TestRedis;
use crate::support::script::{Act, Script, exit};
use crate::support::scripted_node::ScriptedNode;
use crate::support::wait::{LONG, until};
use schedd_core::domain::run::run_state::RunState;
use schedd_schedule::chain::chain_end::ParentEnd;

const CHAIN: &str = "\
[jobs.extract]\nevery = \"1s\"\noverlap = \"allow\"\nshell = \"true\"\n\
[jobs.left]\nafter = \"extract\"\noverlap = \"allow\"\nshell = \"true\"\n\
[jobs.right]\nafter = [\"extract\"]\noverlap = \"allow\"\nshell = \"true\"\n\
[jobs.join]\nafter = [\"left\", \"right\"]\noverlap = \"allow\"\nshell = \"true\"\n";

#[test]
fn each_occurrence_of_the_root_brings_each_child_once_with_two_nodes() {
    let (redis, script) = (TestRedis::start(), Script::new());
    let eye = Eye::on(&redis);
    let _nodes =
        ["one", "two"].map(|node| ScriptedNode::on(&redis, &script).node(node).jobs(CHAIN).start());
    let runs = eye.wait_for_history("join", 4);
    assert!(runs.iter().all(|run| run.state == RunState::Succeeded), "{runs:?}");
    for job in ["left", "right", "join"] {
        let begun: Vec<String> = script.of(job).iter().map(|effect| effect.run.clone()).collect();
        let distinct: BTreeSet<&String> = begun.iter().collect();
        assert_eq!(begun.len(), distinct.len(), "{job}: {begun:?}");
    }
    let dues: BTreeSet<_> = eye.history("extract").iter().map(|run| run.run.due()).collect();
    assert!(runs.iter().all(|run| dues.contains(&run.run.due())), "{runs:?}");
}

#[test]
fn the_attempt_of_a_child_gets_the_ends_of_its_parents() {
    let (redis, script) = (TestRedis::start(), Script::new());
    let eye = Eye::on(&redis);
    script.set("false", &[Act::End(exit(3))]);
    eye.add(&json!({"name": "root", "shell": "true"}));
    eye.add(&json!({"name": "load", "after": "root", "shell": "false"}));
    eye.add(&json!({"name": "clean", "after_failed": ["load", "root"], "shell": "true"}));
    let _node = ScriptedNode::on(&redis, &script).start();
    let ctl = Schedctl::on(&redis);
    ctl.run(&["run", "root"]).good();
    let run = eye.wait_for_history("clean", 1).remove(0);
    let attempt = script
        .attempts()
        .into_iter()
        .find(|attempt| attempt.run == run.run)
        .expect("the attempt of the child");
    let parents: serde_json::Value = attempt.parents.iter().map(ParentEnd::to_json).collect();
    assert_eq!(
        (&parents[0]["job"], &parents[0]["exit_code"], &parents[0]["state"]),
        (&json!("load"), &json!(3), &json!("failed"))
    );
    assert_eq!(parents[1]["reason"], json!(null));
    let shown = ctl.run(&["show", &run.run.to_string(), "--json"]).good().json();
    assert_eq!(shown["parents"], parents);
}

#[test]
fn a_chain_goes_on_when_the_node_that_ended_the_parent_dies() {
    let (redis, script) = (TestRedis::durable(), Script::new());
    let eye = Eye::on(&redis);
    let jobs = "[daemon]\nlease = \"2s\"\n";
    script.set("held", &[Act::GoOn]);
    eye.add(&json!({"name": "root", "shell": "held"}));
    for at in 0..10 {
        let parent = if at == 0 { "root".to_owned() } else { format!("c{}", at - 1) };
        eye.add(&json!({"name": format!("c{at}"), "after": parent, "shell": "true"}));
    }
    let mut one = ScriptedNode::on(&redis, &script).node("one").jobs(jobs).start();
    Schedctl::on(&redis).run(&["run", "root"]).good();
    until("it runs", LONG, || script.of("root").into_iter().next());
    script.end("held");
    eye.wait_for_history("root", 1);
    one.crash();
    let _two = ScriptedNode::on(&redis, &script).node("two").jobs(jobs).start();
    let last = eye.wait_for_history("c9", 1).remove(0);
    assert_eq!(last.state, RunState::Succeeded);
    for at in 0..10 {
        let runs = eye.history(&format!("c{at}"));
        assert_eq!(runs.len(), 1, "{runs:?}");
    }
}

#[test]
fn a_backfill_of_the_root_brings_its_children() {
    let (redis, script) = (TestRedis::start(), Script::new());
    let eye = Eye::on(&redis);
    eye.add(&json!({"name": "root", "cron": "0 0 1 1 *", "shell": "true"}));
    eye.add(&json!({"name": "child", "after": "root", "shell": "true"}));
    let _node = ScriptedNode::on(&redis, &script).start();
    let ctl = Schedctl::on(&redis);
    ctl.run(&["backfill", "child", "--from", "3 years ago", "--yes"])
        .refused(2, &["child", "schedctl backfill root"]);
    ctl.run(&["backfill", "root", "--from", "2020-06-01", "--to", "2023-06-01", "--yes"]).good();
    let runs = eye.wait_for_history("child", 3);
    assert!(
        runs.iter()
            .all(|run| run.run.word() == Some("backfill") && run.state == RunState::Succeeded),
        "{runs:?}"
    );
}

#[test]
fn a_reload_while_a_parent_runs_leaves_no_occurrence_that_waits_for_ever() {
    let file = |rest: &str| {
        let job = |(name, after): (&str, &str)| format!("[jobs.{name}]\n{after}shell = \"true\"\n");
        let root = job(("a", "")) + &job(("x", "after = \"a\"\n"));
        format!("{root}[jobs.y]\nafter = \"a\"\nshell = \"held\"\n{rest}")
    };
    let joined = "[jobs.z]\nafter = [\"x\", \"y\"]\nshell = \"true\"\n[jobs.w]\nafter = \"z\"\nshell = \"true\"\n";
    // `z` loses a parent, `z` is removed, and `z` gets a schedule of its own.
    for (rest, of_z, of_w) in [
        (
            "[jobs.z]\nafter = \"x\"\nshell = \"true\"\n[jobs.w]\nafter = \"z\"\nshell = \"true\"\n",
            RunState::Succeeded,
            RunState::Succeeded,
        ),
        ("[jobs.w]\nafter = \"x\"\nshell = \"true\"\n", RunState::Cancelled, RunState::Skipped),
        (
            "[jobs.z]\ncron = \"@yearly\"\nshell = \"true\"\n[jobs.w]\nafter = \"z\"\nshell = \"true\"\n",
            RunState::Succeeded,
            RunState::Succeeded,
        ),
    ] {
        let (redis, script) = (TestRedis::start(), Script::new());
        let eye = Eye::on(&redis);
        script.set("held", &[Act::GoOn]);
        let node = ScriptedNode::on(&redis, &script).jobs(&file(joined)).start();
        let await_applied = |times: usize| {
            until("the file is applied", LONG, || {
                (node.log().matches("file are applied").count() == times).then_some(())
            });
        };
        await_applied(1);
        Schedctl::on(&redis).run(&["run", "a"]).good();
        eye.wait_for_history("x", 1);
        until("y runs", LONG, || script.of("y").into_iter().next());
        node.reload(&file(rest));
        await_applied(2);
        script.end("held");
        let ends = ["z", "w"].map(|job| eye.wait_for_history(job, 1)[0].state);
        assert_eq!(ends, [of_z, of_w], "{rest}");
        let left: Vec<String> =
            redis::cmd("KEYS").arg("*}:chain:*").query(&mut redis.connection()).unwrap();
        assert_eq!(left, [] as [String; 0], "{rest}");
    }
}
