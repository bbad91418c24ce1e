//! A job as `list` and `show` print it: the job's record, its definition if readable, and its last
//! run.

use std::collections::{BTreeMap, BTreeSet};

use clap::ValueEnum;
use serde_json::{Value, json};

use super::console::Colour;
use super::lane_words::labels_json;
use super::time_words::{rfc3339, shown};

use crate::cli::failure::CliFailure;
use crate::cli::jobs::instance_names::has_instances;
use crate::cli::merged_places::{MergedPlaces, Placed};
use crate::cli::state::node_presence::is_present;
use schedd::engine::Definition;
use schedd_core::domain::name::tag_filter::TagFilter;
use schedd_core::domain::queue::lane::Lane;
use schedd_schedule::describe::{PhraseOf, in_words};
use schedd_schedule::names::{JobName, NodeName, QueueName, RunId};
use schedd_schedule::schedule_form::Schedule;
use schedd_schedule::time::unix_millis::UnixMillis;
use schedd_schedule::time::zone::Zone;
use schedd_store::{JobRecord, JobSummary, QueueRecord, RecordedRetry, RunRecord, Store};

/// The maximum number of leases read to find jobs with a running run.
const LEASES_READ: usize = 100_000;

/// The state of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum JobState {
    Scheduled,
    Running,
    Retrying,
    Paused,
    Manual,
    Finished,
}

impl JobState {
    /// Returns the name of the state, as in the output of `list`.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Scheduled => "scheduled",
            Self::Running => "running",
            Self::Retrying => "retrying",
            Self::Paused => "paused",
            Self::Manual => "manual",
            Self::Finished => "finished",
        }
    }
}

/// A job with all the data that `list` and `show` print.
#[derive(Debug, Clone)]
pub(crate) struct JobView {
    /// The stored record of the job.
    pub(crate) record: JobRecord,
    /// The definition of the job, or the reason why the definition cannot be read.
    pub(crate) definition: Result<Definition, String>,
    /// The number of the job's open regular runs.
    pub(crate) open: u64,
    /// True if a run of the job is running, regular or manual.
    pub(crate) is_running: bool,
    /// The earliest retry for which a run of the job waits; `None` if no run waits for a retry.
    /// Only the first ten open regular runs and the first ten manual runs are checked.
    pub(crate) retry: Option<RecordedRetry>,
    /// The run of the job that ended last; `None` if no ended run is stored.
    pub(crate) last: Option<RunRecord>,
    /// The record of the job's queue, if the queue is paused.
    pub(crate) paused_queue: Option<QueueRecord>,
    /// The instances of a job on each node, in the order of the names of their nodes.
    pub(crate) instances: Vec<(NodeName, Self)>,
}

/// Returns the jobs that have a running run.
pub(crate) async fn running_jobs(store: &Store) -> Result<BTreeSet<JobName>, CliFailure> {
    let leases = store.list_leases(LEASES_READ).await?;
    Ok(leases.into_iter().flatten().map(|lease| lease.run.job().clone()).collect())
}

/// Returns `jobs` with all the data that `list` and `show` print. `running` has the jobs with a
/// running run, from [`running_jobs`]. A job on each node has the runs of its instances.
pub(crate) async fn view_jobs(
    store: &Store,
    jobs: Vec<JobRecord>,
    running: &BTreeSet<JobName>,
) -> Result<Vec<JobView>, CliFailure> {
    let mut views = view_records(store, jobs, running).await?;
    if !views.iter().any(|view| has_instances(&view.record)) {
        return Ok(views);
    }
    let (now, nodes) = store.list_nodes().await?;
    let present: BTreeSet<NodeName> = nodes
        .iter()
        .filter(|node| is_present(node, now))
        .filter_map(|node| node.name.parse().ok())
        .collect();
    for view in views.iter_mut().filter(|view| has_instances(&view.record)) {
        let (nodes, records): (Vec<NodeName>, Vec<JobRecord>) =
            store.list_instances(&view.record.name).await?.into_iter().unzip();
        let instances = view_records(store, records, running).await?;
        view.take_over(nodes.into_iter().zip(instances).collect(), &present);
    }
    Ok(views)
}

