//! Finds runs whose due or ready times were computed while Redis' clock was ahead, and computes
//! these times again with the present clock.
//!
//! The search runs after each step of the clock that this node sees. It also runs at the start of a
//! node, because a step may have happened while no node was running. The search uses the findings
//! and repairs of `doctor --fix`, so several nodes may search at once.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tracing::{debug, info};

use super::far_plans;
use crate::engine::dispatch::definition::Definition;
use crate::engine::maintenance::consistency_check;
use crate::engine::maintenance::consistency_check::ConsistencyChecker;
use crate::engine::maintenance::repair;
use crate::engine::node_context::NodeContext;
use crate::engine::planning::operation_error::OperationError;
use crate::engine::planning::recurring_jobs::RecurringJobs;
use crate::engine::planning::retry_order;
use crate::engine::status::node_health::NodeHealth;
use schedd_core::domain::consistency::Inconsistency;
use schedd_core::domain::queue::lane::Lane;
use schedd_schedule::names::{Fence, JobName, RunId};
use schedd_schedule::time::unix_millis::UnixMillis;
use schedd_store::{Ended, Store, StoreError};

/// The pauses between repeated searches. The search is repeated, because another node may write a
/// wrong time shortly after the step if that node computed the time before the step.
const AGAIN: [Duration; 5] = [
    Duration::from_secs(1),
    Duration::from_secs(2),
    Duration::from_secs(2),
    Duration::from_secs(5),
    Duration::from_secs(10),
];
const TRY_AGAIN: Duration = Duration::from_secs(1);
/// The reason of a run that failed because its next attempt was too late for `max_age`, as
/// `claim_runs.lua` writes it.
const TOO_OLD: &str = "the next attempt would start later than max_age allows";
/// The most jobs read in one call.
const JOBS: usize = 200;
/// The most entries of a due set read in one call.
const RUNS: usize = 1_000;

/// The handles of the loop that corrects plans made while Redis' clock was ahead.
pub(crate) struct Replanner {
    pub(crate) node: Arc<NodeContext>,
    pub(crate) health: Arc<NodeHealth>,
    pub(crate) recurring: Arc<RecurringJobs>,
}

/// Searches for plans made while Redis' clock was ahead, at the start and after each step of that
/// clock. Never returns.
pub(crate) async fn run(replanner: Arc<Replanner>) {
    // After a step before the start, one search is enough: nodes that ran then saw the step.
    let mut again = [].iter();
    loop {
        let pause = match Box::pin(look(&replanner)).await {
            Ok(()) => again.next().copied(),
            Err(error) => {
                replanner.node.outage_log.failed(
                    &error,
                    "plans made while the clock of Redis was ahead are not corrected",
                );
                Some(TRY_AGAIN)
            }
        };
        tokio::select! {
            () = tokio::time::sleep(pause.unwrap_or_default()), if pause.is_some() => {}
            () = replanner.health.redis_clock.stepped.notified() => again = AGAIN.iter(),
        }
    }
}

async fn look(replanner: &Replanner) -> Result<(), StoreError> {
    let store = &replanner.node.store;
    Box::pin(look_at_jobs(store, &replanner.recurring)).await?;
    Box::pin(look_at_runs(store)).await?;
    look_at_failures(store).await?;
    look_at_marks(store).await
}

/// Corrects planned runs whose due times are too late. Also plans the missing runs of jobs whose
/// last occurrence was passed by a clock that was ahead.
async fn look_at_jobs(store: &Store, recurring: &RecurringJobs) -> Result<(), StoreError> {
    for names in recurring.names(store).await?.chunks(JOBS) {
        mend_far(store, names).await?;
    }
    for names in store.list_without_plan(store.now().await?).await?.chunks(JOBS) {
        mend_far(store, names).await?;
    }
    Ok(())
}

/// Repairs the given jobs whose planned run is too late or missing.
async fn mend_far(store: &Store, names: &[JobName]) -> Result<(), StoreError> {
    if names.is_empty() {
        return Ok(());
    }
    let records = store.read_jobs(names).await?;
    let now = store.now().await?;
    // Unusable definitions are left out. The ticker reports such a job when the job becomes due.
    let definitions = records.into_iter().filter_map(|record| Definition::of(record.ok()??).ok());
    let far: Vec<JobName> = definitions
        .filter(|definition| far_plans::may_be_far(definition, now).is_some())
        .map(|definition| definition.record.name.clone())
        .collect();
    if far.is_empty() {
        return Ok(());
    }
    let findings =
        ConsistencyChecker::open(store, &BTreeSet::new()).await?.look_at_jobs(&far).await?;
    mend(store, findings).await
}

