//! What a node saw.

use super::scene::{about, event, facts, fresh, full, loaded, node, on, paused, rated, requiring, s, serving, slots, started};
use super::{Example, hold};
use crate::domain::deed::Deed;
use crate::domain::explain::{Facts, NodeFacts, Subject, judge};
use crate::domain::node_event::{Befell, NodeEvent};

const SAW: &[Example] = &[
    ("claimed", || about(started(0)), "n1 claimed it."),
    (
        "not_running",
        || {
            let down = [event(Befell::Stopped, -60, None), event(Befell::Started { seen_before: None }, 300, None)];
            on(vec![node("n1", &down)], started(301))
        },
        "n1 was not running since Sat 2026-11-21 11:59:00 UTC; it started on Sat 2026-11-21 12:05:00 UTC.",
    ),
    (
        "not_running",
        || {
            // It died without a word.
            let died = [event(Befell::Started { seen_before: Some(s(-30)) }, 300, None)];
            on(vec![node("n1", &died)], started(301))
        },
        "n1 was not running since Sat 2026-11-21 11:59:30 UTC; it started on Sat 2026-11-21 12:05:00 UTC.",
    ),
    (
        "not_running",
        || on(vec![NodeFacts { last_seen: Some(s(-20)), ..node("n1", &[]) }], fresh()),
        "n1 was not running since Sat 2026-11-21 11:59:40 UTC.",
    ),
    (
        "not_running",
        || on(vec![NodeFacts { last_seen: Some(s(5)), ..node("n1", &[]) }], fresh()),
        "n1 was not running since Sat 2026-11-21 12:00:05 UTC.",
    ),
    (
        "slots_taken",
        || on(vec![NodeFacts { last_seen: Some(s(5)), ..node("n1", &[slots(-5, None)]) }], fresh()),
        "n1 had all its slots of queue default taken from Sat 2026-11-21 11:59:55 UTC to Sat 2026-11-21 12:00:05 UTC.",
    ),
    (
        "redis_away",
        || on(vec![node("n1", &[event(Befell::RedisAway, -5, Some(20))])], started(20)),
        "n1 did not reach Redis from Sat 2026-11-21 11:59:55 UTC to Sat 2026-11-21 12:00:20 UTC.",
    ),
    (
        "slots_taken",
        || on(vec![node("n1", &[slots(-5, None)])], fresh()),
        "n1 had all its slots of queue default taken from Sat 2026-11-21 11:59:55 UTC on.",
    ),
    (
        "queue_paused",
        || on(vec![node("n1", &[event(paused(), -5, Some(20))])], started(20)),
        "n1 found queue default paused by ana@h from Sat 2026-11-21 11:59:55 UTC to Sat 2026-11-21 12:00:20 UTC.",
    ),
    (
        "queue_full",
        || on(vec![node("n1", &[event(full(5), -5, Some(20))])], started(20)),
        "n1 found queue default at its limit (5 at once on all nodes) from Sat 2026-11-21 11:59:55 UTC to Sat 2026-11-21 12:00:20 UTC.",
    ),
    (
        "queue_rated",
        || on(vec![node("n1", &[event(rated("10/1s"), -5, Some(20))])], started(20)),
        "n1 found queue default held by its rate (10/1s) from Sat 2026-11-21 11:59:55 UTC to Sat 2026-11-21 12:00:20 UTC.",
    ),
    (
        "claims_held",
        || on(vec![node("n1", &[event(Befell::ClaimsHeld, -5, Some(20))])], started(20)),
        "n1 took no runs from Sat 2026-11-21 11:59:55 UTC to Sat 2026-11-21 12:00:20 UTC, because its keeper was not ready.",
    ),
    (
        "held",
        || on(vec![node("n1", &[loaded(Some(20))])], started(20)),
        "n1 took no runs from Sat 2026-11-21 11:59:55 UTC to Sat 2026-11-21 12:00:20 UTC: load 9.1 > 8.",
    ),
    ("not_serving", || on(vec![serving(None)], requiring("default+eu,gpu")), "n1 does not take it: it does not carry eu, gpu."),
    (
        "not_serving",
        || on(vec![serving(Some("mail"))], requiring("default!5")),
        "n1 does not take it: it does not serve queue default.",
    ),
    (
        "settling",
        || on(vec![node("n1", &[event(Befell::Settling, -5, Some(20))])], started(20)),
        "n1 started nothing from Sat 2026-11-21 11:59:55 UTC to Sat 2026-11-21 12:00:20 UTC: Redis had lost data, and nodes gave back what they knew.",
    ),
    (
        "new_server",
        || on(vec![node("n1", &[event(Befell::NewServer, -5, Some(20))])], started(20)),
        "n1 started nothing from Sat 2026-11-21 11:59:55 UTC to Sat 2026-11-21 12:00:20 UTC: Redis had been restarted or replaced, and nodes looked whether data was missing.",
    ),
    (
        "unseen",
        || Facts { now: s(5), ..on(vec![NodeFacts { last_seen: Some(s(-3)), ..node("n1", &[]) }], fresh()) },
        "n1 was running when it was last seen, on Sat 2026-11-21 11:59:57 UTC, a moment before that.",
    ),
    (
        "clock_stepped",
        || {
            let stepped = event(Befell::ClockStepped { by_ms: -86_400_000 }, -60, None);
            Facts { nodes: vec![node("n1", &[stepped])], ..facts(Subject::NotDue { at: s(30), before: None, after: None }) }
        },
        "n1 saw Redis' clock set back by 1d, to Sat 2026-11-21 11:59:00 UTC: runs may have been early or late by that.",
    ),
    (
        "file_refused",
        || {
            let refused = event(Befell::FileRefused { why: "line 3: unknown key".to_owned() }, -60, None);
            Facts { nodes: vec![node("n1", &[refused])], ..facts(Subject::NotDue { at: s(30), before: None, after: None }) }
        },
        "n1 refused its jobs file as it was on Sat 2026-11-21 11:59:00 UTC: line 3: unknown key.",
    ),
    ("free", || on(vec![node("n2", &[])], started(20)), "n2 was running, and nothing that is noted kept it from claiming."),
    (
        "not_known",
        || {
            let unknown = NodeFacts { last_seen: None, started_at: None, events: Vec::new(), ..node("n3", &[]) };
            on(vec![node("n1", &[]), unknown], started(20))
        },
        "What n3 did then is not known, or no longer.",
    ),
    ("no_nodes", || on(Vec::new(), fresh()), "No node is known to have been there."),
];

