//! `rerun`: repeats the work of an ended run, as a new run with the same due time.

#![allow(clippy::doc_markdown, reason = "comments on flags are texts of --help")]

use std::sync::Arc;
use std::time::Duration;

use super::run_verb::{WaitArgs, follow, refuse_damaged};
use crate::cli::connect::connect;
use crate::cli::failure::CliFailure;
use crate::cli::global::Global;
use crate::cli::jobs::run_name::RunName;
use crate::cli::jobs::target::{definition_of, find_run, no_such_job};
use crate::cli::render::Console;
use schedd::engine::Definition;
use schedd::engine::planning::instances::apply_one;
use schedd::engine::planning::job_operations;
use schedd::engine::planning::planting::{Applied, Request};
use schedd_core::domain::run::run_note::RunNote;
use schedd_schedule::names::{JobName, RunId};
use schedd_store::{Existing, JobRecord, SourceKind, Store};

const EXAMPLES: &str = "\
Examples:
  schedctl rerun backup@1790000000000
  schedctl rerun backup@1790000000000 --wait

The new run has the due time of the old run (SCHEDD_DUE) and its own id, and uses the job's current
definition. A one-shot of schedctl add that is over is added again, due now. The old run is not
changed, whatever its result. To continue a failed run under its own id, use retry. Exit codes with
--wait are those of run --wait.";

/// Repeats the work of an ended run and prints the id of the new run.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct RerunArgs {
    /// Id of the run
    #[arg(value_name = "RUN", add = crate::cli::shell::completion::runs())]
    run: String,
    /// Why the run is wanted, for its record and the audit log of the job
    #[arg(long, value_name = "TEXT")]
    note: Option<RunNote>,
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
    let (store, run) = name.find(&store).await?;
    let old = find_run(&store, &run).await?;
    if !old.state.is_final() {
        let state = old.state.as_str();
        return Err(CliFailure::Conflict(format!(
            "run {run} is {state}, wanted an ended run; cancel the run first, or wait for its end"
        )));
    }
    refuse_damaged(&store, run.job()).await?;
    let new = match job_operations::rerun(&store, &run, args.note.as_ref()).await? {
        Some(new) => Some(new),
        None => add_again(&store, run.job()).await?,
    };
    match new {
        Some(new) => follow(&store, &[new], waiting, console).await,
        None => Err(gone(&store, &run).await),
    }
}

/// Returns true for a one-shot of `schedctl add` that is over. A rerun adds such a job again.
pub(crate) fn is_over_one_shot(job: &JobRecord) -> bool {
    !job.is_live() && job.is_once && job.kind == SourceKind::Api
}

/// Adds an ended one-shot again by its kept definition, due now, and returns its run. Returns `None`
/// if there is no such job.
async fn add_again(store: &Store, name: &JobName) -> Result<Option<RunId>, CliFailure> {
    let record = store.read_job(name).await?.filter(is_over_one_shot);
    let Some(Definition { spec, timetable, .. }) = record.map(definition_of).transpose()? else {
        return Ok(None);
    };
    let request = Request {
        name: name.clone(),
        is_drawn: false,
        spec: Arc::new(spec),
        start_in: Some(Duration::ZERO),
        kind: SourceKind::Api,
        source: String::new(),
        existing: Existing::Refuse,
        seen: None,
    };
    match apply_one(store, timetable.zone(), &request).await? {
        Applied::Created(Some(due)) => Ok(Some(RunId::regular(name.clone(), due))),
        Applied::Moved(job, Some(due)) => Ok(Some(RunId::regular(job, due))),
        Applied::Taken(job) => Err(CliFailure::Conflict(format!(
            "job {name} is not added again: job {job} holds its unique key; wait until that job is over"
        ))),
        _ => Err(CliFailure::Conflict(format!(
            "job {name} is not added again: somebody else added it at the same time; see schedctl show {name}"
        ))),
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
