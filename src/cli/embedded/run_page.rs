//! A page of runs for `GET /v1/runs`: first the open runs of the wanted job, or the running runs if
//! they are asked for, then the ended runs.

use serde_json::Value;

use super::job_page::Page;
use super::page_cursor::{read_cursor, write_cursor};
use super::verb_call::parse_given;
use crate::cli::failure::CliFailure;
use crate::cli::jobs::target::{job_name, no_such_job};
use crate::cli::merged_places::{IndexEntry, MergedPlaces, Placed, merged};
use crate::cli::render::view_placed_runs;
use crate::cli::runs::history_verb::{HistoryArgs, is_stranger};
use crate::cli::runs::open_runs::{open_run_ids, running_run_ids};
use crate::cli::runs::run_filter::RunFilter;
use crate::cli::runs::tagged_jobs::TaggedJobs;
use crate::cli::verbs::Verb;
use schedd_core::domain::run::run_state::RunState;
use schedd_schedule::names::RunId;
use schedd_store::{IndexCursor, Letters, RunNotices, RunRecord, Store};

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

impl WantedRuns {
    /// Returns true if runs must be read to see whether they are wanted.
    fn is_filtered(&self) -> bool {
        !self.which.state.is_empty() || !self.which.tags.is_empty()
    }
}

/// Returns the filters that these flags of `history` stand for, for runs of `job`.
pub(crate) fn wanted_runs(flags: &[String], job: Option<&str>) -> Result<WantedRuns, CliFailure> {
    let mut words = vec!["history".to_owned()];
    words.extend_from_slice(flags);
    words.extend(job.into_iter().flat_map(|job| ["--".to_owned(), job.to_owned()]));
    match parse_given(&words)?.verb {
        Verb::History(HistoryArgs { job, which, dead, .. }) => Ok(WantedRuns { job, which, dead }),
        _ => Err(CliFailure::Failed(
            "the flags of history were read as those of another verb".to_owned(),
        )),
    }
}

/// A list of runs from which pages are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RunList {
    /// The runs of a job that have not ended, or the running runs of all jobs: the latest due time
    /// first.
    Open,
    /// The runs that ended, the newest end first.
    Ended,
}

/// The runs of one list that belong to a page.
struct PagePart {
    runs: Vec<Placed<RunRecord>>,
    /// The place behind which the list goes on. `None` at its end.
    next: Option<IndexCursor>,
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
    let (first, which) = match &wanted.job {
        _ if letters == Letters::Dead => (RunList::Ended, "of dead letters"),
        _ if wanted.which.has_bounds() => (RunList::Ended, "with --since or --until"),
        Some(_) => (RunList::Open, ""),
        None if wanted.which.state.contains(&RunState::Running) => {
            wanted.which.check_ended("without a job", Some(RunState::Running))?;
            (RunList::Open, "")
        }
        None => (RunList::Ended, "without a job"),
    };
    if first == RunList::Ended {
        wanted.which.check_ended(which, None)?;
    }
    let (list, mut at) = match cursor.map(read_cursor) {
        None => (first, None),
        Some(Some((word, at))) if word == "open" && first == RunList::Open => {
            (RunList::Open, Some(at))
        }
        Some(Some((word, at))) if word == "runs" => (RunList::Ended, Some(at)),
        Some(_) => return Err(CliFailure::Cursor),
    };
    let places = &MergedPlaces::of(store).await?;
    let mut runs = Vec::new();
    if list == RunList::Open {
        let part = open_part(places, wanted, at.as_ref(), limit).await?;
        runs = part.runs;
        let start = || write_cursor("runs", &IndexCursor::below(None));
        let next = part.next.map(|next| write_cursor("open", &next));
        if let Some(next) = next.or_else(|| (runs.len() == limit).then(start)) {
            let items = run_documents(places, runs).await?;
            return Ok(Page { items, next: Some(next) });
        }
        at = None;
    }
    let part = ended_part(places, wanted, letters, at, limit - runs.len()).await?;
    // A run that ended between the two reads is in both lists.
    runs.retain(|(_, run)| !part.runs.iter().any(|(_, ended)| ended.run == run.run));
    runs.extend(part.runs);
    if let (None, None, Some(job)) = (runs.first(), cursor, &wanted.job)
        && is_stranger(places, &job_name(job)?).await?
    {
        return Err(no_such_job(store, &job_name(job)?).await);
    }
    let items = run_documents(places, runs).await?;
    Ok(Page { items, next: part.next.map(|next| write_cursor("runs", &next)) })
}

