//! Whether it was on time.

use std::time::Duration;

use super::scene::{
    about, event, fresh, full, gate, loaded, missed_since, node, on, paused, rated, requiring, s, serving, slots, started,
    the_job, with_spec,
};
use super::{Example, hold};
use crate::domain::explain::timing::Timing;
use crate::domain::explain::{AtGate, Executing, Facts, Finding, Keeps, NodeFacts, RunFacts, judge};
use crate::domain::node_event::Befell;
use crate::domain::queue::QueueHold;
use crate::domain::time::UnixMillis;

const TIMING: &[Example] = &[
    (
        "on_time",
        || about(RunFacts { first_start: UnixMillis::new(s(0).as_i64() + 1_000), ..started(0) }),
        "It started on time, 1s after it was due.",
    ),
    ("late", || about(RunFacts { first_start: UnixMillis::new(s(0).as_i64() + 2_001), ..started(0) }), "It started 2s late."),
    ("not_started", || about(fresh()), "It has been due for 15m and has not started."),
    (
        "late_behind",
        || about(RunFacts { ready_at: s(20), behind: Some("j@5".parse().unwrap()), ..started(20) }),
        "It waited until Sat 2026-11-21 12:00:20 UTC for the run j@5 to end.",
    ),
    (
        "late_at_gate",
        || {
            let gate = AtGate { until: Some(s(20)), ..gate("key customer-42") };
            about(RunFacts { gate: Some(gate), behind: Some("k@5".parse().unwrap()), ..started(20) })
        },
        "It waited until Sat 2026-11-21 12:00:20 UTC for its place at key customer-42, behind k@5 when it came.",
    ),
    (
        "late_spread",
        || about(RunFacts { ready_at: s(20), is_spread: true, ..started(20) }),
        "It was missed, and catch_up's spread gave it Sat 2026-11-21 12:00:20 UTC to start.",
    ),
    ("late_ready", || about(RunFacts { ready_at: s(20), ..started(20) }), "It was not ready before Sat 2026-11-21 12:00:20 UTC."),
    (
        "late_no_node",
        || {
            let down = [event(Befell::Stopped, -60, None), event(Befell::Started { seen_before: None }, 300, None)];
            on(vec![node("n1", &down)], started(301))
        },
        "No node was running until Sat 2026-11-21 12:05:00 UTC.",
    ),
    ("late_no_node", || on(vec![node("n1", &[event(Befell::Stopped, -60, None)])], fresh()), "No node was running."),
    (
        "late_no_node",
        || on(vec![NodeFacts { last_seen: Some(s(5)), ..node("n1", &[]) }], fresh()),
        "No node was running since Sat 2026-11-21 12:00:05 UTC.",
    ),
    (
        "late_no_node",
        || {
            // The run it waited for was late for that reason.
            let died = [event(Befell::Started { seen_before: Some(s(5)) }, 20, None)];
            on(vec![node("n1", &died)], RunFacts { ready_at: s(25), behind: Some("j@5".parse().unwrap()), ..started(25) })
        },
        "No node was running from Sat 2026-11-21 12:00:05 UTC to Sat 2026-11-21 12:00:20 UTC.",
    ),
    (
        "late_redis",
        || {
            let away = [event(Befell::RedisAway, -5, Some(20))];
            on(vec![node("n1", &away), node("n2", &away)], started(20))
        },
        "Redis was out of reach of n1 and n2 from Sat 2026-11-21 11:59:55 UTC to Sat 2026-11-21 12:00:20 UTC.",
    ),
    (
        "late_slots",
        || on(vec![node("n1", &[slots(-5, Some(20))])], started(20)),
        "All slots of queue default were taken on n1 from Sat 2026-11-21 11:59:55 UTC to Sat 2026-11-21 12:00:20 UTC.",
    ),
    (
        "late_held",
        || on(vec![node("n1", &[loaded(None)])], started(20)),
        "A limit of its own held n1 from Sat 2026-11-21 11:59:55 UTC on.",
    ),
    (
        "late_unserved",
        || on(vec![serving(None)], requiring("default+gpu")),
        "Nobody takes it: requires gpu: no running node that serves its queue has it.",
    ),
    ("late_unserved", || on(vec![serving(Some("mail"))], fresh()), "Nobody takes it: no running node serves queue default."),
    (
        "queue_now",
        || {
            kept(Keeps::Queue {
                hold: QueueHold::Paused,
                detail: "ana@h".to_owned(),
                since: Some(s(-5)),
                running: executing(&[], 0),
            })
        },
        "Queue default is paused by ana@h since Sat 2026-11-21 11:59:55 UTC; schedctl queue resume default lets it go on.",
    ),
    (
        "queue_now",
        || {
            let pause = Keeps::Queue { hold: QueueHold::Paused, detail: String::new(), since: None, running: executing(&[], 0) };
            Facts { keeps: vec![pause], ..the_job(vec![], None) }
        },
        "Queue default is paused; schedctl queue resume default lets it go on.",
    ),
    (
        "queue_now",
        || kept(Keeps::Queue { hold: QueueHold::Full, detail: "1".to_owned(), since: None, running: executing(&["a@5"], 1) }),
        "Queue default is full, at its limit of 1: a@5 executes.",
    ),
    (
        "queue_now",
        || kept(Keeps::Queue { hold: QueueHold::Rate, detail: "10/1s".to_owned(), since: None, running: executing(&[], 0) }),
        "Queue default is held by its rate of 10/1s.",
    ),
    (
        "slots_now",
        || kept(Keeps::Slots { nodes: vec!["n1".to_owned(), "n2".to_owned()], running: executing(&["a@5", "b@6"], 9) }),
        "All slots of queue default are taken on n1 and n2: a@5, b@6 and 7 more execute.",
    ),
    (
        "held_now",
        || kept(Keeps::Held { node: "n1".to_owned(), why: "load 9 > 8".to_owned(), since: s(-5) }),
        "A limit of its own holds n1 since Sat 2026-11-21 11:59:55 UTC: load 9 > 8.",
    ),
    (
        "spoilt_now",
        || kept(Keeps::Spoilt { why: "key k holds a list, wanted a zset".to_owned() }),
        "Nothing of lane default starts: key k holds a list, wanted a zset.",
    ),
    ("no_node_now", || kept(Keeps::NoNode), "No node is running."),
    (
        "late_settling",
        || on(vec![node("n1", &[event(Befell::Settling, -5, Some(20))])], started(20)),
        "Redis had lost data, and nothing was started from Sat 2026-11-21 11:59:55 UTC to Sat 2026-11-21 12:00:20 UTC.",
    ),
    (
        "late_queue",
        || on(vec![node("n1", &[event(paused(), -5, None)]), node("n2", &[event(paused(), -5, None)])], fresh()),
        "Queue default was paused by ana@h from Sat 2026-11-21 11:59:55 UTC on.",
    ),
    (
        "late_queue",
        || on(vec![node("n1", &[event(full(5), -5, Some(20))])], started(20)),
        "Queue default was full, at its limit of 5 from Sat 2026-11-21 11:59:55 UTC to Sat 2026-11-21 12:00:20 UTC.",
    ),
    (
        "late_queue",
        || on(vec![node("n1", &[event(rated("10/1s"), -5, Some(20))])], started(20)),
        "Queue default was held by its rate of 10/1s from Sat 2026-11-21 11:59:55 UTC to Sat 2026-11-21 12:00:20 UTC.",
    ),
    (
        "late_keeper",
        || on(vec![node("n1", &[event(Befell::ClaimsHeld, -5, None)])], started(20)),
        "The keeper was not ready on n1 from Sat 2026-11-21 11:59:55 UTC on.",
    ),
    (
        "late_shifted",
        || with_spec(about(RunFacts { ready_at: s(20), ..started(20) }), |spec| spec.shape.jitter = Duration::from_secs(90)),
        "Its jitter and splay moved its start to Sat 2026-11-21 12:00:20 UTC.",
    ),
    ("timing_lost", missed_since, "Whether it started when it was due was lost with the data."),
    (
        "late_new_server",
        || on(vec![node("n1", &[event(Befell::NewServer, -5, Some(20))])], started(20)),
        "Redis had been restarted or replaced, and nothing was started from Sat 2026-11-21 11:59:55 UTC to Sat 2026-11-21 12:00:20 UTC while nodes looked whether data was missing.",
    ),
    ("caught_up", || about(started(61)), "So late it counted as missed; it ran because catch_up is latest."),
    ("late_unexplained", || about(started(20)), "Nothing that is noted says why."),
];

