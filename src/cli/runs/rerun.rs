//! `rerun`: repeats the work of an ended run, as a new run with the same due time.

#![allow(clippy::doc_markdown, reason = "comments on flags are texts of --help")]

use super::run_verb::{WaitArgs, follow, refuse_damaged};
use crate::cli::connect::connect;
use crate::cli::failure::CliFailure;
use crate::cli::global::Global;
use crate::cli::jobs::run_name::RunName;
use crate::cli::jobs::target::{find_run, no_such_job};
use crate::cli::render::Console;
use crate::domain::name::names::RunId;
use crate::engine::planning::job_operations;
use crate::store::Store;

const EXAMPLES: &str = "\
Examples:
  schedctl rerun backup@1790000000000
  schedctl rerun backup@1790000000000 --wait

The new run has the due time of the old run (SCHEDD_DUE) and its own id, and uses the job's current
definition. The old run is not changed, whatever its result. To continue a failed run under its own
id, use retry. Exit codes with --wait are those of run --wait.";

/// Repeats the work of an ended run and prints the id of the new run.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct RerunArgs {
    /// Id of the run
    #[arg(value_name = "RUN", add = crate::cli::shell::completion::runs())]
    run: String,
    #[command(flatten)]
    waiting: WaitArgs,
}

/// Repeats an ended run as a new run. Returns the exit code.
pub(crate) async fn rerun(
    global: &Global,
    args: &RerunArgs,
    console: &mut Console,
) -> Result<u8, CliFailure> {
    let name = RunName::parse(&args.run)?;
    let waiting = args.waiting.prepare()?;
    let store = connect(global, console).await?;
    let run = name.find(&store).await?;
    let old = find_run(&store, &run).await?;
    if !old.state.is_final() {
        let state = old.state.as_str();
        return Err(CliFailure::Conflict(format!(
            "run {run} is {state}, wanted an ended run; cancel the run first, or wait for its end"
        )));
    }
    refuse_damaged(&store, run.job()).await?;
    match job_operations::rerun(&store, &run).await? {
        Some(new) => follow(&store, &[new], waiting, console).await,
        None => Err(gone(&store, &run).await),
    }
}

async fn gone(store: &Store, run: &RunId) -> CliFailure {
    let job = run.job();
    match store.read_job(job).await {
        Err(error) => error.into(),
        Ok(Some(record)) if !record.is_live() => {
            let how = record.ended.unwrap_or_default();
            CliFailure::Conflict(format!(
                "run {run} cannot be run again: job {job} is over ({how}); add the job again, at the time when it is to run"
            ))
        }
        Ok(Some(_)) => no_such_job(store, job).await,
        Ok(None) => CliFailure::Conflict(format!(
            "run {run} cannot be run again: job {job} no longer exists; add the job again, at the time when it is to run"
        )),
    }
}
