//! The reconciler: applies this node's `jobs.toml` to Redis.
//!
//! Invariant: a job is written only if its definition changed since this file was last written, or
//! if the job is missing in Redis. So a restart with an unchanged file changes nothing, and a file
//! never reverts a later change of another source. A failed write is repeated.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tracing::{error, info, warn};

use super::instances;
use super::job_operations;
use super::planting;
use super::planting::{Applied, Request};
use super::wanted_file::{Removal, WantedFile, WantedJobs};
use crate::engine::node_context::NodeContext;
use crate::engine::status::node_health::NodeHealth;
use schedd_core::config::StoredJob;
use schedd_core::domain::job::definition_text::definition_hash;
use schedd_core::domain::name::job_source::SourceName;
use schedd_schedule::names::JobName;
use schedd_schedule::time::zone::Zone;
use schedd_store::{RemoveReply, Section, StoreError};

/// The most jobs or sections written in one call.
const BATCH: usize = 200;
const TRY_AGAIN: Duration = Duration::from_secs(1);
/// The interval at which the file is applied again while a job of the command line has the name of
/// a job in the file. The file's job is applied once the name is free.
const NAME_TAKEN_AGAIN: Duration = Duration::from_secs(5);
/// The interval at which the node checks that Redis still has all jobs of the file.
const LOOK_AGAIN: Duration = Duration::from_secs(60);

/// The loop that applies this node's jobs file to Redis.
pub(crate) struct Reconciler {
    pub(crate) node: Arc<NodeContext>,
    pub(crate) health: Arc<NodeHealth>,
    pub(crate) wanted: Arc<WantedFile>,
    /// The time zone of this host, for jobs whose definition has no time zone.
    pub(crate) host_zone: Zone,
}

impl Reconciler {
    /// Records the reasons why parts of the last accepted file were not applied. An empty text
    /// means that all parts were applied.
    fn note_problems(&self, problems: String) {
        self.health.problems.set_jobs(problems);
        self.node.wakeups.presence.notify_one();
    }
}

/// Applies the jobs file at each wakeup and after each pause. Never returns.
pub(crate) async fn run(reconciler: Arc<Reconciler>) {
    let wanted_file = &reconciler.wanted;
    let mut pause = None;
    loop {
        tokio::select! {
            () = reconciler.node.wakeups.reconciler.notified() => {}
            () = tokio::time::sleep(pause.unwrap_or(TRY_AGAIN)), if pause.is_some() => {}
        }
        // The flag is read before the content. If a file comes in between, the next round logs that
        // file.
        let is_new = wanted_file.is_new.swap(false, Ordering::AcqRel);
        let Some(wanted) = wanted_file.get() else { continue };
        let has_jobs = reconciler.node.store.shard_number().is_none();
        pause = match reconcile(&reconciler, &wanted).await {
            Ok(Outcome { problems, names_taken, changes }) => {
                if let Some(changes) =
                    changes.filter(|changes| has_jobs && is_new || changes.is_any())
                {
                    let Changes { created, changed, removed } = changes;
                    info!(
                        jobs = wanted.jobs.len(),
                        created, changed, removed, "All jobs of the jobs file are applied."
                    );
                }
                reconciler.note_problems(problems.join("; "));
                reconciler.node.wakeups.boot_planner.notify_one();
                Some(if names_taken > 0 { NAME_TAKEN_AGAIN } else { LOOK_AGAIN })
            }
            Err(error) => {
                wanted_file.is_new.fetch_or(is_new, Ordering::AcqRel);
                reconciler.node.outage_log.failed(&error, "jobs.toml is not applied");
                if !error.is_passing() {
                    reconciler.note_problems(error.to_string());
                }
                Some(TRY_AGAIN)
            }
        };
    }
}

/// The result of applying the jobs file once.
#[derive(Default)]
struct Outcome {
    /// The failures that last until a user acts, as text.
    problems: Vec<String>,
    /// The number of names in the file that belong to jobs of the command line.
    names_taken: usize,
    /// The numbers of jobs changed. `None` if the file was not applied.
    changes: Option<Changes>,
}

/// The numbers of jobs created, changed and removed.
#[derive(Default)]
struct Changes {
    created: usize,
    changed: usize,
    removed: usize,
}

impl Changes {
    fn is_any(&self) -> bool {
        self.created + self.changed + self.removed > 0
    }
}