/// A run that is due this very moment, and what keeps it.
fn kept(keeps: Keeps) -> Facts {
    Facts { now: s(0), keeps: vec![keeps], ..about(fresh()) }
}

fn executing(some: &[&str], count: u64) -> Executing {
    Executing { some: some.iter().map(|run| run.parse().unwrap()).collect(), count }
}

#[test]
fn what_is_noted_since_when_is_not_told_again_as_what_keeps_it_now() {
    let paused = Keeps::Queue { hold: QueueHold::Paused, detail: "ana@h".to_owned(), since: None, running: executing(&[], 0) };
    let codes = |facts: &Facts| {
        let all = judge(facts);
        all.iter().map(Finding::code).filter(|code| ["queue_now", "late_queue"].contains(code)).collect::<Vec<_>>()
    };
    let noted =
        |to| Facts { keeps: vec![paused.clone()], ..on(vec![node("n1", &[event(super::scene::paused(), -5, to)])], fresh()) };
    assert_eq!(codes(&noted(None)), ["late_queue"]);
    assert_eq!(codes(&noted(Some(20))), ["queue_now", "late_queue"], "it was paused twice");
}

#[test]
fn every_sentence_about_being_on_time_is_made_true() {
    hold(Timing::CODES, TIMING);
}

#[test]
fn a_node_that_takes_no_runs_of_the_queue_held_nobody_up() {
    let other = |events| NodeFacts { serving: serving(Some("mail")).serving, ..node("n2", events) };
    let facts = on(vec![node("n1", &[]), other(&[loaded(None)])], started(20));
    assert!(judge(&facts).iter().all(|found| found.code() != "late_held"), "{:#?}", judge(&facts));
}

