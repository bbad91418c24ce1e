//! Groups whose members take turns, with whole nodes: whom a turn passes over, and what becomes of turns when a place was taken by other
//! rules. The order is judged by the jobs' own word, the gap by the instants Redis recorded.

use serde_json::{Value, json};

use crate::support::ctl::Schedctl;
use crate::support::eye::Eye;
use crate::support::redis::TestRedis;
use crate::support::script::{Act, Script, exit};
use crate::support::scripted_node::ScriptedNode;
use crate::support::wait::{LONG, until};
use schedd_core::domain::run::run_state::RunState;

const GAP_MS: i64 = 300;
const MEMBERS: [&str; 3] = ["ta", "tb", "tc"];

/// Three members; a turn waits that long for one that has nothing due.
fn alternate(turn_timeout: &str) -> String {
    format!(
        "[daemon]\nlease = \"2s\"\n[groups.turns]\nmode = \"alternate\"\norder = [\"ta\", \"tb\", \"tc\"]\n\
         gap = \"{GAP_MS}ms\"\nturn_timeout = \"{turn_timeout}\"\n"
    )
}

/// A Redis, what its jobs do there, and hands.
struct Scene {
    redis: TestRedis,
    script: Script,
    eye: Eye,
    ctl: Schedctl,
}

impl Scene {
    fn new() -> Self {
        let redis = TestRedis::durable();
        Self { script: Script::new(), eye: Eye::on(&redis), ctl: Schedctl::on(&redis), redis }
    }

    /// A node that has taken its file.
    fn node(&self, name: &str, file: &str) -> ScriptedNode {
        let node = ScriptedNode::on(&self.redis, &self.script).node(name).jobs(file).start();
        until("the group is known", LONG, || Some(()).filter(|()| !self.group().is_null()));
        node
    }

    /// A member that runs once, so long from now, and does that.
    fn add(&self, job: &str, after: &str, work: &str) {
        self.eye.add(&json!({"name": job, "in": after, "group": "turns", "shell": work}));
    }

    fn group(&self) -> Value {
        self.ctl.run(&["groups", "--json"]).good().json()[0].clone()
    }

    fn wait_for_turn_of(&self, job: &str) {
        until(&format!("it is the turn of {job}"), LONG, || {
            Some(()).filter(|()| self.group()["turn"] == job)
        });
    }

    fn wait_for_waiting(&self, count: u64) {
        until(&format!("{count} wait"), LONG, || {
            Some(()).filter(|()| self.group()["waiting"] == count)
        });
    }

    /// `ta` has had its turn, `tc` waits, and `tb` has the turn.
    fn until_tb_is_waited_for(&self) {
        self.add("ta", "0s", "sleep 0.2");
        self.eye.wait_for_history("ta", 1);
        self.wait_for_turn_of("tb");
        self.add("tc", "0s", "true");
        self.wait_for_waiting(1);
        assert_eq!(self.group()["turn"], "tb");
        assert!(self.script.of("tc").is_empty(), "out of its turn");
    }

    /// `tc` runs, though `tb` has the turn and its turn timeout lasts.
    #[track_caller]
    fn assert_turn_passes_to_tc(&self) {
        assert_eq!(self.eye.wait_for_history("tc", 1)[0].state, RunState::Succeeded);
        self.assert_apart();
    }

    /// No two attempts within a gap, by Redis' time, and what is kept of the group is sound.
    #[track_caller]
    fn assert_apart(&self) {
        let ended = MEMBERS.iter().chain(&["other"]).flat_map(|job| self.eye.history(job));
        let mut spans: Vec<(i64, i64)> = ended
            .filter_map(|run| Some((run.started_at?.as_i64(), run.finished_at?.as_i64())))
            .collect();
        spans.sort_unstable();
        assert!(spans.windows(2).all(|pair| pair[1].0 >= pair[0].1 + GAP_MS), "{spans:?}");
        let found = self.ctl.run(&["doctor", "--json"]).json();
        assert!(
            !found.to_string().contains("wrong:gate") && !found.to_string().contains("missing:due"),
            "{found}"
        );
    }

    /// The jobs in the order in which they began.
    fn begun(&self) -> Vec<String> {
        self.script
            .all()
            .iter()
            .map(|effect| effect.run.split('@').next().unwrap().to_owned())
            .collect()
    }
}

#[test]
fn an_awaited_turn_passes_on_if_its_member_is_cancelled_paused_or_postponed() {
    let audit_log: [&[&str]; 3] = [
        &["cancel", "tb"],
        &["pause", "tb"],
        &["add", "--name", "tb", "--replace", "--in", "5h", "--group", "turns", "--", "x"],
    ];
    for entry in audit_log {
        let scene = Scene::new();
        let _nodes = ["one", "two"].map(|name| scene.node(name, &alternate("1h")));
        scene.add("tb", "30m", "true");
        scene.until_tb_is_waited_for();
        scene.ctl.run(entry).good();
        scene.assert_turn_passes_to_tc();
        assert_eq!(scene.begun(), ["ta", "tc"], "{entry:?}");
    }
}

#[test]
fn the_turn_of_a_member_no_file_lists_any_more_passes_on() {
    let scene = Scene::new();
    let with_tb = format!(
        "{}[jobs.tb]\nevery = \"30m\"\ngroup = \"turns\"\nshell = \"true\"\n",
        alternate("1h")
    );
    let nodes = ["one", "two"].map(|name| scene.node(name, &with_tb));
    until("the member is there", LONG, || scene.eye.job("tb"));
    scene.until_tb_is_waited_for();
    for node in &nodes {
        node.reload(&alternate("1h"));
    }
    scene.assert_turn_passes_to_tc();
    assert_eq!(scene.begun(), ["ta", "tc"]);
}

