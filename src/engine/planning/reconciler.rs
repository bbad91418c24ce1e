//! The reconciler: applies this node's `jobs.toml` to Redis.
//!
//! Invariant: a job is written only if its definition changed since this file's last write, or if
//! Redis lacks the job. So a restart with an unchanged file changes nothing, and a file never
//! undoes a later change of another source. A failed write is tried again.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tracing::{error, info, warn};

use super::job_operations;
use super::planting;
use super::planting::{Applied, Request};
use crate::config;
use crate::domain::job::job_spec::JobSpec;
use crate::domain::name::job_source::SourceName;
use crate::domain::name::names::JobName;
use crate::domain::time::zone::Zone;
use crate::engine::node_context::NodeContext;
use crate::store::{Existing, RemoveReply, Section, SectionText, SourceKind, StoreError};

/// The most jobs written in one call.
const BATCH: usize = 200;
const TRY_AGAIN: Duration = Duration::from_secs(1);
/// The interval at which the file is applied again while a job of the command line has one of the
/// file's names. That name may become free.
const HELD_AGAIN: Duration = Duration::from_secs(5);
/// The interval of checks that Redis still has all jobs written from the file.
const LOOK_AGAIN: Duration = Duration::from_secs(60);

/// The choice whether a file without any job may remove all of its jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Removal {
    /// The jobs are removed, because an operator asked to apply this file even without jobs.
    Allowed,
    /// The jobs stay, because the file may have been emptied by accident.
    Held,
}

/// The content of this node's jobs file, as far as the content is stored in Redis.
#[derive(Debug, Clone)]
pub(crate) struct WantedJobs {
    pub(crate) jobs: Arc<BTreeMap<JobName, JobSpec>>,
    pub(crate) sections: BTreeMap<Section, SectionText>,
    pub(crate) removal: Removal,
}

/// The content of the jobs file to apply. No content is set until a file has been read.
#[derive(Default)]
pub(crate) struct WantedJob {
    wanted: Mutex<Option<WantedJobs>>,
    /// True if the file was read since the last logged success of applying the file.
    is_news: AtomicBool,
}

impl WantedJob {
    pub(crate) fn set(&self, wanted: WantedJobs) {
        *self.wanted.lock().unwrap_or_else(PoisonError::into_inner) = Some(wanted);
        self.is_news.store(true, Ordering::Release);
    }

    /// Returns true if a jobs file has been read.
    pub(crate) fn is_told(&self) -> bool {
        self.get().is_some()
    }

    /// Returns the number of jobs in the file, or `None` before a file has been read.
    pub(crate) fn jobs(&self) -> Option<usize> {
        self.get().map(|wanted| wanted.jobs.len())
    }

