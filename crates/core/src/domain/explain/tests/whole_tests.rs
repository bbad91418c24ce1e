//! Tests of all findings about a job or run together.

use super::explain_scene::{
    about, asked_in_vain, in_range, late_by, node, on, s, skipped, slots, slots_taken, start,
    started, stopped_until,
};
use super::rule_tests::with_done_check;
use crate::domain::explain::{Facts, RunFacts, judge};
use crate::domain::job::job_spec::Overlap;
use schedd_schedule::lateness::CatchUpMode;
use schedd_schedule::names::RunId;

#[test]
fn the_answers_come_in_the_order_of_the_questions() {
    let mut parts: Vec<&str> =
        judge(&late_by(slots_taken(), Some(20))).iter().map(|found| found.part.as_str()).collect();
    parts.dedup();
    assert_eq!(parts, ["planned", "outcome", "nodes", "timing", "rule", "next"]);
}

#[test]
fn an_instant_is_shown_with_its_day_and_zone() {
    let found = judge(&about(started(0)));
    assert!(
        found.iter().any(|found| found.text == "The run succeeded on Sat 2026-11-21 12:00:05 UTC."),
        "{found:#?}"
    );
}

#[test]
fn an_obstacle_outside_the_time_of_waiting_is_no_reason() {
    for events in [[slots(-50, Some(-40))], [slots(30, Some(40))]] {
        let found = on(vec![node("n1", &events)], started(20)).codes();
        assert!(!found.contains(&"late_slots") && !found.contains(&"slots_taken"), "{events:?}");
    }
    // An obstacle without a recorded end ended with the process that recorded the obstacle.
    let events = [slots(-50, None), start(-40, Some(-45))];
    let found = on(vec![node("n1", &events)], started(20)).codes();
    assert!(found.contains(&"late_unexplained"), "{found:?}");
}

#[test]
fn a_run_of_which_only_the_check_ran_does_not_count_as_started() {
    let asked = about(asked_in_vain()).with_spec(with_done_check);
    let found = asked.codes();
    assert!(["attempt", "on_time", "lost"].iter().all(|code| !found.contains(code)), "{found:?}");
    let rules: Vec<String> = judge(&asked)
        .into_iter()
        .filter(|found| found.part.as_str() == "rule")
        .map(|rule| rule.text)
        .collect();
    assert!(
        rules[0].starts_with("done_check =") && rules[1].starts_with("retry =") && rules.len() == 2,
        "{rules:?}"
    );
}

#[test]
fn missed_runs_that_waited_for_each_other_name_catch_up_and_the_dead_nodes() {
    let waited = |until: i64| {
        let behind = Some(format!("j@{}", s(-60).as_i64()).parse().unwrap());
        let nodes = vec![stopped_until("n1", 700), stopped_until("n2", 700)];
        on(nodes, RunFacts { ready_at: s(until), behind, ..started(until) })
    };
    let found = |facts: &Facts| {
        let mut codes = facts.codes();
        codes.retain(|code| ["caught_up", "late_no_node", "free", "not_running"].contains(code));
        (codes, judge(facts).iter().any(|found| found.text.starts_with("catch_up =")))
    };
    let alive = |facts: Facts| Facts { nodes: vec![node("n1", &[])], ..facts };
    let of_all = waited(710).with_spec(|spec| spec.catch_up.mode = CatchUpMode::All);
    assert_eq!(found(&of_all), (vec!["not_running", "late_no_node", "caught_up"], true));
    // A run that became due after the restart of a node also waited for the earlier runs.
    assert_eq!(found(&alive(of_all.clone())), (vec!["caught_up"], true));
    // With another overlap rule, a run was missed only if no node could start the run in time.
    let queued = |facts: Facts| facts.with_spec(|spec| spec.overlap = Overlap::Queue { max: 1 });
    assert!(found(&queued(waited(710))).1);
    assert_eq!(found(&alive(queued(waited(710)))), (vec![], false));
}

#[test]
fn a_run_that_did_not_wait_for_nodes_says_nothing_of_them() {
    let codes = |facts: Facts| {
        let mut codes =
            Facts { nodes: vec![stopped_until("n1", 300), node("n2", &[])], ..facts }.codes();
        codes.retain(|code| ["free", "not_running", "late_no_node", "no_nodes"].contains(code));
        codes
    };
    let paused = RunFacts { skipped: Some((s(120), 3)), ..skipped("paused") };
    assert_eq!((codes(in_range(60, "paused")), codes(about(paused))), (vec![], vec![]));
    assert!(!codes(in_range(60, "missed")).is_empty());
    let backfill = RunFacts {
        run: RunId::backfill("j".parse().unwrap(), s(0)),
        ready_at: s(600),
        ..started(600)
    };
    assert_eq!(codes(about(backfill.clone())), Vec::<&str>::new());
    assert_eq!(codes(about(RunFacts { ready_at: s(400), ..backfill })), ["free"]);
}
