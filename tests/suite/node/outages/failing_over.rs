//! Redis is restarted, or a replica that has not got the end takes its place: nothing is claimed before every node has looked, and
//! what a journal knows is not done again.

use std::collections::HashMap;

use redis::Commands;
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::node::QUICK;
use crate::node::explain::explaining::explained;
use crate::support::ctl::Schedctl;
use crate::support::daemon::Schedd;
use crate::support::effects::Effects;
use crate::support::eye::Eye;
use crate::support::redis::TestRedis;
use crate::support::replica::{Primary, Replica};
use crate::support::wait::{LONG, until};
use schedd_core::domain::run::run_state::RunState;

/// The servers nodes have met, and when.
fn met(redis: &TestRedis) -> HashMap<String, i64> {
    let servers: HashMap<String, String> =
        redis.connection().hgetall("{schedd}:known_servers").unwrap();
    servers
        .into_iter()
        .map(|(server, met)| (server, met.split_once(':').unwrap().1.parse().unwrap()))
        .collect()
}

fn losses(redis: &TestRedis) -> Value {
    Schedctl::on(redis).run(&["data-loss", "--json"]).good().json()
}

/// Two nodes, one of which does the last work before the primary dies, which its replica has not got: the other was stopped.
struct Scene {
    primary: TestRedis,
    replica: Replica,
    effects: Effects,
    ways: [Primary; 2],
    nodes: [Schedd; 2],
}

impl Scene {
    /// The primary is dead, the replica has taken its place, and nobody has come there.
    fn after_the_failover() -> Self {
        let (mut primary, effects) = (TestRedis::start(), Effects::new());
        let replica = Replica::of(&primary);
        let eye = Eye::on(&primary);
        let ways = [Primary::at(&primary), Primary::at(&primary)];
        let jobs = format!(
            "{QUICK}[jobs.beat]\nevery = \"1s\"\ncatch_up = \"all\"\nshell = {:?}\n",
            effects.shell("true")
        );
        let start =
            |name: &str, way: &Primary| Schedd::at(&way.url()).node(name).jobs(&jobs).start();
        let nodes = [start("one", &ways[0]), start("two", &ways[1])];
        eye.wait_for_history("beat", 2);
        for number in 0..5 {
            eye.add(&json!({"name": format!("short{number}"), "in": "3s", "shell": effects.shell("true")}));
        }
        eye.add(&json!({"name": "once", "in": "3s", "shell": effects.shell("true"), "delivery": "at-most-once"}));
        nodes[1].signal(Signal::STOP);
        replica.catch_up(&primary);
        replica.cut();
        assert!(effects.of("once").is_empty(), "the way was cut too late");
        for job in (0..5).map(|number| format!("short{number}")).chain(["once".to_owned()]) {
            eye.wait_for_history(&job, 1);
        }
        let beats = eye.history("beat").len();
        eye.wait_for_history("beat", beats + 1);
        primary.kill9();
        replica.promote();
        nodes[1].signal(Signal::CONT);
        Self { primary, replica, effects, ways, nodes }
    }

    /// Brings a node to the new primary.
    fn lead(&self, node: usize) {
        self.ways[node].lead_to(&self.replica.redis);
    }

    fn until_met(&self, count: usize) {
        until("a node has met the new primary", LONG, || {
            Some(()).filter(|()| met(&self.replica.redis).len() >= count)
        });
    }

    /// The runs done more than once.
    fn done_again(&self) -> Vec<String> {
        let mut counts: HashMap<String, usize> = HashMap::new();
        self.effects
            .all()
            .into_iter()
            .for_each(|effect| *counts.entry(effect.run).or_default() += 1);
        counts.into_iter().filter(|(_, count)| *count > 1).map(|(run, _)| run).collect()
    }
}

#[test]
fn a_lost_end_repeats_nothing_even_if_a_node_that_missed_it_comes_first() {
    let scene = Scene::after_the_failover();
    let known = met(&scene.replica.redis).len();
    // For all this node knows the data is whole, and six runs are overdue.
    scene.lead(1);
    scene.until_met(known + 1);
    scene.lead(0);
    scene.nodes[0].wait_for_log("an older state came back");
    scene.nodes[0].wait_for_log("has restored the runs of its journal");
    let eye = Eye::on(&scene.replica.redis);
    let began = scene.effects.of("beat").len();
    until("it goes on", LONG, || (scene.effects.of("beat").len() >= began + 3).then_some(()));
    assert_eq!(scene.done_again(), Vec::<String>::new());
    for job in ["short0", "short4", "once"] {
        let ended = eye.wait_for_history(job, 1).remove(0);
        assert_eq!((ended.state, ended.attempt), (RunState::Succeeded, 1), "{job}");
    }
    let losses = losses(&scene.replica.redis);
    assert_eq!(
        (losses.as_array().unwrap().len(), &losses[0]["what"], &losses[0]["noticed_by"]),
        (1, &json!("older_data"), &json!("one"))
    );
    drop(scene.primary);
}

#[test]
fn a_late_node_notices_a_lost_end_though_fences_have_passed_what_it_saw() {
    let scene = Scene::after_the_failover();
    let last = scene.effects.all().iter().map(|effect| effect.fence).max().unwrap();
    scene.lead(1);
    until("fences have passed all that was seen", LONG, || {
        let fence: u64 = scene.replica.redis.connection().get("{schedd}:fence").ok()?;
        (fence > last + 1).then_some(())
    });
    assert!(
        losses(&scene.replica.redis).as_array().unwrap().is_empty(),
        "the other node cannot know"
    );
    scene.lead(0);
    scene.nodes[0].wait_for_log("an older state came back");
    scene.nodes[0].wait_for_log("has restored the runs of its journal");
    assert_eq!(losses(&scene.replica.redis)[0]["noticed_by"], "one");
    let began = scene.effects.of("beat").len();
    until("it goes on", LONG, || (scene.effects.of("beat").len() >= began + 3).then_some(()));
    let eye = Eye::on(&scene.replica.redis);
    for job in ["short0", "once"] {
        assert_eq!(eye.history(job).len(), 1, "{job} has one end");
    }
}

#[test]
fn a_restart_that_lost_nothing_is_no_loss_and_holds_claims_for_a_moment_once() {
    let mut redis = TestRedis::durable();
    let node = Schedd::on(&redis).node("one").jobs(QUICK).start();
    let eye = Eye::on(&redis);
    eye.add(&json!({"name": "first", "in": "0s", "shell": "true"}));
    eye.wait_for_history("first", 1);
    node.signal(Signal::STOP);
    eye.add(&json!({"name": "due", "in": "0s", "shell": "true"}));
    redis.restart();
    node.signal(Signal::CONT);
    let eye = Eye::on(&redis);
    let due = eye.wait_for_history("due", 1).remove(0);
    let met = met(&redis);
    let last = *met.values().max().unwrap();
    assert_eq!(met.len(), 2, "{met:?}");
    assert!(due.started_at.unwrap().as_i64() >= last + 1_500, "{due:?} {met:?}");
    assert!(losses(&redis).as_array().unwrap().is_empty());
    until("the node has written down what held it up", LONG, || {
        let (text, _) = explained(&redis, &["due", "--last"]);
        text.contains("No runs were started from").then_some(())
    });
}
