//! What may be written on the command line, and the texts of `--help`, which are the manual.
//!
//! Only the form is judged here; what a value means is judged where files are judged too, so that a flag obeys the same
//! rules as the key of the same name.

#![allow(clippy::doc_markdown, reason = "comments on flags are texts of --help")]

use std::path::PathBuf;

use clap::{Parser, Subcommand};

use super::complete;

pub(super) use super::add::AddArgs;
pub(super) use super::backfill::BackfillArgs;
pub(super) use super::completions::CompletionsArgs;
pub(super) use super::dead::{PurgeArgs, RetryArgs};
pub(super) use super::declared::{ApplyArgs, DiffArgs};
pub(super) use super::describe::DescribeArgs;
pub(super) use super::doctor::DoctorArgs;
pub(super) use super::ended::Which;
pub(super) use super::explain::ExplainArgs;
pub(super) use super::export::ExportArgs;
pub(super) use super::list::{JobState, List};
pub(super) use super::next::NextArgs;
pub(super) use super::queue::QueueVerb;
pub(super) use super::rerun::RerunArgs;
pub(super) use super::run::RunArgs;

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
pub(super) struct Args {
    #[command(flatten)]
    pub(super) global: Global,
    #[command(subcommand)]
    pub(super) verb: Verb,
}

/// What every verb takes.
#[derive(Debug, clap::Args)]
pub(super) struct Global {
    /// Address of the Redis, such as redis://127.0.0.1:6379/0 or unix:///run/redis.sock (also SCHEDD_REDIS_URL)
    #[arg(long, global = true, value_name = "URL", help_heading = "Global options")]
    pub(super) redis: Option<String>,
    /// Prefix of all keys in that Redis (also SCHEDD_NAMESPACE) [default: schedd]
    #[arg(long, global = true, value_name = "NAME", help_heading = "Global options")]
    pub(super) namespace: Option<String>,
    /// The jobs file (also SCHEDD_JOBS) [default: ./jobs.toml, which only root and you may change, then /etc/schedd/jobs.toml]
    #[arg(long, global = true, value_name = "FILE", help_heading = "Global options")]
    pub(super) jobs: Option<PathBuf>,
    /// Print one JSON document instead of text
    #[arg(long, global = true, help_heading = "Global options")]
    pub(super) json: bool,
    /// Leave out the first line of tables
    #[arg(long, global = true, help_heading = "Global options")]
    pub(super) no_headers: bool,
    /// Say nothing beside the result and what went wrong
    #[arg(long, short, global = true, help_heading = "Global options")]
    pub(super) quiet: bool,
}

