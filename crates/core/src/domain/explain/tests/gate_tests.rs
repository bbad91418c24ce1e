//! Tests of the findings about runs at a gate, and about runs that a gate let in.

use std::time::Duration;

use super::explain_scene::{about, fresh, s};
use crate::domain::explain::{AtGate, Facts, Passed, Place, RunFacts};
use crate::domain::queue::group_rules::Shut;
use crate::domain::queue::lane::Lane;
use crate::domain::queue::lane_serving::{Serving, Unserved};

const PAUSED: &str = "queue q is paused by ana@h1";

/// Returns a gate with the name `name` and no other facts.
pub(super) fn gate(name: &str) -> AtGate {
    AtGate {
        gate: name.to_owned(),
        turn: None,
        shut: Shut::default(),
        holder: None,
        stuck: None,
        hindrance: None,
        unserved: None,
        passed_over: Vec::new(),
        rate: None,
        until: None,
    }
}

/// Returns facts of a run that waits at the gate `name` for the run k@5. `change` is applied to the
/// gate.
fn waits_at(name: &str, change: impl FnOnce(&mut AtGate)) -> Facts {
    let mut gate = gate(name);
    change(&mut gate);
    about(RunFacts {
        place: Place::AtGate,
        gate: Some(gate),
        behind: Some("k@5".parse().unwrap()),
        ..fresh()
    })
}

/// Returns facts of a run that waits at the gate of the group `night`. `change` is applied to the
/// gate.
fn waits_at_night(change: impl FnOnce(&mut AtGate)) -> Facts {
    waits_at("group night", change)
}

#[test]
fn a_run_at_a_gate_says_whom_it_waits_for() {
    let run = |has_begun| Some(("l@6".parse().unwrap(), has_begun));
    waits_at_night(|gate| gate.turn = Some("b".to_owned()))
        .says("waits_at", "The run waits for a place at group night, at first behind run k@5. The turn belongs to job b.");
    waits_at_night(|gate| gate.holder = run(true))
        .says("waits_at", "The run waits for a place at group night, behind run l@6.");
    waits_at_night(|gate| gate.holder = run(false))
        .says("waits_at", "The run waits for a place at group night, behind run l@6, which has a place but has not started.");
    let let_in = format!(
        "The run waits for a place at group night, behind run l@6, which has a place but has not started: {PAUSED}."
    );
    waits_at_night(|gate| (gate.holder, gate.hindrance) = (run(false), Some(PAUSED.to_owned())))
        .says("waits_at", &let_in);
    let stuck = format!(
        "The run waits for a place at group night, behind run l@6 of its queue, which got a place but did not start: {PAUSED}. The next run gets a place on 12:01:00."
    );
    waits_at_night(|gate| {
        (gate.stuck, gate.hindrance) =
            (Some(("l@6".parse().unwrap(), s(60))), Some(PAUSED.to_owned()));
    })
    .says("waits_at", &stuck);
}

#[test]
fn a_run_at_a_gate_says_when_time_opens_it() {
    let text = "The run waits for a place at key k. The rate 1/1h of the gate allows the next start on 13:00:00.";
    waits_at("key k", |gate| gate.rate = Some(("1/1h".parse().unwrap(), s(3_600))))
        .says("waits_at", text);
    let text = "The run waits for a place at group night. The gap of 5m ends on 12:05:00. The turn belongs to job j.";
    waits_at_night(|gate| {
        gate.turn = Some("j".to_owned());
        gate.shut = Shut { gap: Some((Duration::from_secs(300), s(300))), ..Shut::default() };
    })
    .says("waits_at", text);
    let text = "The run waits for a place at group night. The turn belongs to job b, which has no waiting run. The turn timeout of 1m ends on 12:01:00.";
    waits_at_night(|gate| {
        gate.turn = Some("b".to_owned());
        gate.shut =
            Shut { turn_timeout: Some((Duration::from_secs(60), s(60))), ..Shut::default() };
    })
    .says("waits_at", text);
}

#[test]
fn a_run_at_a_gate_names_lanes_that_no_node_serves() {
    let key = |change: &dyn Fn(&mut AtGate)| {
        waits_at("key k", |gate| {
            gate.holder = Some(("l@6".parse().unwrap(), true));
            change(gate);
        })
    };
    let lane: Lane = "default+gpu".parse().unwrap();
    let unserved = Unserved::of(&lane, &[Serving::default()]).unwrap();
    let text = "The run waits for a place at key k, behind run l@6. No node takes runs of lane default+gpu: no running node that serves this queue has the required label gpu.";
    key(&|gate| gate.unserved = Some((lane.clone(), unserved.clone()))).says("waits_at", text);
    let text = "The run waits for a place at key k, behind run l@6. Runs of lane default+gpu wait before this run. No node serves that lane, so this run passes them.";
    key(&|gate| gate.passed_over = vec![lane.clone()]).says("waits_at", text);
    let text = "The run waits for a place at key k, behind run l@6. Runs of lanes a, b, c+gpu and 2 more wait before this run. No node serves those lanes, so this run passes them.";
    key(&|gate| {
        gate.passed_over =
            ["a", "b", "c+gpu", "d", "e"].iter().map(|lane| lane.parse().unwrap()).collect();
    })
    .says("waits_at", text);
}

#[test]
fn a_run_that_was_let_in_says_whether_it_still_has_its_place() {
    let passed = |since: Option<i64>, has_begun: Option<bool>, unserved: Option<&str>| {
        let holder = has_begun.map(|has_begun| ("l@6".parse().unwrap(), has_begun));
        let unserved = unserved.map(|lane| lane.parse().unwrap());
        let passed =
            Passed { gate: "group night".to_owned(), since: since.map(s), holder, unserved };
        about(RunFacts { passed: Some(passed), ready: Some(s(5)), ..fresh() })
    };
    let text = "The run got a place at group night on 12:00:05. No node has claimed the run yet.";
    passed(Some(5), None, None).says("let_in", text);
    let text = "The run got a place at group night, but did not start while other runs waited. The run lost the place. Run l@6 has the place now. The run has been ready since 12:00:05, and needs a place again when a node can claim the run.";
    passed(None, Some(true), None).says("gave_up_place", text);
    let text = "The run got a place at group night, but did not start while other runs waited. The run lost the place. Run l@6 got the place next and has not started. The run has been ready since 12:00:05, and needs a place again when a node can claim the run.";
    passed(None, Some(false), None).says("gave_up_place", text);
    let text = "No node serves the lane default+gpu of the run, so other runs pass the run at group night. Run l@6 has the place now. The run has been ready since 12:00:05, and needs a place there when a node can claim the run.";
    passed(None, Some(true), Some("default+gpu")).says("gave_up_place", text);
}
