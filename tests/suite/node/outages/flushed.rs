//! Redis loses data: all of it, or all since a snapshot. It is noticed and said, and nothing that was done is done again.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use redis::Commands;
use schedd_core::domain::run::run_state::RunState;
use serde_json::{Value, json};

use crate::node::QUICK;
use crate::support::ctl::Schedctl;
use crate::support::daemon::Schedd;
use crate::support::effects::Effect;
use crate::support::eye::Eye;
use crate::support::redis::TestRedis;
use crate::support::script::Script;
use crate::support::scripted_node::ScriptedNode;
use crate::support::wait::{LONG, until};

/// Every attempt of every run so far.
fn by_run(script: &Script) -> BTreeMap<String, Vec<Effect>> {
    let mut runs: BTreeMap<String, Vec<Effect>> = BTreeMap::new();
    for effect in script.all() {
        runs.entry(effect.run.clone()).or_default().push(effect);
    }
    runs
}

fn flush(redis: &TestRedis) {
    let _: () = redis::cmd("FLUSHALL").query(&mut redis.connection()).unwrap();
}

/// Waits until a node's journal holds the end of `run`.
#[track_caller]
pub(crate) fn until_journaled(state_homes: &[&Path], run: &str) {
    let entry = format!("{{\"end\":{{\"r\":\"{run}\"");
    until(&format!("a journal knows {run}"), LONG, || {
        let read = |home: &&Path| {
            let files = fs::read_dir(home.join("schedd")).into_iter().flatten().flatten();
            files
                .filter_map(|file| fs::read_to_string(file.path()).ok())
                .any(|text| text.contains(&entry))
        };
        state_homes.iter().any(read).then_some(())
    });
}

/// Waits until a node has marked the data.
#[track_caller]
fn until_marked(redis: &TestRedis) {
    let _: String =
        until("a node has marked the data", LONG, || redis.connection().get("{schedd}:epoch").ok());
}

fn losses(redis: &TestRedis) -> Value {
    Schedctl::on(redis).run(&["data-loss", "--json"]).good().json()
}

/// The names of the jobs gone at the newest loss.
fn gone(losses: &Value) -> Vec<&str> {
    losses[0]["gone"].as_array().unwrap().iter().map(|job| job["job"].as_str().unwrap()).collect()
}

#[test]
fn a_flush_under_load_repeats_nothing_that_ended_and_the_jobs_of_the_file_go_on() {
    let (redis, script) = (TestRedis::start(), Script::new());
    let eye = Eye::on(&redis);
    let job = |name: &str, work: &str, more: &str| {
        format!("[jobs.{name}]\nevery = \"1s\"\nshell = {work:?}\n{more}\n")
    };
    let jobs = [
        QUICK.to_owned(),
        job("beat", "true", "catch_up = \"all\""),
        "[jobs.tick]\ncron = \"* * * * * *\"\nshell = \"true\"\n".to_owned(),
        job("long", "sleep 5", ""),
        job("once", "sleep 5", "delivery = \"at-most-once\""),
    ]
    .concat();
    eye.add(&json!({"name": "api", "every": "1h", "shell": "true"}));
    eye.add(&json!({"name": "tomorrow", "in": "24h", "shell": "true"}));
    eye.add(&json!({"name": "done", "in": "0s", "shell": "true"}));
    let nodes: Vec<ScriptedNode> = ["one", "two", "three"]
        .iter()
        .map(|node| ScriptedNode::on(&redis, &script).node(node).jobs(&jobs).start())
        .collect();
    eye.wait_for_history("done", 1);
    eye.wait_for_history("beat", 2);
    let homes: Vec<_> = nodes.iter().map(ScriptedNode::state_home).collect();
    let homes: Vec<&Path> = homes.iter().map(AsRef::as_ref).collect();
    for home in &homes {
        until("its journal knows the jobs of the command line", LONG, || {
            let text: String = fs::read_dir(home.join("schedd"))
                .ok()?
                .filter_map(|file| fs::read_to_string(file.ok()?.path()).ok())
                .collect();
            (text.contains("\"n\":\"api\"") && text.contains("\"n\":\"tomorrow\"")).then_some(())
        });
    }
    let open = |job: &str| script.of(job).into_iter().rev().find(|effect| effect.ended.is_none());
    let (long, once) = until("both are at work", LONG, || open("long").zip(open("once")));
    let last = eye.history("beat").last().unwrap().run.to_string();
    until_journaled(&homes, &last);
    flush(&redis);
    for node in &nodes {
        node.wait_for_log("Redis lost data");
        node.wait_for_log("has restored the runs of its journal");
    }
    let losses = until("all have reported", LONG, || {
        Some(losses(&redis)).filter(|losses| {
            losses[0]["reported_by"].as_array().is_some_and(|nodes| nodes.len() == 3)
        })
    });
    assert_eq!(
        (losses.as_array().unwrap().len(), losses[0]["what"].as_str()),
        (1, Some("flushed")),
        "{losses}"
    );
    assert_eq!(gone(&losses), ["api", "tomorrow"], "{losses}");
    assert!(nodes[0].log().contains("api (every 1h)"), "{}", nodes[0].log());
    assert_eq!(eye.history("done")[0].state, RunState::Succeeded);
    assert!(
        eye.history("done")[0]
            .reason
            .as_deref()
            .is_some_and(|why| why.starts_with("restored by the journal of "))
    );
    // What goes on is new.
    let began = script.of("beat").len();
    until("the file's jobs go on", LONG, || {
        (script.of("beat").len() >= began + 3 && script.of("tick").len() >= 3).then_some(())
    });
    let ended = until("the run cut short is done", LONG, || {
        eye.history("long").into_iter().find(|run| run.run.to_string() == long.run)
    });
    assert_eq!((ended.state, ended.attempt), (RunState::Succeeded, long.attempt + 1), "{ended:?}");
    let unknown =
        eye.history("once").into_iter().find(|run| run.run.to_string() == once.run).unwrap();
    assert_eq!(unknown.state, RunState::Lost);
    // It had no end that could be lost.
    let why = unknown.reason.as_deref().unwrap();
    assert!(why.starts_with("Redis lost the record of the start; the journal of "), "{why}");
    for (run, attempts) in by_run(&script) {
        if run == long.run {
            assert_eq!((attempts.len(), attempts[0].ended), (2, None), "{attempts:?}");
        } else {
            assert_eq!(attempts.len(), 1, "done again: {attempts:?}");
        }
    }
}

