//! `show`: everything known about a job or a run.

#![allow(clippy::doc_markdown, reason = "comments on flags are texts of --help")]

use super::run_name::TargetName;
use super::show_job::show_job;
use super::show_run::show_run;
use super::target::Target;
use crate::cli::connect::connect;
use crate::cli::failure::CliFailure;
use crate::cli::global::Global;
use crate::cli::render::Console;
use crate::cli::shell::completion;
use schedd_store::Store;

const SHOW_EXAMPLES: &str = "\
Examples:
  schedctl show backup
  schedctl show backup@last --json
  schedctl show backup/on_failure

A run is named by its id, such as backup@1790000000000, or by a part of the id that no other run of
the job has: the first digits, or at least 4 last digits, where a final 000 may be left out. Tables
show such short ids. JOB@last is the newest run that started or ended, JOB@-2 the run before it, and
JOB@next the planned run. All verbs that take a RUN accept these names.

JOB/on_failure (also on_success, on_late, on_recovered, ping) is the hidden job whose runs deliver
the notices of JOB. show prints the hidden job as JOB defines it now. The \"notices\" lines list the
undelivered notices of a job: those that failed for good and those that will be retried.";

/// Shows everything known about a job (its definition, state, next and last runs) or a run (its
/// attempts).
#[derive(Debug, clap::Args)]
#[command(after_help = SHOW_EXAMPLES)]
pub(crate) struct ShowArgs {
    /// Name of a job or id of a run
    #[arg(value_name = "JOB|RUN", add = completion::all_jobs_and_runs())]
    target: String,
}

/// Shows the job or run named on the command line. Returns the exit code.
pub(crate) async fn show(
    global: &Global,
    args: &ShowArgs,
    console: &mut Console,
) -> Result<u8, CliFailure> {
    let name = TargetName::parse(&args.target)?;
    let store = connect(global, console).await?;
    let (store, target) = name.find(&store).await?;
    Box::pin(show_target(&store, &target, console)).await
}

/// Prints everything known about a job or a run. Returns the exit code.
pub(crate) async fn show_target(
    store: &Store,
    target: &Target,
    console: &mut Console,
) -> Result<u8, CliFailure> {
    match target {
        Target::Job(name) => Box::pin(show_job(store, name, console)).await,
        Target::Run(run) => Box::pin(show_run(store, run, console)).await,
    }
}
