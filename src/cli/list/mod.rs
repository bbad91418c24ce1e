//! `list`: jobs by the time of their next run. Jobs are read and printed page by page, so that a
//! million jobs need little memory.
//!
//! The order is that of Redis' index when each page is read. A job whose next time changes
//! meanwhile may appear twice or not at all.

#![allow(clippy::doc_markdown, reason = "comments on flags are texts of --help")]

mod watch;

use std::collections::BTreeSet;

use clap::ValueEnum;

use super::connect::connect;
use super::failure::CliFailure;
use super::global::Global;
use super::render::{Cell, Console, Detail, JobState, JobView, JsonArray, Relative, Table, running_jobs, shown_in, view_jobs};
use crate::domain::name::names::{JobName, QueueName};
use crate::domain::time::unix_millis::UnixMillis;
use crate::domain::time::zone::Zone;
use crate::store::{JobRecord, SourceKind, Store};

/// The number of jobs read in one call.
const PAGE: usize = 500;

/// The kind of source a job comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ListSource {
    /// Declared in a jobs file
    File,
    /// Added by schedctl
    Api,
}

const LIST_EXAMPLES: &str = "\
Examples:
  schedctl list
  schedctl list --state paused
  schedctl list --all --json --limit 100 --offset 200
  schedctl list --watch=5s

A job is running while one of its runs is running. It is retrying while one of its scheduled or
recent manual runs waits for a retry; NEXT is then the time of the retry (--json: retry_at), unless
the next occurrence comes first. STATE is \"queue paused\" for a scheduled job in a paused queue
(--json: queue_paused).

With --watch the list is redrawn on a terminal, with as many jobs as it has lines. Otherwise, and
with --json, each list is printed below the previous one. Ctrl-C ends it (130).";

/// Lists jobs by the time of their next run; jobs without one come last.
#[derive(Debug, clap::Args)]
#[command(after_help = LIST_EXAMPLES)]
pub(crate) struct ListArgs {
    /// Only jobs in this state
    #[arg(long, value_enum)]
    pub(crate) state: Option<JobState>,
    /// Only jobs of this queue
    #[arg(long)]
    pub(crate) queue: Option<String>,
    /// Only jobs from files, or only those added by schedctl
    #[arg(long, value_enum)]
    pub(crate) source: Option<ListSource>,
    /// Include one-shots that are over
    #[arg(long)]
    pub(crate) all: bool,
    /// Show at most N jobs; 0 = all
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) limit: usize,
    /// Skip the first N jobs
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) offset: usize,
    /// List repeatedly at this interval [default: 2s]
    #[arg(long, value_name = "INTERVAL", num_args = 0..=1, require_equals = true, default_missing_value = "2s")]
    pub(crate) watch: Option<String>,
}

/// Lists jobs once, or repeatedly with `--watch`. Returns the exit code.
pub(crate) async fn list(global: &Global, args: &ListArgs, console: &mut Console) -> Result<u8, CliFailure> {
    if let Some(text) = &args.watch {
        return watch::watch(global, args, watch::interval(text)?, console).await;
    }
    let wanted = Wanted::of(args)?;
    let store = connect(global, console).await?;
    Ok(print(&store, args, &wanted, usize::MAX, console).await?.code)
}

/// The result of printing a list.
struct Printed {
    /// The time of Redis before the jobs were read.
    now: UnixMillis,
    /// The exit code: 1 if a job in the list cannot be read.
    code: u8,
}

/// Prints the selected jobs, but at most `most` jobs.
async fn print(
    store: &Store,
    args: &ListArgs,
    wanted: &Wanted,
    most: usize,
    console: &mut Console,
) -> Result<Printed, CliFailure> {
    let now = store.now().await?;
    let mut printed = Printed { now, code: 0 };
    let mut sheet = Sheet::new(Relative { now });
    let mut pager = Pager::new(store, args, most, wanted.includes_finished()).await?;
    while let Some(page) = pager.next(console, &mut printed.code).await? {
        let views: Vec<JobView> = page.into_iter().filter(|view| wanted.takes(view)).collect();
        let taken = pager.cut(views);
        sheet.page(&taken, console);
        if console.is_closed() {
            return Ok(printed);
        }
    }
    let which = if pager.left == 0 && most < usize::MAX { "the first " } else { "" };
    sheet.end(which, console);
    Ok(printed)
}

/// The filters that select the listed jobs.
struct Wanted {
    state: Option<JobState>,
    queue: Option<QueueName>,
    kind: Option<SourceKind>,
    all: bool,
}