#[test]
fn every_sentence_about_what_a_node_saw_is_made_true() {
    hold(SAW);
}

#[test]
fn a_file_that_was_refused_before_what_is_live_is_not_told_of() {
    let refused = |refuses_file| {
        let events = [event(Befell::FileRefused { why: "line 3: unknown key".to_owned() }, 600, None)];
        let node = NodeFacts { refuses_file, ..node("n1", &events) };
        Facts { nodes: vec![node], ..facts(Subject::Job { open: Vec::new(), more: 0, last: None }) }
    };
    let tells = |facts: &Facts| judge(facts).iter().any(|found| found.code == "file_refused");
    assert!(tells(&refused(Some(true))) && tells(&refused(None)));
    // It was taken since, or the job was changed since.
    assert!(!tells(&refused(Some(false))));
    let edited = |at: i64| {
        let deed =
            Deed { at: s(at), what: Deed::EDITED.to_owned(), by: None, run: None, count: None, schedules: None, dues: None };
        Facts { deeds: vec![deed], ..refused(Some(true)) }
    };
    assert!(tells(&edited(500)) && !tells(&edited(700)));
}

#[test]
fn a_node_whose_start_is_out_of_reach_is_not_told_to_have_been_down() {
    let told = |events: &[NodeEvent], is_cut: bool| {
        let other = NodeFacts { events: events.to_vec(), started_at: Some(s(90)), is_cut, ..node("n2", &[]) };
        let codes: Vec<&str> = judge(&on(vec![other], started(20))).iter().map(|found| found.code).collect();
        ["free", "not_running", "not_known"].into_iter().find(|code| codes.contains(code))
    };
    let (earlier, later) = (slots(-500, Some(-400)), slots(50, Some(55)));
    let (stopped, began) = (event(Befell::Stopped, 60, None), event(Befell::Started { seen_before: None }, 90, None));
    let died = event(Befell::Started { seen_before: Some(s(60)) }, 90, None);
    // It was restarted in order, or died after.
    assert_eq!(told(&[stopped, began.clone()], true), Some("free"));
    assert_eq!(told(&[earlier.clone(), died], false), Some("free"));
    // So much befell it since that its next start is out of reach, too.
    assert_eq!(told(std::slice::from_ref(&later), true), Some("free"));
    // It stopped without a word at a time nobody knows, or what is older is gone.
    assert_eq!(told(&[earlier, began.clone()], false), Some("not_known"));
    assert_eq!(told(std::slice::from_ref(&began), true), Some("not_known"));
    let long_ago = event(Befell::Started { seen_before: None }, 31 * 24 * 3600, None);
    assert_eq!(told(&[long_ago], false), Some("not_known"));
    // Its first start of all.
    assert_eq!(told(&[began], false), Some("not_running"));
}
