//! Applies a jobs file from outside a node: compares the file with the live jobs, and changes the
//! live jobs to match.
//!
//! Invariant: after an apply, each job of the file has the definition of the file, unless a job of
//! the command line has its name. Jobs of the same source that left the file are removed only on
//! request. Jobs of other sources are never removed.

use std::collections::{BTreeMap, BTreeSet};

use super::instances;
use super::job_operations;
use super::job_operations::OperationError;
use super::planting::{Applied, PlantingError, Request};
use schedd_core::config;
use schedd_core::config::StoredJob;
use schedd_core::config::{Config, KeyChange};
use schedd_core::domain::job::definition_text::definition_hash;
use schedd_core::domain::name::job_source::SourceName;
use schedd_core::domain::queue::queue_rules::QueueSettings;
use schedd_schedule::names::JobName;
use schedd_schedule::schedule_form::Schedule;
use schedd_schedule::time::unix_millis::UnixMillis;
use schedd_schedule::time::zone::Zone;
use schedd_store::{
    JobRecord, QueueRecord, RemoveReply, Section, SectionText, SourceKind, Store, StoreError,
};

/// The most jobs read or written in one call.
const BATCH: usize = 200;

/// The part of a jobs file that Redis stores: its name, jobs, queues and groups.
#[derive(Debug, Clone)]
pub struct LastChange<'a> {
    /// The name under which Redis lists the jobs of the file.
    pub source: &'a SourceName,
    /// The jobs of the file.
    pub jobs: &'a BTreeMap<JobName, StoredJob>,
    /// The queues and groups of the file.
    pub sections: BTreeMap<Section, SectionText>,
}

/// The state of a job of the file, or of a job of the same source that left the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ApplyState {
    /// The live job has the definition of the file.
    Same,
    /// The job is new: no live job has its name.
    New,
    /// The live job differs from the file in these keys of its definition.
    Changed(Vec<KeyChange>),
    /// Another source changed these keys after the node with this file had applied the file. The
    /// other file is named if known. The newer change wins, so the node changes the job only after
    /// this file has changed.
    Overruled(Vec<KeyChange>, Option<SourceName>),
    /// The name belongs to a job of the command line.
    NameTaken,
    /// The job has ended, or the time of the one-shot is past, so no run is planned.
    Over,
    /// An earlier version of the file listed the job, and the present version does not.
    Gone,
}

/// A job, and the result of its comparison with the file.
#[derive(Debug, Clone)]
pub struct JobStanding {
    /// The name of the job.
    pub name: JobName,
    /// The state of the job compared with the file.
    pub standing: ApplyState,
    /// The other jobs files that list the job.
    pub others: Vec<SourceName>,
    /// True if Redis records that this source lists the job with the definition of the file.
    is_listed: bool,
}

/// A queue or group whose live settings differ from the file.
#[derive(Debug, Clone)]
pub struct SectionStanding {
    /// The name of the queue or group.
    pub section: Section,
    /// The state of the queue or group: new, changed or gone.
    pub standing: ApplyState,
}

/// The comparison of a file with the live jobs, queues and groups.
#[derive(Debug, Clone)]
pub struct Comparison {
    /// The result for each job of the file, followed by the jobs that left the file.
    pub jobs: Vec<JobStanding>,
    /// The queues and groups whose live settings differ from the file.
    pub sections: Vec<SectionStanding>,
    /// The queues and groups whose settings in the file this source has not yet declared in Redis.
    unsaid: BTreeSet<Section>,
}

impl Comparison {
    /// Returns true if applying the file would change any job, queue or group. Jobs and sections
    /// that left the file count only if `prune` removes them.
    pub fn differs(&self, prune: Prune) -> bool {
        let counts = |standing: &ApplyState, others: &[SourceName]| match standing {
            ApplyState::New | ApplyState::Changed(_) | ApplyState::NameTaken => true,
            ApplyState::Gone => prune == Prune::Yes && others.is_empty(),
            ApplyState::Same | ApplyState::Overruled(..) | ApplyState::Over => false,
        };
        self.jobs.iter().any(|job| counts(&job.standing, &job.others))
            || self.sections.iter().any(|section| counts(&section.standing, &[]))
    }
}

/// The choice of whether an apply removes jobs that left the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Prune {
    /// Jobs that left the file are removed.
    Yes,
    /// Jobs that left the file stay.
    No,
}

/// The change that an apply made to one job.
#[derive(Debug, Clone)]
pub struct AppliedChange {
    /// The name of the job.
    pub name: JobName,
    /// The change that was made to the job.
    pub change: PlannedChange,
}

/// The change made to one job.
#[derive(Debug, Clone)]
pub enum PlannedChange {
    /// The job was added. The value is the due time of its next run.
    Added(Option<UnixMillis>),
    /// The job was changed. The value is the due time of its next run, if the change moved that
    /// run.
    Changed(Option<UnixMillis>),
    /// The job was removed.
    Removed,
    /// This source no longer lists the job, but another file still lists the job.
    LeftToOthers,
    /// Nothing was changed, because the job already had the definition of the file.
    Nothing,
    /// The job was left out, because its name belongs to a job of the command line.
    NameTaken,
    /// The one-shot was not added, because its time is past. If a live job has the same name, this
    /// source no longer lists that job.
    Past(UnixMillis),
    /// The change failed for this reason.
    Failed(String),
}

