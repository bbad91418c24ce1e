//! The flags of `list`.

#![allow(clippy::doc_markdown, reason = "comments on flags are texts of --help")]

use clap::ValueEnum;

use crate::cli::render::JobState;
use crate::cli::shell::completion;
use schedd_core::domain::name::tag_filter::TagFilter;

/// The kind of source a job comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum ListSource {
    /// Declared in a jobs file
    File,
    /// Added with schedctl add
    Api,
}

const LIST_EXAMPLES: &str = "\
Examples:
  schedctl list
  schedctl list 'backup-*' --wide
  schedctl list --failed
  schedctl list --state paused
  schedctl list --all --json --limit 100 --offset 200
  schedctl list --watch=5s

A job is running while one of its runs is running. A job is retrying while one of its scheduled or
recent manual runs waits for a retry; NEXT is then the time of the retry (--json: retry_at), unless
the next occurrence comes first. STATE also names a pause: of the job (--json: paused), or of its
queue (--json: queue_paused). Of more than 200 jobs, a job with an early retry may be listed at its
scheduled time.

With --watch on a terminal, the list is redrawn, with as many jobs as fit on the screen. Without a
terminal, and with --json, each list is printed below the previous list. Ctrl-C quits (exit code
130).

IN is the time until NEXT, or the time since NEXT if the run is late. LAST is the start of the run
that ended last, and RESULT is how it ended (--json: last_run). --wide also shows the time of LAST,
how long the run took, the reason for its end, the queue, the source, and the whole SCHEDULE.";

/// Lists jobs by the time of their next run; jobs without a next run come last.
#[derive(Debug, clap::Args)]
#[command(after_help = LIST_EXAMPLES)]
pub(crate) struct ListArgs {
    /// Only jobs with this name, in which * stands for any characters and ? for one
    #[arg(value_name = "PATTERN", add = completion::jobs())]
    pub(super) pattern: Option<String>,
    /// Only jobs in this state
    #[arg(long, value_enum)]
    pub(super) state: Option<JobState>,
    /// Only jobs of this queue
    #[arg(long, add = crate::cli::shell::completion::queues())]
    pub(super) queue: Option<String>,
    /// Only jobs from files, or only jobs added with schedctl add
    #[arg(long, value_enum)]
    pub(super) source: Option<ListSource>,
    /// Only jobs whose last run failed, timed out or was lost
    #[arg(long)]
    pub(super) failed: bool,
    /// Show more columns
    #[arg(long, short)]
    pub(super) wide: bool,
    /// Only jobs with this tag; may be given several times
    #[arg(long = "tag", value_name = "NAME[=VALUE]")]
    pub(super) tags: Vec<TagFilter>,
    /// Include finished one-shots
    #[arg(long)]
    pub(super) all: bool,
    /// Show at most N jobs; 0 means all
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(super) limit: usize,
    /// Skip the first N jobs
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(super) offset: usize,
    /// List repeatedly at this interval [default: 2s]
    #[arg(long, value_name = "INTERVAL", num_args = 0..=1, require_equals = true, default_missing_value = "2s")]
    pub(super) watch: Option<String>,
}
