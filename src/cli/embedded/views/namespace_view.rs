//! The namespace at a glance: the failures, the load, the nodes, and the next and the running runs.

use std::collections::{BTreeSet, HashSet};

use serde_json::Value;

use super::coming_starts::{ComingStarts, StartFilter, StartSpan, cut_of, starts_of};
use crate::cli::embedded::run_page::run_documents;
use crate::cli::failure::CliFailure;
use crate::cli::list::belongs;
use crate::cli::merged_places::{MergedPlaces, Placed};
use crate::cli::queue::{QueueOverview, standings_with_nodes};
use crate::cli::render::{JobView, view_placed_jobs};
use crate::cli::state::data_loss_verb::{gone_words, word};
use crate::cli::state::node_presence::is_present;
use schedd_schedule::names::JobName;
use schedd_schedule::time::unix_millis::UnixMillis;
use schedd_store::{
    CheckNote, Ended, IndexCursor, JobIndex, JobRecord, LossRecord, NamespaceCounts, NodeRecord,
    Store,
};

/// The number of jobs read in the order of their next starts.
const JOBS: usize = 200;
/// The number of next starts.
const NEXT: usize = 10;
/// The number of jobs among which the next starts are, because a retry may come before the schedule.
const SEARCHED: usize = 20;
/// The number of dead letters whose jobs may be failing.
const DEAD: usize = 500;
/// The maximum number of jobs that may be failing.
const MOST_FAILING: usize = 40;
/// The number of running runs.
const RUNNING: usize = 20;
/// The maximum number of coming starts.
const STARTS: usize = 2_000;

/// The namespace at a glance.
pub(crate) struct NamespaceView {
    pub(crate) counts: NamespaceCounts,
    /// The jobs whose last run failed, as `list` has them.
    pub(crate) failing: Vec<Value>,
    /// The jobs that start next, as `list` has them.
    pub(crate) next: Vec<Value>,
    /// The runs that are running, as `history` has them.
    pub(crate) running: Vec<Value>,
    /// The coming starts of the jobs that start next.
    pub(crate) coming: ComingStarts,
    pub(crate) queues: Vec<QueueOverview>,
    /// The nodes that were not seen lately, without those that were stopped.
    pub(crate) gone_nodes: Vec<NodeRecord>,
    /// The nodes that run with an older jobs file, because they refuse the present one.
    pub(crate) refusing_nodes: Vec<NodeRecord>,
    /// The number of nodes that run.
    pub(crate) present_nodes: usize,
    /// The result of the background consistency check. `None` before its first turn.
    pub(crate) check: Option<CheckNote>,
    pub(crate) last_loss: Option<LastLoss>,
}

/// The last data loss.
pub(crate) struct LastLoss {
    pub(crate) at: Option<UnixMillis>,
    pub(crate) what: &'static str,
    /// The number of lost jobs, as text.
    pub(crate) jobs_gone: String,
}

/// Reads the namespace. `edges` are the times that part the spans of its counts; coming starts are
/// read until the last of them.
pub(crate) async fn read_namespace(
    store: &Store,
    now: UnixMillis,
    edges: &[UnixMillis],
) -> Result<NamespaceView, CliFailure> {
    let until = edges.last().copied().unwrap_or(now);
    let places = &MergedPlaces::of(store).await?;
    let read_losses = async { Ok(store.read_losses().await?) };
    let (jobs, running, (_, nodes, queues), counts, checks, losses) = tokio::try_join!(
        read_jobs(places, now, until),
        read_running(places),
        standings_with_nodes(places),
        places.each(|store| async move { store.count_namespace(edges).await }),
        places.each(|store| async move { store.read_check_note().await }),
        read_losses,
    )?;
    let counts = counts.into_iter().reduce(NamespaceCounts::with).unwrap_or_default();
    let (present, others): (Vec<_>, Vec<_>) =
        nodes.into_iter().partition(|node| is_present(node, now));
    let present_nodes = present.len();
    let ReadJobs { failing, next, coming } = jobs;
    Ok(NamespaceView {
        counts,
        failing,
        next,
        running,
        coming,
        queues,
        gone_nodes: others.into_iter().filter(|node| node.state != "stopped").collect(),
        refusing_nodes: present.into_iter().filter(|node| node.config_error.is_some()).collect(),
        present_nodes,
        check: worst_check(checks),
        last_loss: losses.first().map(|loss: &LossRecord| LastLoss {
            at: loss.at,
            what: word(loss.loss.kind),
            jobs_gone: gone_words(loss),
        }),
    })
}

