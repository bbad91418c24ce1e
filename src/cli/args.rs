//! The grammar of the command line and the texts of `--help`, which are the manual.
//!
//! Only the form of arguments is checked here. Values are checked by the code that checks jobs
//! files, so a flag obeys the same rules as the key of the same name.

#![allow(clippy::doc_markdown, reason = "comments on flags are texts of --help")]

use std::path::PathBuf;

use clap::{Parser, Subcommand};

use super::shell::completion;

pub(crate) use super::add::AddArgs;
pub(crate) use super::apply::{ApplyArgs, DiffArgs};
pub(crate) use super::dead::{PurgeArgs, RetryArgs};
pub(crate) use super::doctor::DoctorArgs;
pub(crate) use super::explain::ExplainArgs;
pub(crate) use super::jobs::describe_verb::DescribeArgs;
pub(crate) use super::jobs::export_verb::ExportArgs;
pub(crate) use super::list::{JobState, ListArgs};
pub(crate) use super::next::NextArgs;
pub(crate) use super::queue::QueueVerb;
pub(crate) use super::runs::backfill::BackfillArgs;
pub(crate) use super::runs::rerun::RerunArgs;
pub(crate) use super::runs::run_filter::RunFilter;
pub(crate) use super::runs::run_verb::RunArgs;
pub(crate) use super::shell::completions_verb::CompletionsArgs;

const TOP_EXAMPLES: &str = "\
Examples:
  schedctl add --in 10m -- /usr/local/bin/report --year 2026
  schedctl add --name backup --cron '30 2 * * *' --shell 'pg_dump app > /backup/app.sql'
  schedctl list
  schedctl run backup --wait
  schedctl history backup

Redis is looked for in --redis, SCHEDD_REDIS_URL, [redis] of the jobs file (--jobs, SCHEDD_JOBS,
./jobs.toml, /etc/schedd/jobs.toml), then at the socket of a schedd that keeps its own.

Exit codes: 0 done; 1 failed or differs; 2 bad usage or invalid input; 3 no such job or run;
4 conflict; 69 Redis unreachable; 78 invalid configuration file. run --wait exits as the job does.";

/// Adds, shows, runs and stops the jobs of schedd, a scheduler for delayed and recurring jobs.
#[derive(Debug, Parser)]
#[command(name = "schedctl", version, arg_required_else_help = true, max_term_width = 100, after_help = TOP_EXAMPLES)]
pub(crate) struct CliArgs {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) verb: Verb,
}

