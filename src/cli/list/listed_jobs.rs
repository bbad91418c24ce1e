//! The jobs that `list` selects, read page by page.

use std::collections::BTreeSet;

use super::list_flags::{ListArgs, ListSource};
use crate::cli::failure::CliFailure;
use crate::cli::render::{Console, JobState, JobView, running_jobs, view_jobs};
use crate::domain::name::names::{JobName, QueueName};
use crate::store::{JobRecord, SourceKind, Store};

/// The number of jobs read in one call.
const PAGE: usize = 500;

/// The filters that select the listed jobs.
pub(super) struct Wanted {
    state: Option<JobState>,
    queue: Option<QueueName>,
    kind: Option<SourceKind>,
    all: bool,
}

impl Wanted {
    pub(super) fn of(args: &ListArgs) -> Result<Self, CliFailure> {
        let queue = args.queue.as_deref().map(str::parse::<QueueName>).transpose();
        let kind = args.source.map(|source| match source {
            ListSource::File => SourceKind::File,
            ListSource::Api => SourceKind::Api,
        });
        let queue = queue.map_err(|error| CliFailure::Invalid(error.to_string()))?;
        Ok(Self { state: args.state, queue, kind, all: args.all })
    }

    pub(super) fn includes_finished(&self) -> bool {
        self.all || self.state == Some(JobState::Finished)
    }

    fn filters(&self) -> bool {
        self.state.is_some() || self.queue.is_some() || self.kind.is_some()
    }

    pub(super) fn takes(&self, view: &JobView) -> bool {
        !self.filters()
            || self.state.is_none_or(|state| view.state() == state)
                && self.queue.as_ref().is_none_or(|queue| view.record.lane.queue() == queue)
                && self.kind.is_none_or(|kind| view.record.kind == kind)
    }
}

/// The two indexes of jobs in Redis, in the order in which they are read: jobs that are not over,
/// and jobs that are over.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Index {
    Defined,
    Over,
}

/// A reader of pages of jobs that applies `--offset` and `--limit`.
pub(super) struct Pager<'s> {
    store: &'s Store,
    running: BTreeSet<JobName>,
    index: Index,
    position: usize,
    last_index: Index,
    to_skip: usize,
    pub(super) left: usize,
}

impl<'s> Pager<'s> {
    pub(super) async fn new(
        store: &'s Store,
        args: &ListArgs,
        most: usize,
        with_finished: bool,
    ) -> Result<Self, CliFailure> {
        let left = if args.limit == 0 { most } else { args.limit.min(most) };
        let last_index = if with_finished { Index::Over } else { Index::Defined };
        let running = running_jobs(store).await?;
        Ok(Self {
            store,
            running,
            index: Index::Defined,
            position: 0,
            last_index,
            to_skip: args.offset,
            left,
        })
    }

    /// Returns the next page of jobs, or `None` after the last page. For a job that cannot be read,
    /// prints an error and sets `code` to 1.
    pub(super) async fn next(
        &mut self,
        console: &mut Console,
        code: &mut u8,
    ) -> Result<Option<Vec<JobView>>, CliFailure> {
        while self.left > 0 {
            let names = match self.index {
                Index::Defined => self.store.list_jobs(self.position, PAGE).await?,
                Index::Over => self.store.list_finished(self.position, PAGE).await?,
            };
            self.position += PAGE;
            if names.is_empty() {
                if self.index == self.last_index {
                    break;
                }
                (self.index, self.position) = (Index::Over, 0);
                continue;
            }
            let mut records = Vec::with_capacity(names.len());
            for record in self.store.read_jobs(&names).await? {
                match record {
                    Ok(record) => records.extend(record.filter(|record| self.belongs(record))),
                    Err(error) => {
                        console.error(&error.to_string());
                        *code = 1;
                    }
                }
            }
            return view_jobs(self.store, records, &self.running).await.map(Some);
        }
        Ok(None)
    }

    /// Returns true if the job belongs in the list. Every job that is not over belongs. Of the jobs
    /// that are over, only one-shots and hidden jobs belong.
    fn belongs(&self, record: &JobRecord) -> bool {
        match self.index {
            Index::Defined => record.is_live(),
            Index::Over => !record.is_live() && (record.is_once || record.name.is_hidden()),
        }
    }

    /// Returns the jobs of this page that are within `--offset` and `--limit`.
    pub(super) fn cut(&mut self, mut views: Vec<JobView>) -> Vec<JobView> {
        let skipped = self.to_skip.min(views.len());
        self.to_skip -= skipped;
        views.drain(..skipped);
        views.truncate(self.left);
        self.left -= views.len();
        views
    }
}