/// Returns the jobs of several places, as [`view_jobs`] does for one place.
pub(crate) async fn view_placed_jobs(
    places: &MergedPlaces,
    jobs: Vec<Placed<JobRecord>>,
    running: &BTreeSet<JobName>,
) -> Result<Vec<Placed<JobView>>, CliFailure> {
    let view = |store: Store, jobs| async move { view_jobs(&store, jobs, running).await };
    places.by_place(jobs, view).await
}

async fn view_records(
    store: &Store,
    jobs: Vec<JobRecord>,
    running: &BTreeSet<JobName>,
) -> Result<Vec<JobView>, CliFailure> {
    let summaries = store.summarise(jobs).await?;
    let ids: Vec<RunId> = summaries.iter().filter_map(|summary| summary.last_run.clone()).collect();
    let names: BTreeSet<QueueName> =
        summaries.iter().map(|summary| summary.job.lane.queue().clone()).collect();
    let names: Vec<QueueName> = names.into_iter().collect();
    let (last_runs, settings) =
        tokio::try_join!(store.read_runs(&ids), store.read_queue_settings(&names))?;
    let mut last_runs = last_runs.into_iter();
    let paused: BTreeMap<QueueName, QueueRecord> =
        names.into_iter().zip(settings).filter(|(_, record)| record.settings.is_paused).collect();
    let mut views = Vec::with_capacity(summaries.len());
    for JobSummary { job, open, is_running, retry, last_run } in summaries {
        let last = last_run.and_then(|_| last_runs.next()).and_then(|run| run.ok().flatten());
        let is_running = is_running || running.contains(&job.name);
        let definition = Definition::of(job.clone()).map_err(|error| error.to_string());
        let lane = lane_of(&job, definition.as_ref().ok());
        let paused_queue = paused.get(lane.queue()).cloned();
        views.push(JobView {
            record: job,
            definition,
            open,
            is_running,
            retry,
            last,
            paused_queue,
            instances: Vec::new(),
        });
    }
    Ok(views)
}

/// Returns the zone of a job, or UTC if the zone is not known.
pub(crate) async fn zone_of_job(store: &Store, name: &JobName) -> Zone {
    let record = store.read_job(name).await.ok().flatten();
    let definition = record.and_then(|record| Definition::of(record).ok());
    definition.map_or_else(Zone::utc, |definition| definition.timetable.zone().clone())
}

/// Returns the lane in which the runs of a job are due. A job on each node has only a mark as lane,
/// so its lane is that of its definition.
fn lane_of(record: &JobRecord, definition: Option<&Definition>) -> Lane {
    let spec = definition.map(|definition| &definition.spec).filter(|_| has_instances(record));
    spec.map_or_else(|| record.lane.clone(), |spec| spec.lane_in(spec.queue.clone()))
}

impl JobView {
    /// Gives a job on each node the runs of its instances: the earliest planned run and retry, and
    /// the last run, or a failed last run of an instance. The planned run of an instance counts only
    /// if its node is among the nodes `present`, or if none of its nodes is.
    fn take_over(&mut self, instances: Vec<(NodeName, Self)>, present: &BTreeSet<NodeName>) {
        let views = || instances.iter().map(|(_, view)| view);
        let planned = instances.iter().filter_map(|(node, view)| {
            Some((!present.contains(node), view.record.pending.clone()?))
        });
        self.record.pending = planned
            .min_by_key(|(is_absent, run)| (*is_absent, run.due(), run.job().clone()))
            .map(|(_, run)| run);
        self.open = views().map(|view| view.open).sum();
        self.is_running = views().any(|view| view.is_running);
        self.retry = views().filter_map(|view| view.retry.clone()).min_by_key(|retry| retry.at);
        self.last = views()
            .filter_map(|view| view.last.clone())
            .max_by_key(|run| (run.state.is_dead(), run.finished_at));
        self.instances = instances;
    }

    /// Returns the lane in which the runs of the job are due.
    pub(crate) fn lane(&self) -> Lane {
        lane_of(&self.record, self.definition.as_ref().ok())
    }

