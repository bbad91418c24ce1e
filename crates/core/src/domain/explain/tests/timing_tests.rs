//! Tests of the findings about the timing of a run.

use std::time::Duration;

use super::explain_scene::{
    about, event, fresh, full, late_by, node, on, past_load, paused, rated, requiring, s, serving,
    slots, slots_taken, start, started, stopped_until, the_job,
};
use super::gate_tests::gate;
use crate::domain::explain::{AtGate, Blocker, Executing, Facts, NodeFacts, RunFacts};
use crate::domain::queue::lane_serving::{HandlerChoice, Serving};
use crate::domain::queue::queue_rules::NoRoomReason;
use crate::domain::run::node_event::NodeEventKind;
use schedd_schedule::time::unix_millis::UnixMillis;

/// Returns facts of a run that is due at the present time and has the blocker `blocker`.
fn blocked(blocker: Blocker) -> Facts {
    Facts { now: s(0), blockers: vec![blocker], ..about(fresh()) }
}

fn executing(some: &[&str], count: u64) -> Executing {
    Executing { some: some.iter().map(|run| run.parse().unwrap()).collect(), count }
}

fn queue(hold: NoRoomReason, detail: &str, since: Option<i64>, running: Executing) -> Blocker {
    Blocker::Queue { hold, detail: detail.to_owned(), since: since.map(s), running }
}

/// Returns a run that started late because it became ready late.
fn ready_late() -> RunFacts {
    RunFacts { ready_at: s(20), ..started(20) }
}

#[test]
fn a_run_says_whether_it_was_on_time() {
    let first_start = |millis| UnixMillis::new(s(0).as_i64() + millis);
    about(RunFacts { first_start: first_start(1_000), ..started(0) })
        .says("on_time", "The run started on time, 1s after it was due.");
    about(RunFacts { first_start: first_start(2_001), ..started(0) })
        .says("late", "The run started 2s late.");
    about(fresh()).says("not_started", "The run has been due for 15m and has not started.");
    about(started(61)).says(
        "caught_up",
        "The run was later than late_after allows. The run started nevertheless, because catch_up is latest.",
    );
    about(started(20)).says("late_unexplained", "No record shows the reason for the delay.");
}

#[test]
fn a_run_says_why_it_became_ready_late() {
    let behind = |run: &str| Some(run.parse().unwrap());
    about(RunFacts { behind: behind("j@5"), ..ready_late() })
        .says("late_behind", "The run waited until 12:00:20 for run j@5 to end.");
    let gate = AtGate { until: Some(s(20)), ..gate("key customer-42") };
    about(RunFacts { gate: Some(gate), behind: behind("k@5"), ..started(20) }).says(
        "late_at_gate",
        "The run waited until 12:00:20 for a place at key customer-42, at first behind run k@5.",
    );
    about(RunFacts { is_spread: true, ..ready_late() }).says(
        "late_spread",
        "No node started the run in time. The spread of catch_up moved its start to 12:00:20.",
    );
    about(ready_late()).says("late_ready", "The run was not ready before 12:00:20.");
    about(ready_late())
        .with_spec(|spec| spec.shape.jitter = Duration::from_secs(90))
        .says("late_shifted", "The jitter and splay of the job moved the start to 12:00:20.");
}

#[test]
fn a_late_run_says_what_kept_the_nodes() {
    on(vec![stopped_until("n1", 300)], started(301))
        .says("late_no_node", "No node was running until 12:05:00.");
    on(vec![node("n1", &[event(NodeEventKind::Stopped, -60, None)])], fresh())
        .says("late_no_node", "No node was running.");
    on(vec![NodeFacts { last_seen: Some(s(5)), ..node("n1", &[]) }], fresh())
        .says("late_no_node", "No node was running from 12:00:05 onwards.");
    // After a step of the clock, the last heartbeat does not say that the node was gone.
    let step = event(NodeEventKind::ClockStepped { by_ms: 86_400_000 }, 10, None);
    let facts = on(vec![NodeFacts { last_seen: Some(s(5)), ..node("n1", &[step]) }], fresh());
    assert!(crate::domain::explain::judge(&facts).iter().all(|found| found.code != "late_no_node"));
    // The run waited for an earlier run, which this obstacle made late.
    let waited = RunFacts { ready_at: s(25), behind: Some("j@5".parse().unwrap()), ..started(25) };
    on(vec![node("n1", &[start(20, Some(5))])], waited)
        .says("late_no_node", "No node was running from 12:00:05 to 12:00:20.");
    let away = [event(NodeEventKind::RedisAway, -5, Some(20))];
    on(vec![node("n1", &away), node("n2", &away)], started(20))
        .says("late_redis", "Nodes n1 and n2 could not reach Redis from 11:59:55 to 12:00:20.");
    let time = "from 11:59:55 to 12:00:20";
    for (what, code, text) in [
        (
            slots_taken(),
            "late_slots",
            format!("All slots of queue default were taken on n1 {time}."),
        ),
        (
            past_load(),
            "late_at_limit",
            format!("A node limit kept n1 from claiming runs {time}: load 9.1 > 8."),
        ),
        (
            NodeEventKind::Restoring,
            "late_restoring",
            format!("No runs were started {time}: Redis had lost data."),
        ),
        (full(5), "late_queue", format!("Queue default was full (limit = 5) {time}.")),
        (full(0), "late_queue", format!("Queue default was full {time}.")),
        (rated(), "late_queue", format!("Queue default was at its rate limit of 10/1s {time}.")),
        (
            NodeEventKind::ClaimsSuspended,
            "late_keeper",
            format!("The keeper was not ready on n1 {time}."),
        ),
        (
            NodeEventKind::NewServer,
            "late_new_server",
            format!(
                "No runs were started {time}: Redis had been restarted or replaced, and nodes checked for lost data."
            ),
        ),
    ] {
        late_by(what, Some(20)).says(code, &text);
    }
    let paused = [event(paused(), -5, None)];
    on(vec![node("n1", &paused), node("n2", &paused)], fresh())
        .says("late_queue", "Queue default was paused by ana@h from 11:59:55 onwards.");
    on(vec![serving(None)], requiring("default+gpu")).says(
        "late_unserved",
        "No node takes the run: no running node that serves this queue has the required label gpu.",
    );
    on(vec![serving(Some("mail"))], fresh())
        .says("late_unserved", "No node takes the run: no running node serves queue default.");
    let asked = |handler: &str| {
        let handlers = HandlerChoice::Only([handler.parse().unwrap()].into());
        let worker = Serving { handlers: Some(handlers), ..Serving::default() };
        let node = NodeFacts { workers: vec![worker], ..serving(None) };
        on(vec![node], requiring("default+handler:send"))
    };
    let none_asks =
        "No node takes the run: no worker asks for runs of handler send in queue default.";
    asked("resize").says("late_unserved", none_asks);
    assert!(!asked("send").codes().contains(&"late_unserved"));
}

