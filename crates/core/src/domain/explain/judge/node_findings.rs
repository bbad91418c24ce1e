//! Findings about the state of each node at the time when the run should have started.
//!
//! Invariant: a node without any known facts for that time counts as unknown, never as running.

use std::time::Duration;

use super::loss_findings::hidden;
use super::node_life::{Life, SHARED, Window, life, obstacles_of};
use crate::domain::explain::explain_words::{from_to, list, time_down};
use crate::domain::explain::facts::{Facts, NodeFacts, ON_TIME, RunFacts, Subject};
use crate::domain::explain::finding::{Finding, Part};
use crate::domain::job::audit_entry::AuditEntry;
use crate::domain::queue::lane::Lane;
use crate::domain::queue::lane_serving::Serving;
use crate::domain::run::node_event::{NodeEvent, NodeEventKind, step_text};
use schedd_schedule::names::{Label, NodeName, RunKind};
use schedd_schedule::time::unix_millis::UnixMillis;

/// The maximum time from the refusal of a jobs file to the time that the user asks about. Earlier
/// refusals are not reported.
const REFUSED_LATELY: Duration = Duration::from_secs(3600);

/// The maximum time between a step of the Redis clock and the time that the user asks about. Other
/// steps are not reported.
const STEPPED_LATELY: Duration = Duration::from_secs(3600);

fn finding(code: &'static str, text: impl Into<String>) -> Finding {
    Part::Nodes.finding(code, text)
}

/// Returns the findings about all nodes.
pub(super) fn nodes(facts: &Facts) -> Vec<Finding> {
    let mut found = Vec::new();
    let run = facts.run().or(match &facts.subject {
        Subject::Job { open, .. } => open.iter().find(|run| run.is_owed(facts.now)),
        _ => None,
    });
    let claimers: Vec<&String> = run
        .iter()
        .flat_map(|run| &run.attempts)
        .filter_map(|attempt| attempt.node.as_ref())
        .collect();
    // A backfill or rerun has the due time of an earlier occurrence, so only its ready time counts.
    let is_of_another_day =
        |run: &RunFacts| matches!(run.run.kind(), RunKind::Backfill | RunKind::Rerun);
    let waited = |run: &RunFacts| match run.first_start {
        Some(start) if is_of_another_day(run) => Some(start.since(run.ready_at.max(run.run.due()))),
        _ => run.late(),
    };
    let is_on_time = run
        .filter(|run| !run.is_back(facts.now))
        .and_then(waited)
        .is_some_and(|waited| waited <= ON_TIME);
    // After a data loss, the states of nodes do not explain why the run did not start before.
    let window = Window::of_nodes(facts).filter(|_| hidden(facts).is_none());
    if let (Some(window), Some(run)) = (window, run) {
        let (mut known, mut all) = (0, NodesFacts::default());
        for node in &facts.nodes {
            let has_claimed = claimers.contains(&&node.name);
            let of_node = of_node(facts, node, window, &run.lane);
            let code = if let [only] = of_node.as_slice() { only.code } else { "" };
            known += usize::from(has_claimed || code != "not_known");
            // A claim shows that the node ran, even if it has no later heartbeat.
            let says_nothing = has_claimed
                && (["free", "unseen", "not_known", "not_serving"].contains(&code)
                    || code == "not_running"
                        && down(facts, node, window).is_some_and(|(_, to)| to.is_none()));
            if !is_on_time && !says_nothing {
                all.add(&node.name, of_node);
            }
        }
        found.extend(all.findings(facts));
        if known == 0 && claimers.is_empty() {
            found.push(finding("no_nodes", "No node is known to have been running at that time."));
        }
    }
    let mut named: Vec<&String> = Vec::new();
    for node in claimers {
        if !named.contains(&node) {
            named.push(node);
            found.push(finding("claimed", format!("Node {node} claimed the run.")));
        }
    }
    found.extend(clock_steps(facts));
    found.extend(refused_files(facts));
    found
}

/// Returns the period in which the node was not running: its start and its end, as far as they are
/// known. Returns `None` if the node was running in `window`, or if its state is not known.
fn down(
    facts: &Facts,
    node: &NodeFacts,
    window: Window,
) -> Option<(Option<UnixMillis>, Option<UnixMillis>)> {
    match life(facts, node, window) {
        Life::Down(from, to) => Some((from, to.filter(|to| *to <= window.to))),
        Life::Up | Life::Unknown => None,
    }
}

