//! The jobs that `list` selects, read page by page.

use std::collections::BTreeSet;

use super::list_flags::{ListArgs, ListSource};
use crate::cli::failure::CliFailure;
use crate::cli::jobs::instance_names::has_instances;
use crate::cli::merged_places::MergedPlaces;
use crate::cli::render::{Console, JobState, JobView, running_jobs, view_placed_jobs};
use schedd_core::domain::name::name_pattern::NamePattern;
use schedd_core::domain::name::tag_filter::TagFilter;
use schedd_schedule::names::{JobName, QueueName, RunId};
use schedd_store::{IndexCursor, JobIndex, JobRecord, SourceKind, Store};

/// The number of jobs read in one call.
const PAGE: usize = 500;
/// The number of jobs read in one call if no more are wanted. The jobs of a page are sorted, so a
/// page is not smaller.
const SHORT_PAGE: usize = 200;
/// The maximum number of jobs that are skipped in one call.
const SKIPPED: usize = 10_000;

/// The maximum number of dead letters read to find the jobs of `--failed`. A node keeps fewer.
const DEAD_LETTERS: usize = 20_000;

/// The filters that select the listed jobs.
pub(crate) struct Wanted {
    state: Option<JobState>,
    queue: Option<QueueName>,
    kind: Option<SourceKind>,
    pattern: Option<NamePattern>,
    failed: bool,
    tags: Vec<TagFilter>,
    all: bool,
}

impl Wanted {
    pub(crate) fn of(args: &ListArgs) -> Result<Self, CliFailure> {
        let queue = args.queue.as_deref().map(str::parse::<QueueName>).transpose();
        let kind = args.source.map(|source| match source {
            ListSource::File => SourceKind::File,
            ListSource::Api => SourceKind::Api,
        });
        let queue = queue.map_err(|error| CliFailure::Invalid(error.to_string()))?;
        let pattern = args.pattern.as_deref().map(NamePattern::new);
        let (tags, failed) = (args.tags.clone(), args.failed);
        Ok(Self { state: args.state, queue, kind, pattern, failed, tags, all: args.all })
    }

    /// Returns true if jobs that are over are selected too.
    pub(crate) fn includes_finished(&self) -> bool {
        self.all || self.state == Some(JobState::Finished)
    }

    /// Returns true if only some of the jobs are selected.
    pub(crate) fn filters(&self) -> bool {
        self.failed
            || self.pattern.is_some()
            || self.state.is_some()
            || self.queue.is_some()
            || self.kind.is_some()
            || !self.tags.is_empty()
    }

    /// Returns true if the filters select jobs of this name.
    pub(crate) fn takes_name(&self, name: &JobName) -> bool {
        match &self.pattern {
            Some(pattern) => pattern.matches(name.as_str()),
            // The job of an instance is listed with the runs of all its instances.
            None => name.instance().is_none(),
        }
    }

    /// Returns true if a job of `index` belongs in the list, and its record is one that the filters may
    /// select. The state of its runs is read only then.
    pub(crate) fn takes_record(&self, index: JobIndex, record: &JobRecord) -> bool {
        belongs(index, record)
            && self.kind.is_none_or(|kind| record.kind == kind)
            && (has_instances(record)
                || self.queue.as_ref().is_none_or(|queue| record.lane.queue() == queue))
    }

    /// Returns true if the filters select this job, apart from its name.
    pub(crate) fn takes(&self, view: &JobView) -> bool {
        self.state.is_none_or(|state| view.is_in(state))
            && self.queue.as_ref().is_none_or(|queue| view.lane().queue() == queue)
            && (!self.failed || view.has_failed())
            && (self.tags.is_empty() || view.has_tags(&self.tags))
    }
}

/// Returns true if a job of `index` belongs in the list. Every job that is not over belongs. Of the
/// jobs that are over, only one-shots and hidden jobs belong.
pub(crate) fn belongs(index: JobIndex, record: &JobRecord) -> bool {
    match index {
        JobIndex::Defined => record.is_live(),
        JobIndex::Over => !record.is_live() && (record.is_once || record.name.is_hidden()),
    }
}

/// A reader of pages of the jobs in all places that applies `--offset` and `--limit`.
pub(super) struct Pager<'s> {
    places: &'s MergedPlaces,
    wanted: &'s Wanted,
    page: usize,
    /// The jobs with a dead letter, of which `--failed` selects some. `None` without `--failed`, or
    /// if there are too many dead letters to read.
    with_dead: Option<BTreeSet<JobName>>,
    running: BTreeSet<JobName>,
    index: JobIndex,
    /// The place behind which the next page begins.
    at: IndexCursor,
    last_index: JobIndex,
    to_skip: usize,
    pub(super) left: usize,
}

