//! The instances of jobs with `on = "each-node"`: one job on each node that serves such a job.
//!
//! Each node plans its own instances, at its start and after each change of a job. An edit also
//! changes the instances at once, so that the next claim uses the new definition.
//!
//! Invariant: an instance has the schedule, the zone and the anchor of its job. So the occurrences
//! of all instances are the same.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use tracing::warn;

use super::job_operations::{self, OperationError};
use super::planting::{self, PlantingError, Request};
use crate::config::{self, CanonicalError};
use crate::domain::explain::GONE_AFTER;
use crate::domain::job::definition_text::definition_hash;
use crate::domain::job::job_spec::JobSpec;
use crate::domain::name::job_source::SourceName;
use crate::domain::name::names::{JobName, NodeName, RunId};
use crate::domain::queue::lane::Lane;
use crate::domain::queue::lane_serving::Serving;
use crate::domain::time::unix_millis::UnixMillis;
use crate::domain::time::zone::Zone;
use crate::engine::dispatch::slots::Slots;
use crate::engine::node_context::NodeContext;
use crate::store::{Existing, JobRecord, SourceKind, StopRunning, Store, StoreError};

/// The most jobs read or written in one call.
const BATCH: usize = 200;
/// The pause after a round. A burst of changes does not make more rounds.
const PAUSE: Duration = Duration::from_secs(1);
/// The interval of the rounds while no job changes.
const LOOK_AGAIN: Duration = Duration::from_secs(60);

/// The loop that plans the instances on this node.
pub(crate) struct InstancePlanner {
    pub(crate) node: Arc<NodeContext>,
    pub(crate) slots: Slots,
    /// The time zone of this host, for jobs whose definition has no time zone.
    pub(crate) host_zone: Zone,
}

/// Plans the instances on this node at each change of a job, and at intervals. Never returns.
pub(crate) async fn run(planner: Arc<InstancePlanner>) {
    loop {
        let pause = match plan_own(&planner).await {
            Ok(()) => LOOK_AGAIN,
            Err(error) => {
                planner.node.outage_log.failed(&error, "jobs on each node are not planned");
                PAUSE
            }
        };
        tokio::time::sleep(PAUSE).await;
        tokio::select! {
            () = planner.node.wakeups.instances.notified() => {}
            () = tokio::time::sleep(pause) => {}
        }
    }
}

/// Plans the instances on this node, and removes the instances of jobs that this node no longer
/// serves.
async fn plan_own(planner: &InstancePlanner) -> Result<(), StoreError> {
    let (store, node) = (&planner.node.store, &planner.node.settings.node);
    let source = SourceName::instances_on(node);
    let listed = store.read_source(&source).await?;
    let serving = planner.slots.serving();
    let (mut wanted, mut unreadable) = (BTreeMap::new(), BTreeSet::new());
    for names in list_jobs(store).await?.chunks(BATCH) {
        for (name, record) in names.iter().zip(store.read_jobs(names).await?) {
            match record.map(|record| record.map(|record| wanted_on(&record, node, &serving))) {
                Ok(Some(Ok(found))) => wanted.extend(found),
                Ok(Some(Err(_))) | Err(_) => {
                    unreadable.extend(JobName::of_instance(name, node));
                }
                Ok(None) => {}
            }
        }
    }
    let signed = store.signed(&format!("node {node}"));
    let gone: Vec<&JobName> = listed
        .keys()
        .filter(|name| !wanted.contains_key(*name) && !unreadable.contains(*name))
        .collect();
    for name in gone {
        match job_operations::unlist_job(&signed, name, source.as_str()).await {
            Err(OperationError::Store(error)) if error.is_passing() => return Err(error),
            Err(error) => note_fault(planner, name, &error.to_string()),
            Ok(_) => {}
        }
    }
    let wanted: Vec<Instance> = wanted.into_values().collect();
    for (name, fault) in plan(&signed, &planner.host_zone, &listed, wanted).await? {
        note_fault(planner, &name, &fault);
    }
    Ok(())
}

