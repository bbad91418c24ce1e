//! The check of new parents against the jobs in Redis: the parents exist, and the chain has one
//! root and no cycle. The jobs of a file are checked when the file is read.

use std::collections::BTreeSet;

use schedd_core::domain::queue::lane::Lane;
use schedd_schedule::chain::chain_graph::{ChainFault, ChainGraph};
use schedd_schedule::names::JobName;
use schedd_store::{JobRecord, Store, StoreError};

/// The reason why a job cannot have its parents.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ParentFault {
    /// No job has the name of a parent.
    #[error("parent {0} does not exist: add job {0} first, or correct the name")]
    Unknown(JobName),
    /// The chain is not valid.
    #[error(transparent)]
    Chain(#[from] ChainFault),
    /// The chain of another job, below this job, would not be valid.
    #[error("job {0}, which runs after it, would have a fault: {1}; edit or cancel job {0} first")]
    Below(JobName, ChainFault),
}

/// Returns the first fault of each job in `wanted`, in the same order. Each job has its new parents,
/// or no parents if it gets a schedule of its own, or `None` if nothing can be wrong with it. A job
/// that is a parent of a later job in `wanted` counts as existing.
pub async fn parent_faults(
    store: &Store,
    wanted: &[(&JobName, Option<BTreeSet<JobName>>)],
) -> Result<Vec<Option<ParentFault>>, StoreError> {
    if wanted.iter().all(|(_, parents)| parents.is_none()) {
        return Ok(vec![None; wanted.len()]);
    }
    let named: BTreeSet<&JobName> =
        wanted.iter().filter_map(|(_, parents)| parents.as_ref()).flatten().collect();
    let mut graph = store.read_chains().await?;
    let named: Vec<JobName> = named.into_iter().cloned().collect();
    let records = store.read_jobs(&named).await?;
    let (mut known, mut on_each_node) = (BTreeSet::new(), BTreeSet::new());
    for (name, record) in named.iter().zip(records) {
        // A record that cannot be read belongs to a job that exists.
        let record = record.map_or_else(|_| None, |record| Some(record.filter(JobRecord::is_live)));
        if record.as_ref().is_none_or(Option::is_some) {
            known.insert(name.clone());
        }
        if record.flatten().is_some_and(|record| record.lane == Lane::of_each_node()) {
            on_each_node.insert(name.clone());
        }
    }
    let mut faults = Vec::new();
    for (name, parents) in wanted {
        let fault = parents
            .as_ref()
            .and_then(|parents| fault_of(name, parents, (&known, &on_each_node), &mut graph));
        if fault.is_none() {
            known.insert((*name).clone());
        }
        faults.push(fault);
    }
    Ok(faults)
}

/// Returns the first fault of the parents of `job`. Without a fault, `graph` gets the parents.
fn fault_of(
    job: &JobName,
    parents: &BTreeSet<JobName>,
    (known, on_each_node): (&BTreeSet<JobName>, &BTreeSet<JobName>),
    graph: &mut ChainGraph,
) -> Option<ParentFault> {
    // A job that names itself is reported as a cycle.
    let is_unknown = |parent: &&JobName| *parent != job && !known.contains(*parent);
    if let Some(parent) = parents.iter().find(is_unknown) {
        return Some(ParentFault::Unknown(parent.clone()));
    }
    if let Some(parent) = parents.iter().find(|parent| on_each_node.contains(*parent)) {
        return Some(ChainFault::ParentOnEachNode(parent.clone()).into());
    }
    if parents.is_empty() && graph.parents_of(job).next().is_none() {
        return None;
    }
    let before = graph.clone();
    graph.set(job.clone(), parents.clone());
    let fault = graph.judge().err().map(|(other, fault)| match fault {
        ChainFault::TwoRoots(..) if other != *job => ParentFault::Below(other, fault),
        fault => fault.into(),
    });
    if fault.is_some() {
        *graph = before;
    }
    fault
}
