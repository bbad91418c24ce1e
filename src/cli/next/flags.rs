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

What is no valid name of a job is taken as a cron expression, else as one of OnCalendar. Neither
needs Redis, nor does --file, whose jobs come sorted by time. NOTES tells what the zone's clock
changes do to a time: it does not exist, or comes twice. --json prints an array of times, of --file
one of objects with job and due; with --long each has also local, utc, relative_s, zone and notes.";

/// Prints the times at which a job, the jobs of a file or a cron expression come next.
#[derive(Debug, clap::Args)]
#[command(after_help = NEXT_EXAMPLES)]
pub(in crate::cli) struct NextArgs {
    /// Name of a job, or a cron expression in quotes
    #[arg(value_name = "JOB|EXPR", add = crate::cli::complete::jobs(), required_unless_present = "file", conflicts_with = "file")]
    pub(super) what: Option<String>,
    /// Every job of this file instead, without asking Redis
    #[arg(long, value_name = "FILE")]
    pub(super) file: Option<PathBuf>,
    /// Zone of an expression; of a job, which has its own, only the zone times are shown in
    #[arg(long, value_name = "ZONE")]
    pub(super) tz: Option<String>,
    /// Take the expression as an iCalendar rule that is counted from here, by the wall clock: 2026-01-05T09:00
    #[arg(long, value_name = "LOCAL TIME", requires = "what")]
    pub(super) dtstart: Option<String>,
    /// Take the expression as that of a job of this name, which decides what H stands for
    #[arg(long, value_name = "JOB", requires = "what")]
    pub(super) name: Option<String>,
    /// Only times strictly after this one [default: now]
    #[arg(long, value_name = "TIME")]
    pub(super) from: Option<String>,
    /// How many [default: 5; with --file 1 of each job]
    #[arg(short = 'n', long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(super) count: Option<u32>,
    /// With --json: all that is known of each time
    #[arg(long)]
    pub(super) long: bool,
}