    /// Returns the state of the job, as `list` shows it.
    pub(crate) fn state(&self) -> JobState {
        let record = &self.record;
        let schedule = self.definition.as_ref().map(|definition| &definition.spec.schedule);
        let is_manual = schedule.is_ok_and(|schedule| *schedule == Schedule::Manual);
        let waits_for_a_boot = schedule.is_ok_and(Schedule::is_at_boot);
        let waits_for_parents = schedule.is_ok_and(|schedule| schedule.parents().is_some());
        if self.is_running {
            JobState::Running
        } else if self.retry.is_some() {
            JobState::Retrying
        } else if !record.is_live() && (record.name.notice_subject().is_none() || self.open == 0) {
            JobState::Finished
        } else if record.paused_at.is_some() {
            JobState::Paused
        } else if is_manual && self.open == 0 {
            JobState::Manual
        } else if record.pending.is_none()
            && self.open == 0
            && !waits_for_a_boot
            && !waits_for_parents
            && !has_instances(record)
        {
            JobState::Finished
        } else {
            JobState::Scheduled
        }
    }

    /// Returns the due time of the job's planned run, or `None` if no run is planned.
    pub(crate) fn next_due(&self) -> Option<UnixMillis> {
        self.record.pending.iter().chain(self.extra_run()).map(RunId::due).min()
    }

    /// Returns the run that was planned for a set time, beside the schedule. Returns `None` if
    /// there is none, or if it has ended.
    fn extra_run(&self) -> Option<&RunId> {
        let has_ended = |run: &RunId| self.last.as_ref().is_some_and(|last| last.run >= *run);
        self.record.next_run.as_ref().filter(|run| !has_ended(run))
    }

    /// Returns true if the tags of the job match all filters.
    pub(crate) fn has_tags(&self, filters: &[TagFilter]) -> bool {
        let tags = self.definition.as_ref().map(|definition| &definition.spec.tags);
        tags.is_ok_and(|tags| TagFilter::all_match(filters, tags))
    }

    /// Returns the job's next start and the run that will start: the planned run or a retry.
    /// Returns `None` if no run will start.
    pub(crate) fn next_start(&self) -> Option<(UnixMillis, &RunId)> {
        let retry = self.retry.iter().map(|retry| (retry.at, &retry.run));
        let not_before = self.record.next_set.as_ref().map(|(at, _)| *at);
        let start = |run: &RunId| not_before.map_or(run.due(), |at| run.due().max(at));
        retry
            .chain(self.extra_run().map(|run| (run.due(), run)))
            .chain(self.record.pending.iter().map(|run| (start(run), run)))
            .min_by_key(|(at, _)| *at)
    }

    /// Returns the words for the job's state in a list, and their colour. A pause is named beside
    /// a run that is running or waits for a retry.
    pub(crate) fn state_words(&self) -> (String, Colour) {
        let state = self.state();
        let pause = match state {
            JobState::Running | JobState::Retrying if self.record.paused_at.is_some() => "paused",
            // No run of the job starts while the queue is paused, whatever its next time is.
            JobState::Scheduled | JobState::Retrying if self.paused_queue.is_some() => {
                "queue paused"
            }
            _ => return (state.as_str().to_owned(), state.into()),
        };
        let words = match state {
            JobState::Scheduled => pause.to_owned(),
            state => format!("{}, {pause}", state.as_str()),
        };
        (words, Colour::Yellow)
    }

    /// Returns true if `list --state` selects the job for `state`. A paused job with a run that is
    /// running or waits for a retry has two states.
    pub(crate) fn is_in(&self, state: JobState) -> bool {
        self.state() == state || state == JobState::Paused && self.record.paused_at.is_some()
    }

    /// Returns true if the run of the job that ended last failed, timed out or was lost.
    pub(crate) fn has_failed(&self) -> bool {
        self.last.as_ref().is_some_and(|run| run.state.is_dead())
    }

    /// Returns the zone of the job, or UTC if the zone is not known.
    pub(crate) fn zone(&self) -> Zone {
        self.definition
            .as_ref()
            .map_or_else(|_| Zone::utc(), |definition| definition.timetable.zone().clone())
    }

