//! A job removed and added again under its name on real nodes: what was owed of the earlier job never runs as the later one.

use std::time::Duration;

use schedd_core::domain::run::run_state::RunState;
use schedd_store::JobRecord;
use serde_json::json;

use crate::support::ctl::Schedctl;
use crate::support::eye::Eye;
use crate::support::redis::TestRedis;
use crate::support::script::{Act, Script, exit};
use crate::support::scripted_node::ScriptedNode;
use crate::support::wait::{LONG, until};

const FAR: &str = "2098-12-30T00:00:00Z";

/// A Redis and a script. The line of the later job is `later`.
struct Scene {
    redis: TestRedis,
    eye: Eye,
    ctl: Schedctl,
    script: Script,
}

impl Scene {
    fn new() -> Self {
        let (redis, script) = (TestRedis::start(), Script::new());
        script.set("later", &[Act::End(exit(0))]);
        Self { eye: Eye::on(&redis), ctl: Schedctl::on(&redis), redis, script }
    }

    fn cancel(&self) -> String {
        self.ctl.run(&["cancel", "a"]).good().stdout
    }

    /// Adds job `a` again, to run in many years.
    fn add_again(&self) {
        self.eye.add(&json!({"name": "a", "at": FAR, "shell": "later"}));
    }

    /// Waits until a one-shot that is due after all the others has run, and fails if the later job did anything.
    #[track_caller]
    fn assert_later_job_waits(&self) {
        self.eye.add(&json!({"name": "sentinel", "in": "0s", "shell": "true"}));
        self.eye.wait_for_history("sentinel", 1);
        until("no run of the earlier job is left", LONG, || {
            let manual = self.eye.ask(self.eye.store().list_manual(&"a".parse().unwrap())).unwrap();
            let places =
                self.eye.ask(self.eye.store().list_places(&"a".parse().unwrap(), 100)).unwrap();
            (manual.is_empty() && places.is_empty()).then_some(())
        });
        assert!(self.script.made("later").is_empty(), "the later job ran");
        assert_eq!(
            self.eye.job("a").unwrap().pending.unwrap().due().to_string(),
            "2098-12-30T00:00:00.000Z"
        );
    }
}

#[test]
fn a_run_at_a_gate_ends_with_its_job_and_not_as_the_later_job() {
    let scene = Scene::new();
    let _node = ScriptedNode::on(&scene.redis, &scene.script).jobs(crate::node::QUICK).start();
    let gate = "sleep 1000";
    scene.eye.add(&json!({"name": "holder", "in": "0s", "group": "g", "shell": gate}));
    until("the group is taken", LONG, || {
        Some(()).filter(|()| !scene.script.of("holder").is_empty())
    });
    scene.eye.add(&json!({"name": "a", "every": "1s", "group": "g", "shell": "true"}));
    let waiting =
        || scene.eye.ask(scene.eye.store().list_open(&"a".parse().unwrap())).unwrap().pop();
    let run = until("a run waits at the gate", LONG, waiting);
    assert_eq!(scene.cancel(), "job a cancelled\n");
    assert_eq!(
        scene.eye.run(&run.to_string()).unwrap().state,
        RunState::Cancelled,
        "it ended with its job"
    );
    scene.add_again();
    scene.ctl.run(&["cancel", "holder"]).good();
    scene.assert_later_job_waits();
    assert!(scene.script.of("a").is_empty());
}

#[test]
fn a_run_asked_for_by_hand_ends_with_its_job_and_not_as_the_later_job() {
    let scene = Scene::new();
    let _node = ScriptedNode::on(&scene.redis, &scene.script).jobs(crate::node::QUICK).start();
    scene.eye.add(&json!({"name": "a", "every": "1h", "shell": "true"}));
    scene.ctl.run(&["queue", "pause", "default"]).good();
    let run = scene.ctl.run(&["run", "a"]).good().stdout.trim().to_owned();
    assert_eq!(scene.cancel(), "job a cancelled\n");
    assert_eq!(scene.eye.run(&run).unwrap().state, RunState::Cancelled, "it ended with its job");
    scene.add_again();
    scene.ctl.run(&["queue", "resume", "default"]).good();
    scene.assert_later_job_waits();
    assert!(scene.script.of("a").is_empty());
}

