//! `history`: lists runs, newest first. Runs are read and printed page by page.

#![allow(clippy::doc_markdown, reason = "comments on flags are texts of --help")]

use std::collections::HashSet;

use serde_json::Value;

use super::open_runs::open_runs;
use super::run_filter::{RunFilter, RunReader};
use super::short_ids::ShortIds;
use super::tagged_jobs::TaggedJobs;
use crate::cli::connect::{answering_places, connect};
use crate::cli::failure::CliFailure;
use crate::cli::global::Global;
use crate::cli::jobs::target::{job_name, no_such_job};
use crate::cli::merged_places::{MergedPlaces, Placed, placed};
use crate::cli::render::{Console, JsonArray, RunTable, view_placed_runs};
use crate::cli::shell::completion;
use schedd_schedule::names::{JobName, RunId};
use schedd_store::{IndexCursor, Letters, RunNotices, RunRecord, Store};

const HISTORY_EXAMPLES: &str = "\
Examples:
  schedctl history
  schedctl history backup --limit 5 --json
  schedctl history --dead --since 24h
  schedctl history backup --state failed,timed_out
  schedctl history backup --wide

Dead letters are runs that ended failed, timed_out or lost; schedctl retry retries them. --since and
--until select runs by their end; write a time as for add --at, or a duration before now. A time of
day or a weekday without a date means the last one before now.

With a JOB, its open runs are listed first: runs that are running or wait for a retry, and the last
100 manual runs, even if they have not started. RUN is a short id, which all verbs accept; --json
prints complete ids. Without a JOB, the runs that deliver notices
(JOB/on_failure, JOB/ping) are listed only with --dead or --notices.";

/// Lists ended runs, newest first, including runs of jobs that are no longer defined.
#[derive(Debug, clap::Args)]
#[command(after_help = HISTORY_EXAMPLES)]
pub(crate) struct HistoryArgs {
    /// Only runs of this job
    #[arg(add = completion::jobs())]
    pub(crate) job: Option<String>,
    /// Only dead letters: runs that ended failed, timed_out or lost
    #[arg(long)]
    pub(crate) dead: bool,
    /// Include the runs that deliver notices; for one job use history JOB/on_failure
    #[arg(long, conflicts_with_all = ["job", "dead"])]
    notices: bool,
    #[command(flatten)]
    pub(crate) which: RunFilter,
    /// Show more columns: the time waited, CPU time, peak memory, bytes read and written
    #[arg(long, short)]
    wide: bool,
    /// Show at most N runs; 0 means all
    #[arg(long, value_name = "N", default_value_t = 50)]
    limit: usize,
    /// Skip the first N runs
    #[arg(long, value_name = "N", default_value_t = 0)]
    offset: usize,
}

/// Lists the selected runs. Returns the exit code.
pub(crate) async fn history(
    global: &Global,
    args: &HistoryArgs,
    console: &mut Console,
) -> Result<u8, CliFailure> {
    let job = args.job.as_deref().map(job_name).transpose()?;
    let letters = if args.dead { Letters::Dead } else { Letters::All };
    args.which.check(letters)?;
    let looks_at_open = job.is_some() && letters == Letters::All && !args.which.has_bounds();
    if !looks_at_open {
        let which = if job.is_none() { "without a job" } else { "with --since or --until" };
        args.which.check_ended(which, None)?;
    }
    let store = connect(global, console).await?;
    let mut ended = args.which.ended(&store, letters, args.job.as_deref()).await?;
    if job.is_none() && letters == Letters::All && !args.notices {
        ended.notices = RunNotices::Without;
    }
    let mut left = if args.limit == 0 { usize::MAX } else { args.limit };
    let places = answering_places(&store, console).await?;
    let mut sheet = Sheet {
        table: if args.wide { RunTable::wide() } else { RunTable::new() },
        array: JsonArray::default(),
        ids: ShortIds::default(),
        count: 0,
        shown: HashSet::new(),
    };

    let mut open = match &job {
        Some(job) if looks_at_open => {
            let read = |store: Store| async move { open_runs(&store, job).await };
            placed(places.each(read).await?)
        }
        _ => Vec::new(),
    };
    open.sort_by(|(_, a), (_, b)| {
        IndexCursor::of_due(&b.run).compare(&IndexCursor::of_due(&a.run))
    });
    open.retain(|(_, run)| args.which.takes(run.state));
    TaggedJobs::default().retain(&places, &args.which.tags, &mut open).await?;
    let position = args.offset.saturating_sub(open.len());
    open.drain(..args.offset.min(open.len()));
    open.truncate(left);
    left -= open.len();
    sheet.page(&places, open, console).await?;

    let mut reader = RunReader::new(&places, ended, &args.which, position, left);
    while !console.is_closed()
        && let Some(runs) = reader.next().await?
    {
        sheet.page(&places, runs, console).await?;
    }
    if let Some(job) = job.as_ref().filter(|_| sheet.count == 0)
        && is_stranger(&places, job).await?
    {
        return Err(no_such_job(&store, job).await);
    }
    let nothing = sheet.count == 0 && !console.is_json();
    sheet.end(console);
    if nothing {
        console.note(&none_of(args, letters));
    }
    Ok(0)
}

/// Returns true if no place has the job or any of its runs.
pub(crate) async fn is_stranger(places: &MergedPlaces, job: &JobName) -> Result<bool, CliFailure> {
    // A hidden job is created with its first notice, so the job whose notices it delivers is looked
    // up.
    let known = job.notice_subject().map_or_else(|| job.clone(), |(subject, _)| subject);
    let known = &known;
    let read = |store: Store| async move {
        Ok::<bool, CliFailure>(
            store.read_job(known).await?.is_none()
                && store.read_history(Some(job), 0, 1).await?.entries == 0,
        )
    };
    Ok(places.each(read).await?.into_iter().all(|is_stranger| is_stranger))
}

/// Returns the message for a search that found no run. The message names the job, and the filters
/// if there are any.
fn none_of(args: &HistoryArgs, letters: Letters) -> String {
    let what = if letters == Letters::Dead { "no dead letters" } else { "no runs" };
    let of = args.job.as_ref().map(|job| format!(" of job {job}")).unwrap_or_default();
    let is_narrowed = args.which.has_bounds() || !args.which.state.is_empty();
    let is_narrowed = is_narrowed || !args.which.tags.is_empty() || args.offset > 0;
    let which = if is_narrowed { " match the filters" } else { "" };
    format!("{what}{of}{which}")
}

struct Sheet {
    table: RunTable,
    array: JsonArray,
    ids: ShortIds,
    count: usize,
    /// The runs that were already printed. A run that ends during the reading appears again on a
    /// later page and is not printed twice.
    shown: HashSet<RunId>,
}

impl Sheet {
    async fn page(
        &mut self,
        places: &MergedPlaces,
        mut runs: Vec<Placed<RunRecord>>,
        console: &mut Console,
    ) -> Result<(), CliFailure> {
        runs.retain(|(_, run)| self.shown.insert(run.run.clone()));
        self.count += runs.len();
        let views = view_placed_runs(places, runs).await?;
        if console.is_json() {
            for view in &views {
                self.array.push(console, &Value::Object(view.json()));
            }
        } else {
            self.ids.read_for(places, views.iter().map(|view| &view.record.run)).await?;
            self.table.add(&views, &self.ids, console);
        }
        Ok(())
    }

    fn end(mut self, console: &mut Console) {
        if console.is_json() {
            self.array.end(console);
        } else {
            self.table.end(console);
        }
    }
}