#[test]
fn an_old_snapshot_put_back_repeats_nothing_that_ended() {
    let (mut redis, script) = (TestRedis::start(), Script::new());
    let eye = Eye::on(&redis);
    // All of the stretch would run again, and the one-shots too.
    let jobs = format!(
        "{QUICK}[jobs.beat]\nevery = \"1s\"\ncatch_up = \"all\"\noverlap = \"allow\"\nshell = \"true\"\n"
    );
    for number in 0..10 {
        eye.add(&json!({"name": format!("short{number}"), "in": format!("{}ms", 3_000 + number * 100), "shell": "true"}));
    }
    eye.add(&json!({"name": "once", "in": "3s", "shell": "true", "delivery": "at-most-once"}));
    eye.add(&json!({"name": "later", "in": "30s", "shell": "true"}));
    let nodes =
        ["one", "two"].map(|node| ScriptedNode::on(&redis, &script).node(node).jobs(&jobs).start());
    eye.wait_for_history("beat", 1);
    let _: () = redis::cmd("SAVE").query(&mut redis.connection()).unwrap();
    assert!(eye.history("once").is_empty(), "the snapshot came too late");
    for job in (0..10).map(|number| format!("short{number}")).chain(["once".to_owned()]) {
        eye.wait_for_history(&job, 1);
    }
    let count = eye.history("beat").len();
    let beats = eye.wait_for_history("beat", count + 1);
    let homes = nodes.each_ref().map(ScriptedNode::state_home);
    until_journaled(&homes.each_ref().map(AsRef::as_ref), &beats.last().unwrap().run.to_string());
    redis.restart();
    for node in &nodes {
        node.wait_for_log("an older state came back");
        node.wait_for_log("has restored the runs of its journal");
    }
    let eye = Eye::on(&redis);
    let began = script.of("beat").len();
    until("it goes on", LONG, || (script.of("beat").len() >= began + 3).then_some(()));
    for (run, attempts) in by_run(&script) {
        assert_eq!(attempts.len(), 1, "{run} was done again: {attempts:?}");
    }
    // Each second has its run, those given back and those since.
    until("each second has its run", LONG, || {
        let mut dues: Vec<i64> =
            eye.history("beat").iter().map(|run| run.run.due().as_i64()).collect();
        dues.sort_unstable();
        let is_whole = dues.windows(2).all(|pair| pair[1] - pair[0] == 1_000);
        // What a job has done is in history a moment later.
        (is_whole && dues.len() >= beats.len() + 3).then_some(())
    });
    let once = eye.history("once").remove(0);
    assert_eq!((once.state, once.attempt), (RunState::Succeeded, 1));
    assert_eq!(eye.job("short3").unwrap().ended.as_deref(), Some("finished"));
    assert_eq!(eye.wait_for_history("later", 1)[0].state, RunState::Succeeded);
    let losses = losses(&redis);
    assert_eq!(
        (losses.as_array().unwrap().len(), losses[0]["what"].as_str()),
        (1, Some("older_data")),
        "{losses}"
    );
    assert!(losses[0]["restored"].as_u64().unwrap() >= 11, "{losses}");
    let shown = Schedctl::on(&redis).run(&["data-loss"]).good().stdout;
    assert!(shown.contains("older data"), "{shown}");
}

