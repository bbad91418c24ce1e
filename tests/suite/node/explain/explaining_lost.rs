//! `schedctl explain` after Redis lost data: which loss, what it took, and what is known of an occurrence all the same.

use std::fs;
use std::path::Path;

use serde_json::json;

use super::explaining::{assert_says, explained};
use crate::node::QUICK;
use crate::support::ctl::Schedctl;
use crate::support::eye::Eye;
use crate::support::redis::TestRedis;
use crate::support::script::Script;
use crate::support::scripted_node::ScriptedNode;
use crate::support::wait::{LONG, until};
use schedd_core::domain::run::run_state::RunState;
use schedd_schedule::time::unix_millis::UnixMillis;

/// Two nodes, of which only the first was there when the two occurrences ran; the second has seen that fences had risen.
struct Scene {
    redis: TestRedis,
    nodes: [ScriptedNode; 2],
    /// An occurrence that succeeded before the snapshot, and one that did after it.
    before: UnixMillis,
    after: UnixMillis,
}

/// What becomes of the first node's journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Journal {
    Kept,
    Gone,
}

fn forget_journal(home: &Path) {
    for file in fs::read_dir(home.join("schedd")).unwrap().flatten() {
        if file.file_name().to_string_lossy().starts_with("journal-") {
            fs::remove_file(file.path()).unwrap();
        }
    }
}

/// The first node dies, then `lose` has Redis lose data, then the node comes again. What was missed is skipped.
fn scene(journal: Journal, lose: impl Fn(&mut TestRedis)) -> Scene {
    scene_under("skip", journal, lose)
}

/// The same with what is missed caught up by this rule.
fn scene_under(catch_up: &str, journal: Journal, lose: impl Fn(&mut TestRedis)) -> Scene {
    let (mut redis, script) = (TestRedis::start(), Script::new());
    let eye = Eye::on(&redis);
    let job = format!(
        "[jobs.j]\nevery = \"1s\"\ncatch_up = \"{catch_up}\"\nlate_after = \"1s\"\nshell = \"true\"\n"
    );
    let mut one =
        ScriptedNode::on(&redis, &script).node("n1").jobs(&format!("{QUICK}{job}")).start();
    let newest = |count: usize| {
        eye.wait_for_history("j", count).iter().map(|run| run.run.due()).max().unwrap()
    };
    let before = newest(2);
    let () = redis::cmd("SAVE").query(&mut redis.connection()).unwrap();
    let count = eye.history("j").len();
    // Long enough after the snapshot that it cannot be in it.
    let after = newest(count + 3);
    let two = ScriptedNode::on(&redis, &script).node("n2").jobs(QUICK).start();
    until("the second node has seen it whole since", LONG, || {
        let home = two.state_home().join("schedd/journal-schedd@n2");
        fs::read_to_string(home).ok().filter(|text| text.contains("\"server\""))
    });
    until("the journal knows it", LONG, || {
        let text = fs::read_to_string(one.state_home().join("schedd/journal-schedd@n1")).ok()?;
        text.contains(&format!("\"j@{}\"", after.as_i64())).then_some(())
    });
    one.crash();
    if journal == Journal::Gone {
        forget_journal(&one.state_home());
    }
    lose(&mut redis);
    two.wait_for_log("has restored the runs of its journal");
    one.start_again();
    let eye = Eye::on(&redis);
    until("the job goes on", LONG, || {
        let is_new = |due: UnixMillis| due.as_i64() > after.as_i64() + 1_000;
        eye.history("j")
            .into_iter()
            .find(|run| run.state == RunState::Succeeded && is_new(run.run.due()))
    });
    Scene { redis, nodes: [one, two], before, after }
}

fn restore(redis: &mut TestRedis) {
    redis.restart();
}

fn flush(redis: &mut TestRedis) {
    let () = redis::cmd("FLUSHALL").query(&mut redis.connection()).unwrap();
}

