//! The grammar of the command line and the texts of `--help`, which are the manual.
//!
//! Only the form of arguments is checked here. Values are checked by the code that checks jobs
//! files, so a flag obeys the same rules as the key of the same name.

#![allow(clippy::doc_markdown, reason = "comments on flags are texts of --help")]

use clap::{Parser, Subcommand};

use super::access::acl_verb::{AclArgs, acl};
use super::access::dashboard_verb::{DashboardArgs, dashboard};
use super::access::token_verb::{TOKEN_HELP, TokenVerb, token};
use super::add::{AddArgs, add};
use super::apply::{ApplyArgs, DiffArgs, apply, diff};
use super::dead::{PurgeArgs, RetryArgs, purge, retry};
use super::doctor::{DoctorArgs, doctor};
use super::explain::{ExplainArgs, explain};
use super::failure::CliFailure;
use super::global::Global;
use super::import::{IMPORT_HELP, ImportVerb, import};
use super::jobs::check::{CheckArgs, check};
use super::jobs::describe_verb::{DescribeArgs, describe};
use super::jobs::export_verb::{ExportArgs, export};
use super::jobs::graph_verb::{GraphArgs, graph};
use super::jobs::pause_resume::{PauseArgs, To, switch};
use super::jobs::show::{ShowArgs, show};
use super::list::{ListArgs, list};
use super::logs::{LogsArgs, logs};
use super::next::{NextArgs, next};
use super::queue::{QUEUE_HELP, QueueVerb, QueuesArgs, queue, queues};
use super::render::Console;
use super::runs::backfill::{BackfillArgs, backfill};
use super::runs::cancel::{CancelArgs, cancel};
use super::runs::history_verb::{HistoryArgs, history};
use super::runs::rerun::{RerunArgs, rerun};
use super::runs::run_verb::{RunArgs, run};
use super::shell::completions_verb::{CompletionsArgs, completions};
use super::state::data_loss_verb::{DATA_LOSS_HELP, data_loss};
use super::state::groups::{GROUPS_HELP, GroupsArgs, groups};
use super::state::nodes_verb::{NODES_HELP, nodes};
use super::state::stats_verb::{STATS_HELP, stats};
use super::top::{TOP_HELP, TopArgs, top};
use super::work::{WorkArgs, work};

const TOP_EXAMPLES: &str = "\
Examples:
  schedctl add --in 10m -- /usr/local/bin/report --year 2026
  schedctl add --name backup --cron '30 2 * * *' --shell 'pg_dump app > /backup/app.sql'
  schedctl list
  schedctl run backup --wait
  schedctl history backup

Redis is looked for in --redis, SCHEDD_REDIS_URL, [redis] of the jobs file (--jobs, SCHEDD_JOBS,
./jobs.toml, /etc/schedd/jobs.toml), then at the socket of a schedd with a private Redis.

Exit codes: 0 done; 1 failed or differs; 2 bad usage or invalid input; 3 no such job or run;
4 conflict; 69 Redis unreachable; 75 done, but not on the wanted replicas of Redis; 78 invalid
configuration file. run --wait exits with the exit code of the job.";