#[test]
fn a_run_that_ended_while_redis_was_away_and_came_back_older_is_named_as_it_ended() {
    let (mut redis, script) = (TestRedis::start(), Script::new());
    let eye = Eye::on(&redis);
    let node = ScriptedNode::on(&redis, &script).jobs("[daemon]\nlease = \"20s\"\n").start();
    let jobs = [("work", "at-least-once"), ("once", "at-most-once")];
    for (job, delivery) in jobs {
        eye.add(&json!({"name": job, "in": "2s", "shell": "sleep 2", "delivery": delivery}));
    }
    let _: () = redis::cmd("SAVE").query(&mut redis.connection()).unwrap();
    assert!(script.all().is_empty(), "the snapshot came too late");
    for (job, _) in jobs {
        until("it has begun", LONG, || script.of(job).first().map(drop));
    }
    redis.kill9();
    for (job, _) in jobs {
        until("it has ended", LONG, || script.of(job)[0].ended);
    }
    let home = node.state_home();
    for (job, _) in jobs {
        until_journaled(&[home.as_ref()], &script.of(job)[0].run);
    }
    redis.restart();
    let eye = Eye::on(&redis);
    for (job, delivery) in jobs {
        let run = eye.wait_for_history(job, 1).remove(0);
        assert_eq!((run.state, run.attempt), (RunState::Succeeded, 1), "{delivery}");
        assert_eq!(
            eye.job(job).unwrap().ended.as_deref(),
            Some("finished"),
            "it is not planned any more"
        );
        assert_eq!(script.of(job).len(), 1);
    }
}

#[test]
fn a_node_that_was_away_at_the_loss_gives_back_what_it_knows_when_it_comes() {
    for is_flush in [true, false] {
        let (mut redis, script) = (TestRedis::start(), Script::new());
        let eye = Eye::on(&redis);
        let mut one = ScriptedNode::on(&redis, &script).node("one").jobs(QUICK).start();
        eye.add(&json!({"name": "work", "in": "2s", "shell": "true"}));
        eye.add(&json!({"name": "api", "every": "1h", "shell": "true"}));
        until_marked(&redis);
        let _: () = redis::cmd("SAVE").query(&mut redis.connection()).unwrap();
        let run = eye.wait_for_history("work", 1).remove(0).run.to_string();
        until_journaled(&[&one.state_home()], &run);
        one.crash();
        if is_flush {
            flush(&redis);
        } else {
            redis.restart();
        }
        let eye = Eye::on(&redis);
        one.start_again();
        one.wait_for_log("has restored the runs of its journal");
        let known = until("its run is on record", LONG, || eye.history("work").into_iter().next());
        assert_eq!(known.state, RunState::Succeeded);
        // Long enough for it to have been claimed, had it been due.
        eye.add(&json!({"name": "next", "in": "0s", "shell": "true"}));
        eye.wait_for_history("next", 1);
        assert_eq!(script.of("work").len(), 1, "flush {is_flush}");
        assert_eq!(
            losses(&redis)[0]["what"].as_str(),
            Some(if is_flush { "flushed" } else { "older_data" })
        );
    }
}