    fn get(&self) -> Option<WantedJobs> {
        self.wanted.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Applies the jobs file whenever this loop is woken or its pause is over, for ever.
pub(crate) async fn run(shared: Arc<NodeContext>, wish: Arc<WantedJob>, host_zone: Zone) {
    let mut pause = None;
    loop {
        tokio::select! {
            () = shared.reconcile_now.notified() => {}
            () = tokio::time::sleep(pause.unwrap_or(TRY_AGAIN)), if pause.is_some() => {}
        }
        // Read before the content: a file that comes meanwhile is news at the next round.
        let is_news = wish.is_news.swap(false, Ordering::AcqRel);
        let Some(wanted) = wish.get() else { continue };
        pause = match reconcile(&shared, &wanted, &host_zone).await {
            Ok(Outcome { problems, held, changes }) => {
                if let Some(changes) = changes.filter(|changes| is_news || changes.is_any()) {
                    let Changes { created, changed, removed } = changes;
                    info!(jobs = wanted.jobs.len(), created, changed, removed, "All jobs of the jobs file are applied.");
                }
                shared.note_jobs(problems.join("; "));
                shared.file_taken.notify_one();
                Some(if held > 0 { HELD_AGAIN } else { LOOK_AGAIN })
            }
            Err(error) => {
                wish.is_news.fetch_or(is_news, Ordering::AcqRel);
                shared.weather.failed(&error, "jobs.toml is not applied");
                if !error.is_passing() {
                    shared.note_jobs(error.to_string());
                }
                Some(TRY_AGAIN)
            }
        };
    }
}

/// The result of applying the jobs file once.
#[derive(Default)]
struct Outcome {
    /// The failures whose cause does not pass by itself, as text.
    problems: Vec<String>,
    /// The number of names in the file that belong to jobs of the command line.
    held: usize,
    /// The numbers of changes made. `None` if the file was not applied.
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
async fn reconcile(shared: &NodeContext, wanted: &WantedJobs, host_zone: &Zone) -> Result<Outcome, StoreError> {
    let node = &shared.settings.node;
    let source = &SourceName::from(node);
    let declared = shared.store.read_declared(source).await?;
    let mut section_problems = declare(shared, source, wanted, &declared).await?;
    let listed = shared.store.read_source(source).await?;
    let signed = shared.store.signed(&format!("file of {node}"));
    let Outcome { mut problems, mut held, .. } = Outcome::default();
    problems.append(&mut section_problems);
    let mut changes = Changes::default();

    let gone: Vec<&JobName> = listed.keys().filter(|name| !wanted.jobs.contains_key(*name)).collect();
    if wanted.jobs.is_empty() && !gone.is_empty() && wanted.removal == Removal::Held {
        if shared.said.is_news("a file without jobs") {
            warn!(
                jobs = gone.len(),
                "jobs.toml has no jobs any more. This node keeps the earlier jobs. To remove them send SIGHUP (systemctl reload schedd)."
            );
        }
        let problem = format!("the file has no jobs, so {} earlier jobs are kept until SIGHUP", gone.len());
        problems.push(problem);
        return Ok(Outcome { problems, ..Outcome::default() });
    }

    let to_apply: Vec<Request> = wanted
        .jobs
        .iter()
        .filter(|(name, spec)| listed.get(*name) != Some(&config::hash(&config::to_surface(spec))))
        .map(|(name, spec)| Request {
            name: name.clone(),
            spec: spec.clone(),
            start_in: None,
            kind: SourceKind::File,
            source: node.as_str().to_owned(),
            existing: Existing::Edit,
            seen: None,
        })
        .collect();
    let mut past = Vec::new();
    for batch in to_apply.chunks(BATCH) {
        let answers = planting::apply(&signed, host_zone, batch).await?;
        for (request, answer) in batch.iter().zip(answers) {
            let job = &request.name;
            match answer {
                Ok(Applied::Created(_)) => changes.created += 1,
                Ok(Applied::Updated(_)) => changes.changed += 1,
                Ok(Applied::Unchanged | Applied::Exists | Applied::Newer(_) | Applied::Taken(_) | Applied::Moved(..)) => {}
                Ok(Applied::Past(at) | Applied::Done(at)) => {
                    if shared.said.is_news(&format!("past {job} {at}")) {
                        info!(job = %job, at = %at, "The time of this one-shot has passed, so the job is not added.");
                    }
                    past.push(job);
                }
                Ok(Applied::Held(kind)) => {
                    if shared.said.is_news(&format!("held {job}")) {
                        warn!(job = %job, "The job of the file was not applied, because a job added by {kind} has the same name. Cancel that job or rename the job of the file.");
                    }
                    held += 1;
                    problems.push(format!("job {job} not applied: an {kind} job has the same name"));
                }
                Err(planting::PlantingError::Store(error)) if error.is_passing() => return Err(error),
                Err(error) => {
                    error!(job = %job, "The job was not applied: {error}.");
                    problems.push(format!("job {job} not applied: {error}"));
                }
            }
        }
    }
    // The earlier definition of a job must not go on after the file gave it a time that has passed.
    for name in gone.into_iter().chain(past) {
        match job_operations::unlist_job(&signed, name, node.as_str()).await {
            Ok(RemoveReply::Removed(_)) => changes.removed += 1,
            Ok(_) => {}
            Err(job_operations::OperationError::Store(error)) if error.is_passing() => return Err(error),
            Err(error) => problems.push(format!("job {name} not removed: {error}")),
        }
    }
    // Sections go last, so that no job is left in a queue that no source declares.
    for section in declared.keys().filter(|section| !wanted.sections.contains_key(*section)) {
        match shared.store.declare_section(source, section, None).await {
            Ok(_) => {}
            Err(error) if error.is_passing() => return Err(error),
            Err(error) => problems.push(format!("a queue or group that is no longer in the file was not removed: {error}")),
        }
    }
    Ok(Outcome { problems, held, changes: Some(changes) })
}

/// Declares in Redis the queues and groups of the file that changed or that Redis lacks. Returns
/// the failures as text.
async fn declare(
    shared: &NodeContext,
    source: &SourceName,
    wanted: &WantedJobs,
    declared: &BTreeMap<Section, String>,
) -> Result<Vec<String>, StoreError> {
    let mut problems = Vec::new();
    for (section, text) in wanted.sections.iter().filter(|(section, text)| declared.get(*section) != Some(&text.hash())) {
        match shared.store.declare_section(source, section, Some(text)).await {
            Ok(_) => {}
            Err(error) if error.is_passing() => return Err(error),
            Err(error) => {
                error!("A queue or group of the file was not applied: {error}.");
                problems.push(format!("a queue or group was not applied: {error}"));
            }
        }
    }
    Ok(problems)
}
