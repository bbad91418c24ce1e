//! `schedctl explain` on whole nodes: what became of an occurrence, by whom, and by which rule.

use std::process::Command;

use redis::Commands as _;
use serde_json::{Value, json};

use crate::node::QUICK;
use crate::support::ctl::Schedctl;
use crate::support::eye::Eye;
use crate::support::redis::TestRedis;
use crate::support::script::Script;
use crate::support::scripted_node::ScriptedNode;
use crate::support::wait::{LONG, until};
use schedd_core::domain::run::run_state::RunState;
use schedd_store::RunRecord;

/// Who runs the tests, as schedctl has it.
pub(crate) fn who() -> String {
    let say = |program: &str, arg: &str| {
        let output = Command::new(program).arg(arg).output().unwrap();
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    };
    format!("{}@{}", say("id", "-un"), say("uname", "-n"))
}

/// The sentences of an explanation, one a line, and the document.
#[track_caller]
pub(crate) fn explained(redis: &TestRedis, words: &[&str]) -> (String, Value) {
    let document =
        Schedctl::on(redis).run(&[&["explain"], words, &["--json"]].concat()).good().json();
    let sentences = document["findings"]
        .as_array()
        .unwrap()
        .iter()
        .map(|found| found["sentence"].as_str().unwrap());
    (sentences.collect::<Vec<_>>().join("\n"), document)
}

/// Demands that an explanation says each of these.
#[track_caller]
pub(crate) fn assert_says(redis: &TestRedis, words: &[&str], wanted: &[&str]) {
    let (text, _) = explained(redis, words);
    for sentence in wanted {
        assert!(text.contains(sentence), "{sentence:?} is not said:\n{text}");
    }
}

fn first_in(eye: &Eye, job: &str, state: RunState) -> RunRecord {
    until(&format!("a run of {job} is {state}"), LONG, || {
        eye.history(job).into_iter().find(|run| run.state == state)
    })
}

#[test]
fn a_run_on_time_is_reported_as_such_with_the_file_it_comes_from() {
    let (redis, script) = (TestRedis::start(), Script::new());
    let eye = Eye::on(&redis);
    let _node = ScriptedNode::on(&redis, &script)
        .node("n1")
        .jobs("[jobs.j]\nevery = \"1s\"\nshell = \"true\"\n")
        .start();
    let run = eye.wait_for_history("j", 3).pop().unwrap();
    let at = run.run.due().to_string();
    let (text, document) = explained(&redis, &["j", "--at", &at]);
    for said in [
        "The schedule has been every 1s",
        "[jobs.j] of the file of node n1",
        "The run succeeded",
        "Node n1 claimed the run.",
        "The run started on time",
    ] {
        assert!(text.contains(said), "{said}: {text}");
    }
    assert_eq!(
        (&document["run"]["run_id"], &document["subject"]),
        (&json!(run.run.to_string()), &json!("run"))
    );
    assert_eq!(document["audit_log"][0]["by"], "file of n1");
    let reported = Schedctl::on(&redis).run(&["explain", "j", "--last"]).good().stdout;
    assert!(
        reported.starts_with("job       j at ") && reported.contains("\ntiming    "),
        "{reported}"
    );
    assert_says(&redis, &["j"], &["Run j@", "overlap = skip is the default."]);
}

#[test]
fn of_a_job_with_many_open_runs_the_first_are_named_and_how_many_more_there_are() {
    let (redis, script) = (TestRedis::start(), Script::new());
    let jobs = "[jobs.hold]\nkey = \"k\"\nshell = \"sleep 600\"\n\
        [jobs.j]\nevery = \"1s\"\noverlap = \"allow\"\nkey = \"k\"\nshell = \"true\"\n";
    let _node = ScriptedNode::on(&redis, &script).node("n1").jobs(jobs).start();
    let ctl = Schedctl::on(&redis);
    until("the key is asked for", LONG, || (ctl.run(&["run", "hold"]).code == 0).then_some(()));
    let (_, document) = until("more are open than are told of", LONG, || {
        Some(explained(&redis, &["j"])).filter(|(text, _)| {
            text.contains(" more run of the job has not ended.")
                || text.contains(" more runs of the job have not ended.")
        })
    });
    let more = document["open_more"].as_u64().unwrap();
    assert!(more >= 1 && document["open"].as_array().unwrap().len() >= 10, "{document}");
}

