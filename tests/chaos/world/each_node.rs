//! The jobs with `on = "each-node"`, and their instances: one job for each node that serves such a
//! job, called `JOB/NODE`.
//!
//! The checker knows only the instances, so each rule for jobs holds for each of them. A run of the
//! job itself, or on a node that does not serve it, belongs to no job.

use fastrand::Rng;

use super::jobs::{Act, Job};
use super::schedule::When;
use super::sharing::{Key, LABEL, Sharing};
use crate::evidence::{Micros, SECOND};

/// The job whose nodes take turns.
const ROLLING: &str = "each-rolling";

/// The time for which a run that was let in keeps its place while its node does not begin it, and
/// a second to notice that it was given up.
pub(crate) const MOMENT: Micros = 3 * SECOND;

/// The nodes on which a job runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Nodes {
    Any,
    /// Each of them, and so many at once.
    Each {
        at_once: Option<usize>,
    },
    /// Only this one, as the instance of a job.
    Only(String),
}

/// Returns the jobs of the file that run on each node.
pub(crate) fn zoo(rng: &mut Rng) -> Vec<Job> {
    let each = |name: &str, work_ms: i64, when: When| Job {
        nodes: Nodes::Each { at_once: None },
        ..Job::new(name, Act::Work, work_ms).due(when)
    };
    let labelled = Sharing { requires: Some(LABEL), ..Sharing::default() };
    vec![
        // A node that is killed mostly executes a run of this job.
        each("each", rng.i64(1_500..2_500), When::Every { period: 4, anchor: (0, 0) }),
        Job {
            nodes: Nodes::Each { at_once: Some(rng.usize(1..=2)) },
            ..each(ROLLING, rng.i64(400..900), When::Seconds(10))
        },
        Job {
            is_at_most_once: true,
            sharing: labelled,
            ..each("each-labelled", rng.i64(50..800), When::Seconds(5))
        },
    ]
}

/// Returns these jobs with their instances in place of the jobs on each node. All of `nodes` serve
/// the default queue, and `labelled` are those with the label.
pub(crate) fn instances(jobs: Vec<Job>, nodes: &[String], labelled: &[String]) -> Vec<Job> {
    let of_job = |job: Job| match job.nodes {
        Nodes::Each { at_once } => {
            let nodes = if job.sharing.requires.is_some() { labelled } else { nodes };
            nodes.iter().map(|node| instance(&job, node, at_once)).collect()
        }
        _ => vec![job],
    };
    jobs.into_iter().flat_map(of_job).collect()
}

fn instance(job: &Job, node: &str, at_once: Option<usize>) -> Job {
    let mut instance = Job {
        name: format!("{}/{node}", job.name),
        nodes: Nodes::Only(node.to_owned()),
        ..job.clone()
    };
    instance.sharing.key = at_once.map(|at_once| Key { name: ROLLING, at_once, rate: None });
    instance
}

impl Job {
    /// Returns the only node of an instance.
    pub(crate) fn only_node(&self) -> Option<&str> {
        if let Nodes::Only(node) = &self.nodes { Some(node) } else { None }
    }

    /// Returns the name in the file: for an instance, the name of its job.
    pub(crate) fn defined(&self) -> &str {
        self.name.split_once('/').map_or(&*self.name, |(job, _)| job)
    }
}