/// Logs the reason why one instance is not as its job wants it. The other instances are planned all
/// the same.
fn note_fault(planner: &InstancePlanner, name: &JobName, fault: &str) {
    if planner.node.outage_log.is_new(&format!("instance {name}")) {
        warn!(job = %name, "The job on this node does not follow its definition: {fault}.");
    }
}

/// An instance that a node should have.
struct Instance {
    name: JobName,
    source: SourceName,
    spec: JobSpec,
    is_paused: bool,
}

/// Returns the instance of the job in `record` on `node`, if the job has instances and the node
/// serves the job. Fails if the definition is unusable.
fn wanted_on(
    record: &JobRecord,
    node: &NodeName,
    serving: &Serving,
) -> Result<Option<(JobName, Instance)>, CanonicalError> {
    let spec = config::from_canonical(&record.definition)?;
    let lane = spec.lane_in(spec.queue.clone());
    let Some(name) = JobName::of_instance(&record.name, node) else { return Ok(None) };
    if !record.is_live() || !spec.is_on_each_node() || !serving.takes(&lane) {
        return Ok(None);
    }
    let mut instance = spec.instance_on(&record.name, node);
    instance.tz = record.tz.parse().ok();
    if instance.schedule.has_every() {
        instance.shape.anchor = instance.shape.anchor.or(Some(record.anchor));
    }
    let instance = Instance {
        name: name.clone(),
        source: SourceName::instances_on(node),
        spec: instance,
        is_paused: record.paused_at.is_some(),
    };
    Ok(Some((name, instance)))
}

/// Applies the definitions of these instances where `listed` has another hash, and pauses the
/// instances of paused jobs. Returns the instances that failed, each with the reason.
async fn plan(
    store: &Store,
    host_zone: &Zone,
    listed: &BTreeMap<JobName, String>,
    wanted: Vec<Instance>,
) -> Result<Vec<(JobName, String)>, StoreError> {
    let mut faults = Vec::new();
    let (changed, same): (Vec<_>, Vec<_>) = wanted.iter().partition(|instance| {
        let hash = definition_hash(&config::to_canonical(&instance.spec));
        listed.get(&instance.name) != Some(&hash)
    });
    for batch in changed.chunks(BATCH) {
        let requests: Vec<Request> = batch.iter().map(|instance| instance.request()).collect();
        let answers = Box::pin(planting::apply(store, host_zone, &requests)).await?;
        for (instance, answer) in batch.iter().zip(answers) {
            match answer {
                Ok(_) => {}
                Err(PlantingError::Store(error)) if error.is_passing() => return Err(error),
                Err(error) => faults.push((instance.name.clone(), error.to_string())),
            }
        }
    }
    let all: Vec<&Instance> = changed.into_iter().chain(same).collect();
    for batch in all.chunks(BATCH) {
        let names: Vec<JobName> = batch.iter().map(|instance| instance.name.clone()).collect();
        for (instance, record) in batch.iter().zip(store.read_jobs(&names).await?) {
            let Ok(Some(record)) = record else { continue };
            // A paused instance of a job that is not paused was paused by its own name.
            if instance.is_paused
                && record.paused_at.is_none()
                && let Err(error) = job_operations::pause(store, &instance.name).await
            {
                faults.push((instance.name.clone(), error.to_string()));
            }
        }
    }
    Ok(faults)
}

impl Instance {
    fn request(&self) -> Request {
        Request {
            name: self.name.clone(),
            spec: Arc::new(self.spec.clone()),
            start_in: None,
            kind: SourceKind::File,
            source: self.source.as_str().to_owned(),
            existing: Existing::Edit,
            seen: None,
        }
    }
}