    /// Returns the job's schedule as text, if the definition can be read.
    pub(crate) fn schedule(&self) -> Option<String> {
        self.definition.as_ref().ok().map(|it| it.spec.schedule.text(it.timetable.zone()))
    }

    /// Returns the schedule in words, a phrase for each of its parts. Returns no phrase if the
    /// definition cannot be read.
    fn schedule_words(&self) -> Vec<String> {
        let Ok(Definition { spec, timetable, .. }) = &self.definition else { return Vec::new() };
        let job = Some(&self.record.name);
        let of = PhraseOf { zone: timetable.zone(), job, anchor: spec.shape.anchor };
        in_words(&spec.schedule, of).into_iter().map(|phrase| phrase.words).collect()
    }

    /// Returns the source name of the file that declares the job, or `None` for a job that schedctl
    /// added.
    pub(crate) fn source_name(&self) -> Option<&str> {
        Some(self.record.source.as_str()).filter(|name| !name.is_empty())
    }

    /// Returns the fields of the job for `list --json`, with times in the zone of the job.
    pub(crate) fn json(&self) -> Value {
        let zone = self.zone();
        let time = |at: Option<UnixMillis>| at.map(|at| rfc3339(at, &zone));
        let nodes: Option<Vec<Value>> = has_instances(&self.record).then(|| {
            let of_node = |(node, view): &(NodeName, Self)| {
                json!({
                    "node": node.as_str(),
                    "name": view.record.name.as_str(),
                    "state": view.state().as_str(),
                    "next_due": time(view.next_due()),
                    "paused": view.record.paused_at.is_some(),
                    "last_run": view.last_run_json(&zone),
                })
            };
            self.instances.iter().map(of_node).collect()
        });
        let lane = self.lane();
        json!({
            "name": self.record.name.as_str(),
            "state": self.state().as_str(),
            "source": self.record.kind.as_str(),
            "source_name": self.source_name(),
            "queue": lane.queue().as_str(),
            "priority": lane.priority().as_i8(),
            "requires": labels_json(lane.requires()),
            "tags": self.definition.as_ref().map_or_else(|_| json!({}), |it| json!(it.spec.tags)),
            "schedule": self.schedule(),
            "schedule_words": self.schedule_words(),
            "tz": self.definition.as_ref().map_or(self.record.tz.as_str(), |it| it.timetable.zone().name().as_str()),
            "next_due": time(self.next_due()),
            "retry_at": time(self.retry.as_ref().map(|retry| retry.at)),
            "paused": self.record.paused_at.is_some(),
            "queue_paused": self.paused_queue.is_some(),
            "open": self.open,
            "last_run": self.last_run_json(&zone),
            "nodes": nodes,
        })
    }

    fn last_run_json(&self, zone: &Zone) -> Option<Value> {
        let time = |at: Option<UnixMillis>| at.map(|at| rfc3339(at, zone));
        self.last.as_ref().map(|run| {
            json!({
                "run_id": run.run.to_string(),
                "state": run.state.as_str(),
                "started_at": time(run.started_at),
                "finished_at": time(run.finished_at),
            })
        })
    }
}

/// Returns a phrase about a paused queue: the time of the pause, the user who paused the queue, and
/// the command that resumes the queue.
pub(crate) fn paused_queue_words(queue: &QueueName, record: &QueueRecord, local: &Zone) -> String {
    let state = record.paused.as_ref().map_or_else(
        || "is paused".to_owned(),
        |(at, by)| {
            let by = if by.is_empty() { String::new() } else { format!(" by {by}") };
            format!("has been paused since {}{by}", shown(*at, local))
        },
    );
    format!("queue {queue} {state} (schedctl queue resume {queue})")
}

/// Converts a job's state to the colour in which the state is shown.
impl From<JobState> for Colour {
    fn from(state: JobState) -> Self {
        match state {
            JobState::Running => Self::Green,
            JobState::Paused | JobState::Retrying => Self::Yellow,
            JobState::Finished => Self::Dim,
            JobState::Scheduled | JobState::Manual => Self::Plain,
        }
    }
}