/// A fact about a node: the words that follow the name of the node, with a period between them.
#[derive(Debug, PartialEq)]
struct NodeFact {
    code: &'static str,
    before: String,
    /// The start and the end of the period. The end is `None` if the period lasts.
    period: Option<(UnixMillis, Option<UnixMillis>)>,
    after: String,
}

impl NodeFact {
    fn new(code: &'static str, words: impl Into<String>) -> Self {
        Self { code, before: words.into(), period: None, after: String::new() }
    }

    /// Returns true if a sentence can say this fact and `other`, a fact about another node. Nodes
    /// notice an obstacle that concerns all of them at slightly different times.
    fn is_same(&self, other: &Self) -> bool {
        let is_shared = SHARED.contains(&self.code) && self.period.is_some();
        (self.code, &self.before, &self.after) == (other.code, &other.before, &other.after)
            && (is_shared || self.period == other.period)
    }
}

/// The facts about all nodes. Nodes with the same fact share a sentence.
#[derive(Default)]
struct NodesFacts(Vec<(NodeFact, Vec<String>)>);

impl NodesFacts {
    fn add(&mut self, node: &str, facts: Vec<NodeFact>) {
        for fact in facts {
            match self.0.iter_mut().find(|(known, nodes)| {
                known.is_same(&fact) && nodes.last().is_none_or(|last| last != node)
            }) {
                Some((known, nodes)) => {
                    nodes.push(node.to_owned());
                    if let (Some((from, to)), Some((other_from, other_to))) =
                        (&mut known.period, fact.period)
                    {
                        *from = other_from.min(*from);
                        *to = to.zip(other_to).map(|(to, other)| to.max(other));
                    }
                }
                None => self.0.push((fact, vec![node.to_owned()])),
            }
        }
    }

    fn findings(self, facts: &Facts) -> impl Iterator<Item = Finding> {
        self.0.into_iter().map(|(fact, nodes)| {
            let who = match nodes.as_slice() {
                [node] => format!("Node {node}"),
                nodes => format!("Each of the nodes {}", list(nodes)),
            };
            let NodeFact { code, before, period, after } = fact;
            let time = period.map(|(from, to)| from_to(from, to, &facts.local)).unwrap_or_default();
            finding(code, format!("{who} {before}{time}{after}."))
        })
    }
}

fn of_node(facts: &Facts, node: &NodeFacts, window: Window, lane: &Lane) -> Vec<NodeFact> {
    let mut found = Vec::new();
    let mut obstacles = obstacles_of(node, window, lane, facts.now).peekable();
    if life(facts, node, window) == Life::Unknown && obstacles.peek().is_none() {
        return vec![NodeFact::new("not_known", "has no record in Redis for that time")];
    }
    if let Some((from, to)) = down(facts, node, window) {
        let time = time_down(facts, from, to);
        found.push(NodeFact::new("not_running", format!("was not running{time}")));
        if to.is_none() && from.is_none_or(|from| from <= window.from) {
            return found;
        }
    }
    if let Some(what) = node.serving.as_ref().and_then(|serving| not_served(serving, lane)) {
        found.push(NodeFact::new("not_serving", format!("does not take the run: {what}")));
        return found;
    }
    found.extend(obstacles.map(|event| obstacle(&event)));
    if found.is_empty() {
        // A node whose last heartbeat is shortly before the window counts as running.
        let unseen = node.last_seen.filter(|seen| *seen < window.from && window.to >= facts.now);
        found.push(match unseen.map(|seen| facts.shown(seen)) {
            Some(seen) => {
                let words = format!("was last seen running on {seen}, shortly before that time");
                NodeFact::new("unseen", words)
            }
            None => NodeFact::new(
                "free",
                "was running, and no recorded event kept it from claiming the run",
            ),
        });
    }
    found
}