/// Adds, shows, runs and stops the jobs of schedd, a scheduler for delayed and recurring jobs.
#[derive(Debug, Parser)]
#[command(name = "schedctl", version, arg_required_else_help = true, max_term_width = 100, after_help = TOP_EXAMPLES)]
pub(crate) struct CliArgs {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) verb: Verb,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Add a job and print its name
    Add(Box<AddArgs>),
    /// List jobs by their next run
    List(ListArgs),
    /// Cancel a run, or remove a job added with schedctl add
    Cancel(CancelArgs),
    /// Show everything known about a job or a run
    Show(ShowArgs),
    /// List runs, newest first
    History(HistoryArgs),
    /// Explain why a run did or did not start
    Explain(ExplainArgs),
    /// Print the output of a run
    Logs(LogsArgs),
    /// Print the next times of a job, of the jobs of a file or of a cron expression
    Next(NextArgs),
    /// Describe in words when a job runs or what a cron expression means
    Describe(DescribeArgs),
    /// Draw the chains of jobs: which job runs after which
    Graph(GraphArgs),
    /// Run a job now, in addition to its schedule
    Run(RunArgs),
    /// Run an ended run again, as a new run
    Rerun(RerunArgs),
    /// Run past occurrences of a job
    Backfill(BackfillArgs),
    /// Retry runs that failed, timed out or were lost
    Retry(RetryArgs),
    /// Delete dead letters: runs that failed, timed out or were lost
    Purge(PurgeArgs),
    /// Pause jobs until they are resumed
    Pause(PauseArgs),
    /// Resume paused jobs
    Resume(PauseArgs),
    /// Change the settings of a queue, or pause or resume queues
    #[command(subcommand, after_help = QUEUE_HELP)]
    Queue(QueueVerb),
    /// List the queues with their load and the waiting and run times of their runs
    Queues(QueuesArgs),
    /// Check a jobs file without applying it
    Check(CheckArgs),
    /// Show what schedctl apply would change
    Diff(DiffArgs),
    /// Store the jobs of a jobs file in Redis, without a node
    Apply(ApplyArgs),
    /// Print jobs as a jobs file
    Export(ExportArgs),
    /// Write a jobs file with the jobs of a crontab
    #[command(subcommand, after_help = IMPORT_HELP)]
    Import(ImportVerb),
    /// Print counts of jobs, runs, nodes and stored data
    #[command(after_help = STATS_HELP)]
    Stats,
    /// Watch due, running and ended runs, and act on them
    #[command(after_help = TOP_HELP)]
    Top(TopArgs),
    /// List the nodes (schedd processes)
    #[command(after_help = NODES_HELP)]
    Nodes,
    /// List the groups with their turn, their running runs and their waiting runs
    #[command(after_help = GROUPS_HELP)]
    Groups(GroupsArgs),
    /// Check Redis, the nodes, their files and all stored data; make safe repairs
    Doctor(DoctorArgs),
    /// List each data loss of Redis and what was restored
    #[command(after_help = DATA_LOSS_HELP)]
    DataLoss,
    /// Make any program a worker, which takes the runs of handlers
    Work(WorkArgs),
    /// Make, list and revoke the tokens of the HTTP API
    #[command(subcommand, after_help = TOKEN_HELP)]
    Token(TokenVerb),
    /// Print the rights that schedd needs in Redis, as a line of an ACL
    Acl(AclArgs),
    /// Open a browser that is signed in to the HTTP API
    Dashboard(DashboardArgs),
    /// Print a shell completion script
    Completions(CompletionsArgs),
}

/// Runs one verb. Returns the exit code.
pub(crate) async fn dispatch(args: CliArgs, console: &mut Console) -> Result<u8, CliFailure> {
    let global = &args.global;
    match args.verb {
        Verb::Add(args) => Box::pin(add(global, &args, console)).await,
        Verb::List(args) => list(global, &args, console).await,
        Verb::Show(args) => Box::pin(show(global, &args, console)).await,
        Verb::History(args) => history(global, &args, console).await,
        Verb::Explain(args) => Box::pin(explain(global, &args, console)).await,
        Verb::Logs(args) => logs(global, &args, console).await,
        Verb::Next(args) => next(global, &args, console).await,
        Verb::Describe(args) => describe(global, &args, console).await,
        Verb::Graph(args) => graph(global, &args, console).await,
        Verb::Run(args) => run(global, &args, console).await,
        Verb::Rerun(args) => rerun(global, &args, console).await,
        Verb::Backfill(args) => backfill(global, &args, console).await,
        Verb::Cancel(args) => Box::pin(cancel(global, &args, console)).await,
        Verb::Retry(args) => retry(global, &args, console).await,
        Verb::Purge(args) => purge(global, &args, console).await,
        Verb::Pause(args) => switch(global, &args, To::Paused, console).await,
        Verb::Resume(args) => switch(global, &args, To::Resumed, console).await,
        Verb::Queue(args) => queue(global, &args, console).await,
        Verb::Queues(args) => queues(global, &args, console).await,
        Verb::Check(args) => check(global, &args, console),
        Verb::Diff(args) => diff(global, &args, console).await,
        Verb::Apply(args) => apply(global, &args, console).await,
        Verb::Export(args) => export(global, &args, console).await,
        Verb::Import(verb) => import(&verb, console),
        Verb::Stats => stats(global, console).await,
        Verb::Top(args) => top(global, &args, console).await,
        Verb::Nodes => nodes(global, console).await,
        Verb::Groups(args) => groups(global, &args, console).await,
        Verb::Doctor(args) => Box::pin(doctor(global, &args, console)).await,
        Verb::DataLoss => data_loss(global, console).await,
        Verb::Work(args) => Box::pin(work(global, &args, console)).await,
        Verb::Token(verb) => token(global, &verb, console),
        Verb::Acl(args) => acl(global, &args, console).await,
        Verb::Dashboard(args) => dashboard(global, &args, console),
        Verb::Completions(args) => completions(&args, console),
    }
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
