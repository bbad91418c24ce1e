//! What hindered the nodes while a run was to start, as reasons for its being late.
//!
//! Invariant: nodes are named together only for a time in which it befell each of them.

use super::ON_TIME;
use super::facts::{Facts, RunFacts};
use super::life::{Life, Window, life, obstacles};
use super::timing::Timing;
use crate::domain::node_event::{Befell, NodeEvent};
use crate::domain::queue::QueueHold;
use crate::domain::serving::{Serving, Unserved};
use crate::domain::time::UnixMillis;

/// Stretches told of one kind, where the nodes have each its own.
const OWN_STRETCHES: usize = 10;

/// Why no node claimed a run while it was ready.
pub(super) fn waiting_for_nodes(facts: &Facts, run: &RunFacts) -> Vec<Timing> {
    let mut found = Vec::new();
    if let Some(window) = Window::of(facts).filter(|window| window.to.since(window.from) > ON_TIME) {
        found.extend(no_node(facts, run, window));
        for word in [
            "redis_away",
            "new_server",
            "settling",
            "queue_paused",
            "queue_full",
            "queue_rated",
            "slots_taken",
            "claims_held",
            Befell::HELD,
        ] {
            found.extend(obstacle(facts, run, window, word));
        }
    }
    if run.first_start.is_none() && !run.state.is_final() {
        let there: Vec<Serving> = facts.nodes.iter().filter_map(|node| node.serving.clone()).collect();
        found.extend(Unserved::of(&run.lane, &there).map(|why| Timing::Unserved { why }));
    }
    found
}

/// That no node was running for a while within `window`.
pub(super) fn no_node(facts: &Facts, run: &RunFacts, window: Window) -> Option<Timing> {
    let lives: Vec<Life> = facts.nodes.iter().map(|node| life(facts, node, window)).collect();
    let is_known = lives.iter().any(|life| *life != Life::Unknown);
    if !is_known || lives.contains(&Life::Up) {
        return None;
    }
    let stretches = || {
        lives.iter().filter_map(|life| match life {
            Life::Down(from, to) => Some((from.filter(|from| *from > window.from), *to)),
            _ => None,
        })
    };
    let since = stretches().filter_map(|(from, _)| from).max();
    let until = stretches().filter_map(|(_, to)| to).min().filter(|to| *to <= window.to);
    let is_nothing = since.is_some_and(|since| until.unwrap_or(window.to).since(since) <= ON_TIME);
    // Whoever claimed it was there.
    let is_refuted = run.first_start.is_some() && until.is_none();
    (!is_nothing && !is_refuted).then_some(Timing::NoNode { since, until })
}

/// All nodes' obstacles of one kind. Of what befalls each node by itself that is the time in which it befell all of them, or, where
/// there is none, each its own.
pub(super) fn obstacle(facts: &Facts, run: &RunFacts, window: Window, word: &str) -> Vec<Timing> {
    let mut by_node: Vec<(String, Vec<NodeEvent>)> = Vec::new();
    // What befalls a node that takes no runs of its lane delays none.
    for node in facts.nodes.iter().filter(|node| node.serving.as_ref().is_none_or(|serving| serving.takes(&run.lane))) {
        let events: Vec<_> = obstacles(node, window, &run.lane, facts.now).filter(|event| event.what.word() == word).collect();
        if !events.is_empty() {
            by_node.push((node.name.clone(), events));
        }
    }
    let is_of_all = matches!(word, "new_server" | "settling" | "queue_paused" | "queue_full" | "queue_rated");
    let all = || by_node.iter().flat_map(|(_, events)| events);
    let Some(last) = all().last() else { return Vec::new() };
    // Between two of these a slot was free.
    let has_gaps = word == "slots_taken" && by_node.iter().any(|(_, events)| events.len() > 1);
    let names = || by_node.iter().map(|(name, _)| name.clone()).collect();
    if is_of_all || by_node.len() == 1 && !has_gaps {
        let from = all().map(|event| event.from).fold(last.from, UnixMillis::min);
        let to = all().map(|event| event.to).reduce(|one, other| one.zip(other).map(|(a, b)| a.max(b))).flatten();
        return vec![timing(run, &last.what, names(), from, to)];
    }
    let from = all().map(|event| event.from).fold(last.from, UnixMillis::max);
    let to = all().filter_map(|event| event.to).min();
    if by_node.iter().all(|(_, events)| events.len() == 1) && to.is_none_or(|to| from < to) {
        return vec![timing(run, &last.what, names(), from, to)];
    }
    let own = |(name, events): &(String, Vec<NodeEvent>)| {
        events.iter().map(|event| timing(run, &event.what, vec![name.clone()], event.from, event.to)).collect::<Vec<_>>()
    };
    by_node.iter().flat_map(own).take(OWN_STRETCHES).collect()
}

fn timing(run: &RunFacts, what: &Befell, nodes: Vec<String>, from: UnixMillis, to: Option<UnixMillis>) -> Timing {
    let of_queue = |hold, detail| Timing::Queue { queue: run.lane.queue().clone(), hold, detail, from, to };
    match what {
        Befell::RedisAway => Timing::Redis { nodes, from, to },
        Befell::NewServer => Timing::NewServer { from, to },
        Befell::Settling => Timing::Settling { from, to },
        Befell::Held { .. } => Timing::Held { nodes, from, to },
        Befell::SlotsTaken { queue } => Timing::Slots { nodes, queue: queue.clone(), from, to },
        Befell::QueuePaused { by, .. } => of_queue(QueueHold::Paused, by.clone()),
        Befell::QueueFull { limit: 0, .. } => of_queue(QueueHold::Full, String::new()),
        Befell::QueueFull { limit, .. } => of_queue(QueueHold::Full, limit.to_string()),
        Befell::QueueRated { rate, .. } => of_queue(QueueHold::Rate, rate.clone()),
        _ => Timing::Keeper { nodes, from, to },
    }
}