/// Returns the queues and groups of a file in their stored form.
pub fn sections_of(config: &Config) -> BTreeMap<Section, SectionText> {
    let queues = config
        .queues
        .iter()
        .map(|(name, queue)| (Section::Queue(name.clone()), SectionText::Queue(queue.clone())));
    let groups = config
        .groups
        .iter()
        .map(|(name, group)| (Section::Group(name.clone()), SectionText::Group(group.clone())));
    queues.chain(groups).collect()
}

/// Compares the file `said` with the live jobs, queues and groups.
pub async fn compare(store: &Store, said: &LastChange<'_>) -> Result<Comparison, StoreError> {
    let now = store.now().await?;
    let listed = store.read_source(said.source).await?;
    let gone: Vec<JobName> =
        listed.keys().filter(|name| !said.jobs.contains_key(*name)).cloned().collect();
    let names: Vec<JobName> = said.jobs.keys().chain(&gone).cloned().collect();
    let mut jobs = Vec::with_capacity(names.len());
    for batch in names.chunks(BATCH) {
        for (name, record) in batch.iter().zip(store.read_jobs(batch).await?) {
            let record = record?;
            let standing = match (said.jobs.get(name), &record) {
                (Some(own), record) => standing_of(own, record.as_ref(), now),
                (None, Some(job)) if job.is_live() => ApplyState::Gone,
                // The job has ended, but Redis still lists the job under this source.
                (None, _) => ApplyState::Over,
            };
            let own = said.jobs.get(name).map(|job| definition_hash(job.text()));
            let is_listed = own.is_some() && listed.get(name) == own.as_ref();
            let standing = match standing {
                // A newer schedd may have written a definition that this version cannot read.
                ApplyState::Changed(keys)
                    if is_listed && !said.source.is_applied() && keys.is_empty() =>
                {
                    ApplyState::Same
                }
                ApplyState::Changed(keys) if is_listed && !said.source.is_applied() => {
                    let by = record.as_ref().and_then(|job| job.source.parse().ok());
                    ApplyState::Overruled(keys, by.filter(|by| by != said.source))
                }
                standing => standing,
            };
            let others = record.map(|job| others_of(&job, said.source)).unwrap_or_default();
            jobs.push(JobStanding { name: name.clone(), standing, others, is_listed });
        }
    }
    let (sections, unsaid) = compare_sections(store, said).await?;
    Ok(Comparison { jobs, sections, unsaid })
}

fn others_of(job: &JobRecord, source: &SourceName) -> Vec<SourceName> {
    job.listed_by
        .keys()
        .filter(|other| *other != source.as_str())
        .filter_map(|other| other.parse().ok())
        .collect()
}

fn standing_of(own: &StoredJob, record: Option<&JobRecord>, now: UnixMillis) -> ApplyState {
    let definition = own.text();
    match record {
        Some(job) if job.is_live() && job.kind == SourceKind::Api => ApplyState::NameTaken,
        Some(job) if job.is_live() && (job.definition == definition || means(job, definition)) => {
            ApplyState::Same
        }
        Some(job) if job.is_live() => {
            let is_readable = config::from_canonical(&job.definition).is_ok();
            let differences = || config::differences(&job.definition, definition);
            ApplyState::Changed(is_readable.then(differences).unwrap_or_default())
        }
        Some(job) if job.ended.as_deref() == Some("finished") && job.definition == definition => {
            ApplyState::Over
        }
        _ => match own.spec().map(|spec| spec.schedule) {
            Ok(Schedule::At(at)) if at <= now => ApplyState::Over,
            _ => ApplyState::New,
        },
    }
}

/// Returns true if the stored definition of `job` means the same as `definition`, although the
/// texts differ. Older versions of schedd stored process rules for HTTP requests, where the rules
/// have no effect.
fn means(job: &JobRecord, definition: &str) -> bool {
    job.definition != definition
        && config::from_canonical(&job.definition)
            .is_ok_and(|spec| config::to_canonical(&spec) == definition)
}

/// Returns the queues and groups whose live settings differ from the file, and those that this
/// source has not yet declared.
async fn compare_sections(
    store: &Store,
    said: &LastChange<'_>,
) -> Result<(Vec<SectionStanding>, BTreeSet<Section>), StoreError> {
    let declared = store.read_declared(said.source).await?;
    let (queues, groups) = (store.read_queues().await?, store.read_groups().await?);
    let (mut differing, mut unsaid) = (Vec::new(), BTreeSet::new());
    for (section, text) in &said.sections {
        // This source has already declared these settings. A later change by hand wins.
        if declared.get(section) == Some(&text.hash()) {
            continue;
        }
        unsaid.insert(section.clone());
        if !store.would_declare(said.source, section, text).await? {
            continue;
        }
        let live = match section {
            Section::Queue(queue) if queues.contains_key(queue) => {
                store.read_queue_settings(std::slice::from_ref(queue)).await?.pop().map(of_record)
            }
            Section::Queue(_) => None,
            Section::Group(group) => groups.get(group).cloned().map(SectionText::Group),
        };
        let standing = match live {
            None => ApplyState::New,
            Some(live) => ApplyState::Changed(config::differences(&keys_of(&live), &keys_of(text))),
        };
        if standing != ApplyState::Changed(Vec::new()) {
            differing.push(SectionStanding { section: section.clone(), standing });
        }
    }
    let gone = declared.into_keys().filter(|section| !said.sections.contains_key(section));
    differing.extend(gone.map(|section| SectionStanding { section, standing: ApplyState::Gone }));
    Ok((differing, unsaid))
}

