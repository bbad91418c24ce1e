//! The obstacles that kept nodes from claiming a ready run, as reasons for the run's late start.
//!
//! Invariant: a sentence about several nodes gives only the time in which all of these nodes had
//! the obstacle.

use super::node_life::{Life, SHARED, Window, life, obstacles_of};
use crate::domain::explain::explain_words::{from_to, list, time_down};
use crate::domain::explain::facts::{Facts, ON_TIME, RunFacts};
use crate::domain::explain::finding::{Finding, Part};
use crate::domain::queue::lane_serving::{Serving, Unserved};
use crate::domain::queue::queue_rules::NoRoomReason;
use crate::domain::run::node_event::{NodeEvent, NodeEventKind};
use schedd_schedule::time::unix_millis::UnixMillis;

/// The maximum number of findings for one kind of obstacle.
const LISTED: usize = 10;

/// The node events that keep a node from starting runs, in the order in which an explanation lists
/// them.
const KINDS: [&str; 9] = [
    "redis_away",
    "new_server",
    "restoring",
    "queue_paused",
    "queue_full",
    "queue_rated",
    "slots_taken",
    "claims_suspended",
    NodeEventKind::AT_LIMIT,
];

/// All recorded reasons why nodes did not claim a ready run.
#[derive(Debug, Default)]
pub(super) struct Delay {
    /// The period in which no node was running. `None` if a node was running.
    pub(super) no_node: Option<NoNode>,
    /// The obstacles of the nodes that were running.
    pub(super) obstacles: Vec<Obstacle>,
    /// The reason why no running node serves the run's lane. `None` if a node serves it.
    pub(super) unserved: Option<Unserved>,
}

/// A period in which no node was running.
#[derive(Debug, Clone, Copy)]
pub(super) struct NoNode {
    /// The time when the last node ended. `None` if no node was running when the run was due.
    pub(super) since: Option<UnixMillis>,
    /// The time when a node was running again. `None` if no node is running.
    pub(super) until: Option<UnixMillis>,
}

/// A period in which the same obstacle kept one or more nodes from claiming runs.
#[derive(Debug, Clone)]
pub(super) struct Obstacle {
    /// The node event that records the obstacle.
    pub(super) what: NodeEventKind,
    /// The names of the nodes that had the obstacle.
    pub(super) nodes: Vec<String>,
    /// The time when the obstacle began.
    pub(super) from: UnixMillis,
    /// The time when the obstacle ended. `None` if the obstacle lasts.
    pub(super) to: Option<UnixMillis>,
}

impl Delay {
    /// Returns the reasons why no node claimed `run` while it was ready.
    pub(super) fn of(facts: &Facts, run: &RunFacts) -> Self {
        let mut delay = Self::default();
        if let Some(window) =
            Window::of(facts).filter(|window| window.to.since(window.from) > ON_TIME)
        {
            delay.no_node = NoNode::within(facts, run, window);
            delay.obstacles =
                KINDS.iter().flat_map(|kind| Obstacle::of_kind(facts, run, window, kind)).collect();
        }
        if run.first_start.is_none() && !run.state.is_final() {
            delay.unserved = unserved(facts, run);
        }
        delay
    }

    /// Returns the reason why nobody takes `run`, which has started and is ready for its next attempt.
    pub(super) fn of_next_attempt(facts: &Facts, run: &RunFacts) -> Self {
        Self { unserved: unserved(facts, run), ..Self::default() }
    }

    /// Returns the reasons why an earlier run started late, for a `run` that waited for that
    /// earlier run. `window` is the period of this wait.
    pub(super) fn of_earlier_run(facts: &Facts, run: &RunFacts, window: Window) -> Self {
        let obstacles = Obstacle::of_kind(facts, run, window, "redis_away");
        Self { no_node: NoNode::within(facts, run, window), obstacles, unserved: None }
    }

