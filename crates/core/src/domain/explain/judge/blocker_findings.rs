//! Findings about blockers: obstacles that keep a ready run from starting now.
//!
//! Invariant: a ready run has a blocker only if no node can take the run. For a job without a ready
//! run, the only blocker is the pause of its queue, which will delay the next run.

use super::obstacle::{Delay, queue_words};
use crate::domain::explain::explain_words::{after, list};
use crate::domain::explain::facts::{Blocker, Facts, RunFacts};
use crate::domain::explain::finding::{Finding, Part};
use crate::domain::queue::lane::Lane;
use crate::domain::queue::queue_rules::NoRoomReason;
use crate::domain::run::node_event::NodeEventKind;
use schedd_schedule::names::QueueName;

/// Returns a finding for each blocker of a ready run. A pause, a used-up rate limit, a node limit
/// or the lack of nodes is left out if `delay` has it too. The findings for `delay` report this
/// obstacle with its start.
pub(super) fn blockers(facts: &Facts, run: &RunFacts, delay: &Delay) -> Vec<Finding> {
    let lasting = || delay.obstacles.iter().filter(|obstacle| obstacle.to.is_none());
    let is_in_delay = |blocker: &Blocker| match blocker {
        Blocker::Queue { hold: NoRoomReason::Full, .. }
        | Blocker::Slots { .. }
        | Blocker::WrongType { .. } => false,
        Blocker::Queue { hold, .. } => lasting().any(|obstacle| obstacle.hold() == Some(*hold)),
        Blocker::NodeLimit { node, .. } => lasting().any(|obstacle| {
            matches!(obstacle.what, NodeEventKind::AtLimit { .. }) && obstacle.nodes.contains(node)
        }),
        Blocker::NoNode => delay.no_node.is_some_and(|no_node| no_node.until.is_none()),
    };
    let new = facts.blockers.iter().filter(|blocker| !is_in_delay(blocker));
    new.map(|blocker| finding(facts, blocker, run.lane.queue(), Some(&run.lane))).collect()
}

/// Returns the finding for the pause of the job's queue. The list is empty if the queue is not
/// paused.
pub(super) fn paused_queue(facts: &Facts) -> Vec<Finding> {
    let Some((spec, _)) = facts.definition() else { return Vec::new() };
    let is_pause =
        |blocker: &&Blocker| matches!(blocker, Blocker::Queue { hold: NoRoomReason::Paused, .. });
    facts
        .blockers
        .iter()
        .filter(is_pause)
        .map(|blocker| finding(facts, blocker, &spec.queue, None))
        .collect()
}

fn finding(facts: &Facts, blocker: &Blocker, queue: &QueueName, lane: Option<&Lane>) -> Finding {
    let (code, text) = match blocker {
        Blocker::Queue { hold, detail, since, running } => {
            let state = queue_words(*hold, detail);
            let text = match hold {
                NoRoomReason::Paused => {
                    let since = after(" since ", since.map(|at| facts.shown(at)));
                    format!(
                        "Queue {queue} is {state}{since}. schedctl queue resume {queue} resumes the queue."
                    )
                }
                NoRoomReason::Full => {
                    format!("Queue {queue} is {state}{runs}.", runs = after(": ", running.words()))
                }
                NoRoomReason::Rate => format!("Queue {queue} is {state}."),
            };
            ("queue_now", text)
        }
        Blocker::WrongType { why } => (
            "wrong_type_now",
            format!("No run of lane{name} starts: {why}.", name = after(" ", lane)),
        ),
        Blocker::Slots { nodes, running } => {
            let runs = after(": ", running.words());
            (
                "slots_now",
                format!(
                    "All slots of queue {queue} are taken on {nodes}{runs}.",
                    nodes = list(nodes)
                ),
            )
        }
        Blocker::NodeLimit { node, why, since } => (
            "at_limit_now",
            format!("Node {node} has claimed no runs since {}: {why}.", facts.shown(*since)),
        ),
        Blocker::NoNode => ("no_node_now", "No node is running.".to_owned()),
    };
    Part::Timing.finding(code, text)
}
