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

use super::job_operations::{self, OperationError, remove_instance};
use super::planting::{self, Applied, PlantingError, Request};
use super::wanted_file::WantedFile;
use crate::engine::chains::chain_check::{ParentFault, parent_faults};
use crate::engine::dispatch::slots::Slots;
use crate::engine::node_context::NodeContext;
use schedd_core::config;
use schedd_core::config::CanonicalError;
use schedd_core::domain::explain::GONE_AFTER;
use schedd_core::domain::job::definition_text::definition_hash;
use schedd_core::domain::job::job_spec::JobSpec;
use schedd_core::domain::name::job_source::SourceName;
use schedd_core::domain::queue::lane::Lane;
use schedd_core::domain::queue::lane_serving::Serving;
use schedd_schedule::names::{JobName, NodeName};
use schedd_schedule::time::zone::Zone;
use schedd_store::{Existing, JobRecord, SourceKind, StopRunning, Store, StoreError, next_of};

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
    pub(crate) wanted: Arc<WantedFile>,
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
    // Without its jobs file, the node may lack the labels and queues that it usually has.
    let is_file_awaited = !planner.wanted.is_reported()
        && !store.list_source(&SourceName::from(node)).await?.is_empty();
    // The index of jobs on each node may be damaged, so the jobs of all listed instances are read.
    let mut jobs: BTreeSet<JobName> = list_jobs(store).await?.into_iter().collect();
    jobs.extend(listed.keys().map(JobName::defined));
    let jobs: Vec<JobName> = jobs.into_iter().collect();
    let (mut wanted, mut gone) = (Vec::new(), Vec::new());
    for names in jobs.chunks(BATCH) {
        for (name, record) in names.iter().zip(store.read_jobs(names).await?) {
            let Some(instance) = JobName::of_instance(name, node) else { continue };
            // An unreadable job keeps its instance.
            let Ok(record) = record else { continue };
            let found = record.as_ref().map(|record| wanted_on(record, node, &serving));
            let is_there = record.as_ref().is_some_and(has_instances);
            match found {
                Some(Err(_)) => {}
                Some(Ok(Some((_, found)))) => wanted.push(found),
                _ if is_there && is_file_awaited => {}
                _ => gone.extend(listed.contains_key(&instance).then_some(instance)),
            }
        }
    }
    let signed = store.signed(&format!("node {node}"));
    for name in &gone {
        match job_operations::unlist_job(&signed, name, source.as_str()).await {
            Err(OperationError::Store(error)) if error.is_passing() => return Err(error),
            Err(error) => note_fault(planner, name, &error.to_string()),
            Ok(_) => {}
        }
    }
    for (name, fault) in plan(&signed, &planner.host_zone, &listed, wanted).await? {
        note_fault(planner, &name, &fault);
    }
    Ok(())
}

/// Returns true for a live job with an instance on each node.
fn has_instances(record: &JobRecord) -> bool {
    record.is_live() && record.lane == Lane::of_each_node()
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
        let answers = planting::apply(store, host_zone, &requests).await?.0;
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
                && let Err(error) = pause_like_job(store, &instance.name).await
            {
                faults.push((instance.name.clone(), error.to_string()));
            }
        }
    }
    Ok(faults)
}

/// Pauses an instance whose job is paused. If the job was resumed meanwhile, resumes the instance.
async fn pause_like_job(store: &Store, name: &JobName) -> Result<(), OperationError> {
    job_operations::pause(store, name).await?;
    let job = store.read_job(&name.defined()).await?;
    if job.is_some_and(|job| job.is_live() && job.paused_at.is_none()) {
        job_operations::resume(store, name).await?;
    }
    Ok(())
}

