//! The jobs at the top of chains, whose times are the times of their children.

use std::collections::BTreeMap;

use crate::cli::failure::CliFailure;
use schedd_core::config::StoredJob;
use schedd_schedule::chain::chain_graph::ChainGraph;
use schedd_schedule::names::JobName;
use schedd_store::Store;

/// The remark at the times of a job with parents.
pub(super) const OF_ROOT: &str = "time of the job at the top of the chain";

/// Returns the job at the top of the chain of `child`.
pub(crate) async fn root_of(store: &Store, child: &JobName) -> Result<JobName, CliFailure> {
    let graph = store.read_chains().await?;
    let roots =
        graph.judge().map_err(|(job, fault)| CliFailure::Failed(format!("job {job}: {fault}")))?;
    let root = roots.get(child).map(|root| (*root).clone());
    root.ok_or_else(|| {
        CliFailure::Failed(format!(
            "the parents of job {child} are not listed in Redis: schedctl doctor --fix lists them"
        ))
    })
}

/// Returns the job at the top of its chain for each job of a file that is in a chain.
pub(super) fn roots_in(jobs: &BTreeMap<JobName, StoredJob>) -> BTreeMap<JobName, JobName> {
    let mut graph = ChainGraph::default();
    for (name, job) in jobs {
        let parents = job.spec().ok().and_then(|spec| spec.schedule.parents().cloned());
        graph.set(name.clone(), parents.map_or_else(Default::default, |parents| parents.jobs));
    }
    let roots = graph.judge().unwrap_or_default();
    roots.into_iter().map(|(job, root)| (job.clone(), root.clone())).collect()
}