/// The flags that every verb takes.
#[derive(Debug, clap::Args)]
pub(crate) struct Global {
    /// Address of the Redis, such as redis://127.0.0.1:6379/0 or unix:///run/redis.sock (also
    /// SCHEDD_REDIS_URL)
    #[arg(long, global = true, value_name = "URL", help_heading = "Global options")]
    pub(crate) redis: Option<String>,
    /// Prefix of all keys in that Redis (also SCHEDD_NAMESPACE) [default: schedd]
    #[arg(long, global = true, value_name = "NAME", help_heading = "Global options")]
    pub(crate) namespace: Option<String>,
    /// The jobs file (also SCHEDD_JOBS) [default: ./jobs.toml, which only root and you may change,
    /// then /etc/schedd/jobs.toml]
    #[arg(long, global = true, value_name = "FILE", help_heading = "Global options")]
    pub(crate) jobs: Option<PathBuf>,
    /// Print one JSON document instead of text
    #[arg(long, global = true, help_heading = "Global options")]
    pub(crate) json: bool,
    /// Leave out the header line of tables
    #[arg(long, global = true, help_heading = "Global options")]
    pub(crate) no_headers: bool,
    /// Print only the result and errors
    #[arg(long, short, global = true, help_heading = "Global options")]
    pub(crate) quiet: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Add a job and print its name
    Add(Box<AddArgs>),
    /// List jobs by their next run
    List(ListArgs),
    /// Cancel a run, or remove a job that schedctl added
    Cancel(Cancel),
    /// Show everything known about a job or a run
    Show(Show),
    /// List runs, newest first
    History(History),
    /// Explain why a run did or did not start
    Explain(ExplainArgs),
    /// Print the output of a run
    Logs(Logs),
    /// Print the next times of a job, of a file's jobs or of a cron expression
    Next(NextArgs),
    /// Describe in words when a job runs or what a cron expression means
    Describe(DescribeArgs),
    /// Run a job now, in addition to its schedule
    Run(RunArgs),
    /// Repeat an ended run, as a new run
    Rerun(RerunArgs),
    /// Run past occurrences of a job
    Backfill(BackfillArgs),
    /// Retry runs that failed, timed out or were lost
    Retry(RetryArgs),
    /// Delete dead letters: runs that failed, timed out or were lost
    Purge(PurgeArgs),
    /// Pause jobs until they are resumed
    Pause(Jobs),
    /// Resume paused jobs
    Resume(Jobs),
    /// Change the settings of a queue, pause or resume it
    #[command(subcommand, after_help = "Examples:\n  schedctl queue set mail limit=5 rate=100/1m\n  schedctl queue pause mail")]
    Queue(QueueVerb),
    /// List the queues: how full they are, how long their runs wait and take
    #[command(after_help = QUEUES_HELP)]
    Queues,
    /// Check a jobs file without applying it
    Check(CheckArgs),
    /// Show what applying a jobs file would change
    Diff(DiffArgs),
    /// Apply a jobs file without a node that reads it
    Apply(ApplyArgs),
    /// Print jobs as a jobs file
    Export(ExportArgs),
    /// Print counts of jobs, runs, nodes and stored data
    #[command(after_help = "Example:\n  schedctl stats --json")]
    Stats,
    /// Watch due, running and ended runs, and act on them
    #[command(after_help = super::top::HELP)]
    Top,
    /// List the nodes (schedd processes)
    #[command(
        after_help = "Example:\n  schedctl nodes\n\nA node that was not seen for 15 seconds is shown as gone. Where the files of nodes have one job\notherwise, the last change holds, and both nodes say so."
    )]
    Nodes,
    /// List the groups: whose turn it is, which runs run and which wait
    #[command(
        after_help = "Example:\n  schedctl groups\n\nTURN and SINCE: only for a group whose members take turns. RUNNING: the run that holds the group,\nfrom its claim on. NEXT: the time at which the group opens by itself, because its gap is over or its\nturn_timeout with a member without a due run ends."
    )]
    Groups,
    /// Check Redis, the nodes, their files and all stored data, and repair what is safe
    Doctor(DoctorArgs),
    /// List each data loss of Redis and what was restored
    #[command(
        after_help = "Example:\n  schedctl data-loss\n\nRESTORED: ended runs restored from the journals of nodes. LOST: at-most-once runs whose end is not\nknown. JOBS GONE: jobs added by schedctl, which no file restores."
    )]
    DataLoss,
    /// Print a shell completion script
    Completions(CompletionsArgs),
}

const CANCEL_EXAMPLES: &str = "\
Examples:
  schedctl cancel job-4f9k2m1xq0
  schedctl cancel backup --stop
  schedctl cancel backup@1790000000000
  schedctl cancel backup --backfill

A cancelled run ends, and its job goes on. A job is removed together with its planned run. The
running run of a one-shot is stopped too, that of a recurring job only with --stop. To remove a job
declared in a file, edit the file.";

/// Stops runs (JOB@DUE_MS), or removes jobs that schedctl added.
#[derive(Debug, clap::Args)]
#[command(after_help = CANCEL_EXAMPLES)]
pub(crate) struct Cancel {
    /// Names of jobs, ids of runs
    #[arg(required = true, value_name = "JOB|RUN", add = completion::jobs_and_runs())]
    pub(crate) targets: Vec<String>,
    /// Also stop the running run of a recurring job
    #[arg(long)]
    pub(crate) stop: bool,
    /// For each JOB, cancel only the backfill runs that have not ended
    #[arg(long, conflicts_with = "stop")]
    pub(crate) backfill: bool,
}

/// Shows everything known about a job (its definition, state, next and last runs) or a run (its
/// attempts).
#[derive(Debug, clap::Args)]
#[command(after_help = SHOW_EXAMPLES)]
pub(crate) struct Show {
    /// Name of a job or id of a run
    #[arg(value_name = "JOB|RUN", add = completion::jobs_and_runs())]
    pub(crate) target: String,
}

const SHOW_EXAMPLES: &str = "\
Examples:
  schedctl show backup
  schedctl show backup@1790000000000 --json
  schedctl show backup/on_failure

JOB/on_failure (on_success, on_late, on_recovered, ping) is the hidden job whose runs deliver the
notices of JOB. It is shown as JOB defines it now. The notices lines of a job name its
notices that failed for good, or are being retried.";

const HISTORY_EXAMPLES: &str = "\
Examples:
  schedctl history
  schedctl history backup --limit 5 --json
  schedctl history --dead --since 24h
  schedctl history backup --state failed,timed_out

