//! A run sets the time of its job's next run.

use schedd_core::domain::run::run_state::{AttemptOutcome, RunState};
use serde_json::json;

use crate::support::ctl::Schedctl;
use crate::support::eye::Eye;
use crate::support::redis::TestRedis;
use crate::support::script::{Act, Script, exit};
use crate::support::scripted_node::ScriptedNode;
use crate::support::wait::{LONG, until};

/// An attempt that succeeds and asks for this time of the next run.
fn asking(next: &str) -> Act {
    Act::End(AttemptOutcome { next: Some(Ok(next.to_owned())), ..exit(0) })
}

#[test]
fn a_job_without_a_schedule_paces_itself() {
    let (redis, script) = (TestRedis::start(), Script::new());
    let eye = Eye::on(&redis);
    script.set("pace", &[asking("300ms")]);
    let toml = "[jobs.pace]\nshell = \"pace\"\n";
    let _node = ScriptedNode::on(&redis, &script).jobs(toml).start();
    until("the job is there", LONG, || eye.job("pace"));
    Schedctl::on(&redis).run(&["run", "pace"]).good();
    let runs = eye.wait_for_history("pace", 3);
    for pair in runs.windows(2) {
        let [earlier, later] = pair else { panic!() };
        let wait = later.run.due().since(earlier.started_at.unwrap());
        assert!(wait.as_millis() >= 300, "{earlier:?} {later:?}");
        assert!(later.started_at.unwrap() >= later.run.due(), "{later:?}");
        assert_eq!(later.asked_by.as_deref(), Some(earlier.run.to_string().as_str()));
    }
}

#[test]
fn a_run_postpones_the_next_and_what_it_may_not_ask_for_is_refused() {
    let (redis, script) = (TestRedis::start(), Script::new());
    let (eye, ctl) = (Eye::on(&redis), Schedctl::on(&redis));
    script.set("later", &[asking("30m")]);
    script.set("too late", &[asking("2h")]);
    let toml = "[defaults]\nnext_within = \"90m\"\n[jobs.j]\nevery = \"1h\"\nshell = \"later\"\n\
                [jobs.far]\nshell = \"too late\"\n";
    let _node = ScriptedNode::on(&redis, &script).jobs(toml).start();
    until("the job is there", LONG, || eye.job("j"));
    // The time is earlier than the next occurrence, so a run is planned beside the schedule.
    ctl.run(&["run", "j", "--wait"]).good();
    let job = eye.job("j").unwrap();
    assert!(job.next_run.is_some() && job.pending.is_some());
    ctl.run(&["run", "far", "--wait"]).good();
    let refused = eye.history("far").remove(0);
    assert_eq!(refused.state, RunState::Succeeded);
    assert!(refused.next.as_deref().unwrap().contains("next_within = \"1h30m\""), "{refused:?}");
    // The user sees it where the run is shown.
    for verb in [&["show", "far@last"][..], &["history", "far"]] {
        let shown = ctl.run(verb).good().stdout;
        assert!(shown.contains("next run not set: time \"2h\" is later than"), "{shown}");
    }
    let why = "line \"nxt=3s\" of $SCHEDD_RESULT is not understood";
    let outcome = AttemptOutcome { next: Some(Err(why.to_owned())), ..exit(3) };
    script.set("too late", &[Act::End(outcome)]);
    let ran = ctl.run(&["run", "far", "--wait"]);
    assert!(ran.stderr.contains(&format!("exit code 3; next run not set: {why}")), "{ran:?}");

    // An operator postpones the planned run: it starts later than due, and counts as on time.
    let said = ctl.run(&["next", "j", "--set", "80m"]).good();
    assert!(said.stdout.starts_with("job j: run j@"), "{}", said.stdout);
    let job = eye.job("j").unwrap();
    assert_eq!(job.next_run, None, "the run of the earlier time is gone");
    assert!(job.next_set.unwrap().0 > job.pending.unwrap().due());
    let checked = ctl.run(&["doctor"]).stdout;
    assert!(checked.contains("no findings"), "{checked}");
    ctl.run(&["next", "j", "--set", "3h"]).refused(2, &["--set: time \"3h\"", "next_within"]);
    ctl.run(&["next", "nobody", "--set", "3h"]).refused(3, &["no job nobody"]);
    ctl.run(&["next", "j", "--set", "yesterday"]).refused(2, &["is past"]);
    ctl.run(&["pause", "j"]).good();
    ctl.run(&["next", "j", "--set", "5m"]).refused(4, &["job j is paused"]);
}

#[test]
fn a_postponed_run_is_neither_missed_nor_late() {
    let (redis, script) = (TestRedis::start(), Script::new());
    let (eye, ctl) = (Eye::on(&redis), Schedctl::on(&redis));
    let _node = ScriptedNode::on(&redis, &script).start();
    eye.add(&json!({
        "name": "j", "every": "1s", "shell": "true", "late_after": "1s", "catch_up": "skip"
    }));
    eye.wait_for_history("j", 1);
    ctl.run(&["next", "j", "--set", "3500ms"]).good();
    let set = eye.job("j").unwrap().next_set.unwrap().0;
    let first = until("a run starts after the time", LONG, || {
        let runs = eye.history("j");
        runs.into_iter().rfind(|run| run.started_at.is_some_and(|at| at >= set))
    });
    assert_eq!(first.state, RunState::Succeeded);
    let early = eye.history("j").into_iter().filter(|run| {
        run.state != RunState::Skipped && run.run.due() < set && run.started_at.unwrap() > set
    });
    assert_eq!(early.count(), 1, "the newest occurrence before the time runs at the time");
}

