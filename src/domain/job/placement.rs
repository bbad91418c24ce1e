//! The nodes on which the runs of a job execute: the key `on` of a job.
//!
//! A job with `on = "each-node"` has no runs of its own. Each node that serves the queue of the job
//! has an instance of the job: a job such as `clean/web1`, with the same definition and
//! `on = "web1"`. So each node has its own lease, retries, overlap, catch-up and history, and the
//! scripts that claim and end runs need no rule for these jobs.

use std::collections::BTreeSet;

use super::job_spec::JobSpec;
use crate::domain::name::names::{JobName, NodeName};
use crate::domain::queue::gate::{PerKey, SharedKey};

/// The maximum number of nodes in a list of `on`.
pub const MAX_NODES: usize = 8;

/// The nodes on which the runs of a job execute.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Placement {
    /// Any node that serves the queue and has the required labels.
    #[default]
    Anywhere,
    /// Any of these nodes. At least 1, at most [`MAX_NODES`].
    Nodes(BTreeSet<NodeName>),
    /// Each node that serves the queue and has the required labels: each occurrence has a run on
    /// each of them.
    EachNode,
}

/// The word for [`Placement::EachNode`] in a definition. No node can have this name.
pub const EACH_NODE: &str = "each-node";

impl JobSpec {
    /// Returns true for a job that has an instance on each node, and no runs of its own.
    pub fn is_on_each_node(&self) -> bool {
        self.on == Placement::EachNode
    }

    /// Returns the definition of the instance of this job, called `job`, on `node`. With
    /// `max_parallel`, the instances share a concurrency key.
    #[must_use]
    pub fn instance_on(&self, job: &JobName, node: &NodeName) -> Self {
        let mut instance = Self {
            on: Placement::Nodes([node.clone()].into()),
            max_parallel: None,
            ..self.clone()
        };
        if let Some(most) = self.max_parallel {
            instance.key = parallel_key(job);
            instance.per_key = PerKey { limit: Some(most), rate: None };
        }
        instance
    }
}

/// Returns the concurrency key that the instances of `job` share. A slash keeps the key apart from
/// most keys that users choose.
fn parallel_key(job: &JobName) -> Option<SharedKey> {
    format!("{EACH_NODE}/{job}").parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::job::action::Action;
    use crate::domain::schedule::schedule_form::Schedule;

    #[test]
    fn an_instance_has_the_lane_of_its_node_and_shares_the_key_of_its_job() {
        let (job, node) = ("clean".parse().unwrap(), "web1".parse().unwrap());
        let mut spec = JobSpec::with_defaults(Schedule::Manual, Action::Shell("true".to_owned()));
        spec.on = Placement::EachNode;
        assert!(spec.is_on_each_node() && spec.lane().queue().is_of_host());
        let instance = spec.instance_on(&job, &node);
        assert_eq!((instance.lane().as_str(), instance.key), ("default=web1", None));
        spec.max_parallel = Some(2);
        let rolling = spec.instance_on(&job, &node);
        assert_eq!(rolling.key.unwrap().as_str(), "each-node/clean");
        assert_eq!((rolling.per_key.limit, rolling.max_parallel), (Some(2), None));
    }
}
