//! Tests of the findings about each node.

use super::explain_scene::{
    about, entry, event, facts, fresh, full, late_by, node, on, past_load, paused, rated,
    requiring, s, serving, slots, slots_taken, start, started, stopped_until,
};
use crate::domain::explain::{Facts, NodeFacts, Subject};
use crate::domain::job::audit_entry::AuditEntry;
use crate::domain::run::node_event::{NodeEvent, NodeEventKind};

fn last_seen(at: i64, events: &[NodeEvent]) -> NodeFacts {
    NodeFacts { last_seen: Some(s(at)), ..node("n1", events) }
}

/// Returns facts about a time at which no run was due. The node n1 has the event `what`.
fn not_due_with(what: NodeEventKind) -> Facts {
    let subject = Subject::NotDue { at: s(30), before: None, after: None };
    Facts { nodes: vec![node("n1", &[event(what, -60, None)])], ..facts(subject) }
}

#[test]
fn a_node_says_whether_it_ran() {
    about(started(0)).says("claimed", "Node n1 claimed the run.");
    on(vec![stopped_until("n1", 300)], started(301))
        .says("not_running", "Node n1 was not running from 11:59:00 to 12:05:00.");
    // The node died: it recorded no stop before its next start.
    on(vec![node("n1", &[start(300, Some(-30))])], started(301))
        .says("not_running", "Node n1 was not running from 11:59:30 to 12:05:00.");
    on(vec![last_seen(-20, &[])], fresh())
        .says("not_running", "Node n1 was not running from 11:59:40 onwards.");
    on(vec![last_seen(5, &[])], fresh())
        .says("not_running", "Node n1 was not running from 12:00:05 onwards.");
    let unseen = on(vec![last_seen(-3, &[])], fresh()).with(|facts| facts.now = s(5));
    unseen.says("unseen", "Node n1 was last seen running on 11:59:57, shortly before that time.");
    on(vec![node("n2", &[])], started(20))
        .says("free", "Node n2 was running, and no recorded event kept it from claiming the run.");
    let unknown =
        NodeFacts { last_seen: None, started_at: None, events: Vec::new(), ..node("n3", &[]) };
    on(vec![node("n1", &[]), unknown], started(20))
        .says("not_known", "Node n3 has no record in Redis for that time.");
    on(Vec::new(), fresh()).says("no_nodes", "No node is known to have been running at that time.");
}

#[test]
fn a_node_says_what_kept_it_from_claiming() {
    on(vec![last_seen(5, &[slots(-5, None)])], fresh()).says(
        "slots_taken",
        "Node n1 had no free slot for queue default from 11:59:55 to 12:00:05.",
    );
    on(vec![node("n1", &[slots(-5, None)])], fresh())
        .says("slots_taken", "Node n1 had no free slot for queue default from 11:59:55 onwards.");
    let time = "from 11:59:55 to 12:00:20";
    for (what, code, text) in [
        (NodeEventKind::RedisAway, "redis_away", format!("Node n1 could not reach Redis {time}.")),
        (
            slots_taken(),
            "slots_taken",
            format!("Node n1 had no free slot for queue default {time}."),
        ),
        (paused(), "queue_paused", format!("Node n1 found queue default paused by ana@h {time}.")),
        (
            full(5),
            "queue_full",
            format!(
                "Node n1 found queue default at its limit for all nodes together (limit = 5) {time}."
            ),
        ),
        (full(0), "queue_full", format!("Node n1 found queue default at its limit {time}.")),
        (
            rated(),
            "queue_rated",
            format!("Node n1 found queue default at its rate limit (10/1s) {time}."),
        ),
        (
            NodeEventKind::ClaimsSuspended,
            "claims_suspended",
            format!("Node n1 claimed no runs {time}, because its keeper was not ready."),
        ),
        (past_load(), "at_limit", format!("Node n1 claimed no runs {time}: load 9.1 > 8.")),
        (
            NodeEventKind::Restoring,
            "restoring",
            format!(
                "Node n1 started no runs {time}, because Redis had lost data and nodes restored records from their journals."
            ),
        ),
        (
            NodeEventKind::NewServer,
            "new_server",
            format!(
                "Node n1 started no runs {time}, because Redis had been restarted or replaced and nodes checked for lost data."
            ),
        ),
    ] {
        late_by(what, Some(20)).says(code, &text);
    }
    on(vec![serving(None)], requiring("default+eu,gpu"))
        .says("not_serving", "Node n1 does not take the run: it does not have the labels eu, gpu.");
    on(vec![serving(None)], requiring("default=n2,n3"))
        .says("not_serving", "Node n1 does not take the run: only n2, n3 may take it.");
    on(vec![serving(Some("mail"))], requiring("default!5"))
        .says("not_serving", "Node n1 does not take the run: it does not serve queue default.");
}