impl<'s> Pager<'s> {
    pub(super) async fn new(
        places: &'s MergedPlaces,
        args: &ListArgs,
        wanted: &'s Wanted,
        most: usize,
    ) -> Result<Self, CliFailure> {
        let left = if args.limit == 0 { most } else { args.limit.min(most) };
        let last_index =
            if wanted.includes_finished() { JobIndex::Over } else { JobIndex::Defined };
        let running = |store: Store| async move { running_jobs(&store).await };
        let running = places.each(running).await?.into_iter().flatten().collect();
        let mut with_dead = None;
        if wanted.failed {
            let dead = |store: Store| async move { store.list_dead(DEAD_LETTERS).await };
            let dead = places.each(dead).await?;
            let is_whole = dead.iter().all(|dead| dead.len() < DEAD_LETTERS);
            let names = |run: &RunId| [run.job().clone(), run.job().defined()];
            with_dead = is_whole.then(|| dead.iter().flatten().flat_map(names).collect());
        }
        let page = if left <= SHORT_PAGE { SHORT_PAGE } else { PAGE };
        let mut pager = Self {
            places,
            wanted,
            page,
            with_dead,
            running,
            index: JobIndex::Defined,
            at: IndexCursor::lowest(),
            last_index,
            to_skip: args.offset,
            left,
        };
        pager.skip_pages().await?;
        Ok(pager)
    }

    /// Skips the whole pages before the first wanted job, without reading their jobs. Skips nothing
    /// if filters select some of the jobs.
    async fn skip_pages(&mut self) -> Result<(), CliFailure> {
        while !self.wanted.filters() && self.to_skip >= self.page {
            let most = (self.to_skip / self.page * self.page).min(SKIPPED);
            let skipped = self.places.page_of_jobs(self.index, &self.at, most).await?;
            let Some((at, _)) = skipped.last().filter(|_| skipped.len() == most) else { break };
            self.at = at.clone();
            self.to_skip -= most;
        }
        Ok(())
    }

    /// Returns the selected jobs of the next page, sorted by their next start, or `None` after the
    /// last page. For a job that cannot be read, prints an error and sets `code` to 1.
    pub(super) async fn next(
        &mut self,
        console: &mut Console,
        code: &mut u8,
    ) -> Result<Option<Vec<JobView>>, CliFailure> {
        while self.left > 0 {
            let entries = self.places.page_of_jobs(self.index, &self.at, self.page).await?;
            let Some((at, _)) = entries.last() else {
                if self.index == self.last_index {
                    break;
                }
                (self.index, self.at) = (JobIndex::Over, IndexCursor::lowest());
                continue;
            };
            self.at = at.clone();
            let names = entries.into_iter().filter_map(|(_, (place, name))| Some((place, name?)));
            let names = names.filter(|(_, name)| {
                self.wanted.takes_name(name)
                    && self.with_dead.as_ref().is_none_or(|jobs| jobs.contains(name))
            });
            let mut records = Vec::new();
            for (place, record) in self.places.read_jobs(names.collect()).await? {
                match record {
                    Ok(record) => {
                        let record =
                            record.filter(|record| self.wanted.takes_record(self.index, record));
                        records.extend(record.map(|record| (place, record)));
                    }
                    Err(error) => {
                        console.error(&error.to_string());
                        *code = 1;
                    }
                }
            }
            let views = view_placed_jobs(self.places, records, &self.running).await?;
            let mut views: Vec<JobView> = views.into_iter().map(|(_, view)| view).collect();
            views.retain(|view| self.wanted.takes(view));
            // The index orders a retrying job by its schedule, and NEXT shows its retry.
            views.sort_by_key(|view| {
                view.next_start().map_or((true, None), |(at, _)| (false, Some(at)))
            });
            return Ok(Some(self.cut(views)));
        }
        Ok(None)
    }

    /// Returns the jobs of this page that are within `--offset` and `--limit`.
    fn cut(&mut self, mut views: Vec<JobView>) -> Vec<JobView> {
        let skipped = self.to_skip.min(views.len());
        self.to_skip -= skipped;
        views.drain(..skipped);
        views.truncate(self.left);
        self.left -= views.len();
        views
    }
}