#[test]
fn groups_shows_the_planned_time_of_each_member_and_of_the_turn() {
    let (redis, script) = (TestRedis::start(), Script::new());
    let (eye, ctl) = (Eye::on(&redis), Schedctl::on(&redis));
    let toml = "[groups.g]\nmode = \"alternate\"\norder = [\"a\", \"b\"]\n\
                [jobs.a]\nevery = \"1h\"\ngroup = \"g\"\nshell = \"true\"\n\
                [jobs.b]\nevery = \"2h\"\ngroup = \"g\"\nshell = \"true\"\n";
    let _node = ScriptedNode::on(&redis, &script).jobs(toml).start();
    until("the jobs are there", LONG, || eye.job("a").and(eye.job("b")));
    let group = || ctl.run(&["groups", "--json"]).good().json()[0].clone();
    let due = |job: &str| eye.job(job).unwrap().pending.unwrap().due().to_string();
    let members = json!([
        {"job": "a", "next_due": due("a")}, {"job": "b", "next_due": due("b")}
    ]);
    assert_eq!((&group()["members"], &group()["next_turn"]), (&members, &json!(due("a"))));
    let said = ctl.run(&["next", "a", "--set", "20h"]).good();
    assert!(said.stdout.starts_with("job a: the next turn of group g is at "), "{}", said.stdout);
    let shown = group();
    assert!(shown["not_before"].is_string(), "{shown}");
    assert_eq!(shown["not_before"], shown["next_turn"]);
    let table = ctl.run(&["groups"]).good().stdout;
    assert!(table.contains("GROUP  MEMBER  NEXT\ng      a       "), "{table}");
}

#[test]
fn a_set_time_outlasts_a_restart_of_the_node_and_a_check() {
    let (redis, script) = (TestRedis::start(), Script::new());
    let (eye, ctl) = (Eye::on(&redis), Schedctl::on(&redis));
    let toml = "[jobs.hand]\nshell = \"true\"\n[jobs.hourly]\nevery = \"1h\"\nshell = \"true\"\n";
    let mut node = ScriptedNode::on(&redis, &script).node("one").jobs(toml).start();
    until("the jobs are there", LONG, || eye.job("hand").and(eye.job("hourly")));
    let extra = ctl.run(&["next", "hand", "--set", "2h", "--json"]).good().json();
    let listed = ctl.run(&["list", "hand", "--json"]).good().json();
    assert_eq!(listed[0]["next_due"], extra["next_due"], "{listed}");
    let shown = ctl.run(&["show", "hand@next", "--json"]).good().json();
    assert_eq!(shown["run_id"], extra["run_id"], "{shown}");
    ctl.run(&["next", "hourly", "--set", "3h"]).good();
    let scores = || {
        let mut connection = redis.connection();
        let due: Vec<(String, i64)> = redis::cmd("ZRANGE")
            .arg("{schedd}:due:default")
            .arg(0)
            .arg(-1)
            .arg("WITHSCORES")
            .query(&mut connection)
            .unwrap();
        due
    };
    let before = scores();
    assert!(before.iter().any(|(run, _)| extra["run_id"] == json!(run)), "{before:?} {extra}");
    node.stop();
    node.start_again();
    node.wait_for_log("All jobs of the jobs file are applied");
    let checked = ctl.run(&["doctor", "--fix"]).stdout;
    assert!(checked.contains("no findings"), "{checked}");
    assert_eq!(scores(), before);
    assert!(script.all().is_empty());
}

#[test]
fn a_postponed_run_is_not_too_late_for_its_rules() {
    let (redis, script) = (TestRedis::start(), Script::new());
    let (eye, ctl) = (Eye::on(&redis), Schedctl::on(&redis));
    let _node = ScriptedNode::on(&redis, &script).start();
    // Two seconds after an occurrence, of which there is one each 5 s.
    eye.add(&json!({
        "name": "j", "every": "5s", "shell": "true", "skip_if_late": "1s",
        "catch_up": {"mode": "skip"}, "late_after": "1s"
    }));
    eye.wait_for_history("j", 1);
    let pending = eye.job("j").unwrap().pending.unwrap();
    let at = (pending.due().as_i64() + 2_500).cast_unsigned();
    let at = std::time::UNIX_EPOCH + std::time::Duration::from_millis(at);
    let text = chrono::DateTime::<chrono::Utc>::from(at).to_rfc3339();
    ctl.run(&["next", "j", "--set", &text]).good();
    let run = until("the run has ended", LONG, || eye.run(&pending.to_string()));
    let run = until("the run has ended", LONG, || {
        eye.run(&run.run.to_string()).filter(|run| run.state.is_final())
    });
    assert_eq!(run.state, RunState::Succeeded, "{run:?}");
}
