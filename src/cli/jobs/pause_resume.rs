//! `pause` and `resume`. If one job cannot be paused or resumed, the command goes on with the next
//! job. The exit code is the worst of all jobs.

#![allow(clippy::doc_markdown, reason = "comments on flags are texts of --help")]

use serde_json::json;

use super::target::{extra_run, job_name, no_such_job};
use crate::cli::connect::connect;
use crate::cli::failure::CliFailure;
use crate::cli::global::Global;
use crate::cli::local_zone::local_zone;
use crate::cli::render::{Console, Outcomes, rfc3339, shown, zone_of_job};
use crate::cli::shell::completion;
use schedd::engine::planning::job_operations;
use schedd_schedule::names::JobName;
use schedd_schedule::time::unix_millis::UnixMillis;
use schedd_store::{PauseReply, ResumeReply, Store};

const SWITCH_EXAMPLES: &str = "\
Examples:
  schedctl pause backup report
  schedctl resume backup report

Retries and manual runs of a paused job still start. Occurrences during the pause are skipped. A
one-shot that became due during the pause runs when the job is resumed.";

/// Pauses or resumes jobs.
#[derive(Debug, clap::Args)]
#[command(after_help = SWITCH_EXAMPLES)]
pub(crate) struct PauseArgs {
    /// Names of jobs
    #[arg(required = true, value_name = "JOB", add = completion::jobs())]
    names: Vec<String>,
}

/// The state to which a job is switched: paused or resumed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum To {
    Paused,
    Resumed,
}

/// The outcome of the switch for one job.
struct Done {
    result: &'static str,
    sentence: String,
    next_due: Option<String>,
}

/// Pauses or resumes the named jobs. Returns the worst exit code.
pub(crate) async fn switch(
    global: &Global,
    args: &PauseArgs,
    to: To,
    console: &mut Console,
) -> Result<u8, CliFailure> {
    let names: Vec<JobName> =
        args.names.iter().map(|text| job_name(text)).collect::<Result<_, _>>()?;
    let store = connect(global, console).await?;
    let mut outcomes = Outcomes::on(console);
    for name in names {
        let done = switch_at_place(&store, &name, to).await;
        outcomes.report(done.map(|Done { result, sentence, next_due }| {
            (json!({"job": name.as_str(), "result": result, "next_due": next_due}), sentence)
        }));
    }
    Ok(outcomes.end())
}

/// Pauses or resumes one job. Returns a sentence with the outcome.
pub(crate) async fn switch_job(
    store: &Store,
    name: &JobName,
    to: To,
) -> Result<String, CliFailure> {
    switch_at_place(store, name, to).await.map(|done| done.sentence)
}

async fn switch_at_place(home: &Store, name: &JobName, to: To) -> Result<Done, CliFailure> {
    turn(&home.place_of_job(name).await?, name, to).await
}

async fn turn(store: &Store, name: &JobName, to: To) -> Result<Done, CliFailure> {
    match to {
        To::Paused => pause(store, name).await,
        To::Resumed => resume(store, name).await,
    }
}

async fn pause(store: &Store, name: &JobName) -> Result<Done, CliFailure> {
    let reply = job_operations::pause(store, name).await?;
    let next_due = next_due(store, name, None).await?.map(|(_, due)| due);
    let done = |result, sentence: String| Ok(Done { result, sentence, next_due });
    match reply {
        PauseReply::Paused => done("paused", format!("job {name} paused")),
        PauseReply::Already => done("already", format!("job {name} was already paused")),
        PauseReply::Unknown | PauseReply::Stale => Err(not_defined(store, name).await),
    }
}

async fn resume(store: &Store, name: &JobName) -> Result<Done, CliFailure> {
    let (reply, next) = job_operations::resume(store, name).await?;
    let (next, next_due) = next_due(store, name, next).await?.unzip();
    match reply {
        ResumeReply::Resumed => {
            let then =
                next.map_or_else(String::new, |at| format!(", next {}", shown(at, &local_zone())));
            Ok(Done { result: "resumed", sentence: format!("job {name} resumed{then}"), next_due })
        }
        ResumeReply::Already => {
            Ok(Done { result: "already", sentence: format!("job {name} was not paused"), next_due })
        }
        ResumeReply::Unknown | ResumeReply::Stale | ResumeReply::Occupied => {
            Err(not_defined(store, name).await)
        }
    }
}

/// Returns the start of the next run, and its due time as JSON: that of the run due at `planned`, or
/// of an earlier run that `next=` or `next --set` planned. A pause does not stop such a run.
async fn next_due(
    store: &Store,
    name: &JobName,
    planned: Option<UnixMillis>,
) -> Result<Option<(UnixMillis, String)>, CliFailure> {
    let record = store.read_job(name).await?;
    let extra = match &record {
        Some(record) => extra_run(store, record).await?,
        None => None,
    };
    let zone = zone_of_job(store, name).await;
    let not_before = record.and_then(|record| record.next_set).map(|(at, _)| at);
    let start = |due: UnixMillis| not_before.map_or(due, |at| due.max(at));
    let next = planned.map(|due| (start(due), due)).into_iter();
    let next = next.chain(extra.map(|run| (run.due(), run.due()))).min();
    Ok(next.map(|(at, due)| (at, rfc3339(due, &zone))))
}

/// Returns the failure for a job that does not exist, or is over.
pub(crate) async fn not_defined(store: &Store, name: &JobName) -> CliFailure {
    match store.read_job(name).await {
        Err(error) => error.into(),
        Ok(Some(job)) if !job.is_live() => {
            let how = job.ended.unwrap_or_default();
            CliFailure::Conflict(format!(
                "job {name} is over ({how}); schedctl history {name} lists its runs"
            ))
        }
        Ok(_) => no_such_job(store, name).await,
    }
}