/// Repairs runs, other than planned runs, that wait longer than the rules of their jobs allow.
async fn look_at_runs(store: &Store) -> Result<(), StoreError> {
    let mut lanes: BTreeSet<Lane> = store.list_lanes().await?;
    lanes.extend(store.list_host_lanes().await?);
    for lane in &lanes {
        let (now, mut offset) = (store.now().await?, 0);
        loop {
            let (due, count) = store.list_due_from_last(lane, offset, RUNS).await?;
            let is_end = count < RUNS || due.last().is_some_and(|(_, ready)| *ready <= now);
            // A planned run without jitter and splay is ready at its due time and needs no check
            // here.
            let odd: Vec<(RunId, UnixMillis)> = due
                .into_iter()
                .filter(|(run, ready)| *ready > now && (run.is_manual() || run.due() != *ready))
                .collect();
            let far = far_plans::ready_instead_of(store, &odd).await?;
            // A repaired run leaves its place, so that the place of the runs before it changes.
            offset += count.saturating_sub(far.len()).max(1);
            if !far.is_empty() {
                let runs: Vec<(RunId, Option<Fence>)> =
                    far.into_keys().map(|run| (run, None)).collect();
                let findings = ConsistencyChecker::open(store, &BTreeSet::new())
                    .await?
                    .look_at_runs(&runs)
                    .await?;
                mend(store, findings).await?;
            }
            if is_end {
                break;
            }
        }
    }
    Ok(())
}

/// Retries the runs that failed because their retry was too late for `max_age`, and whose recorded
/// end is in the future.
async fn look_at_failures(store: &Store) -> Result<(), StoreError> {
    let ahead = Ended { since: Some(store.now().await?), ..Ended::dead() };
    let ended = store.read_ended(&ahead, 0, RUNS).await?.runs;
    // A run may have ended between the first reading of the clock and the search.
    let now = store.now().await?;
    for record in ended {
        let is_ahead = record.finished_at.is_some_and(|at| at > now);
        if !is_ahead || record.reason.as_deref() != Some(TOO_OLD) {
            continue;
        }
        match retry_order::retry_run(store, &record.run).await {
            Ok(_) => {
                info!(run = %record.run, "The run is retried, because the clock of Redis was ahead when its retry was judged too late.");
            }
            Err(OperationError::Store(error)) if error.is_passing() => return Err(error),
            Err(error) => debug!(run = %record.run, "The run is not retried: {error}."),
        }
    }
    Ok(())
}

/// Corrects other records in Redis whose times are in the future, such as those of unique keys.
async fn look_at_marks(store: &Store) -> Result<(), StoreError> {
    store.pull_scores_back(&BTreeSet::new()).await?;
    let now = store.now().await?;
    let mut offset = 0;
    loop {
        let keys = store.list_uniques_after(now, offset).await?;
        if keys.is_empty() {
            return Ok(());
        }
        offset += keys.len();
        // This is harmless for a valid unique key: only the time of its next check changes.
        store.forget_uniques(&keys).await?;
    }
}

/// Corrects the due and ready times in `findings` that were computed while Redis' clock was ahead,
/// if a second check confirms them. Ignores all other findings.
pub(crate) async fn mend(store: &Store, findings: Vec<Inconsistency>) -> Result<(), StoreError> {
    let of_kind: Vec<Inconsistency> =
        findings.into_iter().filter(Inconsistency::is_of_clock).collect();
    let found = consistency_check::confirm(store, &BTreeSet::new(), of_kind).await?;
    let found: Vec<&Inconsistency> = found.iter().filter(|finding| finding.is_of_clock()).collect();
    for (at, done) in repair::mend(store, &BTreeSet::new(), &found).await? {
        if let Some(finding) = found.get(at) {
            info!(
                finding = finding.code(),
                done = done.join(", "),
                "A plan made while the clock of Redis was wrong was repaired. Before the repair: {} {}.",
                finding.subject,
                finding.found
            );
        }
    }
    Ok(())
}
