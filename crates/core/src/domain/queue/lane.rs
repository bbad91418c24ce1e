//! A lane: the due set of a queue for runs with the same priority and the same required labels.
//!
//! The text of a lane is its name in keys and records: `default`, `default!5`,
//! `default!-3~2+eu,gpu`, `default=web1`. The plain lane of a queue has the name of the queue, so old records
//! without lanes remain valid.
//!
//! Runs with gates are in separate lanes, called shards. Therefore, a large number of due runs of
//! one gate does not delay runs without gates, and delays only few runs with other gates.
//!
//! Invariant: a lane has exactly one text, so a lane has only one due set.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use super::gate::Gate;
use crate::domain::job::node_choice::{MAX_NODES, NodeChoice};
use schedd_schedule::names::{HandlerName, IdError, Label, NodeName, QueueName};

/// The maximum number of labels of a job or of a node.
pub const MAX_LABELS: usize = 8;

/// The priority of a job's runs within their queue: -10 to 10.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Priority(i8);

impl Priority {
    /// The lowest priority.
    pub const LEAST: i8 = -10;
    /// The highest priority.
    pub const MOST: i8 = 10;

    /// Returns the priority with this number. Returns `None` if the number is not from -10 to 10.
    pub fn new(number: i8) -> Option<Self> {
        (Self::LEAST..=Self::MOST).contains(&number).then_some(Self(number))
    }

    /// Returns the priority as a number.
    pub fn as_i8(self) -> i8 {
        self.0
    }
}

impl fmt::Display for Priority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The number of shards for runs with gates. The first gate of a run determines its shard. At a
/// poll, a node reads only the first runs of each shard.
const SHARDS: u8 = 16;

/// The due set of a queue for runs with the same priority and the same required labels. Copies
/// of a lane share its parts.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lane(Arc<LaneParts>);

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct LaneParts {
    queue: QueueName,
    priority: Priority,
    shard: Option<u8>,
    requires: BTreeSet<Label>,
    handler: Option<HandlerName>,
    on: BTreeSet<NodeName>,
    text: String,
}

impl Lane {
    /// Returns the lane of `queue` for runs with this priority and these required labels.
    pub fn new(queue: QueueName, priority: Priority, requires: BTreeSet<Label>) -> Self {
        let (shard, handler, on, text) = (None, None, BTreeSet::new(), String::new());
        Self::of(LaneParts { queue, priority, shard, requires, handler, on, text })
    }

    /// Returns the lane like this for runs of a handler, which only workers take.
    #[must_use]
    pub fn for_handler(self, handler: Option<HandlerName>) -> Self {
        Self::of(LaneParts { handler, ..self.into_parts() })
    }

    /// Returns the lane like this for runs of a job with this placement.
    #[must_use]
    pub fn on(self, placement: &NodeChoice) -> Self {
        match placement {
            NodeChoice::Nodes(nodes) => {
                Self::of(LaneParts { on: nodes.clone(), ..self.into_parts() })
            }
            NodeChoice::Anywhere | NodeChoice::EachNode => self,
        }
    }

    /// Returns the shard of this lane for runs whose first gate is `first_gate`. The number of the
    /// shard is the first byte of the SHA-1 of the gate's name, modulo 16.
    #[must_use]
    pub fn shard_for(self, first_gate: &Gate) -> Self {
        let hash = sha1_smol::Sha1::from(first_gate.as_str()).digest().bytes();
        Self::of(LaneParts { shard: Some(hash[0] % SHARDS), ..self.into_parts() })
    }

    fn into_parts(self) -> LaneParts {
        Arc::unwrap_or_clone(self.0)
    }

