//! The flags of `next`.

#![allow(clippy::doc_markdown, reason = "comments on flags are texts of --help")]

use std::path::PathBuf;

const NEXT_EXAMPLES: &str = "\
Examples:
  schedctl next backup
  schedctl next '30 2 * * mon-fri' --tz Europe/Berlin -n 10
  schedctl next @daily --from 'next fri 17:00'
  schedctl next --file jobs.toml
  schedctl next 'Mon..Fri 09:00'
  schedctl next 'FREQ=MONTHLY;BYDAY=-1FR' --dtstart 2026-01-05T09:00
  schedctl next backup --set 14:05

An argument that is not a valid job name is read as a cron expression, or else as an OnCalendar
expression. Expressions and --file need no Redis. The times of --file are sorted over all jobs.
NOTES says if a clock change of the zone skips a time or shows a time twice.

--json prints an array of times, and with --file an array of objects with job and due. With --long,
each item is an object with job, due, local, utc, relative_s, tz and notes.";

/// Prints the next times of a job, of the jobs of a file or of a cron expression; sets the time of
/// the next run of a job.
#[derive(Debug, clap::Args)]
#[command(after_help = NEXT_EXAMPLES)]
pub(crate) struct NextArgs {
    /// Name of a job, or a cron expression in quotes
    #[arg(value_name = "JOB|EXPR", add = crate::cli::shell::completion::jobs(), required_unless_present = "file", conflicts_with = "file")]
    pub(super) what: Option<String>,
    /// Show the next times of all jobs of this jobs file; needs no Redis
    #[arg(long, value_name = "FILE")]
    pub(super) file: Option<PathBuf>,
    /// Zone of the expression; for a job, only the zone in which its times are shown
    #[arg(long, value_name = "ZONE", add = crate::cli::shell::completion::zones())]
    pub(super) tz: Option<String>,
    /// Read the expression as an iCalendar rule that starts at this local time: 2026-01-05T09:00
    #[arg(long, value_name = "LOCAL TIME", requires = "what")]
    pub(super) dtstart: Option<String>,
    /// Name of the job that has the expression; H in the expression is derived from this name
    #[arg(long, value_name = "JOB", requires = "what")]
    pub(super) name: Option<String>,
    /// Show only times after this time [default: now]
    #[arg(long, value_name = "TIME")]
    pub(super) from: Option<String>,
    /// Number of times [default: 5; with --file 1 for each job]
    #[arg(short = 'n', long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(super) count: Option<u32>,
    /// Set the time of the next run, such as 14:05 or 5m: the planned run waits until then, or a
    /// run is planned for it if none comes before
    #[arg(long, value_name = "TIME", requires = "what", conflicts_with_all = ["dtstart", "name", "from", "count", "long"])]
    pub(super) set: Option<String>,
    /// With --json: print all details of each time
    #[arg(long)]
    pub(super) long: bool,
}

impl NextArgs {
    /// Returns true if the command reads a jobs file, and no Redis.
    pub(crate) fn reads_file(&self) -> bool {
        self.file.is_some()
    }

    /// Returns true if the command sets the time of the next run.
    pub(crate) fn changes(&self) -> bool {
        self.set.is_some()
    }
}
