//! Keeps the names and schedules of jobs added by `schedctl`. No file restores these jobs, so after
//! a data loss the operator must learn which jobs are gone.
//!
//! Invariant: a job is removed from this catalog only if it is missing in data that this node knows
//! to be complete.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use crate::engine::node_context::NodeContext;
use crate::engine::recovery::journal::{ApiJob, JOBS, Journal, JournalLine};
use crate::engine::recovery::loss::loss_watch::LossWatch;
use schedd_core::domain::job::definition_text::definition_hash;
use schedd_core::domain::name::job_source::SourceName;
use schedd_core::host::boot_clock::BootInstant;
use schedd_schedule::names::JobName;
use schedd_store::{JobRecord, SourceKind, Store, StoreError};

const EVERY: Duration = Duration::from_secs(30);
/// The longest interval between updates while no job is added, edited or removed.
const UNCHANGED_EVERY: Duration = Duration::from_secs(600);
/// The most names or definitions of jobs read in one call.
const PAGE: usize = 1_000;
const BATCH: usize = 200;
/// The keys of a definition that contain its schedule.
const SCHEDULES: [&str; 11] = [
    "cron",
    "every",
    "delay",
    "at",
    "calendar",
    "rrule",
    "schedules",
    "after",
    "after_any",
    "after_failed",
    "after_finished",
];

/// The handles of the loop that keeps the names of jobs that no file would restore.
pub(crate) struct JobCatalog {
    pub(crate) node: Arc<NodeContext>,
    pub(crate) loss_watch: Arc<LossWatch>,
}

/// Updates the catalog of jobs at intervals. Never returns.
pub(crate) async fn run(catalog: Arc<JobCatalog>) {
    let mut pause = Duration::from_secs(1);
    let mut updated: Option<(u64, BootInstant)> = None;
    loop {
        tokio::time::sleep(pause).await;
        pause = EVERY.mul_f64(0.75 + fastrand::f64() / 2.0);
        let changes = catalog.node.wakeups.job_changes();
        let is_old = |at: BootInstant| BootInstant::now().since(at) >= UNCHANGED_EVERY;
        if updated.is_some_and(|(known, at)| known == changes && !is_old(at)) {
            continue;
        }
        updated = match look(&catalog).await {
            Ok(true) => Some((changes, BootInstant::now())),
            Ok(false) => None,
            Err(error) => {
                catalog
                    .node
                    .outage_log
                    .failed(&error, "jobs added by schedctl are not written into the journal");
                None
            }
        };
    }
}

/// Compares the catalog with the jobs in Redis. Returns true if the catalog is up to date.
async fn look(catalog: &JobCatalog) -> Result<bool, StoreError> {
    let (store, journal, known_now) =
        (&catalog.node.store, catalog.loss_watch.journal(), catalog.loss_watch.known_now());
    let mut names: BTreeSet<JobName> = BTreeSet::new();
    while names.len() < JOBS {
        let page = store.list_jobs(names.len(), PAGE).await?;
        let before = names.len();
        names.extend(page);
        // Jobs added or removed meanwhile shift the pages. The next update corrects the result.
        if names.len() < before + PAGE {
            break;
        }
    }
    let known: BTreeMap<String, String> = journal.with(|memory| {
        memory.jobs.iter().map(|(name, job)| (name.clone(), job.hash.clone())).collect()
    });
    // An edit does not wake this loop. A changed hash of the definition shows an edited job.
    let (seen, mut unread): (Vec<JobName>, Vec<JobName>) =
        names.iter().cloned().partition(|name| known.contains_key(name.as_str()));
    for batch in seen.chunks(PAGE) {
        let definitions = store.read_definitions(batch).await?;
        let is_other = |name: &JobName, text: &Option<String>| {
            let hash = text.as_deref().map(definition_hash);
            hash.is_some() && hash.as_ref() != known.get(name.as_str())
        };
        unread.extend(
            batch
                .iter()
                .zip(definitions)
                .filter(|(name, text)| is_other(name, text))
                .map(|(name, _)| name.clone()),
        );
    }
    let mut lines = Vec::new();
    for batch in unread.chunks(BATCH) {
        for job in
            store.read_jobs(batch).await?.into_iter().filter_map(|record| record.ok().flatten())
        {
            if is_brought_back_by_none(&job) {
                lines.push(JournalLine::Job(entry(&job)));
            } else if known.contains_key(job.name.as_str()) {
                // A file now defines the job, so the job can be restored.
                lines.push(JournalLine::JobOver(job.name.as_str().to_owned()));
            }
        }
    }
    let all_read = names.len() < JOBS;
    let there: BTreeSet<&str> = names.iter().map(JobName::as_str).collect();
    let over = known.into_keys().filter(|name| all_read && !there.contains(name.as_str()));
    lines.extend(over.map(JournalLine::JobOver));
    // The poll comes last. It shows whether data was lost while the jobs were read.
    let poll = store.list_due(&[]).await?;
    let is_known = catalog.loss_watch.knows(&poll, known_now);
    if is_known && !lines.is_empty() {
        journal.note(lines);
    }
    Ok(is_known)
}

/// Returns true if no jobs file of a node defines the job. Such a job was added by `schedctl add`
/// or `schedctl apply`.
fn is_brought_back_by_none(job: &JobRecord) -> bool {
    let is_applied =
        |source: &String| source.parse::<SourceName>().is_ok_and(|source| source.is_applied());
    job.kind == SourceKind::Api || !job.listed_by.is_empty() && job.listed_by.keys().all(is_applied)
}

fn entry(job: &JobRecord) -> ApiJob {
    let definition: Value = serde_json::from_str(&job.definition).unwrap_or_default();
    let schedule = SCHEDULES.iter().find_map(|key| {
        let text = match definition.get(key)? {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        Some(format!("{key} {text}"))
    });
    ApiJob {
        name: job.name.as_str().to_owned(),
        hash: definition_hash(&job.definition),
        schedule: schedule.unwrap_or_else(|| "by hand".to_owned()),
        is_once: job.is_once,
    }
}

/// Returns the jobs that this node knew and that are missing in Redis. A one-shot with a recorded
/// end is not missing.
pub(super) async fn missing(store: &Store, journal: &Journal) -> Result<Vec<ApiJob>, StoreError> {
    let (known, done) = journal.with(|memory| {
        let done: BTreeSet<String> =
            memory.ended().filter_map(|run| Some(run.run.split_once('@')?.0.to_owned())).collect();
        (memory.jobs.values().cloned().collect::<Vec<ApiJob>>(), done)
    });
    let mut missing = Vec::new();
    for batch in known.chunks(BATCH) {
        let names: Vec<JobName> = batch.iter().filter_map(|job| job.name.parse().ok()).collect();
        let records = store.read_jobs(&names).await?;
        for (job, record) in batch.iter().zip(records) {
            if !matches!(record, Ok(None)) {
                continue;
            }
            let is_done =
                job.is_once && (done.contains(&job.name) || has_history(store, &job.name).await?);
            if !is_done {
                missing.push(job.clone());
            }
        }
    }
    Ok(missing)
}

async fn has_history(store: &Store, job: &str) -> Result<bool, StoreError> {
    let Ok(job) = job.parse::<JobName>() else { return Ok(false) };
    match store.read_history(Some(&job), 0, 1).await {
        Ok(page) => Ok(!page.runs.is_empty()),
        Err(error) if error.is_passing() => Err(error),
        // The key of the history exists but is unreadable, so the job has a history.
        Err(_) => Ok(true),
    }
}
