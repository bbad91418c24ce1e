//! A cache of job definitions, so that a claim does not read the job from Redis.
//!
//! A cached definition may be outdated. In this case the scripts in Redis refuse the decision, and
//! the definition is read again. When the cache has more than [`KEPT`] definitions, all of them are
//! dropped.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tracing::error;

use super::definition::Definition;
use crate::engine::node_context::NodeContext;
use schedd_schedule::names::JobName;
use schedd_store::StoreError;

/// The most definitions in the cache.
const KEPT: usize = 10_000;

/// The number of times the zone data was read. A change of this number makes cached times outdated.
#[derive(Default)]
pub(crate) struct ZoneReadings(AtomicU64);

impl ZoneReadings {
    /// Counts one more reading of the zone data.
    pub(crate) fn note(&self) {
        self.0.fetch_add(1, Ordering::Release);
    }

    fn count(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }
}

/// A cache of job definitions, so that a poll reads only the jobs that changed.
pub(crate) struct Definitions {
    node: Arc<NodeContext>,
    readings: Arc<ZoneReadings>,
    kept: HashMap<JobName, Arc<Definition>>,
    /// The version of the zone data with which the cached definitions were compiled: how often this
    /// node had read the zone data by then.
    zones: u64,
}

impl Definitions {
    pub(crate) fn new(node: Arc<NodeContext>, readings: Arc<ZoneReadings>) -> Self {
        Self { node, readings, kept: HashMap::new(), zones: 0 }
    }

    pub(crate) fn get(&self, name: &JobName) -> Option<Arc<Definition>> {
        self.kept.get(name).cloned()
    }

    /// Adds a definition to the cache. It may be outdated, as each of the cache.
    pub(crate) fn keep(&mut self, name: JobName, definition: Arc<Definition>) {
        self.kept.insert(name, definition);
    }

    /// Removes a definition from the cache, so that its next use reads the job again.
    pub(crate) fn forget(&mut self, name: &JobName) {
        self.kept.remove(name);
    }

    /// Removes the definition of a one-shot from the cache, because it is not needed any more.
    pub(crate) fn forget_once(&mut self, name: &JobName) {
        if self.kept.get(name).is_some_and(|definition| definition.record.is_once) {
            self.kept.remove(name);
        }
    }

    /// Reads the definitions of `names` that are not in the cache. Returns the names of jobs that
    /// exist but are unusable on this node.
    pub(crate) async fn read_missing<'a>(
        &mut self,
        names: impl Iterator<Item = &'a JobName>,
    ) -> Result<BTreeSet<JobName>, StoreError> {
        let zones = self.readings.count();
        if self.kept.len() > KEPT || std::mem::replace(&mut self.zones, zones) != zones {
            self.kept.clear();
        }
        let missing: BTreeSet<JobName> =
            names.filter(|name| !self.kept.contains_key(*name)).cloned().collect();
        if missing.is_empty() {
            return Ok(missing);
        }
        let names: Vec<JobName> = missing.into_iter().collect();
        let records = self.node.store.read_jobs(&names).await?;
        let mut unusable = BTreeSet::new();
        for (name, record) in names.into_iter().zip(records) {
            let why = match record {
                Ok(None) => continue,
                Ok(Some(record)) => match Definition::of(record) {
                    Ok(definition) => {
                        self.kept.insert(name, Arc::new(definition));
                        continue;
                    }
                    Err(error) => error.to_string(),
                },
                Err(error) if error.is_passing() => return Err(error),
                Err(error) => error.to_string(),
            };
            self.report_unusable(&name, &why);
            unusable.insert(name);
        }
        Ok(unusable)
    }

    /// Logs the reason why this node cannot start the runs of a job, at most once a minute. Another
    /// node may be able to start these runs.
    pub(crate) fn report_unusable(&self, name: &JobName, why: &str) {
        if self.node.outage_log.is_new(&format!("job {name}")) {
            error!(job = %name, "This node does not start runs of the job: {why}.");
        }
    }
}
