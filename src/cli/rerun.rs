//! `rerun`: repeats the work of an ended run, as a new run with the same due time.

#![allow(clippy::doc_markdown, reason = "comments on flags are texts of --help")]

use super::args::Global;
use super::connect::connect;
use super::failure::Failure;
use super::render::Console;
use super::run::{WaitArgs, follow, refuse_damaged};
use super::target::{find_run, no_such_job};
use crate::domain::ids::RunId;
use crate::engine::person;
use crate::store::Store;

const EXAMPLES: &str = "\
Examples:
  schedctl rerun backup@1790000000000
  schedctl rerun backup@1790000000000 --wait

The new run has the due time of the old run (SCHEDD_DUE) and its own id, and uses the job's current
definition. The old run is not changed, whatever its result. To continue a failed run under its own
id use retry. Exit codes with --wait are those of run --wait.";

/// Repeats the work of an ended run and prints the id of the new run.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct RerunArgs {
    /// Id of the run
    #[arg(value_name = "RUN", add = super::complete::runs())]
    run: String,
    #[command(flatten)]
    waiting: WaitArgs,
}

/// Repeats an ended run.
pub(super) async fn rerun(global: &Global, args: &RerunArgs, console: &mut Console) -> Result<u8, Failure> {
    let run: RunId = args.run.parse().map_err(|error: crate::domain::ids::IdError| Failure::Invalid(error.to_string()))?;
    let waiting = args.waiting.prepare()?;
    let store = connect(global, console).await?;
    let old = find_run(&store, &run).await?;
    if old.run != run {
        return Err(Failure::NotFound(format!("no run {run}: its id begins like {}; wanted the whole id", old.run)));
    }
    if !old.state.is_final() {
        let state = old.state.as_str();
        return Err(Failure::Conflict(format!(
            "run {run} is {state}, wanted one that ended: cancel it first, or wait for its end"
        )));
    }
    refuse_damaged(&store, run.job()).await?;
    match person::rerun(&store, &run).await? {
        Some(new) => follow(&store, &new, waiting, console).await,
        None => Err(gone(&store, &run).await),
    }
}

async fn gone(store: &Store, run: &RunId) -> Failure {
    let job = run.job();
    match store.read_job(job).await {
        Err(error) => error.into(),
        Ok(Some(record)) if !record.is_live() => {
            let how = record.ended.unwrap_or_default();
            Failure::Conflict(format!("run {run} cannot be run again: job {job} is over ({how}); add it again, then rerun"))
        }
        Ok(Some(_)) => no_such_job(store, job).await,
        Ok(None) => Failure::Conflict(format!("run {run} cannot be run again: job {job} is gone; add it again, then rerun")),
    }
}
