//! Handles unique keys when a job is added: finds the job that has the key, and decides whether the
//! add changes that job instead of making a new job.
//!
//! The decision uses data that was read earlier. `apply_job.lua` checks the decision again in the
//! step that writes, and answers `stale` if the data changed. So of several simultaneous adds one
//! is the first, and in a debounced burst the last add counts.

use std::collections::BTreeMap;

use crate::engine::dispatch::definition::Definition;
use schedd_core::domain::job::job_spec::JobSpec;
use schedd_core::domain::job::unique_rule::{Unique, UniqueKey};
use schedd_schedule::names::JobName;
use schedd_schedule::schedule_form::Schedule;
use schedd_schedule::time::unix_millis::UnixMillis;
use schedd_store::{JobRecord, Store, StoreError, UniqueHolder};

/// The job that has a unique key now or had it last, with its record.
#[derive(Debug, Clone)]
pub(crate) struct KeyHolder {
    /// The job that has the key now or had it last.
    pub(crate) holder: UniqueHolder,
    record: Option<JobRecord>,
}

/// Returns the holder of each job's unique key. `None` for a job without a unique key, or with a
/// key that is free.
pub(crate) async fn read_key_holders(
    store: &Store,
    specs: &[&JobSpec],
) -> Result<Vec<Result<Option<KeyHolder>, StoreError>>, StoreError> {
    let keys: Vec<UniqueKey> =
        specs.iter().filter_map(|spec| Some(spec.unique.as_ref()?.key.clone())).collect();
    if keys.is_empty() {
        return Ok(specs.iter().map(|_| Ok(None)).collect());
    }
    let holders: BTreeMap<UniqueKey, Result<Option<UniqueHolder>, StoreError>> =
        keys.iter().cloned().zip(store.read_holders(&keys).await?).collect();
    let names: Vec<JobName> = holders
        .values()
        .filter_map(|holder| Some(holder.as_ref().ok()?.as_ref()?.job.clone()))
        .collect();
    let records: BTreeMap<JobName, Result<Option<JobRecord>, StoreError>> =
        names.iter().cloned().zip(store.read_jobs(&names).await?).collect();
    let holder_read = |spec: &&JobSpec| {
        let Some(unique) = &spec.unique else { return Ok(None) };
        let Some(holder) = holders.get(&unique.key).cloned().transpose()?.flatten() else {
            return Ok(None);
        };
        let record = records.get(&holder.job).cloned().transpose()?.flatten();
        Ok(Some(KeyHolder { holder, record }))
    };
    Ok(specs.iter().map(holder_read).collect())
}

/// Takes the key from each holder that recurs and has no further runs, as `list` shows by `finished`.
pub(crate) async fn release_finished(
    store: &Store,
    holders: &[Result<Option<KeyHolder>, StoreError>],
) -> Result<(), StoreError> {
    for job in holders.iter().flatten().flatten().filter_map(KeyHolder::without_next_run) {
        if let Some(key) = &job.unique
            && store.list_open(&job.name).await?.is_empty()
            && store.list_spread(&job.name).await?.is_empty()
        {
            store.release_unique(&job.name, key).await?;
        }
    }
    Ok(())
}

impl KeyHolder {
    /// Returns the holder's record if it recurs by times and no run of it is planned.
    fn without_next_run(&self) -> Option<&JobRecord> {
        let job = self.record.as_ref().filter(|job| job.is_live() && !job.is_once)?;
        let is_planned = job.pending.is_some() || job.paused_at.is_some();
        let spec = Definition::of(job.clone()).ok().filter(|_| !is_planned)?.spec;
        let has_times = !matches!(spec.schedule, Schedule::Manual | Schedule::After(_))
            && !spec.schedule.is_at_boot()
            && !spec.is_on_each_node();
        has_times.then_some(job)
    }

    /// Returns the record of the job that an add with this key changes. This is the holder of the
    /// key, if the holder was added with a debounce and has not begun. Otherwise returns `None`,
    /// and the add makes a new job.
    pub(crate) fn to_change(&self, unique: &Unique) -> Option<&JobRecord> {
        self.debounced(unique).filter(|job| job.pending.is_some() || job.paused_run.is_some())
    }

    /// Returns true if the holder is the job `name` and was added with a debounce. The add then
    /// plans another run of this job.
    pub(crate) fn runs_as(&self, name: &JobName, unique: &Unique) -> bool {
        self.debounced(unique).is_some_and(|job| job.name == *name)
    }

    /// Returns the time of the first add in the present debounced burst, or `None` if no burst is
    /// open.
    pub(crate) fn burst_since(&self) -> Option<UnixMillis> {
        self.holder.since
    }

    fn debounced(&self, unique: &Unique) -> Option<&JobRecord> {
        let is_debounced = unique.second.is_debounce() && self.holder.is_debounced;
        self.record
            .as_ref()
            .filter(|job| is_debounced && job.is_live() && job.unique.as_ref() == Some(&unique.key))
    }
}