    /// Returns the lane with these parts. The text follows from the others.
    fn of(mut parts: LaneParts) -> Self {
        // The label of the handler stands among the others in the text, so that a lane has one text.
        let of_handler = parts.handler.as_ref().map(Label::of_handler);
        let mut labels: Vec<&Label> = parts.requires.iter().chain(&of_handler).collect();
        labels.sort_unstable();
        let mut text = parts.queue.as_str().to_owned();
        if parts.priority != Priority::default() {
            text.push('!');
            text.push_str(&parts.priority.to_string());
        }
        if let Some(shard) = parts.shard {
            text.push('~');
            text.push_str(&shard.to_string());
        }
        for (at, label) in labels.into_iter().enumerate() {
            text.push(if at == 0 { '+' } else { ',' });
            text.push_str(label.as_str());
        }
        for (at, node) in parts.on.iter().enumerate() {
            text.push(if at == 0 { '=' } else { ',' });
            text.push_str(node.as_str());
        }
        parts.text = text;
        Self(Arc::new(parts))
    }

    /// Returns the lane `default`: the lane of the queue `default` with priority 0, without labels
    /// and shard.
    pub fn default_lane() -> Self {
        QueueName::default_queue().into()
    }

    /// Returns the only lane of the queue of the host `host`.
    pub fn of_host(host: &str) -> Self {
        QueueName::of_host(host).into()
    }

    /// Returns the lane of the jobs with an instance on each node.
    pub fn of_each_node() -> Self {
        QueueName::of_each_node().into()
    }

    /// Returns the only lane of the queue of notices.
    pub fn of_notices() -> Self {
        QueueName::of_notices().into()
    }

    /// Returns the text of the lane, its name in keys and records.
    pub fn as_str(&self) -> &str {
        &self.0.text
    }

    /// Returns the queue of the lane.
    pub fn queue(&self) -> &QueueName {
        &self.0.queue
    }

    /// Returns the priority of the runs in this lane.
    pub fn priority(&self) -> Priority {
        self.0.priority
    }

    /// Returns the labels that a node must have to take runs from this lane.
    pub fn requires(&self) -> &BTreeSet<Label> {
        &self.0.requires
    }

    /// Returns the handler whose workers take runs from this lane. Returns `None` for a lane of
    /// nodes.
    pub fn handler(&self) -> Option<&HandlerName> {
        self.0.handler.as_ref()
    }

    /// Returns the nodes that may take runs from this lane. An empty set means any node.
    pub fn nodes(&self) -> &BTreeSet<NodeName> {
        &self.0.on
    }

    /// Returns true for the plain lane of a queue: the lane with the default priority, without
    /// labels, nodes and shard. The Redis key `lanes` lists only lanes that are not plain.
    pub fn is_plain(&self) -> bool {
        self.0.text == self.0.queue.as_str()
    }

    /// Returns true for a lane of a host's queue or of the queue of notices.
    pub fn is_of_host(&self) -> bool {
        self.0.queue.is_of_host()
    }

    /// Returns true if a node with these `labels` may take runs from this lane. The name of a node
    /// is one of its labels. No node takes runs of a handler.
    pub fn is_open_to(&self, labels: &BTreeSet<Label>) -> bool {
        self.0.handler.is_none() && self.is_allowed_by(labels)
    }

    /// Returns true if a worker of the lane's handler with these `labels` may take runs from it.
    pub fn is_open_to_worker(&self, labels: &BTreeSet<Label>) -> bool {
        self.0.handler.is_some() && self.is_allowed_by(labels)
    }

    fn is_allowed_by(&self, labels: &BTreeSet<Label>) -> bool {
        self.0.requires.is_subset(labels) && self.is_for_node(labels)
    }

    /// Returns true if the lane names no nodes, or one of the nodes is in `labels`.
    pub fn is_for_node(&self, labels: &BTreeSet<Label>) -> bool {
        self.0.on.is_empty() || self.0.on.iter().any(|node| labels.contains(&Label::of_node(node)))
    }
}

impl From<QueueName> for Lane {
    fn from(queue: QueueName) -> Self {
        Self::new(queue, Priority::default(), BTreeSet::new())
    }
}

impl fmt::Display for Lane {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.text)
    }
}

impl FromStr for Lane {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        // A lane in another spelling is refused, because two texts of one lane would mean two due
        // sets.
        parse(text).filter(|lane| lane.as_str() == text).ok_or_else(|| IdError::lane(text))
    }
}