/// Returns the live settings of a queue. A pause set by hand is left out, because a file never ends
/// such a pause.
fn of_record(record: QueueRecord) -> SectionText {
    let is_by_hand = record.paused.is_some_and(|(_, by)| !by.starts_with("file of "));
    SectionText::Queue(QueueSettings {
        is_paused: record.settings.is_paused && !is_by_hand,
        ..record.settings
    })
}

/// Returns the keys of a queue or group as one line of JSON.
fn keys_of(text: &SectionText) -> String {
    let keys = match text {
        SectionText::Queue(queue) => config::queue_keys(queue),
        SectionText::Group(group) => config::group_keys(group),
    };
    serde_json::Value::Object(keys).to_string()
}

/// Changes the live jobs, queues and groups to match the file. After a failure of one job, the
/// other jobs are still applied.
pub async fn apply(
    store: &Store,
    host_zone: &Zone,
    said: &LastChange<'_>,
    comparison: &Comparison,
    prune: Prune,
) -> Result<Vec<AppliedChange>, StoreError> {
    for section in &comparison.unsaid {
        store.declare_section(said.source, section, said.sections.get(section)).await?;
    }
    let mut done = Vec::new();
    let wanted = |job: &&JobStanding| match job.standing {
        ApplyState::New | ApplyState::Changed(_) | ApplyState::NameTaken => true,
        ApplyState::Same => !job.is_listed,
        ApplyState::Overruled(..) | ApplyState::Over | ApplyState::Gone => false,
    };
    let named = |job: &JobStanding| said.jobs.get_key_value(&job.name);
    let to_apply: Vec<_> = comparison.jobs.iter().filter(wanted).filter_map(named).collect();
    for batch in to_apply.chunks(BATCH) {
        let requests = batch.iter().map(|(name, job)| Request::of_file(name, job, said.source));
        let requests: Vec<Request> = requests.collect::<Result<_, _>>()?;
        let answers = instances::apply(store, host_zone, &requests).await?;
        for ((name, _), answer) in batch.iter().zip(answers) {
            let name = (*name).clone();
            let change = match answer {
                Ok(Applied::Created(next)) => PlannedChange::Added(next),
                Ok(Applied::Updated(next)) => PlannedChange::Changed(next),
                Ok(
                    Applied::Unchanged
                    | Applied::Exists
                    | Applied::Newer(_)
                    | Applied::Taken(_)
                    | Applied::Moved(..),
                ) => PlannedChange::Nothing,
                Ok(Applied::OtherKind(_)) => PlannedChange::NameTaken,
                Ok(Applied::Past(at) | Applied::Done(at)) => {
                    match unlist(store, said, &name).await? {
                        PlannedChange::Failed(why) => PlannedChange::Failed(why),
                        _ => PlannedChange::Past(at),
                    }
                }
                Err(PlantingError::Store(error)) if error.is_passing() => return Err(error),
                Err(error) => PlannedChange::Failed(error.to_string()),
            };
            done.push(AppliedChange { name, change });
        }
    }
    let is_needless = |job: &&JobStanding| match job.standing {
        ApplyState::Gone => prune == Prune::Yes,
        ApplyState::Over => !said.jobs.contains_key(&job.name),
        _ => false,
    };
    for job in comparison.jobs.iter().filter(is_needless) {
        done.push(AppliedChange {
            name: job.name.clone(),
            change: unlist(store, said, &job.name).await?,
        });
    }
    // Sections are removed after the jobs, so that no job is in a queue that no source declares.
    for gone in comparison
        .sections
        .iter()
        .filter(|section| section.standing == ApplyState::Gone && prune == Prune::Yes)
    {
        store.declare_section(said.source, &gone.section, None).await?;
    }
    Ok(done)
}

async fn unlist(
    store: &Store,
    said: &LastChange<'_>,
    name: &JobName,
) -> Result<PlannedChange, StoreError> {
    match job_operations::unlist_job(store, name, said.source.as_str()).await {
        Ok(RemoveReply::Removed(_)) => Ok(PlannedChange::Removed),
        Ok(RemoveReply::Listed) => Ok(PlannedChange::LeftToOthers),
        Ok(_) => Ok(PlannedChange::Nothing),
        Err(OperationError::Store(error)) if error.is_passing() => Err(error),
        Err(error) => Ok(PlannedChange::Failed(error.to_string())),
    }
}
