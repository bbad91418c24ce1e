//! The names under which Redis stores the runs of a job.

use crate::cli::failure::CliFailure;
use schedd_core::domain::queue::lane::Lane;
use schedd_schedule::names::JobName;
use schedd_store::{JobRecord, Store};

/// Returns true for a job with an instance on each node.
pub(crate) fn has_instances(record: &JobRecord) -> bool {
    record.lane == Lane::of_each_node()
}

/// Returns the names whose runs are the runs of `job`: its own name and, for a job on each node, the
/// names of its instances on all known nodes.
pub(crate) async fn run_names(store: &Store, job: &JobName) -> Result<Vec<JobName>, CliFailure> {
    let mut names = vec![job.clone()];
    let record = store.read_job(job).await.ok().flatten();
    if record.as_ref().is_some_and(has_instances) {
        names.extend(instance_names(store, job).await?);
    }
    Ok(names)
}

/// Returns the names of the instances that `job` has or had on the known nodes, in the order of the
/// names of the nodes.
pub(crate) async fn instance_names(
    store: &Store,
    job: &JobName,
) -> Result<Vec<JobName>, CliFailure> {
    let nodes = store.list_nodes().await?.1.into_iter();
    let mut names: Vec<JobName> = nodes
        .filter_map(|node| node.name.parse().ok())
        .filter_map(|node| JobName::of_instance(job, &node))
        .collect();
    names.sort_unstable();
    Ok(names)
}
