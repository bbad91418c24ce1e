//! What holds of an explanation as a whole.

use std::time::Duration;

use super::scene::{about, asked_in_vain, ended, event, facts, fresh, node, on, s, slots, started, with_job, with_spec};
use crate::domain::explain::{Facts, NodeFacts, Part, RunFacts, Subject, judge};
use crate::domain::ids::RunId;
use crate::domain::job::{Action, CatchUpMode, DoneCheck, Overlap};
use crate::domain::node_event::Befell;
use crate::domain::run::RunState;

#[test]
fn the_answers_come_in_the_order_of_the_questions() {
    let late = on(vec![node("n1", &[slots(-5, Some(20))])], started(20));
    let parts: Vec<&str> = judge(&late).iter().map(|found| found.part.as_str()).collect();
    let mut once = parts.clone();
    once.dedup();
    assert_eq!(once, ["planned", "became", "nodes", "timing", "rule", "next"]);
}

#[test]
fn an_obstacle_outside_the_time_of_waiting_is_no_reason() {
    for events in [[slots(-50, Some(-40))], [slots(30, Some(40))]] {
        let found = judge(&on(vec![node("n1", &events)], started(20)));
        assert!(found.iter().all(|found| found.code != "late_slots" && found.code != "slots_taken"), "{events:?}");
    }
    // One that was never said to be over ended with the process that noted it.
    let events = [slots(-50, None), event(Befell::Started { seen_before: Some(s(-45)) }, -40, None)];
    let found = judge(&on(vec![node("n1", &events)], started(20)));
    assert!(found.iter().any(|found| found.code == "late_unexplained"), "{found:?}");
}

#[test]
fn a_node_seen_a_moment_before_a_run_was_due_and_gone_now_was_not_running_and_one_seen_lately_was() {
    for (seen, code) in [(-10, "not_running"), (890, "free")] {
        let told = judge(&on(vec![NodeFacts { last_seen: Some(s(seen)), ..node("n1", &[]) }], fresh()));
        assert!(told.iter().any(|found| found.code == code), "{seen}: {told:?}");
    }
}

#[test]
fn what_comes_next_is_never_in_the_past() {
    for (mode, code, wanted) in [
        (CatchUpMode::Latest, "next", "The next occurrence is due Sat 2026-11-21 12:16:00 UTC."),
        (CatchUpMode::All, "next_owed", "The next to start has been due since Sat 2026-11-21 12:01:00 UTC."),
    ] {
        let owed = with_job(about(fresh()), |job| job.pending = Some(s(0)));
        let told = judge(&with_spec(owed, |spec| spec.catch_up.mode = mode));
        let next = told.last().unwrap();
        assert_eq!((next.code, next.text.as_str()), (code, wanted));
    }
}

#[test]
fn a_run_whose_check_was_asked_in_vain_is_not_told_to_have_started() {
    let asked = with_spec(about(asked_in_vain()), |spec| {
        let question = Action::Shell("exit 9".to_owned());
        spec.done_check = Some(DoneCheck { question, on: crate::domain::job::AskedOn::Always, timeout: Duration::from_secs(1) });
    });
    let told = judge(&asked);
    assert!(told.iter().all(|found| !["attempt", "on_time", "lost"].contains(&found.code)), "{told:?}");
    let rules: Vec<String> = told.iter().filter(|found| found.part.as_str() == "rule").map(|rule| rule.text.clone()).collect();
    assert!(rules[0].starts_with("done_check =") && rules[1].starts_with("retry =") && rules.len() == 2, "{rules:?}");
}

#[test]
fn of_missed_runs_that_waited_for_one_another_the_rule_is_told_and_that_no_node_was_there() {
    let stopped = [event(Befell::Stopped, -60, None), event(Befell::Started { seen_before: None }, 700, None)];
    let nodes = || vec![node("n1", &stopped), node("n2", &stopped)];
    let waited = |until: i64| {
        let (ready_at, behind) = (s(until), Some(format!("j@{}", s(-60).as_i64()).parse().unwrap()));
        on(nodes(), RunFacts { ready_at, behind, ..started(until) })
    };
    let told = |facts: &Facts| {
        let found = judge(facts);
        let is_rule = |code: &&str| ["caught_up", "late_no_node", "free", "not_running"].contains(code);
        let codes = found.iter().map(|found| found.code).filter(is_rule).collect::<Vec<_>>();
        let rules: Vec<String> = found.iter().filter(|one| one.part == Part::Rule).map(|one| one.text.clone()).collect();
        (codes, rules.iter().any(|rule| rule.starts_with("catch_up =")))
    };
    let of_all = with_spec(waited(710), |spec| spec.catch_up.mode = CatchUpMode::All);
    assert_eq!(told(&of_all), (vec!["not_running", "not_running", "late_no_node", "caught_up"], true));
    // One that came due when a node was back waited for those before it all the same.
    let behind_the_others = Facts { nodes: vec![node("n1", &[])], ..of_all };
    assert_eq!(told(&behind_the_others), (vec!["caught_up"], true));
    // Under another overlap only one that no node could begin in time was missed.
    let queued = |facts: Facts| with_spec(facts, |spec| spec.overlap = Overlap::Queue { max: 1 });
    assert!(told(&queued(waited(710))).1);
    let behind_a_long_one = Facts { nodes: vec![node("n1", &[])], ..queued(waited(710)) };
    assert_eq!(told(&behind_a_long_one), (vec![], false));
}

#[test]
fn what_nodes_did_is_not_told_of_what_did_not_wait_for_them() {
    let down = [event(Befell::Stopped, -60, None), event(Befell::Started { seen_before: None }, 300, None)];
    let codes = |facts: Facts| {
        let all = judge(&Facts { nodes: vec![node("n1", &down), node("n2", &[])], ..facts });
        let is_one = |code: &&str| ["free", "not_running", "late_no_node", "no_nodes"].contains(code);
        all.iter().map(|found| found.code).filter(is_one).collect::<Vec<_>>()
    };
    let skipped = |why| RunFacts { skipped: Some((s(120), 3)), ..ended(RunState::Skipped, Some(why)) };
    let stretch = |why| facts(Subject::Stretch { at: s(60), run: Box::new(skipped(why)) });
    assert_eq!((codes(stretch("paused")), codes(about(skipped("paused")))), (vec![], vec![]));
    assert!(!codes(stretch("missed")).is_empty());
    let backfill = RunFacts { run: RunId::backfill("j".parse().unwrap(), s(0)), ready_at: s(600), ..started(600) };
    assert_eq!(codes(about(backfill.clone())), Vec::<&str>::new());
    assert_eq!(codes(about(RunFacts { ready_at: s(400), ..backfill })), ["free"]);
}
