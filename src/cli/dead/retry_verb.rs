//! `retry`: retries dead letters, which are named or selected by filters. If one run cannot be
//! retried, the command goes on with the next run. The exit code is the worst of all runs.

#![allow(clippy::doc_markdown, reason = "comments on flags are texts of --help")]

use serde_json::json;

use super::dead_letters::{Chosen, not_dead, without_record};
use crate::cli::connect::{answering_places, connect};
use crate::cli::failure::CliFailure;
use crate::cli::global::Global;
use crate::cli::merged_places::MergedPlaces;
use crate::cli::render::{Console, Outcomes};
use crate::cli::runs::rerun::is_over_one_shot;
use crate::cli::runs::run_filter::{RunFilter, RunReader};
use schedd::engine::planning::retry_order;
use schedd_schedule::names::RunId;
use schedd_store::{Letters, RetryReply, Store};

const EXAMPLES: &str = "\
Examples:
  schedctl retry backup@last
  schedctl retry --dead --job backup
  schedctl retry --dead --state lost --since 24h --dry-run

A retried run keeps its id and its due time, gets all its retries again, and is ready at once.
SCHEDD_ATTEMPT continues to count. The run waits for an open run of its job, unless overlap of the
job is allow. A run that was already retried is not changed. --since and --until select runs by
their end; write a time as for add --at, or a duration before now.";

/// Retries runs that failed, timed out or were lost.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct RetryArgs {
    #[command(flatten)]
    chosen: Chosen,
    #[command(flatten)]
    which: RunFilter,
    /// Retry at most N runs, oldest first; 0 means all
    #[arg(long, value_name = "N", default_value_t = 0, requires = "dead", conflicts_with = "runs")]
    limit: usize,
    /// Only print which runs would be retried
    #[arg(long)]
    dry_run: bool,
}

/// Retries the named or selected dead letters. Returns the worst exit code.
pub(crate) async fn retry(
    global: &Global,
    args: &RetryArgs,
    console: &mut Console,
) -> Result<u8, CliFailure> {
    let named = args.chosen.named()?;
    let RunFilter { state, tags, .. } = &args.which;
    if !args.chosen.dead && (args.which.has_bounds() || !state.is_empty() || !tags.is_empty()) {
        let message = "--state, --since, --until and --tag require --dead";
        return Err(CliFailure::Invalid(message.to_owned()));
    }
    args.which.check(Letters::Dead)?;
    let store = connect(global, console).await?;
    // All names are read before the first retry, because a retry changes which run is the last.
    let mut runs = Vec::new();
    for name in &named {
        runs.push(name.find(&store).await);
    }
    if args.chosen.dead {
        let places = answering_places(&store, console).await?;
        runs.extend(picked(&places, args).await?.into_iter().map(Ok));
    }
    let is_none = runs.is_empty();
    let mut outcomes = Outcomes::on(console);
    for run in runs {
        let done = async {
            let (store, run) = run?;
            let (result, sentence) = if args.dry_run {
                look(&store, &run).await?
            } else {
                retry_run(&store, &run).await?
            };
            Ok((json!({"run_id": run.to_string(), "result": result}), sentence))
        };
        outcomes.report(done.await);
    }
    let worst = outcomes.end();
    if is_none && !console.is_json() {
        console.note("no dead letter matches the filters");
    }
    Ok(worst)
}

/// Returns the dead letters that the filters select, oldest first, each with its place.
async fn picked(
    places: &MergedPlaces,
    args: &RetryArgs,
) -> Result<Vec<(Store, RunId)>, CliFailure> {
    let job = args.chosen.job.as_deref();
    let ended = args.which.ended(places.home(), Letters::Dead, job).await?;
    let records = RunReader::new(places, ended, &args.which, 0, usize::MAX).all().await?;
    let limit = if args.limit == 0 { usize::MAX } else { args.limit };
    let found = records.into_iter().rev().take(limit);
    Ok(found.map(|(place, record)| (places.stores()[place].clone(), record.run)).collect())
}

type RetryOutcome = (&'static str, String);

async fn look(store: &Store, run: &RunId) -> Result<RetryOutcome, CliFailure> {
    match retry_order::refusal(store, run).await? {
        Some(reply) => outcome(store, run, reply).await,
        None => Ok(("would_retry", format!("run {run} would be retried"))),
    }
}

async fn retry_run(store: &Store, run: &RunId) -> Result<RetryOutcome, CliFailure> {
    outcome(store, run, retry_order::retry_run(store, run).await?).await
}

async fn outcome(
    store: &Store,
    run: &RunId,
    reply: RetryReply,
) -> Result<RetryOutcome, CliFailure> {
    let job = run.job();
    match reply {
        RetryReply::Retried => Ok(("retried", format!("run {run} is ready again"))),
        RetryReply::Waiting => {
            Ok(("waiting", format!("run {run} starts after the open run of job {job}")))
        }
        RetryReply::Already => Ok((
            "already",
            format!("run {run} is not changed: the run has not ended, or was already retried"),
        )),
        RetryReply::Over { state, at } => {
            let record = store.read_job(job).await?;
            let advice = if record.is_some_and(|job| job.is_live() || is_over_one_shot(&job)) {
                format!("run it again with schedctl rerun {run}")
            } else {
                format!("add job {job} again to run it again")
            };
            Err(not_dead(run, &state, at, &advice))
        }
        RetryReply::Gone(how) => {
            let how = how.map_or_else(String::new, |how| format!(" ({how})"));
            Err(CliFailure::Conflict(format!(
                "run {run} cannot be retried: job {job} no longer exists{how}; add the job again with the same definition, then retry the run"
            )))
        }
        RetryReply::Former => Err(CliFailure::Conflict(format!(
            "run {run} cannot be retried: it belongs to an earlier job {job} with another definition; \
             schedctl rerun {run} runs it again with the current definition"
        ))),
        RetryReply::Unknown | RetryReply::Stale => Err(without_record(store, run).await),
    }
}