/// Writes the changed jobs of the file to Redis, and removes the jobs that left the file.
async fn reconcile(reconciler: &Reconciler, wanted: &WantedJobs) -> Result<Outcome, StoreError> {
    let node = &reconciler.node.settings.node;
    let source = &SourceName::from(node);
    let declared = reconciler.node.store.read_declared(source).await?;
    let mut problems = declare(reconciler, source, wanted, &declared).await?;
    let listed = reconciler.node.store.read_source(source).await?;
    let signed = reconciler.node.store.signed(&format!("file of {node}"));
    let (mut names_taken, mut changes) = (0, Changes::default());
    let gone: Vec<&JobName> =
        listed.keys().filter(|name| !wanted.jobs.contains_key(*name)).collect();
    if wanted.jobs.is_empty() && !gone.is_empty() && wanted.removal == Removal::Refused {
        if reconciler.node.outage_log.is_new("a file without jobs") {
            warn!(
                jobs = gone.len(),
                "jobs.toml no longer has any jobs. This node keeps its earlier jobs. To remove these jobs, send SIGHUP to schedd (systemctl reload schedd)."
            );
        }
        problems.push(format!(
            "jobs.toml has no jobs, so this node keeps its {} earlier jobs until SIGHUP",
            gone.len()
        ));
        return Ok(Outcome { problems, ..Outcome::default() });
    }

    let to_apply: Vec<(&JobName, &StoredJob)> = wanted
        .jobs
        .iter()
        .filter(|(name, job)| listed.get(*name) != Some(&definition_hash(job.text())))
        .collect();
    let mut past = Vec::new();
    for batch in to_apply.chunks(BATCH) {
        let requests = batch.iter().map(|(name, job)| Request::of_file(name, job, source));
        let requests: Vec<Request> = requests.collect::<Result<_, _>>()?;
        let answers = instances::apply(&signed, &reconciler.host_zone, &requests).await?;
        for (&(job, _), answer) in batch.iter().zip(answers) {
            match answer {
                Ok(Applied::Created(_)) => changes.created += 1,
                Ok(Applied::Updated(_)) => changes.changed += 1,
                Ok(
                    Applied::Unchanged
                    | Applied::Exists
                    | Applied::Newer(_)
                    | Applied::Taken(_)
                    | Applied::Moved(..),
                ) => {}
                Ok(Applied::Past(at) | Applied::Done(at)) => {
                    if reconciler.node.outage_log.is_new(&format!("past {job} {at}")) {
                        info!(job = %job, at = %at, "The job is not added, because its only time has passed.");
                    }
                    past.push(job);
                }
                Ok(Applied::OtherKind(kind)) => {
                    if reconciler.node.outage_log.is_new(&format!("name taken {job}")) {
                        warn!(job = %job, "The job of the jobs file was not applied, because an {kind} job (from schedctl add) has the same name. Cancel the {kind} job, or rename the job of the file.");
                    }
                    names_taken += 1;
                    let why = format!("an {kind} job has the same name");
                    problems.push(format!("job {job} is not applied: {why}"));
                }
                Err(planting::PlantingError::Store(error)) if error.is_passing() => {
                    return Err(error);
                }
                Err(error) => {
                    error!(job = %job, "The job was not applied: {error}.");
                    problems.push(format!("job {job} is not applied: {error}"));
                }
            }
        }
    }
    // A job whose new time has passed is removed too, so that its earlier definition does not run.
    for name in gone.into_iter().chain(past) {
        match job_operations::unlist_job(&signed, name, node.as_str()).await {
            Ok(RemoveReply::Removed(_)) => changes.removed += 1,
            Ok(_) => {}
            Err(job_operations::OperationError::Store(error)) if error.is_passing() => {
                return Err(error);
            }
            Err(error) => problems.push(format!("job {name} is not removed: {error}")),
        }
    }
    // Sections are removed after the jobs, so that no job is in a queue that no source declares.
    for section in declared.keys().filter(|section| !wanted.sections.contains_key(*section)) {
        match reconciler.node.store.declare_section(source, section, None).await {
            Ok(_) => {}
            Err(error) if error.is_passing() => return Err(error),
            Err(error) => problems.push(format!(
                "{}, which is no longer in the file, is not removed: {error}",
                section.entry()
            )),
        }
    }
    Ok(Outcome { problems, names_taken, changes: Some(changes) })
}

/// Declares in Redis the queues and groups of the file that changed or are missing there. Returns
/// the failures as text.
async fn declare(
    reconciler: &Reconciler,
    source: &SourceName,
    wanted: &WantedJobs,
    declared: &BTreeMap<Section, String>,
) -> Result<Vec<String>, StoreError> {
    let mut problems = Vec::new();
    let changed: Vec<_> = wanted
        .sections
        .iter()
        .filter(|(section, text)| declared.get(*section) != Some(&text.hash()))
        .collect();
    for some in changed.chunks(BATCH) {
        let replies = reconciler.node.store.declare_sections(source, some).await?;
        for ((section, _), reply) in some.iter().zip(replies) {
            match reply {
                Ok(_) => {}
                Err(error) if error.is_passing() => return Err(error),
                Err(error) => {
                    error!(
                        "The settings of {} in the jobs file of this node were not applied: {error}.",
                        section.entry()
                    );
                    problems.push(format!("{} is not applied: {error}", section.entry()));
                }
            }
        }
    }
    Ok(problems)
}
