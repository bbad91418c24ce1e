//! Makes Redis say what this node's `jobs.toml` says.
//!
//! Invariant: a job is pushed only when its own text changed since this file's last push, or Redis has it no more, so a restart
//! with an unchanged file changes nothing, and a file never undoes what another said later. What could not be pushed is tried
//! again.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tracing::{error, info, warn};

use super::person;
use super::planting::{self, Applied, Request};
use super::shared::Shared;
use crate::config;
use crate::domain::ids::JobName;
use crate::domain::job::JobSpec;
use crate::domain::source::SourceName;
use crate::domain::zone::Zone;
use crate::store::{Existing, RemoveReply, Section, SectionText, SourceKind, StoreError};

/// Jobs pushed in one call at most.
const BATCH: usize = 200;
const TRY_AGAIN: Duration = Duration::from_secs(1);
/// How often a name that an api job holds is tried again: it may have become free.
const HELD_AGAIN: Duration = Duration::from_secs(5);
/// How often it is looked whether all that was pushed is still there.
const LOOK_AGAIN: Duration = Duration::from_secs(60);

/// Whether a file without any job may take all of them away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Removal {
    /// Yes: somebody asked for this file to be taken as it is.
    Allowed,
    /// No: it may have been emptied by accident.
    Held,
}

/// What a file says, as far as Redis is to say it too.
#[derive(Debug, Clone)]
pub(super) struct Wanted {
    pub(super) jobs: Arc<BTreeMap<JobName, JobSpec>>,
    pub(super) sections: BTreeMap<Section, SectionText>,
    pub(super) removal: Removal,
}

/// What is to be said; none until a file has been read.
#[derive(Default)]
pub(super) struct Wish {
    wanted: Mutex<Option<Wanted>>,
    /// It was read since its fulfilment was last said.
    is_news: AtomicBool,
}

impl Wish {
    pub(super) fn set(&self, wanted: Wanted) {
        *self.wanted.lock().unwrap_or_else(PoisonError::into_inner) = Some(wanted);
        self.is_news.store(true, Ordering::Release);
    }

    /// Whether a file has been read.
    pub(super) fn is_told(&self) -> bool {
        self.get().is_some()
    }

    /// How many jobs the file has; none until one has been read.
    pub(super) fn jobs(&self) -> Option<usize> {
        self.get().map(|wanted| wanted.jobs.len())
    }

    fn get(&self) -> Option<Wanted> {
        self.wanted.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Reconciles whenever it is woken, for ever.
pub(super) async fn run(shared: Arc<Shared>, wish: Arc<Wish>, host_zone: Zone) {
    let mut pause = None;
    loop {
        tokio::select! {
            () = shared.reconcile_now.notified() => {}
            () = tokio::time::sleep(pause.unwrap_or(TRY_AGAIN)), if pause.is_some() => {}
        }
        // Asked for before the wish: one that comes meanwhile is news at the next round.
        let is_news = wish.is_news.swap(false, Ordering::AcqRel);
        let Some(wanted) = wish.get() else { continue };
        pause = match reconcile(&shared, &wanted, &host_zone).await {
            Ok(Outcome { problems, held, changes }) => {
                if let Some(changes) = changes.filter(|changes| is_news || changes.is_any()) {
                    let Changes { created, changed, removed } = changes;
                    info!(jobs = wanted.jobs.len(), created, changed, removed, "Jobs are as the file says.");
                }
                shared.note_jobs(problems.join("; "));
                shared.file_taken.notify_one();
                Some(if held > 0 { HELD_AGAIN } else { LOOK_AGAIN })
            }
            Err(error) => {
                wish.is_news.fetch_or(is_news, Ordering::AcqRel);
                shared.weather.failed(&error, "jobs are not as the file says");
                if !error.is_passing() {
                    shared.note_jobs(error.to_string());
                }
                Some(TRY_AGAIN)
            }
        };
    }
}

/// What came of it.
#[derive(Default)]
struct Outcome {
    /// What could not be done for a reason that stays.
    problems: Vec<String>,
    /// How many names are held by api jobs.
    held: usize,
    /// What it took; none if nothing was to be touched.
    changes: Option<Changes>,
}

/// How many jobs were touched.
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

/// Pushes what changed and takes out what is gone.
async fn reconcile(shared: &Shared, wanted: &Wanted, host_zone: &Zone) -> Result<Outcome, StoreError> {
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
                "jobs.toml has no jobs any more; they are kept. To remove them send SIGHUP (systemctl reload schedd)."
            );
        }
        let problem = format!("the file has no jobs, {} are kept until SIGHUP", gone.len());
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
                        info!(job = %job, at = %at, "Its moment has passed; it is not planted.");
                    }
                    past.push(job);
                }
                Ok(Applied::Held(kind)) => {
                    if shared.said.is_news(&format!("held {job}")) {
                        warn!(job = %job, "Left out: the name belongs to a job added by {kind}; cancel that one or rename this one.");
                    }
                    held += 1;
                    problems.push(format!("job {job} left out: its name belongs to an {kind} job"));
                }
                Err(planting::PlantingError::Store(error)) if error.is_passing() => return Err(error),
                Err(error) => {
                    error!(job = %job, "Not applied: {error}.");
                    problems.push(format!("job {job} not applied: {error}"));
                }
            }
        }
    }
    // What a job was before its text named a moment that has passed does not go on.
    for name in gone.into_iter().chain(past) {
        match person::unlist_job(&signed, name, node.as_str()).await {
            Ok(RemoveReply::Removed(_)) => changes.removed += 1,
            Ok(_) => {}
            Err(person::WishError::Store(error)) if error.is_passing() => return Err(error),
            Err(error) => problems.push(format!("job {name} not removed: {error}")),
        }
    }
    // Last, so that no job is left in a queue that nobody declares.
    for section in declared.keys().filter(|section| !wanted.sections.contains_key(*section)) {
        match shared.store.declare_section(source, section, None).await {
            Ok(_) => {}
            Err(error) if error.is_passing() => return Err(error),
            Err(error) => problems.push(format!("a section that is gone was not taken out: {error}")),
        }
    }
    Ok(Outcome { problems, held, changes: Some(changes) })
}

/// Says what the file says of queues and groups, where its text changed or what it said is gone. Gives what could not be said.
async fn declare(
    shared: &Shared,
    source: &SourceName,
    wanted: &Wanted,
    declared: &BTreeMap<Section, String>,
) -> Result<Vec<String>, StoreError> {
    let mut problems = Vec::new();
    for (section, text) in wanted.sections.iter().filter(|(section, text)| declared.get(*section) != Some(&text.hash())) {
        match shared.store.declare_section(source, section, Some(text)).await {
            Ok(_) => {}
            Err(error) if error.is_passing() => return Err(error),
            Err(error) => {
                error!("Not declared: {error}.");
                problems.push(format!("a queue or group not declared: {error}"));
            }
        }
    }
    Ok(problems)
}
