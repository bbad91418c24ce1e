//! The janitor: removes data that exceeds its age or its limit, a limited amount at a time. This
//! data is history, output, ended jobs, gone nodes and unique keys. The janitor also continues
//! backfills for which no node planned the next run.
//!
//! Invariant: each job is trimmed to its own limits before the common limits apply. So a job with
//! very many runs removes only its own records from the history.

use std::sync::Arc;
use std::time::Duration;

use tracing::{debug, warn};

use super::retained_bounds::{RetainedBounds, Retention, bounds_of};
use crate::engine::chains::chain_upkeep;
use crate::engine::node_context::NodeContext;
use crate::engine::planning::backfill_plan;
use crate::engine::planning::job_operations;
use crate::engine::status::node_health::NodeHealth;
use crate::engine::status::redis_clock::STEADY_FOR;
use schedd_core::domain::name::job_source::SourceName;
use schedd_core::domain::run::node_event::{NodeEvent, NodeEventKind};
use schedd_core::host::boot_clock::BootInstant;
use schedd_schedule::names::JobName;
use schedd_schedule::time::unix_millis::UnixMillis;
use schedd_store::{NodeEvents, SourceKind, Store, StoreError};

const EVERY: Duration = Duration::from_secs(30);
/// The longest interval between rounds while nothing changes in Redis. Only the ages of records
/// change then.
const UNCHANGED_EVERY: Duration = Duration::from_secs(600);
/// The interval of the search for occurrences that wait for a parent that never ends.
const CHAINS_EVERY: Duration = Duration::from_secs(3600);
const DEAD_IN_ALL: usize = 10_000;
/// The most jobs with a backfill that one round examines.
const BACKFILLS: usize = 1_000;
const NODE_AGE: Duration = Duration::from_secs(30 * 24 * 3600);
/// The time after which an unused lane is forgotten. The time is longer than any run waits in a
/// lane, or any node is away.
const LANE_AGE: Duration = Duration::from_secs(90 * 24 * 3600);
/// The most jobs from the file of a gone node that one round examines.
const LISTED: usize = 1_000;
const ENDED_JOBS: usize = 10_000;
const ENDED_AGE: Duration = Duration::from_secs(30 * 24 * 3600);
/// The most calls that one round makes to remove data of one kind. The next round removes the
/// remaining data.
const STEPS: usize = 100;
/// The most calls that one round makes to trim one job. This is enough to trim a job whose runs
/// fill the whole history. So the common limits never remove runs of other jobs instead.
const STEPS_A_JOB: usize = 1_000;

/// The handles of the loop that removes data above its age or limit.
pub(crate) struct Janitor {
    pub(crate) node: Arc<NodeContext>,
    pub(crate) retention: Arc<Retention>,
    pub(crate) health: Arc<NodeHealth>,
}

/// Removes data above its age or limit, at intervals. Never returns.
pub(crate) async fn run(janitor: Arc<Janitor>) {
    recall(&janitor).await;
    // The time up to which ended runs have been examined.
    let mut seen = UnixMillis::EPOCH;
    // The state of the changes at the last round, if that round found nothing more to remove.
    let mut cleaned: Option<(u64, BootInstant)> = None;
    let mut chains_seen = BootInstant::now();
    loop {
        // The interval is random, so that many nodes do not clean up at the same moment.
        let pause = EVERY.mul_f64(0.75 + fastrand::f64() / 2.0);
        tokio::select! {
            () = tokio::time::sleep(pause) => {
                let is_old = |at: BootInstant| BootInstant::now().since(at) >= UNCHANGED_EVERY;
                if cleaned.is_some_and(|(changes, at)| changes == janitor.node.wakeups.changes() && !is_old(at)) {
                    continue;
                }
            }
            () = janitor.retention.overfull_now.notified() => {}
        }
        let changes = janitor.node.wakeups.changes();
        cleaned = None;
        if BootInstant::now().since(chains_seen) >= CHAINS_EVERY {
            chains_seen = BootInstant::now();
            match forget_stuck_chains(&janitor).await {
                Ok(0) => {}
                Ok(forgotten) => warn!(
                    forgotten,
                    "Occurrences of jobs in chains waited 90 days for a parent and were removed."
                ),
                Err(error) => janitor.node.outage_log.failed(&error, "old records are not removed"),
            }
        }
        match Box::pin(round(&janitor, &mut seen)).await {
            Ok(0) => cleaned = Some((changes, BootInstant::now())),
            Ok(forgotten) => debug!(forgotten, "Old records were removed."),
            Err(error) => janitor.node.outage_log.failed(&error, "old records are not removed"),
        }
    }
}

/// Removes the occurrences that have waited too long for the end of a parent. Returns their number.
async fn forget_stuck_chains(janitor: &Janitor) -> Result<usize, StoreError> {
    let store = &janitor.node.store;
    let now = store.now().await?;
    chain_upkeep::forget_stuck(store, janitor.health.redis_clock.for_ages(now)).await
}

