//! The runs of a span of time: those that ended in it, and those that run.

use std::time::Duration;

use super::coming_starts::StartFilter;
use crate::cli::failure::CliFailure;
use crate::cli::merged_places::MergedPlaces;
use crate::cli::runs::tagged_jobs::TaggedJobs;
use schedd_core::domain::run::run_state::RunState;
use schedd_schedule::names::RunId;
use schedd_schedule::time::unix_millis::UnixMillis;
use schedd_store::{Ended, IndexCursor, JobRecord, RunNotices, Store};

/// The maximum number of running runs in a view.
const MOST_RUNNING: usize = 200;

/// A run with the time that its last attempt took.
#[derive(Debug, Clone)]
pub(crate) struct TimelineRun {
    pub(crate) run: RunId,
    pub(crate) state: RunState,
    /// The start of the last attempt, or the end of a run that never started.
    pub(crate) from: UnixMillis,
    /// The end of the run. `None` while it runs.
    pub(crate) to: Option<UnixMillis>,
}

/// The runs of a span of time.
#[derive(Debug, Default)]
pub(crate) struct TimelineRuns {
    /// The runs, the newest end first, and those that run before them.
    pub(crate) runs: Vec<TimelineRun>,
    /// The time before which ended runs were not read. `None` if all were read.
    pub(crate) cut_at: Option<UnixMillis>,
}

/// Reads at most `most` runs that ended from `from` to before `to`, and those that run now.
pub(crate) async fn read_past_runs(
    store: &Store,
    filter: &StartFilter,
    from: UnixMillis,
    to: UnixMillis,
    most: usize,
) -> Result<TimelineRuns, CliFailure> {
    let ended = Ended { since: Some(from), notices: RunNotices::Without, ..Ended::history() };
    let newest = IndexCursor::below(Some(to));
    let places = MergedPlaces::of(store).await?;
    let (entries, leases) = tokio::try_join!(
        places.page_of_ended(&ended, &newest, most),
        places.list_leases(MOST_RUNNING)
    )?;
    #[expect(clippy::cast_possible_truncation, reason = "a time in ms, or an infinity")]
    let cut_at = entries
        .last()
        .filter(|_| entries.len() == most)
        .and_then(|(last, _)| UnixMillis::new(last.score as i64));
    let running = leases.into_iter().map(|(place, lease)| (place, lease.run));
    let ids = running
        .chain(entries.into_iter().filter_map(|(_, (place, id))| Some((place, id?))))
        .filter(|(_, id)| filter.takes_name(id.job()));
    let mut records = places.read_runs(ids.collect()).await?;
    records.retain(|(_, run)| filter.takes_queue(run.lane.queue()));
    TaggedJobs::default().retain(&places, &filter.tags, &mut records).await?;
    let runs = records.into_iter().filter_map(|(_, record)| {
        let to = record.finished_at;
        let from = record.started_at.or(to)?;
        Some(TimelineRun { run: record.run, state: record.state, from, to })
    });
    Ok(TimelineRuns { runs: runs.collect(), cut_at })
}

/// Returns the duration of the last run of each job, as far as it is known.
pub(crate) async fn last_durations(
    store: &Store,
    jobs: Vec<JobRecord>,
) -> Result<Vec<Option<Duration>>, CliFailure> {
    let summaries = store.summarise(jobs).await?;
    let ids: Vec<RunId> = summaries.iter().filter_map(|job| job.last_run.clone()).collect();
    let mut runs = store.read_runs(&ids).await?.into_iter();
    let mut took = |has_run: bool| {
        let run = has_run.then(|| runs.next())??;
        run.ok().flatten()?.took()
    };
    Ok(summaries.iter().map(|job| took(job.last_run.is_some())).collect())
}