#[test]
fn an_overlap_names_the_run_that_was_open() {
    let (redis, script) = (TestRedis::start(), Script::new());
    let eye = Eye::on(&redis);
    let _node = ScriptedNode::on(&redis, &script)
        .node("n1")
        .jobs("[jobs.j]\nevery = \"1s\"\nshell = \"sleep 4\"\n")
        .start();
    let skipped = first_in(&eye, "j", RunState::Skipped);
    let open = skipped.behind.clone().unwrap();
    assert!(open.due() < skipped.run.due());
    let said = format!("The run was skipped because run {open} was still open.");
    assert_says(&redis, &[&skipped.run.to_string()], &[&said, "overlap = skip is the default."]);
}

#[test]
fn what_was_missed_while_its_only_node_was_dead_is_reported_for_each_occurrence() {
    let (redis, script) = (TestRedis::start(), Script::new());
    let eye = Eye::on(&redis);
    let jobs = format!(
        "{QUICK}[jobs.j]\nevery = \"1s\"\nshell = \"true\"\ncatch_up = \"skip\"\nlate_after = \"1s\"\n"
    );
    let mut node = ScriptedNode::on(&redis, &script).node("n1").jobs(&jobs).start();
    eye.wait_for_history("j", 1);
    node.crash();
    let last = eye.history("j").pop().unwrap().run.due().as_i64();
    until("some are missed", LONG, || {
        Some(()).filter(|()| eye.ask(eye.store().now()).unwrap().as_i64() > last + 5_000)
    });
    node.start_again();
    let skipped = first_in(&eye, "j", RunState::Skipped);
    let (to, count) = skipped.skipped.unwrap();
    assert!(count > 1, "{skipped:?}");
    let all = format!("For the same reason, all {count} occurrences");
    assert_says(
        &redis,
        &["j", "--at", &to.to_string()],
        &[
            "The run was skipped because a newer occurrence, j@",
            &all,
            "n1 was not running from",
            "No node was running",
            "catch_up = skip, set in [jobs.j]",
        ],
    );
}

#[test]
fn a_pause_and_a_cancel_say_whose_they_were() {
    let (redis, script) = (TestRedis::start(), Script::new());
    let (eye, ctl) = (Eye::on(&redis), Schedctl::on(&redis));
    let _node = ScriptedNode::on(&redis, &script).node("n1").start();
    ctl.run(&["add", "--name", "j", "--every", "1s", "--shell", "true"]).good();
    ctl.run(&["pause", "j"]).good();
    let by = format!("paused by {}", who());
    assert_says(&redis, &["j"], &[&by, "The schedule starts no runs while the job is paused"]);
    let held = eye.job("j").unwrap().paused_run.unwrap();
    until("its time passes", LONG, || {
        Some(()).filter(|()| eye.ask(eye.store().now()).unwrap() > held.due())
    });
    assert_says(
        &redis,
        &["j", "--at", &held.due().to_string()],
        &["The run waits because its job is paused."],
    );
    ctl.run(&["resume", "j"]).good();
    let skipped = first_in(&eye, "j", RunState::Skipped);
    assert_says(
        &redis,
        &[&skipped.run.to_string()],
        &[&format!("The run was skipped because its job was {by}")],
    );

    ctl.run(&["add", "--name", "once", "--in", "1h", "--shell", "true"]).good();
    let run = eye.job("once").unwrap().pending.unwrap().to_string();
    ctl.run(&["cancel", &run]).good();
    assert_says(
        &redis,
        &["once", "--last"],
        &[
            &format!("The run was cancelled by {}", who()),
            &format!("The job was added by {}", who()),
        ],
    );
    assert_eq!(ctl.run(&["history", "once", "--json"]).good().json()[0]["by"], json!(who()));

    ctl.run(&["add", "--name", "long", "--in", "0s", "--shell", "sleep 60"]).good();
    let run = until("it runs", LONG, || {
        eye.ask(eye.store().list_open(&"long".parse().unwrap())).unwrap().pop()
    })
    .to_string();
    until("it has a node", LONG, || eye.run(&run).filter(|run| run.state == RunState::Running));
    assert_says(&redis, &["long"], &["The run is running on n1"]);
    ctl.run(&["cancel", &run]).good();
    let ended = eye.wait_for_history("long", 1).pop().unwrap();
    assert_eq!((ended.state, ended.by), (RunState::Cancelled, Some(who())));
}