#[test]
fn a_retry_ends_if_a_later_job_of_its_name_has_another_definition() {
    let scene = Scene::new();
    let _node = ScriptedNode::on(&scene.redis, &scene.script).jobs(crate::node::QUICK).start();
    let retry = json!({"limit": 5, "delay": "2s", "jitter": false});
    scene.eye.add(&json!({"name": "a", "every": "1h", "retry": retry, "shell": "false"}));
    let run = scene.ctl.run(&["run", "a"]).good().stdout.trim().to_owned();
    until("it waits for its retry", LONG, || {
        scene.eye.run(&run).filter(|run| run.state == RunState::Scheduled && run.attempt == 1)
    });
    let reported = scene.cancel();
    assert!(
        reported.contains("continues")
            && reported.contains("with another definition is added under this name"),
        "{reported}"
    );
    scene.add_again();
    scene.assert_later_job_waits();
    let record = scene.eye.run(&run).unwrap();
    assert_eq!(
        (record.state, record.reason.as_deref()),
        (RunState::Cancelled, Some("of an earlier job of this name"))
    );
    assert_eq!(scene.script.made("false").len(), 1, "it was tried once more");
    let reported = scene.ctl.run(&["explain", &run]).good().stdout;
    assert!(reported.contains("belongs to an earlier job of this name"), "{reported}");
}

#[test]
fn a_later_job_is_not_skipped_behind_a_retry_of_the_earlier_job() {
    let scene = Scene::new();
    let _node = ScriptedNode::on(&scene.redis, &scene.script).jobs(crate::node::QUICK).start();
    let retry = json!({"limit": 5, "delay": "1h", "jitter": false});
    scene.eye.add(&json!({"name": "a", "every": "1s", "retry": retry, "shell": "false"}));
    let open = || scene.eye.ask(scene.eye.store().list_open(&"a".parse().unwrap())).unwrap().pop();
    let run = until("a run waits for its retry", LONG, || {
        open().filter(|run| {
            scene
                .eye
                .run(&run.to_string())
                .is_some_and(|run| run.state == RunState::Scheduled && run.attempt == 1)
        })
    });
    scene.cancel();
    scene.eye.add(&json!({"name": "a", "every": "1s", "shell": "later"}));
    let record = scene.eye.run(&run.to_string()).unwrap();
    assert_eq!(
        (record.state, record.reason.as_deref()),
        (RunState::Cancelled, Some("of an earlier job of this name"))
    );
    until("the later job runs", LONG, || {
        Some(()).filter(|()| scene.script.made("later").len() > 1)
    });
    let after = scene
        .eye
        .history("a")
        .into_iter()
        .filter(|other| other.run.due() > record.finished_at.unwrap());
    for run in after {
        assert_eq!(run.state, RunState::Succeeded, "{}: {:?}", run.run, run.reason);
    }
}

#[test]
fn spread_runs_of_a_section_taken_out_do_not_run_as_the_section_put_back() {
    let scene = Scene::new();
    let file = |jobs: &str| format!("{}{jobs}", crate::node::QUICK);
    let spreading =
        "every = \"1s\"\nlate_after = \"1s\"\ncatch_up = { mode = \"all\", spread = \"1h\" }";
    let first = file(&format!("[jobs.a]\n{spreading}\nshell = '''{}'''\n", "true"));
    let node = ScriptedNode::on(&scene.redis, &scene.script).jobs(&first).start();
    scene.eye.wait_for_history("a", 1);
    scene.ctl.run(&["queue", "pause", "default"]).good();
    let planned = scene.eye.job("a").unwrap().pending.unwrap();
    let now = || scene.eye.ask(scene.eye.store().now()).unwrap();
    until("several runs are missed", LONG, || {
        (now() > planned.due().saturating_add(Duration::from_secs(4))).then_some(())
    });
    scene.ctl.run(&["queue", "resume", "default"]).good();
    let spread = || scene.eye.ask(scene.eye.store().list_spread(&"a".parse().unwrap())).unwrap();
    let owed =
        until("missed runs are spread", LONG, || Some(spread()).filter(|runs| runs.len() > 1));
    node.reload(&file(""));
    until("the section is out", LONG, || scene.eye.job("a").filter(|job| !job.is_live()));
    let second = format!("[jobs.a]\nat = \"{FAR}\"\nshell = '''{}'''\n", "later");
    node.reload(&file(&second));
    until("the section is back", LONG, || scene.eye.job("a").filter(JobRecord::is_live));
    scene.assert_later_job_waits();
    for run in owed {
        let record = scene.eye.run(&run.to_string()).unwrap();
        assert!(record.state.is_final(), "{run} is {}", record.state);
    }
}
