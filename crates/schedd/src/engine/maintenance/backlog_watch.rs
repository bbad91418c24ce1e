//! Warns when a queue has a backlog, and when the backlog is over.
//!
//! A check reads the due sets of a queue only if a recent poll found due runs of this queue, or if
//! the queue has a backlog. So an idle node sends no command.
//!
//! Invariant: one backlog starts one run of the job in `on_backlog`. The id of the run is made from
//! the queue and the time at which the backlog began, and this time comes from Redis. So any number
//! of nodes may plan the run, and a node that dies before it planned the run is replaced.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tracing::{info, warn};

use crate::engine::dispatch::slots::{Slots, WatchedQueue};
use crate::engine::node_context::NodeContext;
use crate::engine::planning::job_operations::{OperationError, plant_run};
use crate::engine::status::node_health::NodeHealth;
use schedd_schedule::names::{JobName, QueueName, RunId};
use schedd_schedule::time::unix_millis::UnixMillis;
use schedd_store::StoreError;

/// The interval between two checks.
const EVERY: Duration = Duration::from_secs(2);
/// The number of characters of the digest at the end of the id of a run that reports a backlog.
const WORD_LEN: usize = 12;

/// The loop that watches the backlogs of queues.
pub(crate) struct BacklogWatch {
    pub(crate) node: Arc<NodeContext>,
    pub(crate) slots: Slots,
    pub(crate) health: Arc<NodeHealth>,
}

/// A backlog that this node has logged.
#[derive(Default)]
struct LoggedBacklog {
    /// The time of the beginning, if the backlog was recorded in Redis.
    since: Option<UnixMillis>,
    /// The job of which a run was planned for this backlog.
    reported_by: Option<JobName>,
}

/// Checks the watched queues at intervals. Never returns.
pub(crate) async fn run(watch: Arc<BacklogWatch>) {
    let mut logged: BTreeMap<QueueName, LoggedBacklog> = BTreeMap::new();
    loop {
        tokio::time::sleep(EVERY).await;
        let watched = watch.slots.watched();
        logged.retain(|queue, _| watched.iter().any(|watched| watched.queue == *queue));
        for queue in &watched {
            if !queue.had_due_runs && !logged.contains_key(&queue.queue) {
                continue;
            }
            if let Err(error) = check(&watch, queue, &mut logged).await {
                watch.node.outage_log.failed(&error, "the backlogs of queues are not checked");
            }
        }
    }
}

async fn check(
    watch: &BacklogWatch,
    watched: &WatchedQueue,
    logged: &mut BTreeMap<QueueName, LoggedBacklog>,
) -> Result<(), StoreError> {
    let WatchedQueue { queue, rules, lanes, .. } = watched;
    let (store, now) = (&watch.node.store, watch.health.notes.now());
    let depths = store.read_depths(lanes, now).await?;
    let ready = depths.iter().map(|depth| depth.ready).sum();
    let oldest = depths.iter().filter_map(|depth| depth.oldest).min();
    let age = oldest.map(|at| now.since(at));
    if let Some(backlog) = logged.get(queue)
        && rules.is_over(ready, age)
    {
        if let Some(since) = backlog.since {
            store.end_backlog(queue, since).await?;
        }
        logged.remove(queue);
        info!(queue = %queue, ready, "The backlog of the queue is over.");
        return Ok(());
    }
    if let Some(words) = rules.backlog(ready, age).filter(|_| !logged.contains_key(queue)) {
        warn!(queue = %queue, ready, "The queue has a backlog: {words}.");
        logged.insert(queue.clone(), LoggedBacklog::default());
    }
    match (logged.get_mut(queue), &rules.job) {
        (Some(backlog), Some(job)) => report(watch, queue, job, backlog).await,
        _ => Ok(()),
    }
}

/// Plans the run of `job` that reports a backlog, unless it was planned before.
async fn report(
    watch: &BacklogWatch,
    queue: &QueueName,
    job: &JobName,
    backlog: &mut LoggedBacklog,
) -> Result<(), StoreError> {
    let store = &watch.node.store;
    let since = store.note_backlog(queue).await?;
    if backlog.since.replace(since) == Some(since) && backlog.reported_by.as_ref() == Some(job) {
        return Ok(());
    }
    let word = sha1_smol::Sha1::from(format!("backlog of {queue}")).digest().to_string();
    let Ok(run) = RunId::manual(job.clone(), since, word.get(..WORD_LEN).unwrap_or_default())
    else {
        return Ok(());
    };
    match plant_run(store, run, None).await {
        Ok(Some(run)) => info!(queue = %queue, run = %run, "The job of on_backlog runs."),
        Ok(None) => {
            warn!(queue = %queue, job = %job, "The backlog is not reported, because the job of on_backlog does not exist or runs on each node.");
        }
        Err(OperationError::Store(error)) => return Err(error),
        Err(error) => warn!(queue = %queue, job = %job, "The backlog is not reported: {error}."),
    }
    backlog.reported_by = Some(job.clone());
    Ok(())
}