#[derive(Debug, Subcommand)]
pub(super) enum Verb {
    /// Add a job and print its name
    Add(Box<AddArgs>),
    /// List jobs by the time they run next
    List(List),
    /// Stop a run, or take a job added by schedctl out
    Cancel(Cancel),
    /// Show all that is known of a job or a run
    Show(Show),
    /// List runs, the newest first
    History(History),
    /// Tell why a run did or did not start
    Explain(ExplainArgs),
    /// Print what a run wrote
    Logs(Logs),
    /// Print the next times of a job, of a file's jobs or of a cron expression
    Next(NextArgs),
    /// Tell in words when a job runs or what a cron expression means
    Describe(DescribeArgs),
    /// Run a job now, beside its schedule
    Run(RunArgs),
    /// Do the work of a run that ended anew, as a run of its own
    Rerun(RerunArgs),
    /// Make up for past occurrences of a job
    Backfill(BackfillArgs),
    /// Try runs again that failed, timed out or were lost
    Retry(RetryArgs),
    /// Forget runs that failed, timed out or were lost
    Purge(PurgeArgs),
    /// Keep jobs from running until they are resumed
    Pause(Jobs),
    /// Let paused jobs run again
    Resume(Jobs),
    /// Change what holds for a queue, pause or resume it
    #[command(subcommand, after_help = "Examples:\n  schedctl queue set mail limit=5 rate=100/1m\n  schedctl queue pause mail")]
    Queue(QueueVerb),
    /// List the queues: how full they are, how long their runs wait and take
    #[command(after_help = QUEUES_HELP)]
    Queues,
    /// Check a jobs file without using it
    Check(Check),
    /// Show what applying a jobs file would change
    Diff(DiffArgs),
    /// Make what is live as a jobs file says, without a node that reads it
    Apply(ApplyArgs),
    /// Print jobs as a jobs file
    Export(ExportArgs),
    /// Print the state of the whole in numbers
    #[command(after_help = "Example:\n  schedctl stats --json")]
    Stats,
    /// Watch what is due, runs and ended, and act on it
    #[command(after_help = super::top::HELP)]
    Top,
    /// List the schedd processes
    #[command(
        after_help = "Example:\n  schedctl nodes\n\nA node that was not seen for 15 seconds is shown as gone. Where the files of nodes have one job\notherwise, the last change holds, and both nodes say so."
    )]
    Nodes,
    /// List the groups: whose turn it is, who runs and who waits
    #[command(
        after_help = "Example:\n  schedctl groups\n\nTURN and SINCE: of a group whose members take turns. RUNNING: who has its place, from the moment it\nis to start. NEXT: when time alone opens it: its gap is over, or its patience with a member that has\nnothing due."
    )]
    Groups,
    /// Check Redis, the nodes, their files and all that is kept, and mend what is safe
    Doctor(DoctorArgs),
    /// List the times Redis lost data, and what became of it
    #[command(
        after_help = "Example:\n  schedctl losses\n\nRESTORED: ended runs that the journals of nodes gave back. LOST: at-most-once runs whose end nobody\nknows. JOBS GONE: jobs added by schedctl, which no file brings back."
    )]
    Losses,
    /// Print what has a shell complete the words of schedctl, the names of jobs among them
    Completions(CompletionsArgs),
}

const CANCEL_EXAMPLES: &str = "\
Examples:
  schedctl cancel job-4f9k2m1xq0
  schedctl cancel backup --stop
  schedctl cancel backup@1790000000000
  schedctl cancel backup --backfill

A run ends cancelled and its job goes on. A job is taken out with its planned run; a one-shot's
running run is stopped with it, a recurring job's only with --stop. A job of a file is taken out by
editing the file.";

/// Stops runs (JOB@DUE_MS), or takes jobs added by schedctl out.
#[derive(Debug, clap::Args)]
#[command(after_help = CANCEL_EXAMPLES)]
pub(super) struct Cancel {
    /// Names of jobs, ids of runs
    #[arg(required = true, value_name = "JOB|RUN", add = complete::jobs_and_runs())]
    pub(super) targets: Vec<String>,
    /// Also stop the running run of a recurring job
    #[arg(long)]
    pub(super) stop: bool,
    /// Of each JOB only give up what schedctl backfill planted and has not ended
    #[arg(long, conflicts_with = "stop")]
    pub(super) backfill: bool,
}

/// Shows all that is known of a job (its definition, state, next and last runs) or of a run (its attempts).
#[derive(Debug, clap::Args)]
#[command(after_help = SHOW_EXAMPLES)]
pub(super) struct Show {
    /// Name of a job or id of a run
    #[arg(value_name = "JOB|RUN", add = complete::jobs_and_runs())]
    pub(super) target: String,
}

const SHOW_EXAMPLES: &str = "\
Examples:
  schedctl show backup
  schedctl show backup@1790000000000 --json
  schedctl show backup/on_failure

JOB/on_failure (on_success, on_late, on_recovered, ping) is what tells people of JOB: its runs are
the notices, shown as JOB says now. Under a job, untold are those that told nobody, or not yet.";

const HISTORY_EXAMPLES: &str = "\
Examples:
  schedctl history
  schedctl history backup --limit 5 --json
  schedctl history --dead --since 24h
  schedctl history backup --state failed,timed_out

Dead letters are runs that ended failed, timed_out or lost; schedctl retry tries them again. --since
and --until go by when runs ended and take what add --at takes, or a duration: so long ago; a time
of day or a weekday alone is its last coming.