#[test]
fn every_attempt_is_reported_and_the_rule_that_ended_them() {
    let (redis, script) = (TestRedis::start(), Script::new());
    let eye = Eye::on(&redis);
    let _node = ScriptedNode::on(&redis, &script).node("n1").start();
    let retry = json!({"limit": 1, "delay": "100ms", "jitter": false});
    eye.add(&json!({"name": "j", "in": "0s", "shell": "exit 3", "retry": retry}));
    eye.wait_for_history("j", 1);
    assert_says(
        &redis,
        &["j", "--last"],
        &[
            "Attempt 1 on n1 started",
            "Attempt 2 on n1 started",
            ": exit code 3.",
            "The run failed.",
            "retry = once, after 100ms",
        ],
    );
}

#[test]
fn a_run_recovered_from_a_dead_node_and_one_lost_with_it_say_so() {
    let (redis, script) = (TestRedis::start(), Script::new());
    let eye = Eye::on(&redis);
    let jobs = format!("{QUICK}[queues.q]\nconcurrency = 4\n");
    let mut one = ScriptedNode::on(&redis, &script).node("one").jobs(&jobs).start();
    for (name, delivery) in [("again", "at-least-once"), ("never", "at-most-once")] {
        eye.add(&json!({"name": name, "in": "0s", "shell": "sleep 3", "queue": "q", "delivery": delivery}));
    }
    until("both run", LONG, || {
        Some(()).filter(|()| eye.ask(eye.store().list_leases(9)).unwrap().len() == 2)
    });
    one.crash();
    let _two = ScriptedNode::on(&redis, &script).node("two").jobs(&jobs).start();
    eye.wait_for_history("again", 1);
    eye.wait_for_history("never", 1);
    let recovered = [
        "Attempt 1 on one started",
        ". Its end is not known: the node of the run stopped renewing its lease",
        "Attempt 2 on two",
        "The run succeeded",
    ];
    assert_says(&redis, &["again", "--last"], &recovered);
    let lost = [
        "Attempt 1 on one started",
        ". Its end is not known: the node of the run stopped renewing its lease.",
        "The run is lost: the node of the run was lost",
        "delivery = at-most-once",
    ];
    assert_says(&redis, &["never", "--last"], &lost);
}

#[test]
fn a_time_that_was_not_due_is_named_with_the_times_around_it_and_the_changes_since() {
    let redis = TestRedis::start();
    let (eye, ctl) = (Eye::on(&redis), Schedctl::on(&redis));
    let add = |cron: &str, more: &[&str]| {
        let words =
            ["add", "--name", "j", "--cron", cron, "--tz", "Europe/Berlin", "--shell", "true"];
        ctl.run(&[&words[..], more].concat()).good();
    };
    add("30 2 1 1 *", &[]);
    let since = eye.job("j").unwrap().since;
    until("a moment has passed", LONG, || {
        Some(()).filter(|()| eye.ask(eye.store().now()).unwrap() > since)
    });
    assert_says(
        &redis,
        &["j", "--at", &since.to_string()],
        &["The job was not due at", "The schedule has been 30 2 1 1 * in Europe/Berlin"],
    );
    add("30 3 1 1 *", &["--replace"]);
    let changed = format!("The schedule was changed by {}", who());
    let around = "the next time is Fri 2027-01-01 03:30:00 CET";
    assert_says(
        &redis,
        &["j", "--at", &since.to_string(), "--tz", "Europe/Berlin"],
        &[
            "The job was not due at",
            "The schedule at that time was 30 2 1 1 * in Europe/Berlin.",
            &changed,
            around,
        ],
    );
    assert_says(
        &redis,
        &["j", "--at", "2027-01-01 03:30", "--tz", "Europe/Berlin"],
        &["The run is planned for Fri 2027-01-01 03:30:00 CET."],
    );
    assert_says(
        &redis,
        &["j", "--at", "2028-01-01 03:30", "--tz", "Europe/Berlin"],
        &["The run is planned for Sat 2028-01-01 03:30:00 CET."],
    );
}

