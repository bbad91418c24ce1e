//! A file of jobs that is applied from outside: what it would change, and doing so.
//!
//! Invariant: after it was applied, what is live is as the file says, but for names that jobs of the command line hold. Jobs of the
//! same source that are no longer in the file go only when that is asked for; those of others are never taken out.

use std::collections::{BTreeMap, BTreeSet};

use super::person::{self, WishError};
use super::planting::{self, Applied, PlantingError, Request};
use crate::config::{self, Config, KeyChange};
use crate::domain::ids::JobName;
use crate::domain::job::JobSpec;
use crate::domain::queue::QueueSettings;
use crate::domain::schedule::Schedule;
use crate::domain::source::SourceName;
use crate::domain::time::UnixMillis;
use crate::domain::zone::Zone;
use crate::store::{Existing, JobRecord, QueueRecord, RemoveReply, Section, SectionText, SourceKind, Store, StoreError};

/// Jobs read, or pushed, in one call at most.
const BATCH: usize = 200;

/// What a file says, as far as Redis is to say it too.
#[derive(Debug, Clone)]
pub struct Said<'a> {
    /// What the file is known by.
    pub source: &'a SourceName,
    /// Its jobs.
    pub jobs: &'a BTreeMap<JobName, JobSpec>,
    /// Its queues and groups.
    pub sections: BTreeMap<Section, SectionText>,
}

/// How one job of the file, or of the same source, stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Standing {
    /// What is live is as the file says.
    Same,
    /// There is none of this name.
    New,
    /// What is live differs in these keys.
    Changed(Vec<KeyChange>),
    /// What is live differs in these keys: that file, if it can be told, said it since this node's file said what it says now. Of
    /// a node's file only what is new counts, so reloading the node changes nothing.
    Overruled(Vec<KeyChange>, Option<SourceName>),
    /// The name belongs to a job of the command line.
    Held,
    /// It ran at its last time, or that is past: nothing is planted.
    Over,
    /// It is no longer in the file, which said it once.
    Gone,
}

/// A job and how it stands.
#[derive(Debug, Clone)]
pub struct JobStanding {
    /// Its name.
    pub name: JobName,
    /// How it stands.
    pub standing: Standing,
    /// The other files that list it.
    pub others: Vec<SourceName>,
    /// Whether Redis knows that this source lists it, with this text.
    is_listed: bool,
}

/// A queue or group that is not live as the file says.
#[derive(Debug, Clone)]
pub struct SectionStanding {
    /// Which.
    pub section: Section,
    /// How it stands: new, changed or gone.
    pub standing: Standing,
}

/// A file held against what is live.
#[derive(Debug, Clone)]
pub struct Comparison {
    /// Each job of the file, then those that are gone from it.
    pub jobs: Vec<JobStanding>,
    /// The queues and groups that differ.
    pub sections: Vec<SectionStanding>,
    /// What of the sections is not yet said by this source.
    unsaid: BTreeSet<Section>,
}

impl Comparison {
    /// Whether applying the file would change what runs; what is gone counts only where it is to be taken out.
    pub fn differs(&self, prune: Prune) -> bool {
        let counts = |standing: &Standing, others: &[SourceName]| match standing {
            Standing::New | Standing::Changed(_) | Standing::Held => true,
            Standing::Gone => prune == Prune::Yes && others.is_empty(),
            Standing::Same | Standing::Overruled(..) | Standing::Over => false,
        };
        self.jobs.iter().any(|job| counts(&job.standing, &job.others))
            || self.sections.iter().any(|section| counts(&section.standing, &[]))
    }
}

/// What becomes of jobs that are no longer in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Prune {
    /// They are taken out.
    Yes,
    /// They stay.
    No,
}

/// What became of one job.
#[derive(Debug, Clone)]
pub struct Done {
    /// Its name.
    pub name: JobName,
    /// What was done.
    pub deed: Deed,
}

/// What was done with one job.
#[derive(Debug, Clone)]
pub enum Deed {
    /// Added; its next time.
    Added(Option<UnixMillis>),
    /// Changed; its next time, if that moved.
    Changed(Option<UnixMillis>),
    /// Taken out.
    Removed,
    /// No longer listed here, and kept by another file.
    LeftToOthers,
    /// Nothing: it was so already.
    Nothing,
    /// Left out: the name belongs to a job of the command line.
    Held,
    /// Its time is past: what was there before under its name does not go on.
    Past(UnixMillis),
    /// It could not be done.
    Failed(String),
}