#[test]
fn a_flush_while_all_nodes_were_dead_is_one_loss_also_for_the_last_node() {
    let (redis, script) = (TestRedis::start(), Script::new());
    let eye = Eye::on(&redis);
    let mut nodes = ["one", "two"].map(|node| {
        ScriptedNode::on(&redis, &script)
            .node(node)
            .jobs(&format!("{QUICK}labels = [{node:?}]\n"))
            .start()
    });
    for label in ["one", "two"] {
        eye.add(&json!({"name": label, "in": "0s", "shell": "true", "requires": [label]}));
        let run = eye.wait_for_history(label, 1).remove(0).run.to_string();
        let homes = nodes.each_ref().map(ScriptedNode::state_home);
        until_journaled(&homes.each_ref().map(AsRef::as_ref), &run);
        // What one has seen is not to be what the other has seen last.
        if label == "one" {
            nodes[0].crash();
        }
    }
    nodes[1].crash();
    flush(&redis);
    for node in &mut nodes {
        node.start_again();
        node.wait_for_log("has restored the runs of its journal");
    }
    // Long enough for another loss to be found, were there one.
    eye.add(&json!({"name": "next", "in": "0s", "shell": "true"}));
    eye.wait_for_history("next", 1);
    let losses = losses(&redis);
    assert_eq!(
        (losses.as_array().unwrap().len(), losses[0]["what"].as_str()),
        (1, Some("flushed")),
        "{losses}"
    );
    assert_eq!(losses[0]["reported_by"].as_array().unwrap().len(), 2, "{losses}");
}

#[test]
fn a_job_that_is_gone_is_reported_with_the_schedule_it_had_last() {
    let (redis, script) = (TestRedis::start(), Script::new());
    let mut node = ScriptedNode::on(&redis, &script).node("one").start();
    let ctl = Schedctl::on(&redis);
    let until_known = |home: &Path, schedule: &str| {
        let entry = format!("\"s\":\"{schedule}\"");
        until(&format!("the journal knows {schedule}"), LONG, || {
            let text =
                fs::read_to_string(home.join("schedd/journal-schedd@one")).unwrap_or_default();
            (text.contains("\"n\":\"edited\"") && text.contains(&entry)).then_some(())
        });
    };
    ctl.run(&["add", "--name", "edited", "--every", "4h", "--shell", "true"]).good();
    until_known(&node.state_home(), "every 4h");
    // A node looks soon after its start.
    node.stop();
    ctl.run(&["add", "--name", "edited", "--every", "7h", "--replace", "--shell", "true"]).good();
    node.start_again();
    until_known(&node.state_home(), "every 7h");
    flush(&redis);
    node.wait_for_log("edited (every 7h)");
    let losses = until("the loss is told", LONG, || {
        Some(losses(&redis)).filter(|losses| losses[0]["gone"][0].is_object())
    });
    assert_eq!(
        (gone(&losses), losses[0]["gone"][0]["schedule"].as_str()),
        (vec!["edited"], Some("every 7h")),
        "{losses}"
    );
}

#[test]
fn another_server_is_not_given_what_this_one_lost() {
    let (first, second, script) = (TestRedis::start(), TestRedis::start(), Script::new());
    let home = tempfile::Builder::new().prefix("schedd-home-").tempdir_in("/tmp").unwrap();
    let eye = Eye::on(&first);
    let mut node = ScriptedNode::on(&first, &script).node("one").state_home(home.path()).start();
    eye.add(&json!({"name": "work", "in": "0s", "shell": "true"}));
    let run = eye.wait_for_history("work", 1).remove(0).run.to_string();
    until_journaled(&[home.path()], &run);
    node.stop();
    // One with data of its own, then one that is empty.
    let eye = Eye::on(&second);
    drop(ScriptedNode::on(&second, &script).node("other").start());
    for is_empty in [false, true] {
        if is_empty {
            flush(&second);
        }
        let journal = home.path().join("schedd/journal-schedd@one");
        let before = fs::read_to_string(&journal).unwrap();
        let mut node =
            ScriptedNode::on(&second, &script).node("one").state_home(home.path()).start();
        node.wait_for_log("treats it as another server");
        eye.add(&json!({"name": "theirs", "in": "0s", "shell": "true"}));
        eye.wait_for_history("theirs", 1);
        assert!(eye.history("work").is_empty() && losses(&second).as_array().unwrap().is_empty());
        node.stop();
        let aside =
            fs::read_to_string(home.path().join("schedd/journal-schedd@one.aside")).unwrap();
        assert!(aside.starts_with(before.lines().next().unwrap()) && aside.contains(&run));
        fs::write(&journal, before).unwrap();
    }
}

#[test]
fn a_node_that_knew_nothing_and_came_first_after_a_flush_does_not_make_it_another_s() {
    let (redis, script) = (TestRedis::start(), Script::new());
    let eye = Eye::on(&redis);
    let mut one = ScriptedNode::on(&redis, &script).node("one").jobs(QUICK).start();
    eye.add(&json!({"name": "work", "in": "0s", "shell": "true"}));
    let run = eye.wait_for_history("work", 1).remove(0).run.to_string();
    until_journaled(&[&one.state_home()], &run);
    one.crash();
    flush(&redis);
    let fresh = ScriptedNode::on(&redis, &script).node("fresh").jobs(QUICK).start();
    until_marked(&redis);
    one.start_again();
    one.wait_for_log("has restored the runs of its journal");
    fresh.wait_for_log("has restored the runs of its journal");
    assert_eq!(eye.history("work").len(), 1);
    eye.add(&json!({"name": "next", "in": "0s", "shell": "true"}));
    eye.wait_for_history("next", 1);
    assert_eq!(losses(&redis).as_array().unwrap().len(), 1);
}