#[test]
fn a_retry_that_is_ready_says_what_keeps_it_now() {
    let retry = |lane: &str| RunFacts {
        first_start: Some(s(0)),
        attempts: started(0).attempts,
        ready: Some(s(840)),
        ..requiring(lane)
    };
    let found = on(vec![serving(None)], retry("default+gpu"));
    found.says("not_started", "The next attempt has been due for 1m and has not started.");
    found.says(
        "late_unserved",
        "No node takes the run: no running node that serves this queue has the required label gpu.",
    );
    assert!(!on(vec![serving(None)], retry("default")).codes().contains(&"late_unserved"));
}

#[test]
fn a_ready_run_says_what_keeps_it_now() {
    blocked(queue(NoRoomReason::Paused, "ana@h", Some(-5), executing(&[], 0)))
        .says("queue_now", "Queue default is paused by ana@h since 11:59:55. schedctl queue resume default resumes the queue.");
    let pause = queue(NoRoomReason::Paused, "", None, executing(&[], 0));
    Facts { blockers: vec![pause], ..the_job(vec![], None) }.says(
        "queue_now",
        "Queue default is paused. schedctl queue resume default resumes the queue.",
    );
    blocked(queue(NoRoomReason::Full, "1", None, executing(&["a@5"], 1)))
        .says("queue_now", "Queue default is full (limit = 1): run a@5 executes.");
    blocked(queue(NoRoomReason::Rate, "10/1s", None, executing(&[], 0)))
        .says("queue_now", "Queue default is at its rate limit of 10/1s.");
    blocked(Blocker::Slots {
        nodes: vec!["n1".to_owned(), "n2".to_owned()],
        running: executing(&["a@5", "b@6"], 9),
    })
    .says(
        "slots_now",
        "All slots of queue default are taken on n1 and n2: runs a@5, b@6 and 7 more execute.",
    );
    blocked(Blocker::NodeLimit {
        node: "n1".to_owned(),
        why: "load 9 > 8".to_owned(),
        since: s(-5),
    })
    .says("at_limit_now", "Node n1 has claimed no runs since 11:59:55: load 9 > 8.");
    blocked(Blocker::WrongType { why: "key k holds a list, wanted a zset".to_owned() }).says(
        "wrong_type_now",
        "No run of lane default starts: key k holds a list, wanted a zset.",
    );
    blocked(Blocker::NoNode).says("no_node_now", "No node is running.");
}

#[test]
fn a_blocker_is_left_out_if_an_obstacle_says_since_when() {
    let pause = queue(NoRoomReason::Paused, "ana@h", None, executing(&[], 0));
    let codes = |to| {
        let noted = on(vec![node("n1", &[event(paused(), -5, to)])], fresh());
        let mut codes = Facts { blockers: vec![pause.clone()], ..noted }.codes();
        codes.retain(|code| ["queue_now", "late_queue"].contains(code));
        codes
    };
    assert_eq!(codes(None), ["late_queue"]);
    assert_eq!(codes(Some(20)), ["queue_now", "late_queue"], "it was paused twice");
}

#[test]
fn a_node_that_does_not_take_the_queue_delays_nothing() {
    let other = NodeFacts {
        serving: serving(Some("mail")).serving,
        ..node("n2", &[event(past_load(), -5, None)])
    };
    let found = on(vec![node("n1", &[]), other], started(20)).codes();
    assert!(!found.contains(&"late_at_limit"), "{found:?}");
}

#[test]
fn nodes_are_named_together_only_for_the_time_all_of_them_had_the_obstacle() {
    let of = |name, (from, to)| node(name, &[slots(from, Some(to))]);
    let texts = |first, second| {
        on(vec![of("n1", first), of("n2", second)], started(40)).texts("late_slots")
    };
    let taken = |nodes, from, to| {
        format!("All slots of queue default were taken on {nodes} from 12:00:{from} to 12:00:{to}.")
    };
    assert_eq!(texts((1, 9), (5, 20)), [taken("n1 and n2", "05", "09")]);
    assert_eq!(texts((1, 9), (12, 20)), [taken("n1", "01", "09"), taken("n2", "12", "20")]);
    // A node with two separate periods of the same obstacle gets two findings.
    let twice = on(vec![node("n1", &[slots(1, Some(4)), slots(12, Some(20))])], started(40));
    assert_eq!(twice.texts("late_slots"), [taken("n1", "01", "04"), taken("n1", "12", "20")]);
}
