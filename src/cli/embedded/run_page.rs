//! A page of runs for `GET /v1/runs`, the run that ended last first. With a job, the first page
//! begins with the open runs of the job.

use serde_json::Value;

use super::job_page::{Page, bad_cursor};
use super::page_cursor::{read_cursor, write_cursor};
use super::verb_call::parse_verb;
use crate::cli::failure::CliFailure;
use crate::cli::jobs::target::job_name;
use crate::cli::render::{Zones, view_runs};
use crate::cli::runs::history_verb::HistoryArgs;
use crate::cli::runs::open_runs::open_runs;
use crate::cli::runs::run_filter::RunFilter;
use crate::cli::runs::tagged_jobs::TaggedJobs;
use crate::cli::verbs::Verb;
use crate::store::{IndexCursor, Letters, RunNotices, RunRecord, Store};

/// The number of runs that are read for one page if filters select some of them.
const READ: usize = 500;

/// The runs that a request asks for.
#[derive(Debug, Default)]
pub(crate) struct WantedRuns {
    pub(crate) job: Option<String>,
    pub(crate) which: RunFilter,
    /// True if only dead letters are wanted.
    pub(crate) dead: bool,
}

/// Returns the filters that these flags of `history` stand for, for runs of `job`.
pub(crate) fn wanted_runs(flags: &[String], job: Option<&str>) -> Result<WantedRuns, CliFailure> {
    let mut words = vec!["history".to_owned()];
    words.extend_from_slice(flags);
    words.extend(job.into_iter().flat_map(|job| ["--".to_owned(), job.to_owned()]));
    match parse_verb(&words).map_err(CliFailure::Invalid)?.verb {
        Verb::History(HistoryArgs { job, which, dead, .. }) => Ok(WantedRuns { job, which, dead }),
        _ => Err(CliFailure::Failed(
            "the flags of history were read as those of another verb".to_owned(),
        )),
    }
}

/// Returns at most `limit` runs that `wanted` selects, behind the cursor `cursor`.
pub(crate) async fn run_page(
    store: &Store,
    wanted: &WantedRuns,
    cursor: Option<&str>,
    limit: usize,
) -> Result<Page, CliFailure> {
    let letters = if wanted.dead { Letters::Dead } else { Letters::All };
    wanted.which.check(letters)?;
    let mut ended = wanted.which.ended(store, letters, wanted.job.as_deref()).await?;
    if wanted.job.is_none() && letters == Letters::All {
        ended.notices = RunNotices::Without;
    }
    let mut at = match cursor {
        None => IndexCursor::below(ended.until),
        Some(text) => match read_cursor(text) {
            Some((word, at)) if word == "runs" => at,
            _ => return Err(CliFailure::Invalid(bad_cursor())),
        },
    };
    let mut runs = Vec::new();
    if let (None, Some(job)) = (cursor, &wanted.job)
        && letters == Letters::All
        && !wanted.which.has_bounds()
    {
        runs = open_runs(store, &job_name(job)?).await?;
        runs.retain(|run| wanted.which.takes(run.state));
        TaggedJobs::default().retain(store, &wanted.which.tags, &mut runs).await?;
        runs.truncate(limit);
    }
    let left = limit - runs.len();
    let mut is_last = false;
    if left > 0 {
        let is_filtered = !wanted.which.state.is_empty() || !wanted.which.tags.is_empty();
        let most = if is_filtered { READ.max(left) } else { left };
        let entries = store.page_of_ended(&ended, &at, most).await?;
        is_last = entries.len() < most;
        let last = entries.last().map(|(place, _)| place.clone());
        let takes = |run: &RunRecord| {
            wanted.which.takes(run.state)
                && (ended.notices == RunNotices::With || !run.run.job().is_hidden())
        };
        let (places, ids): (Vec<_>, Vec<_>) =
            entries.into_iter().filter_map(|(place, id)| Some((place, id?))).unzip();
        let records = store.read_runs(&ids).await?;
        let mut found: Vec<RunRecord> =
            records.into_iter().filter_map(|run| run.ok().flatten()).filter(takes).collect();
        TaggedJobs::default().retain(store, &wanted.which.tags, &mut found).await?;
        at = last.unwrap_or(at);
        if found.len() >= left {
            let end = &found[left - 1].run;
            if let Some(place) = ids.iter().position(|id| id == end) {
                is_last &= place + 1 == ids.len() && found.len() == left;
                at = places[place].clone();
            }
            found.truncate(left);
        }
        runs.extend(found);
    }
    let items = run_documents(store, runs).await?;
    Ok(Page { items, next: (!is_last).then(|| write_cursor("runs", &at)) })
}

/// Returns the JSON documents of runs, as `history --json` prints them.
pub(crate) async fn run_documents(
    store: &Store,
    runs: Vec<RunRecord>,
) -> Result<Vec<Value>, CliFailure> {
    let views = view_runs(store, &mut Zones::default(), runs).await?;
    Ok(views.iter().map(|view| Value::Object(view.json())).collect())
}