/// Returns the fact about `event`, which kept a node from claiming runs.
fn obstacle(event: &NodeEvent) -> NodeFact {
    let known = |before: &str, detail: &str, close: &str| {
        if detail.is_empty() { String::new() } else { format!("{before}{detail}{close}") }
    };
    let mut after = String::new();
    let before = match &event.what {
        NodeEventKind::SlotsTaken { queue } => format!("had no free slot for queue {queue}"),
        NodeEventKind::QueuePaused { queue, by } => {
            format!("found queue {queue} paused{}", known(" by ", by, ""))
        }
        NodeEventKind::QueueFull { queue, limit: 0 } => format!("found queue {queue} at its limit"),
        NodeEventKind::QueueFull { queue, limit } => {
            format!("found queue {queue} at its limit for all nodes together (limit = {limit})")
        }
        NodeEventKind::QueueRated { queue, rate } => {
            format!("found queue {queue} at its rate limit{}", known(" (", rate, ")"))
        }
        NodeEventKind::Restoring => {
            ", because Redis had lost data and nodes restored records from their journals"
                .clone_into(&mut after);
            "started no runs".to_owned()
        }
        NodeEventKind::NewServer => {
            ", because Redis had been restarted or replaced and nodes checked for lost data"
                .clone_into(&mut after);
            "started no runs".to_owned()
        }
        NodeEventKind::AtLimit { why } => {
            after = format!(": {why}");
            "claimed no runs".to_owned()
        }
        NodeEventKind::ClaimsSuspended => {
            ", because its keeper was not ready".clone_into(&mut after);
            "claimed no runs".to_owned()
        }
        _ => "could not reach Redis".to_owned(),
    };
    NodeFact { code: event.what.word(), before, period: Some((event.from, event.to)), after }
}

/// Returns the reason why a node does not serve a lane, as a clause. Returns `None` if the node
/// serves the lane.
fn not_served(serving: &Serving, lane: &Lane) -> Option<String> {
    if !serving.takes_queue(lane.queue()) {
        return Some(format!("it does not serve queue {}", lane.queue()));
    }
    if !lane.is_for_node(&serving.labels) {
        let nodes: Vec<&str> = lane.nodes().iter().map(NodeName::as_str).collect();
        return Some(format!("only {} may take it", nodes.join(", ")));
    }
    let missing: Vec<&str> =
        lane.requires().difference(&serving.labels).map(Label::as_str).collect();
    let noun = if missing.len() == 1 { "label" } else { "labels" };
    (!missing.is_empty()).then(|| format!("it does not have the {noun} {}", missing.join(", ")))
}

/// Returns findings for the steps of the Redis clock near the time that the user asks about. All of
/// them come from the first node that recorded such a step.
fn clock_steps(facts: &Facts) -> Vec<Finding> {
    let at = facts.at().unwrap_or(facts.now);
    let step = |node: &NodeFacts, event: &NodeEvent| {
        let NodeEventKind::ClockStepped { by_ms } = event.what else { return None };
        // The user may have meant the clock before the step or the clock after the step.
        let before =
            UnixMillis::new(event.from.as_i64().saturating_sub(by_ms)).unwrap_or(event.from);
        let is_near =
            |to: UnixMillis| to.since(at) <= STEPPED_LATELY && at.since(to) <= STEPPED_LATELY;
        let is_between = before.min(event.from) <= at && at <= before.max(event.from);
        let (node, step, to) = (&node.name, step_text(by_ms), facts.shown(event.from));
        let text = format!(
            "Node {node} saw the clock of Redis jump {step}, to {to}. Runs may have started early or late because of the jump."
        );
        (is_near(event.from) || is_near(before) || is_between)
            .then(|| finding("clock_stepped", text))
    };
    let steps = |node: &NodeFacts| {
        node.events.iter().filter_map(|event| step(node, event)).collect::<Vec<_>>()
    };
    facts.nodes.iter().map(steps).find(|steps| !steps.is_empty()).unwrap_or_default()
}

/// Returns findings for jobs files that nodes refused shortly before the time that the user asks
/// about. Because of the refusal the job may not have been planned. A file that was accepted later
/// only matters for a past time without a run.
fn refused_files(facts: &Facts) -> Vec<Finding> {
    let until = match Window::of(facts) {
        Some(window) => window.to,
        None => facts.at().unwrap_or(facts.now),
    };
    let from = facts.at().unwrap_or(facts.now).saturating_sub(REFUSED_LATELY);
    let is_change = |entry: &&AuditEntry| {
        matches!(entry.what.as_str(), AuditEntry::ADDED | AuditEntry::EDITED) && entry.at <= until
    };
    let live_since = facts.audit_log.iter().rev().find(is_change).map(|entry| entry.at);
    let is_planned = facts.at().is_none() || facts.run().is_some();
    let of_node = |node: &NodeFacts| {
        if is_planned && node.refuses_file == Some(false) {
            return None;
        }
        let (at, why) = node.events.iter().rev().find_map(|event| match &event.what {
            NodeEventKind::FileRefused { why } if event.from >= from && event.from <= until => {
                Some((event.from, why))
            }
            _ => None,
        })?;
        let text =
            || format!("Node {} refused its jobs file on {}: {why}.", node.name, facts.shown(at));
        live_since.is_none_or(|since| since < at).then(|| finding("file_refused", text()))
    };
    facts.nodes.iter().filter_map(of_node).collect()
}