/// The codes of an explanation of the occurrence at an instant.
fn codes(redis: &TestRedis, at: UnixMillis) -> Vec<String> {
    let (_, document) = explained(redis, &["j", "--at", &at.to_string()]);
    document["findings"]
        .as_array()
        .unwrap()
        .iter()
        .map(|found| found["code"].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn an_occurrence_skipped_after_an_old_snapshot_came_back_names_the_loss() {
    let scene = scene(Journal::Gone, restore);
    let said = [
        "The run was skipped after Redis had lost data",
        "Node n2 noticed on",
        "an older state came back",
        "Records made between",
        "The journal of node n2 has no record of this occurrence, so it is not known if the occurrence ran.",
        "Redis lost the data that shows whether the run started on time.",
        "catch_up = skip",
    ];
    assert_says(&scene.redis, &["j", "--at", &scene.after.to_string()], &said);
    let reported = codes(&scene.redis, scene.after);
    assert!(
        !reported
            .iter()
            .any(|code| code == "skipped_missed" || code == "late_redis" || code == "late_no_node"),
        "{reported:?}"
    );
    // What the snapshot had is as it was.
    let kept = codes(&scene.redis, scene.before);
    assert!(
        kept.contains(&"succeeded".to_owned()) && !kept.contains(&"data_lost".to_owned()),
        "{kept:?}"
    );
    // So is what came since.
    let eye = Eye::on(&scene.redis);
    let newest = eye
        .history("j")
        .into_iter()
        .filter(|run| run.state == RunState::Succeeded)
        .map(|run| run.run.due())
        .max();
    let since = codes(&scene.redis, newest.unwrap());
    assert!(
        since.contains(&"on_time".to_owned()) && !since.contains(&"data_lost".to_owned()),
        "{since:?}"
    );
    let (_, document) = explained(&scene.redis, &["j", "--at", &scene.after.to_string()]);
    let loss = &document["losses"][0];
    assert_eq!(
        (&loss["noticed_by"], &loss["reported_by"][0]),
        (&"n2".into(), &"n2".into()),
        "{loss}"
    );
    assert!(
        loss["data_until"].as_str().unwrap() < loss["last_complete_at"].as_str().unwrap(),
        "{loss}"
    );
    drop(scene.nodes);
}

#[test]
fn an_occurrence_run_again_after_an_old_snapshot_came_back_may_have_run_before() {
    let scene = scene_under("all", Journal::Gone, restore);
    let said = [
        "The run succeeded on",
        "Node n2 noticed on",
        "so this occurrence may also have run before the data loss. The journal of node n2 has no record of this occurrence.",
        "Redis lost the data that shows whether the run started on time.",
    ];
    assert_says(&scene.redis, &["j", "--at", &scene.after.to_string()], &said);
    let reported = codes(&scene.redis, scene.after);
    let invented = ["late", "late_no_node", "not_running", "free", "caught_up"];
    assert!(!reported.iter().any(|code| invented.contains(&code.as_str())), "{reported:?}");
    drop(scene.nodes);
}

#[test]
fn what_a_journal_gave_back_after_an_old_snapshot_is_reported_as_it_ended() {
    let scene = scene(Journal::Kept, restore);
    let said = [
        "The run succeeded on",
        "Redis had lost the record of this run. The journal of node n1 restored the record.",
    ];
    assert_says(&scene.redis, &["j", "--at", &scene.after.to_string()], &said);
}

#[test]
fn an_occurrence_before_a_flush_names_the_loss_or_its_end_if_a_journal_knew() {
    let gone = scene(Journal::Gone, flush);
    for at in [gone.before, gone.after] {
        let said = [
            "Redis lost the records of the job's runs in a data loss.",
            "all data was deleted",
            "so it is not known if the occurrence ran",
        ];
        assert_says(&gone.redis, &["j", "--at", &at.to_string()], &said);
    }
    let known = scene(Journal::Kept, flush);
    for at in [known.before, known.after] {
        assert_says(
            &known.redis,
            &["j", "--at", &at.to_string()],
            &["The run succeeded on", "The journal of node n1 restored the record."],
        );
    }
}

#[test]
fn a_job_that_a_loss_took_is_explained_even_if_nothing_else_is_kept_of_it() {
    let (redis, script) = (TestRedis::start(), Script::new());
    let eye = Eye::on(&redis);
    let node = ScriptedNode::on(&redis, &script).node("n1").jobs(QUICK).start();
    eye.add(&json!({"name": "api", "every": "1h", "shell": "true"}));
    until("the journal knows the job", LONG, || {
        let text = fs::read_to_string(node.state_home().join("schedd/journal-schedd@n1")).ok()?;
        text.contains("\"n\":\"api\"").then_some(())
    });
    let () = redis::cmd("FLUSHALL").query(&mut redis.connection()).unwrap();
    node.wait_for_log("Redis lost jobs that were added by schedctl");
    let said = [
        "The job was added by schedctl (every 1h). Redis lost the job in the data loss noticed on",
        "Redis lost the records of the job's runs in a data loss.",
    ];
    until("the node has reported it", LONG, || {
        (Schedctl::on(&redis).run(&["explain", "api"]).code == 0).then_some(())
    });
    assert_says(&redis, &["api"], &said);
}