#[test]
fn nodes_alike_share_a_sentence() {
    let alike = |event: &NodeEvent| {
        let nodes = ["n1", "n2", "n3"].map(|name| node(name, std::slice::from_ref(event)));
        on(nodes.to_vec(), started(20))
    };
    let free = "Each of the nodes n1, n2 and n3 was running, and no recorded event kept it from claiming the run.";
    let nodes = ["n2", "n3", "n4"].map(|name| node(name, &[]));
    on(nodes.to_vec(), started(20)).says("free", &free.replace("n1, n2 and n3", "n2, n3 and n4"));
    alike(&event(NodeEventKind::RedisAway, -5, Some(20))).says(
        "redis_away",
        "Each of the nodes n1, n2 and n3 could not reach Redis from 11:59:55 to 12:00:20.",
    );
    // Nodes notice a pause at different times. They lose Redis at different times too, but that is
    // no obstacle that all of them share.
    let at = |name, what: NodeEventKind, from| node(name, &[event(what, from, Some(18))]);
    on(vec![at("n1", paused(), 1), at("n2", paused(), 2)], started(20)).says(
        "queue_paused",
        "Each of the nodes n1 and n2 found queue default paused by ana@h from 12:00:01 to 12:00:18.",
    );
    let away = NodeEventKind::RedisAway;
    on(vec![at("n1", away.clone(), 1), at("n2", away, 2)], started(20))
        .says("redis_away", "Node n2 could not reach Redis from 12:00:02 to 12:00:18.");
}

#[test]
fn an_obstacle_of_all_nodes_ends_at_the_latest_with_the_claim() {
    for to in [None, Some(25)] {
        let facts = late_by(paused(), to);
        facts.says("late_queue", "Queue default was paused by ana@h from 11:59:55 to 12:00:20.");
        facts.says(
            "queue_paused",
            "Node n1 found queue default paused by ana@h from 11:59:55 to 12:00:20.",
        );
    }
}

#[test]
fn a_step_of_the_clock_and_a_refused_file_are_named() {
    let text = "Node n1 saw the clock of Redis jump back by 1d, to 11:59:00. Runs may have started early or late because of the jump.";
    not_due_with(NodeEventKind::ClockStepped { by_ms: -86_400_000 }).says("clock_stepped", text);
    not_due_with(NodeEventKind::FileRefused { why: "line 3: unknown key".to_owned() })
        .says("file_refused", "Node n1 refused its jobs file on 11:59:00: line 3: unknown key.");
}

#[test]
fn a_file_refused_before_the_live_definition_is_not_named() {
    let refused = |refuses_file| {
        let events = [event(
            NodeEventKind::FileRefused { why: "line 3: unknown key".to_owned() },
            600,
            None,
        )];
        let node = NodeFacts { refuses_file, ..node("n1", &events) };
        Facts { nodes: vec![node], ..facts(Subject::Job { open: Vec::new(), more: 0, last: None }) }
    };
    let is_named = |facts: &Facts| facts.codes().contains(&"file_refused");
    assert!(is_named(&refused(Some(true))) && is_named(&refused(None)));
    // The refusal is not reported if the file was accepted later, or the job was changed later.
    assert!(!is_named(&refused(Some(false))));
    let of_run = |refuses_file| {
        let event = event(NodeEventKind::FileRefused { why: String::new() }, -60, None);
        let node = NodeFacts { refuses_file, ..node("n1", &[event]) };
        Facts { nodes: vec![node], ..about(started(0)) }
    };
    assert!(is_named(&of_run(Some(true))) && !is_named(&of_run(Some(false))));
    let edited =
        |at: i64| Facts { audit_log: vec![entry(AuditEntry::EDITED, at)], ..refused(Some(true)) };
    assert!(is_named(&edited(500)) && !is_named(&edited(700)));
}

#[test]
fn a_node_without_a_recorded_start_does_not_count_as_down() {
    let life = |events: &[NodeEvent], is_cut: bool| {
        let other = NodeFacts {
            events: events.to_vec(),
            started_at: Some(s(90)),
            is_cut,
            ..node("n2", &[])
        };
        let codes = on(vec![other], started(20)).codes();
        ["free", "not_running", "not_known"].into_iter().find(|code| codes.contains(code))
    };
    let (earlier, later) = (slots(-500, Some(-400)), slots(50, Some(55)));
    let (stopped, began, died) =
        (event(NodeEventKind::Stopped, 60, None), start(90, None), start(90, Some(60)));
    // The node was restarted by a regular stop, or died after the time that the user asks about.
    assert_eq!(life(&[stopped, began.clone()], true), Some("free"));
    assert_eq!(life(&[earlier.clone(), died], false), Some("free"));
    // Redis dropped the event of the next start, because many events came later.
    assert_eq!(life(std::slice::from_ref(&later), true), Some("free"));
    // The node died at an unknown time, or older events were dropped.
    assert_eq!(life(&[earlier, began.clone()], false), Some("not_known"));
    assert_eq!(life(std::slice::from_ref(&began), true), Some("not_known"));
    assert_eq!(life(&[start(31 * 24 * 3600, None)], false), Some("not_known"));
    // The first start of the node.
    assert_eq!(life(&[began], false), Some("not_running"));
}

#[test]
fn a_node_seen_just_before_the_due_time_and_gone_now_was_not_running() {
    for (seen, code) in [(-10, "not_running"), (890, "free")] {
        let found = on(vec![last_seen(seen, &[])], fresh()).codes();
        assert!(found.contains(&code), "{seen}: {found:?}");
    }
}
