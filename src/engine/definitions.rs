//! The definitions this node has read, kept so that a run costs no reading of its job.
//!
//! One kept here may be old: the scripts refuse what was decided from another rev, and it is read again. So keeping them saves
//! calls and never decides wrongly. Bounded: past [`KEPT`] all are forgotten.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use tracing::error;

use super::definition::Definition;
use super::shared::Shared;
use crate::domain::ids::JobName;
use crate::store::StoreError;

/// Definitions kept at most.
pub(super) const KEPT: usize = 10_000;

/// What is known of the jobs of ripe runs.
pub(super) struct Definitions {
    shared: Arc<Shared>,
    kept: HashMap<JobName, Arc<Definition>>,
    /// The zone data those were computed from, by how often it had been read again.
    zones: u64,
}

impl Definitions {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        Self { shared, kept: HashMap::new(), zones: 0 }
    }

    pub(super) fn get(&self, name: &JobName) -> Option<Arc<Definition>> {
        self.kept.get(name).cloned()
    }

    /// Has it read again when it is next wanted.
    pub(super) fn forget(&mut self, name: &JobName) {
        self.kept.remove(name);
    }

    /// Reads those of `names` not yet known; gives the names of jobs that are there and cannot be worked with here.
    pub(super) async fn read_missing<'a>(
        &mut self,
        names: impl Iterator<Item = &'a JobName>,
    ) -> Result<BTreeSet<JobName>, StoreError> {
        let zones = self.shared.zones_read.load(Ordering::Acquire);
        if self.kept.len() > KEPT || std::mem::replace(&mut self.zones, zones) != zones {
            self.kept.clear();
        }
        let missing: BTreeSet<JobName> = names.filter(|name| !self.kept.contains_key(*name)).cloned().collect();
        if missing.is_empty() {
            return Ok(missing);
        }
        let names: Vec<JobName> = missing.into_iter().collect();
        let records = self.shared.store.read_jobs(&names).await?;
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

    /// Says once a minute what keeps a job's runs from being started here; another node may be able to.
    pub(super) fn report_unusable(&self, name: &JobName, why: &str) {
        if self.shared.said.is_news(&format!("job {name}")) {
            error!(job = %name, "{why}; its runs are left alone.");
        }
    }
}