    /// Returns the findings for all reasons of this delay.
    pub(super) fn findings(&self, facts: &Facts, run: &RunFacts) -> Vec<Finding> {
        let unserved = self.unserved.as_ref();
        let unserved = unserved.map(|why| {
            Part::Timing.finding("late_unserved", format!("No node takes the run: {why}."))
        });
        let obstacles = self.obstacles.iter().map(|obstacle| obstacle.finding(facts, run));
        self.no_node
            .map(|no_node| no_node.finding(facts))
            .into_iter()
            .chain(obstacles)
            .chain(unserved)
            .collect()
    }
}

/// Returns the reason why no running node, and no worker that asks one, takes the run.
fn unserved(facts: &Facts, run: &RunFacts) -> Option<Unserved> {
    let there = facts.nodes.iter().flat_map(|node| node.serving.iter().chain(&node.workers));
    let there: Vec<Serving> = there.cloned().collect();
    Unserved::of(&run.lane, &there)
}

impl NoNode {
    fn within(facts: &Facts, run: &RunFacts, window: Window) -> Option<Self> {
        let lives: Vec<Life> = facts.nodes.iter().map(|node| life(facts, node, window)).collect();
        let is_known = lives.iter().any(|life| *life != Life::Unknown);
        // Across a step of the clock, heartbeats do not show which nodes were running.
        let is_step = |event: &NodeEvent| {
            matches!(event.what, NodeEventKind::ClockStepped { .. })
                && window.from <= event.from
                && event.from <= window.to
        };
        let is_stepped = facts.nodes.iter().any(|node| node.events.iter().any(is_step));
        if !is_known || is_stepped || lives.contains(&Life::Up) {
            return None;
        }
        let periods = || {
            lives.iter().filter_map(|life| match life {
                Life::Down(from, to) => Some((from.filter(|from| *from > window.from), *to)),
                _ => None,
            })
        };
        let since = periods().filter_map(|(from, _)| from).max();
        let until = periods().filter_map(|(_, to)| to).min().filter(|to| *to <= window.to);
        let is_nothing =
            since.is_some_and(|since| until.unwrap_or(window.to).since(since) <= ON_TIME);
        // The node that claimed the run was running.
        let is_refuted = run.first_start.is_some() && until.is_none();
        (!is_nothing && !is_refuted).then_some(Self { since, until })
    }

    fn finding(self, facts: &Facts) -> Finding {
        let time = time_down(facts, self.since, self.until);
        Part::Timing.finding("late_no_node", format!("No node was running{time}."))
    }
}

impl Obstacle {
    /// Returns the obstacles of one kind within `window`. If all nodes with this obstacle had it at
    /// the same time, the result is this one period. Otherwise, the result has the periods of each
    /// node.
    fn of_kind(facts: &Facts, run: &RunFacts, window: Window, kind: &str) -> Vec<Self> {
        let mut by_node: Vec<(String, Vec<NodeEvent>)> = Vec::new();
        // An obstacle of a node that does not serve the lane delays no run of the lane.
        for node in facts
            .nodes
            .iter()
            .filter(|node| node.serving.as_ref().is_none_or(|serving| serving.takes(&run.lane)))
        {
            let events = obstacles_of(node, window, &run.lane, facts.now);
            let events: Vec<_> = events.filter(|event| event.what.word() == kind).collect();
            if !events.is_empty() {
                by_node.push((node.name.clone(), events));
            }
        }
        let all = || by_node.iter().flat_map(|(_, events)| events);
        let Some(last) = all().last() else { return Vec::new() };
        let of_all = |from, to| {
            vec![Self {
                what: last.what.clone(),
                nodes: by_node.iter().map(|(name, _)| name.clone()).collect(),
                from,
                to,
            }]
        };
        // Between two periods in which all slots of a node were taken, the node had a free slot.
        let has_gaps = kind == "slots_taken" && by_node.iter().any(|(_, events)| events.len() > 1);
        if SHARED.contains(&kind) || by_node.len() == 1 && !has_gaps {
            let from = all().map(|event| event.from).fold(last.from, UnixMillis::min);
            let to = all()
                .map(|event| event.to)
                .reduce(|one, other| one.zip(other).map(|(a, b)| a.max(b)))
                .flatten();
            return of_all(from, to);
        }
        let from = all().map(|event| event.from).fold(last.from, UnixMillis::max);
        let to = all().filter_map(|event| event.to).min();
        if by_node.iter().all(|(_, events)| events.len() == 1) && to.is_none_or(|to| from < to) {
            return of_all(from, to);
        }
        let own = |(name, events): (String, Vec<NodeEvent>)| {
            let nodes = vec![name];
            events.into_iter().map(move |event| Self {
                what: event.what,
                nodes: nodes.clone(),
                from: event.from,
                to: event.to,
            })
        };
        by_node.into_iter().flat_map(own).take(LISTED).collect()
    }

