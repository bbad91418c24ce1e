//! The flags of `list`.

#![allow(clippy::doc_markdown, reason = "comments on flags are texts of --help")]

use clap::ValueEnum;

use crate::cli::render::JobState;

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
  schedctl list --state paused
  schedctl list --all --json --limit 100 --offset 200
  schedctl list --watch=5s

A job is running while one of its runs is running. A job is retrying while one of its scheduled or
recent manual runs waits for a retry; NEXT is then the time of the retry (--json: retry_at), unless
the next occurrence comes first. STATE is \"queue paused\" for a scheduled job in a paused queue
(--json: queue_paused).

With --watch on a terminal, the list is redrawn, with as many jobs as fit on the screen. Without a
terminal, and with --json, each list is printed below the previous list. Ctrl-C quits (exit code
130).

IN is the time until NEXT, or the time since NEXT if the run is late. AGO is the time since LAST,
the start of the run that ended last.";

/// Lists jobs by the time of their next run; jobs without a next run come last.
#[derive(Debug, clap::Args)]
#[command(after_help = LIST_EXAMPLES)]
pub(crate) struct ListArgs {
    /// Only jobs in this state
    #[arg(long, value_enum)]
    pub(super) state: Option<JobState>,
    /// Only jobs of this queue
    #[arg(long, add = crate::cli::shell::completion::queues())]
    pub(super) queue: Option<String>,
    /// Only jobs from files, or only jobs added with schedctl add
    #[arg(long, value_enum)]
    pub(super) source: Option<ListSource>,
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
