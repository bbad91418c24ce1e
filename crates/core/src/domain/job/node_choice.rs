//! The nodes on which the runs of a job execute: the key `on` of a job.
//!
//! A job with `on = "each-node"` has no runs of its own. Each node that serves the queue of the job
//! has an instance of the job: a job such as `clean/web1`, with the same definition and
//! `on = "web1"`. So each node has its own lease, retries, overlap, catch-up and history, and the
//! scripts that claim and end runs need no rule for these jobs.

use std::collections::BTreeSet;

use schedd_schedule::names::NodeName;

/// The maximum number of nodes in a list of `on`.
pub const MAX_NODES: usize = 8;

/// The nodes on which the runs of a job execute.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum NodeChoice {
    /// Any node that serves the queue and has the required labels.
    #[default]
    Anywhere,
    /// Any of these nodes. At least 1, at most [`MAX_NODES`].
    Nodes(BTreeSet<NodeName>),
    /// Each node that serves the queue and has the required labels: each occurrence has a run on
    /// each of them.
    EachNode,
}

/// The word for [`NodeChoice::EachNode`] in a definition. No node can have this name.
pub const EACH_NODE: &str = "each-node";