/// The queues and groups a file says, as they are kept.
pub fn sections_of(config: &Config) -> BTreeMap<Section, SectionText> {
    let queues = config.queues.iter().map(|(name, queue)| (Section::Queue(name.clone()), SectionText::Queue(queue.clone())));
    let groups = config.groups.iter().map(|(name, group)| (Section::Group(name.clone()), SectionText::Group(group.clone())));
    queues.chain(groups).collect()
}

/// Holds a file against what is live.
pub async fn compare(store: &Store, said: &Said<'_>) -> Result<Comparison, StoreError> {
    let now = store.now().await?;
    let listed = store.read_source(said.source).await?;
    let gone: Vec<JobName> = listed.keys().filter(|name| !said.jobs.contains_key(*name)).cloned().collect();
    let names: Vec<JobName> = said.jobs.keys().chain(&gone).cloned().collect();
    let mut jobs = Vec::with_capacity(names.len());
    for batch in names.chunks(BATCH) {
        for (name, record) in batch.iter().zip(store.read_jobs(batch).await?) {
            let record = record?;
            let standing = match (said.jobs.get(name), &record) {
                (Some(spec), record) => standing_of(spec, record.as_ref(), now),
                (None, Some(job)) if job.is_live() => Standing::Gone,
                // Only the list still names it.
                (None, _) => Standing::Over,
            };
            let own = said.jobs.get(name).map(|spec| config::hash(&config::to_surface(spec)));
            let is_listed = own.is_some() && listed.get(name) == own.as_ref();
            let standing = match standing {
                Standing::Changed(keys) if is_listed && !said.source.is_applied() => {
                    let by = record.as_ref().and_then(|job| job.source.parse().ok());
                    Standing::Overruled(keys, by.filter(|by| by != said.source))
                }
                Standing::Same if said.source.is_applied() => record.as_ref().map_or(Standing::Same, same_or_spoilt),
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
    job.listed_by.keys().filter(|other| *other != source.as_str()).filter_map(|other| other.parse().ok()).collect()
}

fn standing_of(spec: &JobSpec, record: Option<&JobRecord>, now: UnixMillis) -> Standing {
    let definition = config::to_surface(spec);
    match record {
        Some(job) if job.is_live() && job.kind == SourceKind::Api => Standing::Held,
        Some(job) if job.is_live() && (job.hash == config::hash(&definition) || means(job, &definition)) => Standing::Same,
        Some(job) if job.is_live() => Standing::Changed(config::differences(&job.definition, &definition)),
        Some(job) if job.ended.as_deref() == Some("finished") && job.hash == config::hash(&definition) => Standing::Over,
        _ if matches!(spec.schedule, Schedule::At(at) if at <= now) => Standing::Over,
        _ => Standing::New,
    }
}

/// Whether a job's definition as an older schedd wrote it means `definition`: it kept what a request does not obey.
fn means(job: &JobRecord, definition: &str) -> bool {
    job.definition != definition
        && config::from_surface(&job.definition).is_ok_and(|spec| config::to_surface(&spec) == definition)
}

/// A definition that no longer says what it said is written anew, though all agree on what it is to say.
fn same_or_spoilt(job: &JobRecord) -> Standing {
    match config::from_surface(&job.definition) {
        Ok(_) => Standing::Same,
        Err(_) => Standing::Changed(Vec::new()),
    }
}

/// The sections that differ, and those this source has not said yet.
async fn compare_sections(store: &Store, said: &Said<'_>) -> Result<(Vec<SectionStanding>, BTreeSet<Section>), StoreError> {
    let declared = store.read_declared(said.source).await?;
    let (queues, groups) = (store.read_queues().await?, store.read_groups().await?);
    let (mut differing, mut unsaid) = (Vec::new(), BTreeSet::new());
    for (section, text) in &said.sections {
        // What this source said before stands, also where it was set by hand since.
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
            None => Standing::New,
            Some(live) => Standing::Changed(config::differences(&keys_of(&live), &keys_of(text))),
        };
        if standing != Standing::Changed(Vec::new()) {
            differing.push(SectionStanding { section: section.clone(), standing });
        }
    }
    let gone = declared.into_keys().filter(|section| !said.sections.contains_key(section));
    differing.extend(gone.map(|section| SectionStanding { section, standing: Standing::Gone }));
    Ok((differing, unsaid))
}

/// What holds for a queue but for a pause by hand, which no file takes back.
fn of_record(record: QueueRecord) -> SectionText {
    let is_by_hand = record.paused.is_some_and(|(_, by)| !by.starts_with("file of "));
    SectionText::Queue(QueueSettings { is_paused: record.settings.is_paused && !is_by_hand, ..record.settings })
}

/// Its keys as one line of JSON.
fn keys_of(text: &SectionText) -> String {
    let keys = match text {
        SectionText::Queue(queue) => config::queue_keys(queue),
        SectionText::Group(group) => config::group_keys(group),
    };
    serde_json::Value::Object(keys).to_string()
}

/// Makes what is live as the file says. What one job meets keeps no other from being done.
pub async fn apply(
    store: &Store,
    host_zone: &Zone,
    said: &Said<'_>,
    comparison: &Comparison,
    prune: Prune,
) -> Result<Vec<Done>, StoreError> {
    for section in &comparison.unsaid {
        store.declare_section(said.source, section, said.sections.get(section)).await?;
    }
    let mut done = Vec::new();
    let wanted = |job: &&JobStanding| match job.standing {
        Standing::New | Standing::Changed(_) | Standing::Held => true,
        Standing::Same => !job.is_listed,
        Standing::Overruled(..) | Standing::Over | Standing::Gone => false,
    };
    let requests: Vec<Request> = comparison.jobs.iter().filter(wanted).filter_map(|job| request(job, said)).collect();
    for batch in requests.chunks(BATCH) {
        for (request, answer) in batch.iter().zip(planting::apply(store, host_zone, batch).await?) {
            let name = request.name.clone();
            let deed = match answer {
                Ok(Applied::Created(next)) => Deed::Added(next),
                Ok(Applied::Updated(next)) => Deed::Changed(next),
                Ok(Applied::Unchanged | Applied::Exists | Applied::Newer(_) | Applied::Taken(_) | Applied::Moved(..)) => {
                    Deed::Nothing
                }
                Ok(Applied::Held(_)) => Deed::Held,
                Ok(Applied::Past(at) | Applied::Done(at)) => match unlist(store, said, &name).await? {
                    Deed::Failed(why) => Deed::Failed(why),
                    _ => Deed::Past(at),
                },
                Err(PlantingError::Store(error)) if error.is_passing() => return Err(error),
                Err(error) => Deed::Failed(error.to_string()),
            };
            done.push(Done { name, deed });
        }
    }
    let is_needless = |job: &&JobStanding| match job.standing {
        Standing::Gone => prune == Prune::Yes,
        Standing::Over => !said.jobs.contains_key(&job.name),
        _ => false,
    };
    for job in comparison.jobs.iter().filter(is_needless) {
        done.push(Done { name: job.name.clone(), deed: unlist(store, said, &job.name).await? });
    }
    // Last, so that no job is left in a queue that nobody declares.
    for gone in comparison.sections.iter().filter(|section| section.standing == Standing::Gone && prune == Prune::Yes) {
        store.declare_section(said.source, &gone.section, None).await?;
    }
    Ok(done)
}

fn request(job: &JobStanding, said: &Said<'_>) -> Option<Request> {
    Some(Request {
        name: job.name.clone(),
        spec: said.jobs.get(&job.name)?.clone(),
        start_in: None,
        kind: SourceKind::File,
        source: said.source.as_str().to_owned(),
        existing: Existing::Edit,
        seen: None,
    })
}

async fn unlist(store: &Store, said: &Said<'_>, name: &JobName) -> Result<Deed, StoreError> {
    match person::unlist_job(store, name, said.source.as_str()).await {
        Ok(RemoveReply::Removed(_)) => Ok(Deed::Removed),
        Ok(RemoveReply::Listed) => Ok(Deed::LeftToOthers),
        Ok(_) => Ok(Deed::Nothing),
        Err(WishError::Store(error)) if error.is_passing() => Err(error),
        Err(error) => Ok(Deed::Failed(error.to_string())),
    }
}