#[test]
fn a_node_without_a_journal_says_so_once_and_still_notices_a_loss() {
    let redis = TestRedis::start();
    let eye = Eye::on(&redis);
    let node =
        Schedd::on(&redis).node("one").jobs(QUICK).env("XDG_STATE_HOME", "/dev/null").start();
    eye.add(&json!({"name": "work", "in": "0s", "shell": "true"}));
    eye.wait_for_history("work", 1);
    // Redis has the end a moment before the node's memory does.
    node.wait_for_log("Run succeeded");
    node.wait_for_log("This node has no journal");
    flush(&redis);
    eye.wait_for_history("work", 1);
    assert_eq!(node.log().matches("This node has no journal").count(), 1);
}

#[test]
fn a_journal_that_is_garbage_is_kept_aside_and_the_node_starts() {
    let (redis, script) = (TestRedis::start(), Script::new());
    let eye = Eye::on(&redis);
    let mut node = ScriptedNode::on(&redis, &script).node("one").jobs(QUICK).start();
    eye.add(&json!({"name": "a", "in": "0s", "shell": "true"}));
    eye.wait_for_history("a", 1);
    let journal = node.state_home().join("schedd/journal-schedd@one");
    node.crash();
    fs::write(&journal, b"\xff\xfe\0garbage\nand more\nwithout end").unwrap();
    node.start_again();
    node.wait_for_log("A part of the journal cannot be read");
    eye.add(&json!({"name": "b", "in": "0s", "shell": "true"}));
    eye.wait_for_history("b", 1);
    assert!(
        fs::read(journal.with_file_name("journal-schedd@one.damaged"))
            .unwrap()
            .ends_with(b"without end")
    );
    assert!(losses(&redis).as_array().unwrap().is_empty());
}

#[test]
fn marks_deleted_or_damaged_by_hand_stop_nothing_for_long() {
    let (redis, script) = (TestRedis::start(), Script::new());
    let eye = Eye::on(&redis);
    let node = ScriptedNode::on(&redis, &script).node("one").jobs(QUICK).start();
    eye.add(&json!({"name": "a", "in": "0s", "shell": "true"}));
    eye.wait_for_history("a", 1);
    let _: i64 = redis.connection().del("{schedd}:epoch").unwrap();
    node.wait_for_log("the epoch key was deleted");
    eye.add(&json!({"name": "b", "in": "0s", "shell": "true"}));
    assert_eq!(eye.wait_for_history("b", 1)[0].state, RunState::Succeeded);
    let _: i64 = redis.connection().del("{schedd}:epoch").unwrap();
    let _: i64 = redis.connection().rpush("{schedd}:epoch", "x").unwrap();
    let _: i64 = redis.connection().rpush("{schedd}:restoring_until", "x").unwrap_or(0);
    eye.add(&json!({"name": "c", "in": "0s", "shell": "true"}));
    assert_eq!(eye.wait_for_history("c", 1)[0].state, RunState::Succeeded);
    assert_eq!(eye.history("a").len(), 1);
}

#[test]
fn a_damaged_mark_is_written_back_by_a_node_that_knew_it_and_is_no_loss() {
    let (redis, script) = (TestRedis::start(), Script::new());
    let eye = Eye::on(&redis);
    let node = ScriptedNode::on(&redis, &script).node("one").jobs(QUICK).start();
    eye.add(&json!({"name": "a", "in": "0s", "shell": "true"}));
    eye.wait_for_history("a", 1);
    let marked: String = redis.connection().get("{schedd}:epoch").unwrap();
    let _: () = redis.connection().set("{schedd}:epoch", "garbage").unwrap();
    let read = || {
        redis.connection().get::<_, String>("{schedd}:epoch").ok().filter(|epoch| *epoch == marked)
    };
    until("the mark is what it was", LONG, read);
    node.wait_for_log("replaced the value by the known epoch");
    eye.add(&json!({"name": "b", "in": "0s", "shell": "true"}));
    assert_eq!(eye.wait_for_history("b", 1)[0].state, RunState::Succeeded);
    assert!(losses(&redis).as_array().unwrap().is_empty());
}
