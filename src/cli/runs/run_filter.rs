//! The filters of `history`, `retry` and `purge` for ended runs, and a reader for the runs that the
//! filters select.

#![allow(clippy::doc_markdown, reason = "comments on flags are texts of --help")]

use super::past_time::parse_past;
use super::tagged_jobs::TaggedJobs;
use crate::cli::failure::CliFailure;
use crate::cli::jobs::instance_names::run_names;
use crate::cli::jobs::target::job_name;
use crate::cli::local_zone::local_zone;
use crate::cli::merged_places::{IndexEntry, MergedPlaces, Placed};
use crate::cli::render::shown;
use crate::cli::shell::completion;
use schedd_core::domain::name::tag_filter::TagFilter;
use schedd_core::domain::run::run_state::RunState;
use schedd_schedule::names::RunId;
use schedd_schedule::time::duration::parse_duration;
use schedd_schedule::time::unix_millis::UnixMillis;
use schedd_store::{Ended, IndexCursor, Letters, RunNotices, RunRecord, Store};

/// The number of runs read in one call.
const PAGE: usize = 500;
/// The number of runs that are skipped in one call.
const SKIPPED: usize = 10_000;

/// The states of ended runs, which a shell offers.
const ENDED: &[&str] = &["cancelled", "failed", "lost", "skipped", "succeeded", "timed_out"];

/// Filters by the state and the end time of a run.
#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct RunFilter {
    /// Only runs in these states, separated by commas
    #[arg(long, value_name = "STATE", value_delimiter = ',', add = completion::words(ENDED))]
    pub(crate) state: Vec<RunState>,
    /// Only runs that ended at this time or later
    #[arg(long, value_name = "TIME")]
    pub(crate) since: Option<String>,
    /// Only runs that ended before this time
    #[arg(long, value_name = "TIME")]
    pub(crate) until: Option<String>,
    /// Only runs of jobs that have this tag now; may be given several times
    #[arg(long = "tag", value_name = "NAME[=VALUE]")]
    pub(crate) tags: Vec<TagFilter>,
}

impl RunFilter {
    /// Fails if `letters` selects dead letters and the filters name a state that no dead letter
    /// has.
    pub(crate) fn check(&self, letters: Letters) -> Result<(), CliFailure> {
        match self.state.iter().find(|state| letters == Letters::Dead && !state.is_dead()) {
            Some(state) => Err(CliFailure::Invalid(format!(
                "--state {state}: dead letters are never in that state, wanted failed, timed_out or lost"
            ))),
            None => Ok(()),
        }
    }

    /// Fails if the filters name a state of runs that have not ended, except `listed`. `which` says
    /// why only ended runs are listed.
    pub(crate) fn check_ended(
        &self,
        which: &str,
        listed: Option<RunState>,
    ) -> Result<(), CliFailure> {
        let is_open = |state: &&RunState| !state.is_final() && Some(**state) != listed;
        match self.state.iter().find(is_open) {
            Some(state) => Err(CliFailure::Invalid(format!(
                "--state {state}: runs in that state have not ended, and history {which} lists only ended runs; wanted \
                 schedctl history JOB --state {state}, or schedctl list for all jobs"
            ))),
            None => Ok(()),
        }
    }

    /// Returns true if the filters select runs in `state`.
    pub(crate) fn takes(&self, state: RunState) -> bool {
        self.state.is_empty() || self.state.contains(&state)
    }

    /// Returns true if the filters limit the end time of runs.
    pub(crate) fn has_bounds(&self) -> bool {
        self.since.is_some() || self.until.is_some()
    }

    /// Returns the query for the filters that the indexes in Redis can answer. The filter by state
    /// is applied later, to the runs that were read.
    pub(crate) async fn ended(
        &self,
        store: &Store,
        letters: Letters,
        job: Option<&str>,
    ) -> Result<Ended, CliFailure> {
        let jobs = match job.map(job_name).transpose()? {
            Some(job) => run_names(store, &job).await?,
            None => Vec::new(),
        };
        let (mut since, mut until) = (None, None);
        if self.has_bounds() {
            let now = store.now().await?;
            since = self.since.as_deref().map(|text| instant("--since", text, now)).transpose()?;
            until = self.until.as_deref().map(|text| instant("--until", text, now)).transpose()?;
            if let Some(since) = since.filter(|since| *since > now) {
                let found = shown(since, &local_zone());
                return Err(CliFailure::Invalid(format!(
                    "--since: found {found}, wanted a past time, because no run has ended after this time"
                )));
            }
        }
        if let (Some(from), Some(to)) = (since, until)
            && from >= to
        {
            let local = local_zone();
            let (from, to) = (shown(from, &local), shown(to, &local));
            return Err(CliFailure::Invalid(format!(
                "--since {from} is not before --until {to}: no run can match; wanted a later --until"
            )));
        }
        Ok(Ended { letters, jobs, since, until, notices: RunNotices::With })
    }
}