/// Returns the wanted runs that have not ended.
async fn open_part(
    places: &MergedPlaces,
    wanted: &WantedRuns,
    behind: Option<&IndexCursor>,
    limit: usize,
) -> Result<PagePart, CliFailure> {
    let job = &wanted.job.as_deref().map(job_name).transpose()?;
    let read = |store: Store| async move {
        let ids = match job {
            Some(job) => open_run_ids(&store, job).await?,
            None => running_run_ids(&store).await?,
        };
        let entry = |id: RunId| (IndexCursor::of_due(&id), Some(id));
        let is_behind =
            |(at, _): &(IndexCursor, _)| behind.is_none_or(|behind| at.compare(behind).is_lt());
        Ok::<Vec<_>, CliFailure>(ids.into_iter().map(entry).filter(is_behind).collect())
    };
    let entries = merged(places.each(read).await?, |a, b| b.compare(a), usize::MAX);
    part_of(places, wanted, entries, false, limit, |run| !run.state.is_final()).await
}

/// Returns the wanted runs that ended.
async fn ended_part(
    places: &MergedPlaces,
    wanted: &WantedRuns,
    letters: Letters,
    behind: Option<IndexCursor>,
    limit: usize,
) -> Result<PagePart, CliFailure> {
    let mut ended = wanted.which.ended(places.home(), letters, wanted.job.as_deref()).await?;
    let hides_notices = wanted.job.is_none() && letters == Letters::All;
    if hides_notices {
        ended.notices = RunNotices::Without;
    }
    let at = behind.unwrap_or_else(|| IndexCursor::below(ended.until));
    let most = if wanted.is_filtered() || hides_notices { READ.max(limit) } else { limit };
    let mut entries = places.page_of_ended(&ended, &at, most).await?;
    let goes_on = entries.len() == most;
    if hides_notices {
        for (_, (_, id)) in &mut entries {
            id.take_if(|id| id.job().is_hidden());
        }
    }
    part_of(places, wanted, entries, goes_on, limit, |_| true).await
}

/// Reads the runs of `entries` until `limit` wanted runs are found. `goes_on` says that the list has
/// more than these entries. An entry without a run counts as read.
async fn part_of(
    places: &MergedPlaces,
    wanted: &WantedRuns,
    mut entries: Vec<IndexEntry<RunId>>,
    mut goes_on: bool,
    limit: usize,
    takes: impl Fn(&RunRecord) -> bool,
) -> Result<PagePart, CliFailure> {
    let most = if wanted.is_filtered() { READ.max(limit) } else { limit };
    let mut named = 0;
    let read = entries.iter().take_while(|(_, (_, id))| {
        named += usize::from(id.is_some());
        named <= most
    });
    let read = read.count();
    goes_on |= read < entries.len();
    entries.truncate(read);
    let mut next = entries.last().map(|(place, _)| place.clone()).filter(|_| goes_on);
    let (cursors, ids): (Vec<_>, Vec<_>) =
        entries.into_iter().filter_map(|(at, (place, id))| Some((at, (place, id?)))).unzip();
    let mut runs = places.read_runs(ids.clone()).await?;
    runs.retain(|(_, run)| wanted.which.takes(run.state) && takes(run));
    TaggedJobs::default().retain(places, &wanted.which.tags, &mut runs).await?;
    if runs.len() > limit {
        runs.truncate(limit);
        let is_last = |id: &Placed<RunId>| {
            runs.last().is_some_and(|(place, last)| (place, &last.run) == (&id.0, &id.1))
        };
        next = ids.iter().position(is_last).map(|end| cursors[end].clone()).or(next);
    }
    Ok(PagePart { runs, next })
}

/// Returns the JSON documents of runs, as `history --json` prints them.
pub(crate) async fn run_documents(
    places: &MergedPlaces,
    runs: Vec<Placed<RunRecord>>,
) -> Result<Vec<Value>, CliFailure> {
    let views = view_placed_runs(places, runs).await?;
    Ok(views.iter().map(|view| Value::Object(view.json())).collect())
}