impl Wanted {
    fn of(args: &ListArgs) -> Result<Self, CliFailure> {
        let queue = args.queue.as_deref().map(str::parse::<QueueName>).transpose();
        let kind = args.source.map(|source| match source {
            ListSource::File => SourceKind::File,
            ListSource::Api => SourceKind::Api,
        });
        let queue = queue.map_err(|error| CliFailure::Invalid(error.to_string()))?;
        Ok(Self { state: args.state, queue, kind, all: args.all })
    }

    fn includes_finished(&self) -> bool {
        self.all || self.state == Some(JobState::Finished)
    }

    fn filters(&self) -> bool {
        self.state.is_some() || self.queue.is_some() || self.kind.is_some()
    }

    fn takes(&self, view: &JobView) -> bool {
        !self.filters()
            || self.state.is_none_or(|state| view.state() == state)
                && self.queue.as_ref().is_none_or(|queue| view.record.lane.queue() == queue)
                && self.kind.is_none_or(|kind| view.record.kind == kind)
    }
}

/// The two indexes of jobs in Redis, which are read one after the other.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Index {
    Defined,
    Over,
}

/// A reader of pages of jobs that applies `--offset` and `--limit`.
struct Pager<'s> {
    store: &'s Store,
    running: BTreeSet<JobName>,
    index: Index,
    position: usize,
    last_index: Index,
    to_skip: usize,
    left: usize,
}

impl<'s> Pager<'s> {
    async fn new(store: &'s Store, args: &ListArgs, most: usize, with_finished: bool) -> Result<Self, CliFailure> {
        let left = if args.limit == 0 { most } else { args.limit.min(most) };
        let last_index = if with_finished { Index::Over } else { Index::Defined };
        let running = running_jobs(store).await?;
        Ok(Self { store, running, index: Index::Defined, position: 0, last_index, to_skip: args.offset, left })
    }

    /// Returns the next page of jobs, or `None` after the last page. Reports jobs that cannot be
    /// read.
    async fn next(&mut self, console: &mut Console, code: &mut u8) -> Result<Option<Vec<JobView>>, CliFailure> {
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

    /// Returns true if the job belongs in the list. Among the jobs that are over only one-shots
    /// belong, because a removed recurring job is no longer a job.
    fn belongs(&self, record: &JobRecord) -> bool {
        match self.index {
            Index::Defined => record.is_live(),
            Index::Over => !record.is_live() && (record.is_once || record.name.is_hidden()),
        }
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

/// The output of a list of jobs, as a table or JSON.
struct Sheet {
    when: Relative,
    local: Zone,
    table: Table<6>,
    array: JsonArray,
    count: usize,
}

impl Sheet {
    fn new(when: Relative) -> Self {
        let table = Table::new(["NEXT", "LEFT", "LAST", "PASSED", "STATE", "JOB"]);
        Self { when, local: Zone::of_host(), table, array: JsonArray::default(), count: 0 }
    }

    fn page(&mut self, views: &[JobView], console: &mut Console) {
        self.count += views.len();
        if console.is_json() {
            for view in views {
                self.array.push(console, &view.json());
            }
        } else {
            let rows: Vec<[Cell; 6]> = views.iter().map(|view| self.row(view, console.detail())).collect();
            self.table.page(&rows, console);
        }
    }

    fn row(&self, view: &JobView, detail: Detail) -> [Cell; 6] {
        let next = view.next_start().map(|(at, _)| at);
        let last = view.last.as_ref().and_then(|run| run.started_at.or(run.finished_at));
        let (state, colour) = view.state_word();
        [
            Cell::maybe(next.map(|at| shown_in(detail, at, &self.local, self.when.now))),
            Cell::maybe(next.map(|at| self.when.left(at))),
            Cell::maybe(last.map(|at| shown_in(detail, at, &self.local, self.when.now))),
            Cell::maybe(last.map(|at| self.when.passed(at))),
            Cell::new(state).coloured(colour),
            Cell::new(view.record.name.as_str()),
        ]
    }

    /// Prints the end of the list. `which` names the listed part, if not all jobs were listed.
    fn end(self, which: &str, console: &mut Console) {
        if console.is_json() {
            self.array.end(console);
        } else if self.count == 0 {
            console.note("no jobs");
        } else if console.is_terminal() {
            match self.count {
                1 => console.note(&format!("{which}1 job")),
                count => console.note(&format!("{which}{count} jobs")),
            }
        }
    }
}