/// Parses an instant of a filter, in this host's zone. A time of day or a weekday means the last
/// such time. A duration is counted back from `now`.
fn instant(flag: &str, text: &str, now: UnixMillis) -> Result<UnixMillis, CliFailure> {
    match parse_duration(text) {
        Ok(ago) => return Ok(now.saturating_sub(ago)),
        // A number of fewer than 10 digits is a duration without a unit. A longer number counts
        // seconds since 1970.
        Err(error) if text.len() < 10 && text.bytes().all(|b| b.is_ascii_digit()) => {
            return Err(CliFailure::Invalid(format!("{flag}: {error}")));
        }
        Err(_) => {}
    }
    let read = parse_past(text, now, &local_zone());
    read.map(|read| read.at).map_err(|error| {
        CliFailure::Invalid(format!("{flag}: {error}; or write a duration before now, such as 24h"))
    })
}

/// A reader of the runs that the filters select, in all places: newest first, page by page.
pub(crate) struct RunReader<'s> {
    places: &'s MergedPlaces,
    ended: Ended,
    which: &'s RunFilter,
    tagged: TaggedJobs,
    /// The place behind which the next page begins. `None` after the last page.
    at: Option<IndexCursor>,
    to_skip: usize,
    left: usize,
}

impl<'s> RunReader<'s> {
    /// Creates a reader of at most `limit` runs that skips the first `offset` selected runs.
    pub(crate) fn new(
        places: &'s MergedPlaces,
        ended: Ended,
        which: &'s RunFilter,
        offset: usize,
        limit: usize,
    ) -> Self {
        let at = Some(IndexCursor::below(ended.until));
        let tagged = TaggedJobs::default();
        Self { places, ended, which, tagged, at, to_skip: offset, left: limit }
    }

    /// Returns the next page of runs, or `None` after the last page.
    pub(crate) async fn next(&mut self) -> Result<Option<Vec<Placed<RunRecord>>>, CliFailure> {
        // If all runs are selected, the records of skipped runs are not read.
        let takes_all = self.takes_all();
        while takes_all && self.to_skip > 0 && self.left > 0 {
            let Some(skipped) = self.entries(self.to_skip.min(SKIPPED)).await? else { break };
            self.to_skip -= skipped.len();
        }
        if self.left == 0 {
            return Ok(None);
        }
        let size = if takes_all { PAGE.min(self.left) } else { PAGE };
        let Some(entries) = self.entries(size).await? else { return Ok(None) };
        let hides_notices = self.ended.notices == RunNotices::Without;
        let ids = entries
            .into_iter()
            .filter_map(|(_, (place, id))| Some((place, id?)))
            .filter(|(_, id)| !hides_notices || !id.job().is_hidden());
        let mut runs = self.places.read_runs(ids.collect()).await?;
        runs.retain(|(_, run)| self.which.takes(run.state));
        self.tagged.retain(self.places, &self.which.tags, &mut runs).await?;
        let skipped = self.to_skip.min(runs.len());
        runs.drain(..skipped);
        self.to_skip -= skipped;
        runs.truncate(self.left);
        self.left -= runs.len();
        Ok(Some(runs))
    }

    /// Returns the next `most` entries of the index, or `None` at its end.
    async fn entries(&mut self, most: usize) -> Result<Option<Vec<IndexEntry<RunId>>>, CliFailure> {
        let Some(at) = self.at.take() else { return Ok(None) };
        let entries = self.places.page_of_ended(&self.ended, &at, most).await?;
        self.at = entries.last().filter(|_| entries.len() == most).map(|(at, _)| at.clone());
        Ok(Some(entries).filter(|entries| !entries.is_empty()))
    }

    /// Returns true if the filters select every run in the index.
    fn takes_all(&self) -> bool {
        self.which.state.is_empty()
            && self.which.tags.is_empty()
            && self.ended.notices == RunNotices::With
    }

    /// Returns the runs of all remaining pages.
    pub(crate) async fn all(mut self) -> Result<Vec<Placed<RunRecord>>, CliFailure> {
        let mut all = Vec::new();
        while let Some(runs) = self.next().await? {
            all.extend(runs);
        }
        Ok(all)
    }
}
