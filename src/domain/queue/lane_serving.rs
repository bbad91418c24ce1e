//! The lanes that a node serves: the lanes of its queues for which the node has all labels.

use std::collections::BTreeSet;
use std::fmt;

use super::lane::Lane;
use crate::domain::name::names::{Label, NodeName, QueueName};

/// The queues that a node serves, and the labels of the node.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Serving {
    /// The queues that the node serves. `None` means all queues.
    pub queues: Option<BTreeSet<QueueName>>,
    /// The labels of the node.
    pub labels: BTreeSet<Label>,
}

impl Serving {
    /// Returns true if the node serves `queue`, without regard to labels. Each node serves the
    /// queue of its host.
    pub fn takes_queue(&self, queue: &QueueName) -> bool {
        queue.is_of_host() || self.queues.as_ref().is_none_or(|queues| queues.contains(queue))
    }

    /// Returns true if the node serves the queue of `lane` and has all labels of the lane.
    pub fn takes(&self, lane: &Lane) -> bool {
        self.takes_queue(lane.queue()) && lane.is_open_to(&self.labels)
    }
}

/// The reason why no running node serves a lane.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unserved {
    /// No running node serves this queue.
    Queue(QueueName),
    /// No running node that serves the queue has all of these labels.
    Labels(BTreeSet<Label>),
    /// None of these nodes is running and serves the queue.
    Nodes(BTreeSet<NodeName>),
}

impl Unserved {
    /// Returns the reason why no running node serves `lane`. Returns `None` if a node serves the
    /// lane, if no node is running, or for the lane of a host.
    pub fn of(lane: &Lane, running: &[Serving]) -> Option<Self> {
        if running.is_empty() || lane.is_of_host() || running.iter().any(|node| node.takes(lane)) {
            return None;
        }
        let mut serving = running.iter().filter(|node| node.takes_queue(lane.queue())).peekable();
        Some(if serving.peek().is_none() {
            Self::Queue(lane.queue().clone())
        } else if serving.any(|node| lane.is_for_node(&node.labels)) {
            Self::Labels(lane.requires().clone())
        } else {
            Self::Nodes(lane.nodes().clone())
        })
    }
}

impl fmt::Display for Unserved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Queue(queue) => write!(f, "no running node serves queue {queue}"),
            Self::Labels(labels) => {
                let labels: Vec<&str> = labels.iter().map(Label::as_str).collect();
                let noun = if labels.len() == 1 { "label" } else { "labels" };
                write!(
                    f,
                    "no running node that serves this queue has the required {noun} {}",
                    labels.join(", ")
                )
            }
            Self::Nodes(nodes) => {
                let names: Vec<&str> = nodes.iter().map(NodeName::as_str).collect();
                match names.as_slice() {
                    [name] => write!(f, "node {name} does not run, or does not serve this queue"),
                    names => write!(
                        f,
                        "none of the nodes {} runs and serves this queue",
                        names.join(", ")
                    ),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn serving(queues: Option<&str>, labels: &str) -> Serving {
        Serving {
            queues: queues
                .map(|all| all.split_whitespace().map(|queue| queue.parse().unwrap()).collect()),
            labels: labels.split_whitespace().map(|label| label.parse().unwrap()).collect(),
        }
    }

    fn lane(text: &str) -> Lane {
        text.parse().unwrap()
    }

    #[test]
    fn a_node_takes_runs_of_its_queues_if_it_has_the_required_labels() {
        let node = serving(Some("a b"), "gpu eu");
        for (text, takes) in [
            ("a", true),
            ("a!5+gpu", true),
            ("b+eu,gpu", true),
            ("a+ssd", false),
            ("c", false),
            ("@h", true),
        ] {
            assert_eq!(node.takes(&lane(text)), takes, "{text}");
        }
        assert!(serving(None, "").takes(&lane("anything")));
    }

    #[test]
    fn a_lane_that_no_node_serves_has_a_reason() {
        let nodes = [serving(Some("a"), "gpu"), serving(Some("b"), "eu")];
        let why = |text: &str| Unserved::of(&lane(text), &nodes).map(|why| why.to_string());
        assert_eq!(why("a+gpu"), None);
        assert_eq!(why("c!5").unwrap(), "no running node serves queue c");
        assert_eq!(
            why("b+gpu").unwrap(),
            "no running node that serves this queue has the required label gpu"
        );
        assert_eq!(
            why("a+eu,gpu").unwrap(),
            "no running node that serves this queue has the required labels eu, gpu"
        );
        assert_eq!(why("a=web1").unwrap(), "node web1 does not run, or does not serve this queue");
        assert_eq!(
            why("a=web1,web2").unwrap(),
            "none of the nodes web1, web2 runs and serves this queue"
        );
        assert_eq!(why("a+gpu=gpu"), None);
        assert_eq!((why("@h+gpu"), Unserved::of(&lane("c"), &[])), (None, None));
    }
}