impl Instance {
    fn request(&self) -> Request {
        Request {
            name: self.name.clone(),
            is_drawn: false,
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

/// Applies several requests as [`planting::apply`] does, and gives each changed job with
/// `on = "each-node"` its instances. The due time of such a job is that of its first instance.
/// A request that is not of a file fails if too few replicas have the job, though it may be there.
pub async fn apply(
    store: &Store,
    host_zone: &Zone,
    requests: &[Request],
) -> Result<Vec<Result<Applied, PlantingError>>, StoreError> {
    if requests.iter().all(|request| request.kind != SourceKind::Api) {
        return apply_sound(store, host_zone, requests).await;
    }
    let applying = Box::pin(apply_sound(store, host_zone, requests));
    let (mut answers, on_replicas) = store.replicated(applying).await?;
    if let Err(error) = on_replicas {
        for answer in &mut answers {
            // A job that was there before the request may not be on the replicas either.
            if answer.is_ok() {
                *answer = Err(error.clone().into());
            }
        }
    }
    Ok(answers)
}

/// Applies the requests whose parents are sound, and refuses the others.
async fn apply_sound(
    store: &Store,
    host_zone: &Zone,
    requests: &[Request],
) -> Result<Vec<Result<Applied, PlantingError>>, StoreError> {
    let wanted: Vec<_> =
        requests.iter().map(|request| (&request.name, checked_parents(request))).collect();
    let faults = parent_faults(store, &wanted).await?;
    if faults.iter().all(Option::is_none) {
        return apply_checked(store, host_zone, requests).await;
    }
    let sound = requests.iter().zip(&faults).filter(|(_, fault)| fault.is_none());
    let sound: Vec<Request> = sound.map(|(request, _)| request.clone()).collect();
    let mut applied = apply_checked(store, host_zone, &sound).await?.into_iter();
    let answer = |(request, fault): (&Request, Option<ParentFault>)| match fault {
        Some(fault) => Err(PlantingError::Parents(request.name.clone(), fault)),
        None => {
            applied.next().unwrap_or_else(|| Err(PlantingError::Contended(request.name.clone())))
        }
    };
    Ok(requests.iter().zip(faults).map(answer).collect())
}

/// Returns the parents that must be checked against the jobs in Redis. The parents of a file's job
/// were checked when the file was read. A new job without parents changes no chain.
fn checked_parents(request: &Request) -> Option<BTreeSet<JobName>> {
    let parents = request.spec.schedule.parents().map(|parents| parents.jobs.clone());
    let parents = parents.or_else(|| (request.existing == Existing::Edit).then(BTreeSet::new));
    parents.filter(|_| request.kind == SourceKind::Api)
}

async fn apply_checked(
    store: &Store,
    host_zone: &Zone,
    requests: &[Request],
) -> Result<Vec<Result<Applied, PlantingError>>, StoreError> {
    let (mut answers, changed) = planting::apply(store, host_zone, requests).await?;
    for index in changed {
        let (Some(request), Some(answer)) = (requests.get(index), answers.get_mut(index)) else {
            continue;
        };
        follow(store, host_zone, &request.name).await?;
        if let Ok(Applied::Created(next) | Applied::Updated(next)) = answer {
            *next = next_of(&store.list_instances(&request.name).await?).or(*next);
        }
    }
    Ok(answers)
}

/// Applies one request as [`apply`] does.
pub async fn apply_one(
    store: &Store,
    host_zone: &Zone,
    request: &Request,
) -> Result<Applied, PlantingError> {
    let answer = apply(store, host_zone, std::slice::from_ref(request)).await?.pop();
    answer.unwrap_or_else(|| Err(PlantingError::Contended(request.name.clone())))
}

/// Gives the job `job`, after a change of its definition, an instance on each node that runs now,
/// and changes its other instances. Removes the instances of a job that no longer has any. The
/// nodes themselves log the faults of their instances.
async fn follow(store: &Store, host_zone: &Zone, job: &JobName) -> Result<(), StoreError> {
    let Some(record) = store.read_job(job).await? else { return Ok(()) };
    // A run that the job still owed would run on any node.
    if let Some(owed) = record.pending.as_ref().filter(|_| has_instances(&record)) {
        match job_operations::cancel_run(store, owed, "the job runs on each node now").await {
            Err(OperationError::Store(error)) if error.is_passing() => return Err(error),
            Ok(_) | Err(_) => {}
        }
    }
    let live: BTreeSet<NodeName> =
        store.list_instances(job).await?.into_iter().map(|(node, _)| node).collect();
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
            Ok(None) => {
                match remove_instance(store, job, &name, StopRunning::No, "removed").await {
                    Err(OperationError::Store(error)) if error.is_passing() => return Err(error),
                    // The node of the instance removes it later, and logs a lasting fault.
                    Ok(()) | Err(_) => {}
                }
            }
        }
    }
    plan(store, host_zone, &BTreeMap::new(), wanted).await.map(drop)
}