/// Reads node events to find a recent step of Redis' clock.
///
/// A long time in which no node ran counts as a step too, because the clock may have been set then.
/// For a while after a step, the ages of records are computed from the time before the step.
async fn recall(janitor: &Janitor) {
    let noted = async {
        let store = &janitor.node.store;
        let (now, nodes) = tokio::try_join!(store.now(), store.list_event_nodes())?;
        Ok::<_, StoreError>((now, BootInstant::now(), store.read_events(&nodes, now).await?))
    };
    let (now, instant, nodes) = match noted.await {
        Ok(noted) => noted,
        Err(error) => {
            debug!("Node events about steps of Redis' clock cannot be read: {error}.");
            return;
        }
    };
    if let Some(before) = time_before(&nodes, now) {
        janitor.health.redis_clock.hold(before, instant);
    }
}

/// Returns the last trusted time of Redis' clock, if the present time `now` is not yet trusted. Two
/// events of the last hour make `now` untrusted:
/// - A node saw the clock step ahead.
/// - A node started after all nodes had been away for longer than an hour.
fn time_before(nodes: &[NodeEvents], now: UnixMillis) -> Option<UnixMillis> {
    let is_of_late = |at: UnixMillis| now.since(at) < STEADY_FOR && at.since(now) < STEADY_FOR;
    let was_there = |node: &NodeEvents| {
        node.last_seen.is_some_and(is_of_late)
            && node.started_at.is_some_and(|started| started <= now && !is_of_late(started))
    };
    let is_watched = nodes.iter().any(was_there);
    let ahead = |event: &NodeEvent| match event.what {
        NodeEventKind::ClockStepped { by_ms } => {
            u64::try_from(by_ms).ok().map(Duration::from_millis)
        }
        NodeEventKind::Started { seen_before: Some(seen) } if !is_watched => {
            Some(event.from.since(seen)).filter(|away| *away >= STEADY_FOR)
        }
        _ => None,
    };
    let of_late = nodes.iter().flat_map(|node| &node.events).filter(|event| is_of_late(event.from));
    of_late.filter_map(ahead).max().map(|ahead| now.saturating_sub(ahead))
}

async fn round(janitor: &Janitor, seen: &mut UnixMillis) -> Result<usize, StoreError> {
    let store = &janitor.node.store;
    let (now, bounds) = (store.now().await?, janitor.retention.bounds());
    // After a recent step of the clock, `aged` is the time before the step. So nothing is removed
    // early.
    let aged = janitor.health.redis_clock.for_ages(now);
    let mut total = 0;
    if janitor.health.redis_clock.is_steady() {
        // A job that ended in the future would be kept longer than jobs that end from now on. Its
        // end is corrected only when the clock is trusted.
        let jobs = store.list_ended_after(now).await?;
        if !jobs.is_empty() {
            total += store.pull_scores_back(&jobs).await?;
        }
    }
    if *seen > now {
        // The clock was set back, so later ends of runs may have earlier times.
        *seen = UnixMillis::EPOCH;
    }
    let mut overfull = janitor.retention.take_overfull();
    for _ in 0..STEPS_A_JOB {
        let (jobs, next) =
            store.list_overfull(*seen, |job| bounds_of(job, bounds.history.keep_per_job)).await?;
        overfull.extend(jobs);
        match next {
            Some(next) if next > *seen => *seen = next,
            _ => break,
        }
    }
    // A run may have ended at a future time while the clock was ahead.
    *seen = (*seen).min(now);
    for job in &overfull {
        total += trim_job(janitor, job, aged, &bounds).await?;
    }
    // Continues backfills whose last run ended on a node that died before it planned the next run.
    for job in store.list_backfills(BACKFILLS).await? {
        if let Err(error) = backfill_plan::advance(store, &job).await {
            if error.is_passing() && !matches!(error, StoreError::OutOfMemory { .. }) {
                return Err(error);
            }
            janitor
                .node
                .outage_log
                .failed(&error, &format!("the backfill of job {job} does not continue"));
        }
    }
    total += forget_gone_nodes(store, aged).await?;
    total += match store.forget_lanes(aged.saturating_sub(LANE_AGE)).await {
        // The consistency check reports the key. The remaining data is still cleaned up.
        Err(StoreError::WrongType { .. }) => 0,
        forgotten => forgotten?,
    };
    let before = aged.saturating_sub(bounds.history.max_age);
    for _ in 0..STEPS {
        let forgotten = store.forget_runs(None, before, bounds.history.keep).await?
            + store.forget_dead(None, before, DEAD_IN_ALL).await?
            + store
                .forget_outputs(
                    None,
                    aged.saturating_sub(bounds.output.max_age),
                    bounds.output.keep_bytes,
                )
                .await?
            + store.forget_jobs(aged.saturating_sub(ENDED_AGE), ENDED_JOBS).await?;
        total += forgotten;
        if forgotten == 0 {
            break;
        }
    }
    for _ in 0..STEPS {
        let keys = store.list_uniques(now).await?;
        if keys.is_empty() {
            break;
        }
        total += store.forget_uniques(&keys).await?;
    }
    Ok(total)
}