#[test]
fn a_member_with_nothing_due_within_turn_timeout_is_passed_over_else_awaited() {
    let scene = Scene::new();
    let _nodes = ["one", "two"].map(|name| scene.node(name, &alternate("1m")));
    scene.add("tb", "30m", "true");
    scene.add("ta", "0s", "sleep 0.2");
    scene.add("tc", "100ms", "true");
    scene.assert_turn_passes_to_tc();
    // It comes in time now: those that are ready wait for it.
    scene.add("tb", "3s", "true");
    scene.add("ta", "0s", "true");
    scene.eye.wait_for_history("ta", 2);
    scene.add("tc", "0s", "true");
    scene.eye.wait_for_history("tc", 2);
    assert_eq!(scene.begun(), ["ta", "tc", "ta", "tb", "tc"]);
    scene.assert_apart();
}

#[test]
fn the_turn_of_a_member_without_a_live_node_passes_on_after_turn_timeout() {
    let scene = Scene::new();
    let file = alternate("2s");
    let _one = scene.node("one", &file);
    let mut two = scene.node("two", &file.replace("[daemon]", "[daemon]\nlabels = [\"gpu\"]"));
    until("both are there", LONG, || {
        Some(()).filter(|()| scene.eye.ask(scene.eye.store().list_nodes()).unwrap().1.len() == 2)
    });
    two.crash();
    scene.add("ta", "0s", "sleep 0.2");
    scene.eye.wait_for_history("ta", 1);
    let needs =
        json!({"name": "tb", "in": "0s", "group": "turns", "requires": ["gpu"], "shell": "true"});
    scene.eye.add(&needs);
    scene.add("tc", "0s", "true");
    scene.assert_turn_passes_to_tc();
    let (ta, tc) = (&scene.eye.history("ta")[0], &scene.eye.history("tc")[0]);
    let waited = tc.started_at.unwrap().since(ta.finished_at.unwrap());
    assert!(waited.as_millis() >= 2_000, "{waited:?}: it was due");
    // With its node it comes to its turn.
    two.start_again();
    assert_eq!(scene.eye.wait_for_history("tb", 1)[0].state, RunState::Succeeded);
    assert_eq!(scene.begun(), ["ta", "tc", "tb"]);
    scene.assert_apart();
}

#[test]
fn a_turn_that_ends_with_its_node_passes_on_and_what_it_began_is_done_at_the_next() {
    let scene = Scene::new();
    let file = alternate("3s");
    let _one = scene.node("one", &file);
    let mut two = scene.node("two", &file.replace("[daemon]", "[daemon]\nlabels = [\"gpu\"]"));
    until("both are there", LONG, || {
        Some(()).filter(|()| scene.eye.ask(scene.eye.store().list_nodes()).unwrap().1.len() == 2)
    });
    scene.script.set("held", &[Act::GoOn, Act::End(exit(0))]);
    let needs =
        json!({"name": "ta", "in": "0s", "group": "turns", "requires": ["gpu"], "shell": "held"});
    scene.eye.add(&needs);
    until("it runs", LONG, || scene.script.of("ta").into_iter().next());
    scene.add("tb", "0s", "true");
    scene.add("tc", "0s", "true");
    scene.wait_for_waiting(2);
    two.crash();
    for job in ["tb", "tc"] {
        assert_eq!(scene.eye.wait_for_history(job, 1)[0].state, RunState::Succeeded);
    }
    two.start_again();
    assert_eq!(scene.eye.wait_for_history("ta", 1)[0].state, RunState::Succeeded);
    assert_eq!(scene.begun(), ["ta", "tb", "tc", "ta"]);
    scene.assert_apart();
}

#[test]
fn a_group_made_alternate_admits_nobody_beside_its_holder_then_takes_turns() {
    for holder in ["ta", "other"] {
        let scene = Scene::new();
        let exclusive = "[groups.turns]\nmode = \"exclusive\"\n";
        let nodes = ["one", "two"].map(|name| scene.node(name, exclusive));
        scene.script.set("held", &[Act::GoOn]);
        scene.add(holder, "0s", "held");
        until("it has the place", LONG, || scene.script.of(holder).into_iter().next());
        // Two of each wait, in no order of turns.
        for (number, job) in ["tc", "tc", "tb", "tb", "ta", "ta"].into_iter().enumerate() {
            if number % 2 == 0 && job != holder {
                scene.eye.add(
                    &json!({"name": job, "group": "turns", "overlap": "allow", "shell": "true"}),
                );
            }
            if job != holder {
                scene.ctl.run(&["run", job]).good();
            }
        }
        let waiting = if holder == "ta" { 4 } else { 6 };
        scene.wait_for_waiting(waiting);
        for node in &nodes {
            node.reload(&alternate("1m"));
        }
        until("turns are taken", LONG, || {
            Some(()).filter(|()| scene.group()["mode"] == "alternate")
        });
        scene.wait_for_waiting(waiting);
        assert_eq!(scene.begun(), [holder], "beside the one that has the place");
        scene.script.end("held");
        let wanted: &[&str] = if holder == "ta" {
            &["ta", "tb", "tc", "tb", "tc"]
        } else {
            &["other", "ta", "tb", "tc", "ta", "tb", "tc"]
        };
        until("all have run", LONG, || {
            let done = scene.script.all().iter().filter(|effect| effect.ended.is_some()).count();
            Some(()).filter(|()| done == wanted.len() && scene.group()["running"] == json!([]))
        });
        assert_eq!(scene.begun(), wanted);
        scene.assert_apart();
    }
}
