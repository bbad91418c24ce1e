//! The lanes that a node or a worker serves: the lanes of its queues for which it has all labels.

use std::collections::BTreeSet;
use std::fmt;

use super::lane::Lane;
use schedd_schedule::names::{HandlerName, Label, NodeName, QueueName};

/// The queues that a node or a worker serves, and its labels.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Serving {
    /// The queues that are served. `None` means all queues.
    pub queues: Option<BTreeSet<QueueName>>,
    /// The labels of the node or of the worker.
    pub labels: BTreeSet<Label>,
    /// The handlers of a worker. `None` for a node, which serves no lane of a handler.
    pub handlers: Option<HandlerChoice>,
}

/// The handlers of which a worker takes runs.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum HandlerChoice {
    /// The worker takes runs of any handler.
    Any,
    /// The worker takes only runs of these handlers.
    Only(BTreeSet<HandlerName>),
}

impl HandlerChoice {
    fn has(&self, handler: &HandlerName) -> bool {
        match self {
            Self::Any => true,
            Self::Only(handlers) => handlers.contains(handler),
        }
    }
}

impl Serving {
    /// Returns true if the node serves `queue`, without regard to labels. Each node serves the
    /// queue of its host.
    pub fn takes_queue(&self, queue: &QueueName) -> bool {
        queue.is_of_host() || self.queues.as_ref().is_none_or(|queues| queues.contains(queue))
    }

    /// Returns true if the queue of `lane` is served, and all labels of the lane are there. A worker
    /// takes only lanes of its handlers, and a node only the other lanes.
    pub fn takes(&self, lane: &Lane) -> bool {
        self.takes_queue(lane.queue())
            && match (&self.handlers, lane.handler()) {
                (None, None) => lane.is_open_to(&self.labels),
                (Some(choice), Some(handler)) => {
                    choice.has(handler) && lane.is_open_to_worker(&self.labels)
                }
                _ => false,
            }
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
    /// No worker asks for runs of this handler in this queue, with the labels of the job.
    Handler(HandlerName, QueueName),
}

impl Unserved {
    /// Returns the reason why no running node, or no worker, serves `lane`. Returns `None` if the
    /// lane is served, if no node is running, or for the lane of a host.
    pub fn of(lane: &Lane, running: &[Serving]) -> Option<Self> {
        if running.is_empty() || lane.is_of_host() || running.iter().any(|node| node.takes(lane)) {
            return None;
        }
        if let Some(handler) = lane.handler() {
            return Some(Self::Handler(handler.clone(), lane.queue().clone()));
        }
        let nodes = running.iter().filter(|serving| serving.handlers.is_none());
        let mut serving = nodes.filter(|node| node.takes_queue(lane.queue())).peekable();
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
            Self::Handler(handler, queue) => {
                write!(f, "no worker asks for runs of handler {handler} in queue {queue}")
            }
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
            handlers: None,
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