/// Lists the jobs that may have an instance on each node.
async fn list_jobs(store: &Store) -> Result<Vec<JobName>, StoreError> {
    let (lane, mut jobs, mut after) = (Lane::of_each_node(), Vec::new(), None);
    loop {
        let page = store.list_job_gates(&lane, after.as_ref(), BATCH, BATCH).await?;
        jobs.extend(page.gates.into_iter().flat_map(|(_, jobs)| jobs));
        if page.last.is_none() {
            return Ok(jobs);
        }
        after = page.last;
    }
}

/// The live instances of a job, each with its node and the record of the instance.
pub type LiveInstances = Vec<(NodeName, JobRecord)>;

/// Returns the live instances of the job `job`, in the order of the names of their nodes.
pub async fn of_job(store: &Store, job: &JobName) -> Result<LiveInstances, StoreError> {
    let (_, nodes) = store.list_nodes().await?;
    let named: BTreeMap<NodeName, JobName> = nodes
        .into_iter()
        .filter_map(|node| node.name.parse().ok())
        .filter_map(|node| JobName::of_instance(job, &node).map(|name| (node, name)))
        .collect();
    let names: Vec<JobName> = named.values().cloned().collect();
    let mut found = LiveInstances::new();
    for (batch, nodes) in names.chunks(BATCH).zip(named.keys().collect::<Vec<_>>().chunks(BATCH)) {
        for (node, record) in nodes.iter().zip(store.read_jobs(batch).await?) {
            let Ok(Some(record)) = record else { continue };
            if record.is_live() {
                found.push(((*node).clone(), record));
            }
        }
    }
    Ok(found)
}

/// Returns the due time of the next run of these instances. Returns `None` if no run is planned.
pub fn next_of(instances: &LiveInstances) -> Option<UnixMillis> {
    instances.iter().filter_map(|(_, record)| record.pending.as_ref()).map(RunId::due).min()
}

/// Gives the job `job`, after a change of its definition, an instance on each node that runs now,
/// and changes its other instances. Removes the instances of a job that no longer has any. The
/// nodes themselves log the faults of their instances.
pub(super) async fn follow(
    store: &Store,
    host_zone: &Zone,
    job: &JobName,
) -> Result<(), StoreError> {
    let Some(record) = store.read_job(job).await? else { return Ok(()) };
    let live: BTreeSet<NodeName> =
        of_job(store, job).await?.into_iter().map(|(node, _)| node).collect();
    let (now, nodes) = store.list_nodes().await?;
    let mut wanted = Vec::new();
    for node in nodes {
        let Ok(name) = node.name.parse::<NodeName>() else { continue };
        let is_present = node.last_seen.is_some_and(|seen| now.since(seen) < GONE_AFTER);
        if !is_present && !live.contains(&name) {
            continue;
        }
        match wanted_on(&record, &name, &node.serving) {
            Err(_) => return Ok(()),
            Ok(Some((_, instance))) => wanted.push(instance),
            Ok(None) => match remove_on(store, job, &name, StopRunning::No, "removed").await {
                Err(OperationError::Store(error)) if error.is_passing() => return Err(error),
                // The node of the instance removes it later, and logs a lasting fault.
                Ok(()) | Err(_) => {}
            },
        }
    }
    plan(store, host_zone, &BTreeMap::new(), wanted).await.map(drop)
}

/// Removes the instances of the removed job `job`.
pub(super) async fn remove_all(
    store: &Store,
    job: &JobName,
    running: StopRunning,
    reason: &str,
) -> Result<(), OperationError> {
    for (node, _) in of_job(store, job).await? {
        remove_on(store, job, &node, running, reason).await?;
    }
    Ok(())
}

async fn remove_on(
    store: &Store,
    job: &JobName,
    node: &NodeName,
    running: StopRunning,
    reason: &str,
) -> Result<(), OperationError> {
    let Some(name) = JobName::of_instance(job, node) else { return Ok(()) };
    let source = SourceName::instances_on(node);
    let removed =
        job_operations::remove(store, &name, SourceKind::File, source.as_str(), running, reason);
    Box::pin(removed).await.map(drop)
}