With a JOB its open runs come first: running, waiting for a retry, and of those asked for by hand
(the last 100) also what has yet to begin. Without one the runs of notices (JOB/on_failure,
JOB/ping) are left out but for dead ones; --notices has them all.";

/// Lists runs that ended, the newest first; also those of jobs that are no longer defined.
#[derive(Debug, clap::Args)]
#[command(after_help = HISTORY_EXAMPLES)]
pub(super) struct History {
    /// Only runs of this job
    #[arg(add = complete::jobs())]
    pub(super) job: Option<String>,
    /// Only dead letters: runs that ended failed, timed_out or lost
    #[arg(long)]
    pub(super) dead: bool,
    /// Also the runs that told people of others, as history JOB/on_failure shows those of one job
    #[arg(long, conflicts_with_all = ["job", "dead"])]
    pub(super) notices: bool,
    #[command(flatten)]
    pub(super) which: Which,
    /// At most so many; 0 = all
    #[arg(long, value_name = "N", default_value_t = 50)]
    pub(super) limit: usize,
    /// Leave out so many at the beginning
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(super) offset: usize,
}

const LOGS_EXAMPLES: &str = "\
Examples:
  schedctl logs backup@1790000000000
  schedctl logs backup --attempt 1
  schedctl logs backup -f

Of a JOB its newest run that wrote something is taken. What went to standard error comes out there.
On a terminal control characters are shown escaped.

With -f what comes is printed as it comes, a second or so later, through all attempts, until the run
is over (0) or Ctrl-C (130). Of a JOB the run that executes is followed, else the next one. --json
prints an object a line; state is null in all but the last.";

/// Prints what the last attempt of a run wrote, or with -f what it writes.
#[derive(Debug, clap::Args)]
#[command(after_help = LOGS_EXAMPLES)]
pub(super) struct Logs {
    /// Id of a run or name of a job
    #[arg(value_name = "RUN|JOB", add = complete::jobs_and_runs())]
    pub(super) target: String,
    /// This attempt instead of the last
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) attempt: Option<u32>,
    /// Go on printing what comes until the run is over
    #[arg(long, short, conflicts_with = "attempt")]
    pub(super) follow: bool,
    /// Write control characters as they are, also on a terminal
    #[arg(long)]
    pub(super) raw: bool,
}

const SWITCH_EXAMPLES: &str = "\
Examples:
  schedctl pause backup report
  schedctl resume backup report

Retries and manual runs of a paused job go on. What it misses is skipped; a one-shot that came due
meanwhile runs when it is resumed.";

const QUEUES_HELP: &str = "\
Example:
  schedctl queues

STATE: open, paused, full (as many run as LIMIT says) or rate (as many began as RATE lets, for now).
DEPTH: runs that are ready; OLDEST: for how long the first of them is; SCHEDULED: those to come.
CONCURRENCY is what each node runs at once, LIMIT what all together do; UTIL is what runs of what
may. WAIT (from ready to start, of runs tried once) and RUN are the median and the 95th percentile
of those of its runs that are among the last 1,000 that ended in all queues.";

/// Keeps jobs from running, or lets them run again.
#[derive(Debug, clap::Args)]
#[command(after_help = SWITCH_EXAMPLES)]
pub(super) struct Jobs {
    /// Names of jobs
    #[arg(required = true, value_name = "JOB", add = complete::jobs())]
    pub(super) names: Vec<String>,
}

/// Checks a jobs file and tells every problem with its line; nothing is changed and no Redis is needed.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  schedctl check /etc/schedd/jobs.toml\n\nExit codes: 0 no problems; 78 problems, or no such file."
)]
pub(super) struct Check {
    /// The file [default: the one that would be used]
    pub(super) file: Option<PathBuf>,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_flags_do_not_contradict_each_other() {
        Args::command().debug_assert();
    }

    #[test]
    fn every_verb_takes_the_global_flags_and_says_an_example() {
        let command = Args::command();
        for verb in command.get_subcommands() {
            let help = verb.clone().render_long_help().to_string();
            assert!(help.contains("Example"), "{help}");
        }
    }
}