/// Removes the records of nodes that are gone for a long time. A node is kept while only its file
/// lists a live job, because this job was never removed from the file. Jobs that another file
/// lists, or that ended, are removed from the list of the node. The instances on the node are
/// removed.
async fn forget_gone_nodes(store: &Store, now: UnixMillis) -> Result<usize, StoreError> {
    let before = now.saturating_sub(NODE_AGE);
    let gone = store.list_gone_nodes(before).await?;
    for node in &gone {
        let listed: Vec<JobName> =
            store.read_source(&node.into()).await?.into_keys().take(LISTED).collect();
        for (name, record) in listed.iter().zip(store.read_jobs(&listed).await?) {
            let Ok(record) = record else { continue };
            let is_needless = record.is_none_or(|job| {
                !job.is_live()
                    || job.kind != SourceKind::File
                    || job.listed_by.keys().any(|other| other != node.as_str())
            });
            if is_needless
                && let Err(error) = job_operations::unlist_job(store, name, node.as_str()).await
            {
                debug!(node = %node, job = %name, "The job could not be removed from the list of a node that is gone: {error}.");
            }
        }
        let instances = SourceName::instances_on(node);
        for name in store.list_source(&instances).await?.into_keys().take(LISTED) {
            if let Err(error) = job_operations::unlist_job(store, &name, instances.as_str()).await {
                debug!(job = %name, "The job of a node that is gone was not removed: {error}.");
            }
        }
    }
    store.forget_nodes(&gone, before).await
}

/// Trims one job to its own limits. If a key has the wrong type, the error is logged and other jobs
/// are still trimmed.
async fn trim_job(
    janitor: &Janitor,
    job: &JobName,
    now: UnixMillis,
    bounds: &RetainedBounds,
) -> Result<usize, StoreError> {
    let store = &janitor.node.store;
    let (ended_before, written_before) =
        (now.saturating_sub(bounds.history.max_age), now.saturating_sub(bounds.output.max_age));
    let (most, most_dead) = bounds_of(job, bounds.history.keep_per_job);
    let step = async || -> Result<usize, StoreError> {
        Ok(store.forget_runs(Some(job), ended_before, most).await?
            + store.forget_dead(Some(job), ended_before, most_dead).await?
            + store
                .forget_outputs(Some(job), written_before, bounds.output.keep_bytes_per_job)
                .await?)
    };
    let mut total = 0;
    for _ in 0..STEPS_A_JOB {
        match step().await {
            Ok(0) => break,
            Ok(forgotten) => total += forgotten,
            Err(error) if error.is_passing() => return Err(error),
            Err(error) => {
                janitor
                    .node
                    .outage_log
                    .failed(&error, &format!("old runs of job {job} are not removed"));
                break;
            }
        }
    }
    Ok(total)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_starting_node_trusts_no_time_that_jumped_within_the_hour_or_unseen() {
        let at = |minutes: i64| UnixMillis::new(1_790_000_000_000 + minutes * 60_000).unwrap();
        let day = 24 * 60;
        let node = |started: i64, events: Vec<(i64, NodeEventKind)>| NodeEvents {
            node: "n1".parse().unwrap(),
            last_seen: Some(at(0)),
            started_at: Some(at(started)),
            events: events
                .into_iter()
                .map(|(from, what)| NodeEvent { what, from: at(from), to: None })
                .collect(),
            is_cut: false,
        };
        let step = |minutes: i64| NodeEventKind::ClockStepped { by_ms: minutes * 60_000 };
        let back = |seen: i64| NodeEventKind::Started { seen_before: Some(at(seen)) };
        assert_eq!(time_before(&[node(-1, vec![(-1, back(-2))])], at(0)), None, "a restart");
        assert_eq!(
            time_before(&[node(-1, vec![(-1, back(-day))])], at(0)),
            Some(at(1 - day)),
            "it was away for a day"
        );
        let other = node(-2 * day, Vec::new());
        assert_eq!(
            time_before(&[node(-1, vec![(-1, back(-day))]), other.clone()], at(0)),
            None,
            "another was there"
        );
        assert_eq!(
            time_before(&[node(-1, vec![(-30, step(day))]), other.clone()], at(0)),
            Some(at(-day))
        );
        assert_eq!(
            time_before(&[node(-1, vec![(-day, step(day)), (-2, step(-day))]), other], at(0)),
            None,
            "long ago, or back"
        );
    }
}
