//! The figures of the jobs that have series of their own by `[metrics] jobs`.

use std::collections::{BTreeSet, HashMap};
use std::time::{Duration, Instant};

use crate::cli::embedded::{CliFailure, JobView, view_jobs};
use schedd_core::config::{MOST_METRIC_JOBS, MetricsConfig};
use schedd_core::domain::run::run_state::RunState;
use schedd_schedule::names::JobName;
use schedd_schedule::time::unix_millis::UnixMillis;
use schedd_store::{Ended, JobRecord, RunRecord, Store, StoreError};

/// The interval at which the names of all jobs are compared with the patterns.
const MATCHED_EVERY: Duration = Duration::from_secs(60);
/// The number of names read in one call.
const PAGE: usize = 10_000;
/// The most names that are compared with the patterns.
const MOST_NAMES: usize = 200_000;
/// The number of ended runs of a job that are searched for a success.
const SEARCHED: usize = 1_000;
/// The number of ended runs read in one call.
const RUNS: usize = 50;

/// The jobs with series of their own, and what is known about them.
#[derive(Default)]
pub(super) struct WatchedJobs {
    matched: Option<MatchedNames>,
    /// The last success of each job.
    successes: HashMap<JobName, KnownSuccess>,
}

/// The names that the patterns matched.
struct MatchedNames {
    at: Instant,
    config: MetricsConfig,
    names: Vec<JobName>,
}

/// The last success of a job when its runs were read last.
#[derive(Clone, Copy)]
struct KnownSuccess {
    /// The time at which the job's last run ended.
    read_until: Option<UnixMillis>,
    at: Option<UnixMillis>,
}

/// The figures of one job.
#[derive(Debug)]
pub(super) struct JobFigures {
    pub(super) name: JobName,
    /// The end of the last run that succeeded.
    pub(super) last_success: Option<UnixMillis>,
    pub(super) next_due: Option<UnixMillis>,
    pub(super) is_failing: bool,
}

impl WatchedJobs {
    /// Reads the figures of the jobs that `config` names, at most [`MOST_METRIC_JOBS`] jobs.
    pub(super) async fn read(
        &mut self,
        store: &Store,
        config: &MetricsConfig,
    ) -> Result<Vec<JobFigures>, CliFailure> {
        let names = self.names(store, config).await?;
        let records = store.read_jobs(&names).await?;
        let records = records.into_iter().filter_map(|record| record.ok().flatten());
        let records = records.filter(JobRecord::is_live).collect();
        let views = view_jobs(store, records, &BTreeSet::new()).await?;
        let mut figures = Vec::with_capacity(views.len());
        for view in &views {
            figures.push(JobFigures {
                name: view.record.name.clone(),
                last_success: self.last_success(store, view).await?,
                next_due: view.next_due(),
                is_failing: view.has_failed(),
            });
        }
        let live: BTreeSet<&JobName> = views.iter().map(|view| &view.record.name).collect();
        self.successes.retain(|name, _| live.contains(name));
        Ok(figures)
    }

    /// Returns the names of the jobs, in the order of the alphabet. All names are compared with
    /// patterns only at intervals, because there may be many.
    async fn names(
        &mut self,
        store: &Store,
        config: &MetricsConfig,
    ) -> Result<Vec<JobName>, StoreError> {
        let is_fresh = |matched: &&MatchedNames| {
            matched.config == *config && matched.at.elapsed() < MATCHED_EVERY
        };
        if let Some(matched) = self.matched.as_ref().filter(is_fresh) {
            return Ok(matched.names.clone());
        }
        let exact = config.jobs.iter().filter_map(|pattern| pattern.as_name()?.parse().ok());
        let mut names: BTreeSet<JobName> = exact.collect();
        let patterns: Vec<_> =
            config.jobs.iter().filter(|pattern| pattern.as_name().is_none()).collect();
        for offset in (0..MOST_NAMES).step_by(PAGE) {
            if patterns.is_empty() {
                break;
            }
            let page = store.list_jobs(offset, PAGE).await?;
            let is_last = page.len() < PAGE;
            let is_matched =
                |name: &JobName| patterns.iter().any(|pattern| pattern.matches(name.as_str()));
            names.extend(page.into_iter().filter(|name| !name.is_hidden() && is_matched(name)));
            if is_last {
                break;
            }
        }
        let names: Vec<JobName> = names.into_iter().take(MOST_METRIC_JOBS).collect();
        self.matched =
            Some(MatchedNames { at: Instant::now(), config: config.clone(), names: names.clone() });
        Ok(names)
    }

    /// Returns the end of the last run of a job that succeeded. Reads runs only if a run has ended
    /// since the last reading.
    async fn last_success(
        &mut self,
        store: &Store,
        view: &JobView,
    ) -> Result<Option<UnixMillis>, StoreError> {
        let name = &view.record.name;
        let newest = last_runs(view).max_by_key(|run| run.finished_at);
        let Some(last) = newest else { return Ok(None) };
        let known = self.successes.get(name).copied();
        if let Some(known) = known.filter(|known| known.read_until == last.finished_at) {
            return Ok(known.at);
        }
        let earlier = known.and_then(|known| known.at);
        let at = if last.state == RunState::Succeeded {
            last.finished_at
        } else {
            found_success(store, view, known.and_then(|known| known.read_until)).await?.or(earlier)
        };
        self.successes.insert(name.clone(), KnownSuccess { read_until: last.finished_at, at });
        Ok(at)
    }
}

/// Returns the run of a job that ended last, or the run of each instance that ended last.
fn last_runs(view: &JobView) -> impl Iterator<Item = &RunRecord> {
    let own = view.last.iter().filter(|_| view.instances.is_empty());
    own.chain(view.instances.iter().filter_map(|(_, instance)| instance.last.as_ref()))
}

/// Returns the end of the last run of a job that succeeded, among its last [`SEARCHED`] runs that
/// ended at `since` or later.
async fn found_success(
    store: &Store,
    view: &JobView,
    since: Option<UnixMillis>,
) -> Result<Option<UnixMillis>, StoreError> {
    let instances = view.instances.iter().map(|(_, instance)| instance.record.name.clone());
    let mut jobs: Vec<JobName> = instances.collect();
    if jobs.is_empty() {
        jobs.push(view.record.name.clone());
    }
    let ended = Ended { jobs, since, ..Ended::history() };
    for offset in (0..SEARCHED).step_by(RUNS) {
        let page = store.read_ended(&ended, offset, RUNS).await?;
        let succeeded = page.runs.iter().find(|run| run.state == RunState::Succeeded);
        if succeeded.is_some() || page.entries < RUNS {
            return Ok(succeeded.and_then(|run| run.finished_at));
        }
    }
    Ok(None)
}