    fn finding(&self, facts: &Facts, run: &RunFacts) -> Finding {
        let (nodes, time) = (list(&self.nodes), from_to(self.from, self.to, &facts.local));
        let queue = run.lane.queue();
        let of_queue =
            |hold, detail: &str| format!("Queue {queue} was {}{time}.", queue_words(hold, detail));
        let (code, text) = match &self.what {
            NodeEventKind::RedisAway => {
                let noun = if self.nodes.len() == 1 { "Node" } else { "Nodes" };
                ("late_redis", format!("{noun} {nodes} could not reach Redis{time}."))
            }
            NodeEventKind::NewServer => (
                "late_new_server",
                format!(
                    "No runs were started{time}: Redis had been restarted or replaced, and nodes checked for lost data."
                ),
            ),
            NodeEventKind::Restoring => {
                ("late_restoring", format!("No runs were started{time}: Redis had lost data."))
            }
            NodeEventKind::AtLimit { why } => {
                let why = if self.nodes.len() > 1 { String::new() } else { format!(": {why}") };
                (
                    "late_at_limit",
                    format!("A node limit kept {nodes} from claiming runs{time}{why}."),
                )
            }
            NodeEventKind::SlotsTaken { queue } => {
                ("late_slots", format!("All slots of queue {queue} were taken on {nodes}{time}."))
            }
            NodeEventKind::QueuePaused { by, .. } => {
                ("late_queue", of_queue(NoRoomReason::Paused, by))
            }
            NodeEventKind::QueueFull { limit: 0, .. } => {
                ("late_queue", of_queue(NoRoomReason::Full, ""))
            }
            NodeEventKind::QueueFull { limit, .. } => {
                ("late_queue", of_queue(NoRoomReason::Full, &limit.to_string()))
            }
            NodeEventKind::QueueRated { rate, .. } => {
                ("late_queue", of_queue(NoRoomReason::Rate, rate))
            }
            _ => ("late_keeper", format!("The keeper was not ready on {nodes}{time}.")),
        };
        Part::Timing.finding(code, text)
    }

    /// Returns the reason why no run of the queue started. Returns `None` for an obstacle of a node
    /// or of Redis.
    pub(super) fn hold(&self) -> Option<NoRoomReason> {
        match self.what {
            NodeEventKind::QueuePaused { .. } => Some(NoRoomReason::Paused),
            NodeEventKind::QueueFull { .. } => Some(NoRoomReason::Full),
            NodeEventKind::QueueRated { .. } => Some(NoRoomReason::Rate),
            _ => None,
        }
    }
}

/// Returns the text `paused by ana@host` or `full (limit = 3)`. An empty `detail` is left out.
pub(super) fn queue_words(hold: NoRoomReason, detail: &str) -> String {
    let (how, before, close) = match hold {
        NoRoomReason::Paused => ("paused", " by ", ""),
        NoRoomReason::Full => ("full", " (limit = ", ")"),
        NoRoomReason::Rate => ("at its rate limit", " of ", ""),
    };
    if detail.is_empty() { how.to_owned() } else { format!("{how}{before}{detail}{close}") }
}