fn parse(text: &str) -> Option<Lane> {
    let split = |text, at| match str::split_once(text, at) {
        Some((rest, list)) => (rest, Some(list)),
        None => (text, None),
    };
    let (rest, nodes) = split(text, '=');
    let (rest, labels) = split(rest, '+');
    let (rest, shard) = split(rest, '~');
    let (queue, priority) = split(rest, '!');
    let shard = match shard {
        None => None,
        Some(shard) => Some(shard.parse().ok().filter(|shard| *shard < SHARDS)?),
    };
    let priority =
        priority.map_or(Some(Priority::default()), |number| Priority::new(number.parse().ok()?))?;
    let (labels, on) = (listed::<Label>(labels)?, listed(nodes)?);
    let handler = labels.iter().find_map(Label::handler);
    let requires: BTreeSet<Label> =
        labels.into_iter().filter(|label| label.handler().is_none()).collect();
    let is_within = requires.len() <= MAX_LABELS && on.len() <= MAX_NODES;
    let queue = queue.parse().ok().filter(|_| is_within)?;
    Some(Lane::of(LaneParts { queue, priority, shard, requires, handler, on, text: String::new() }))
}

/// Returns the names in a comma-separated list. Returns `None` if a name is invalid.
fn listed<T: FromStr + Ord>(list: Option<&str>) -> Option<BTreeSet<T>> {
    list.into_iter().flat_map(|all| all.split(',')).map(|name| name.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lane_reads_back_as_itself() {
        for text in [
            "default",
            "default!5",
            "default!-3",
            "default+eu,gpu",
            "q!10+a,b.c_d-e",
            "@host",
            "q~0",
            "q!-1~15+gpu",
            "q+gpu,handler:send-mail",
        ] {
            let lane: Lane = text.parse().unwrap();
            assert_eq!(
                (lane.to_string().as_str(), lane.is_plain()),
                (text, !text.contains(['!', '~', '+']))
            );
        }
    }

    #[test]
    fn only_one_text_names_a_lane() {
        let many = format!("q+{}", (0..9).map(|n| format!("l{n}")).collect::<Vec<_>>().join(","));
        for bad in [
            "",
            "!5",
            "+gpu",
            "q!",
            "q!0",
            "q!+5",
            "q!05",
            "q!11",
            "q!x",
            "q+",
            "q+b,a",
            "q+a,a",
            "q+a,",
            "q+A",
            "q+a!5",
            "q~",
            "q~16",
            "q~07",
            "q~1!5",
            "q+a~1",
            "q+handler:a,handler:b",
            "q+handler:",
            &many,
        ] {
            assert!(bad.parse::<Lane>().is_err(), "{bad:?} was taken");
        }
    }

    #[test]
    fn a_node_with_all_required_labels_may_take_runs_of_a_lane() {
        let labels = |text: &str| {
            text.split_whitespace().map(|label| label.parse().unwrap()).collect::<BTreeSet<Label>>()
        };
        let lane: Lane = "q!2+eu,gpu".parse().unwrap();
        assert_eq!(
            (lane.queue().as_str(), lane.priority().as_i8(), lane.requires()),
            ("q", 2, &labels("gpu eu"))
        );
        assert!(
            lane.is_open_to(&labels("eu gpu ssd"))
                && !lane.is_open_to(&labels("gpu"))
                && !lane.is_open_to(&labels(""))
        );
        assert!("q!2".parse::<Lane>().unwrap().is_open_to(&labels("")));
    }

    #[test]
    fn runs_of_one_gate_are_in_one_shard_and_runs_of_many_gates_in_all() {
        let lane = || Lane::new("q".parse().unwrap(), Priority(1), BTreeSet::new());
        let shard = |key: &str| lane().shard_for(&Gate::of_key(&key.parse().unwrap()));
        assert_eq!(shard("k").as_str(), "q!1~5", "drawn alike on every node and in every version");
        let all: BTreeSet<Lane> =
            (0..200).map(|number| shard(&format!("customer-{number}"))).collect();
        assert_eq!(all.len(), usize::from(SHARDS));
        assert!(all.iter().all(|lane| lane.priority() == Priority(1)
            && lane.queue().as_str() == "q"
            && !lane.is_plain()));
    }
}