Dead letters are runs that ended failed, timed_out or lost; schedctl retry tries them again. --since
and --until compare with the end of a run. They take a time as add --at does, or a duration, which
means that long ago. A time of day or a weekday alone means the last past one.

With a JOB its open runs come first: those running or waiting for a retry, and the last 100 manual
runs, also before they start. Without a JOB the runs of notices (JOB/on_failure, JOB/ping) are left
out unless --dead is given; --notices lists them too.";

/// Lists ended runs, newest first, also those of jobs that are no longer defined.
#[derive(Debug, clap::Args)]
#[command(after_help = HISTORY_EXAMPLES)]
pub(crate) struct History {
    /// Only runs of this job
    #[arg(add = completion::jobs())]
    pub(crate) job: Option<String>,
    /// Only dead letters: runs that ended failed, timed_out or lost
    #[arg(long)]
    pub(crate) dead: bool,
    /// Include the runs of notices, as history JOB/on_failure shows them for one job
    #[arg(long, conflicts_with_all = ["job", "dead"])]
    pub(crate) notices: bool,
    #[command(flatten)]
    pub(crate) which: RunFilter,
    /// Show at most N runs; 0 = all
    #[arg(long, value_name = "N", default_value_t = 50)]
    pub(crate) limit: usize,
    /// Skip the first N runs
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) offset: usize,
}

const LOGS_EXAMPLES: &str = "\
Examples:
  schedctl logs backup@1790000000000
  schedctl logs backup --attempt 1
  schedctl logs backup -f

For a JOB the newest run with output is used. Output that a job wrote to standard error goes to
standard error. On a terminal control characters are shown escaped.

With -f output is printed about a second after it is written, through all attempts, until the run
ends (exit code 0) or Ctrl-C (130). For a JOB the running run is followed, else the next one. --json
prints one object a line; state is null in all but the last.";

/// Prints the output of the last attempt of a run, or with -f follows it.
#[derive(Debug, clap::Args)]
#[command(after_help = LOGS_EXAMPLES)]
pub(crate) struct Logs {
    /// Id of a run or name of a job
    #[arg(value_name = "RUN|JOB", add = completion::jobs_and_runs())]
    pub(crate) target: String,
    /// Print this attempt instead of the last
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) attempt: Option<u32>,
    /// Keep printing new output until the run ends
    #[arg(long, short, conflicts_with = "attempt")]
    pub(crate) follow: bool,
    /// Write control characters unescaped, also on a terminal
    #[arg(long)]
    pub(crate) raw: bool,
}

const SWITCH_EXAMPLES: &str = "\
Examples:
  schedctl pause backup report
  schedctl resume backup report

Retries and manual runs of a paused job go on. Occurrences during the pause are skipped. A one-shot
that became due during the pause runs when it is resumed.";

const QUEUES_HELP: &str = "\
Example:
  schedctl queues

STATE: open, paused, full (LIMIT is reached) or rate (RATE is used up for now). DEPTH: ready runs;
OLDEST: how long the first of them has been ready; SCHEDULED: runs that are due later. CONCURRENCY:
how many runs each node runs at once; LIMIT: how many all nodes together run; UTIL: running runs as
a share of what may run. WAIT (from ready to start, of runs with one attempt) and RUN are the median
and the 95th percentile, taken from the last 1,000 ended runs of all queues.";

/// Pauses or resumes jobs.
#[derive(Debug, clap::Args)]
#[command(after_help = SWITCH_EXAMPLES)]
pub(crate) struct Jobs {
    /// Names of jobs
    #[arg(required = true, value_name = "JOB", add = completion::jobs())]
    pub(crate) names: Vec<String>,
}

/// Checks a jobs file and reports every problem with its line; nothing is changed and no Redis is
/// needed.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  schedctl check /etc/schedd/jobs.toml\n\nExit codes: 0 no problems; 78 problems, or no such file."
)]
pub(crate) struct CheckArgs {
    /// The jobs file [default: the one that would be used]
    pub(crate) file: Option<PathBuf>,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_flags_do_not_contradict_each_other() {
        CliArgs::command().debug_assert();
    }

    #[test]
    fn every_verb_takes_the_global_flags_and_says_an_example() {
        let command = CliArgs::command();
        for verb in command.get_subcommands() {
            let help = verb.clone().render_long_help().to_string();
            assert!(help.contains("Example"), "{help}");
        }
    }
}