#[test]
fn nodes_are_named_together_only_for_the_time_in_which_it_befell_all_of_them() {
    let told = |first: (i64, i64), second: (i64, i64)| -> Vec<String> {
        let of = |name, (from, to)| node(name, &[slots(from, Some(to))]);
        let facts = on(vec![of("n1", first), of("n2", second)], started(40));
        judge(&facts).iter().filter(|found| found.code() == "late_slots").map(|found| found.sentence(&facts.zone)).collect()
    };
    let day = "Sat 2026-11-21 12:00";
    assert_eq!(
        told((1, 9), (5, 20)),
        [format!("All slots of queue default were taken on n1 and n2 from {day}:05 UTC to {day}:09 UTC.")]
    );
    assert_eq!(
        told((1, 9), (12, 20)),
        [
            format!("All slots of queue default were taken on n1 from {day}:01 UTC to {day}:09 UTC."),
            format!("All slots of queue default were taken on n2 from {day}:12 UTC to {day}:20 UTC."),
        ]
    );
}

#[test]
fn two_times_in_which_slots_were_taken_are_not_told_as_one() {
    let facts = on(vec![node("n1", &[slots(1, Some(4)), slots(12, Some(20))])], started(40));
    let found = judge(&facts);
    let told: Vec<String> =
        found.iter().filter(|found| found.code() == "late_slots").map(|found| found.sentence(&facts.zone)).collect();
    let taken = |from, to| {
        format!(
            "All slots of queue default were taken on n1 from Sat 2026-11-21 12:00:{from} UTC to Sat 2026-11-21 12:00:{to} UTC."
        )
    };
    assert_eq!(told, [taken("01", "04"), taken("12", "20")]);
}