/// Returns the note with the most findings, with the findings of all notes.
fn worst_check(checks: Vec<Option<CheckNote>>) -> Option<CheckNote> {
    let findings = checks.iter().flatten().map(|check| check.findings).sum();
    let worst = checks.into_iter().flatten().max_by_key(|check| check.findings)?;
    Some(CheckNote { findings, ..worst })
}

async fn read_running(places: &MergedPlaces) -> Result<Vec<Value>, CliFailure> {
    let mut leases = places.list_leases(RUNNING).await?;
    leases.retain(|(_, lease)| !lease.run.job().is_hidden());
    let ids = leases.into_iter().map(|(place, lease)| (place, lease.run));
    let mut runs = places.read_runs(ids.collect()).await?;
    runs.retain(|(_, run)| !run.state.is_final());
    runs.sort_by_key(|(_, run)| run.started_at);
    runs.truncate(RUNNING);
    run_documents(places, runs).await
}

/// The jobs that start next, and those that fail.
struct ReadJobs {
    failing: Vec<Value>,
    next: Vec<Value>,
    coming: ComingStarts,
}

async fn read_jobs(
    places: &MergedPlaces,
    now: UnixMillis,
    until: UnixMillis,
) -> Result<ReadJobs, CliFailure> {
    let (start, newest, of_dead) = (IndexCursor::lowest(), IndexCursor::below(None), Ended::dead());
    let (entries, dead) = tokio::try_join!(
        places.page_of_jobs(JobIndex::Defined, &start, JOBS),
        places.page_of_ended(&of_dead, &newest, DEAD)
    )?;
    let cut_at = cut_of(&entries, JOBS);
    let entries = entries.into_iter().filter_map(|(_, (place, name))| Some((place, name?)));
    let planned: Vec<Placed<JobName>> = entries.filter(|(_, name)| !name.is_hidden()).collect();
    // An instance of a job on each node is listed as its job.
    let first = distinct(planned.iter().map(|(place, name)| (*place, name.defined())), SEARCHED);
    let dead = dead.iter().filter_map(|(_, (place, run))| Some((*place, run.as_ref()?.job())));
    let dead = dead.filter(|(_, job)| !job.is_hidden()).map(|(place, job)| (place, job.defined()));
    let dead = distinct(dead, MOST_FAILING);
    let listed = distinct(first.iter().chain(&dead).cloned(), usize::MAX);
    let all = distinct(listed.iter().chain(&planned).cloned(), usize::MAX);
    let records = places.read_jobs(all).await?;
    let records: Vec<Placed<JobRecord>> = records
        .into_iter()
        .filter_map(|(place, record)| Some((place, record.ok().flatten()?)))
        .filter(|(_, record)| belongs(JobIndex::Defined, record))
        .collect();
    let is_listed: HashSet<&Placed<JobName>> = listed.iter().collect();
    let shown =
        records.iter().filter(|(place, job)| is_listed.contains(&(*place, job.name.clone())));
    let views = view_placed_jobs(places, shown.cloned().collect(), &BTreeSet::new()).await?;
    let is_planned: HashSet<&Placed<JobName>> = planned.iter().collect();
    let planned = records
        .into_iter()
        .filter_map(|(place, job)| is_planned.contains(&(place, job.name.clone())).then_some(job));
    let span = StartSpan { from: now, to: until, most_jobs: JOBS, most_starts: STARTS };
    let mut coming = starts_of(planned.collect(), &StartFilter::default(), span).await;
    coming.cut_before(cut_at.filter(|at| *at < until));
    let failing =
        views.iter().filter(|(_, view)| view.has_failed()).map(|(_, view)| view.json()).collect();
    let is_first: HashSet<&Placed<JobName>> = first.iter().collect();
    let mut next: Vec<&JobView> = views
        .iter()
        .filter(|(place, view)| is_first.contains(&(*place, view.record.name.clone())))
        .map(|(_, view)| view)
        .filter(|view| view.next_start().is_some())
        .collect();
    next.sort_by_key(|view| view.next_start().map(|(at, _)| at));
    let next = next.into_iter().take(NEXT).map(JobView::json).collect();
    Ok(ReadJobs { failing, next, coming })
}

/// Returns the first `most` names that differ from each other.
fn distinct(names: impl Iterator<Item = Placed<JobName>>, most: usize) -> Vec<Placed<JobName>> {
    let mut seen = HashSet::new();
    names.filter(|name| seen.insert(name.clone())).take(most).collect()
}
