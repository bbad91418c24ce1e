//! The instances of a job with `on = "each-node"`.

use std::collections::BTreeMap;

use crate::Store;
use crate::jobs::job_records::JobRecord;
use crate::server::store_error::StoreError;
use schedd_schedule::names::{JobName, NodeName, RunId};
use schedd_schedule::time::unix_millis::UnixMillis;

/// The most jobs read in one call.
const BATCH: usize = 200;

/// The live instances of a job, each with its node and the record of the instance.
pub type LiveInstances = Vec<(NodeName, JobRecord)>;

impl Store {
    /// Returns the live instances of `job`, in the order of the names of their nodes.
    pub async fn list_instances(&self, job: &JobName) -> Result<LiveInstances, StoreError> {
        let (_, nodes) = self.list_nodes().await?;
        let named: BTreeMap<NodeName, JobName> = nodes
            .into_iter()
            .filter_map(|node| node.name.parse().ok())
            .filter_map(|node| JobName::of_instance(job, &node).map(|name| (node, name)))
            .collect();
        let (owners, instances): (Vec<NodeName>, Vec<JobName>) = named.into_iter().unzip();
        let mut found = LiveInstances::new();
        for (owners, instances) in owners.chunks(BATCH).zip(instances.chunks(BATCH)) {
            let records = self.read_jobs(instances).await?;
            found.extend(owners.iter().zip(records).filter_map(|(node, record)| {
                let record = record.ok().flatten().filter(JobRecord::is_live)?;
                Some((node.clone(), record))
            }));
        }
        Ok(found)
    }
}

/// Returns the due time of the next run of these instances. Returns `None` if no run is planned.
pub fn next_of(instances: &LiveInstances) -> Option<UnixMillis> {
    instances.iter().filter_map(|(_, record)| record.pending.as_ref()).map(RunId::due).min()
}