#[test]
fn a_run_whose_record_was_folded_is_reported_from_the_ledger() {
    let redis = TestRedis::start();
    let (eye, ctl) = (Eye::on(&redis), Schedctl::on(&redis));
    ctl.run(&["add", "--name", "j", "--every", "1h", "--shell", "true"]).good();
    let created = eye.job("j").unwrap().since.as_i64();
    let mut raw = redis.connection();
    let range = |from: i64, to: i64, rest: &str| {
        (created + from * 1000, format!("{}:{rest}", created + to * 1000))
    };
    for (score, member) in
        [range(-9_000, -5_000, "3:skipped:overlap"), range(-4_000, -3_000, "2:timed_out:")]
    {
        let () = raw.zadd("{schedd}:ledger:j", member, score).unwrap();
    }
    let () = raw
        .hset_multiple(
            "{schedd}:ledger_before:j",
            &[("succeeded", 40), ("until", created - 10_000_000)],
        )
        .unwrap();
    let at = |seconds: i64| {
        schedd_schedule::time::unix_millis::UnixMillis::new(created + seconds * 1000)
            .unwrap()
            .to_string()
    };
    assert_says(
        &redis,
        &["j", "--at", &at(-7_000)],
        &[
            "ended as skipped (overlap). The ledger does not show whether this occurrence was one of them.",
        ],
    );
    assert_says(
        &redis,
        &["j", "--at", &at(-9_000)],
        &[
            "The run ended as skipped (overlap). Its record is no longer kept. In all, 3 runs due between",
        ],
    );
    assert_says(
        &redis,
        &["j", "--at", &at(-4_000)],
        &["The run ended as timed out. Its record is no longer kept."],
    );
    assert_says(
        &redis,
        &["j", "--at", &at(-20_000)],
        &["Only counts remain of the runs due up to "],
    );
}

#[test]
fn a_job_that_is_gone_is_explained_while_its_runs_are_kept_and_a_stranger_is_not() {
    let (redis, script) = (TestRedis::start(), Script::new());
    let (eye, ctl) = (Eye::on(&redis), Schedctl::on(&redis));
    let _node = ScriptedNode::on(&redis, &script).node("n1").start();
    ctl.run(&["add", "--name", "gone", "--every", "1s", "--shell", "true"]).good();
    eye.wait_for_history("gone", 1);
    ctl.run(&["cancel", "gone"]).good();
    let removed = format!("The job is no longer defined. The job was removed by {}", who());
    assert_says(
        &redis,
        &["gone", "--last"],
        &[&removed, "The run succeeded", "The job has no further runs."],
    );
    let () = redis.connection().del(vec!["{schedd}:job:gone", "{schedd}:audit_log:gone"]).unwrap();
    assert_says(
        &redis,
        &["gone", "--last"],
        &["its definition is no longer kept", "The run succeeded"],
    );
    assert_says(&redis, &["gone"], &["Run gone@"]);

    ctl.run(&["add", "--name", "near", "--every", "1h", "--shell", "true"]).good();
    ctl.run(&["explain", "naer"]).refused(3, &["no job naer", "near"]);
    ctl.run(&["explain", "naer@5"]).refused(3, &["naer"]);
    ctl.run(&["explain", "near", "--at", "sometime"]).refused(2, &["--at", "sometime"]);
    ctl.run(&["explain", "near@5", "--last"]).refused(2, &["--at and --last", "near"]);
    ctl.run(&["explain", "near", "--at", "9am", "--last"]).refused(2, &["--last"]);
    assert_says(&redis, &["near", "--last"], &["The job has not been due yet."]);
}

#[test]
fn a_run_by_hand_says_who_asked_for_it() {
    let (redis, script) = (TestRedis::start(), Script::new());
    let (eye, ctl) = (Eye::on(&redis), Schedctl::on(&redis));
    ctl.run(&["add", "--name", "j", "--shell", "true"]).good();
    let run = ctl.run(&["run", "j"]).good().stdout.trim().to_owned();
    assert_says(
        &redis,
        &["j"],
        &["The job has no schedule", &format!("Run {run} has been ready since")],
    );
    let _node = ScriptedNode::on(&redis, &script).node("n1").start();
    eye.wait_for_history("j", 1);
    let asked = format!("The run was requested by hand by {}", who());
    assert_says(
        &redis,
        &["j", "--last"],
        &[&asked, "The run succeeded", "schedctl run j starts a run."],
    );
}
