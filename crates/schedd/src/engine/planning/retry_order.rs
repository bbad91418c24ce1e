//! Retries a dead letter at the request of an operator. The run keeps the record of its last
//! attempt. The script in Redis refuses the retry if the job changed after it was read.

use serde_json::json;

use super::job_operations::{OperationError, understand};
use schedd_core::domain::job::job_spec::Overlap;
use schedd_schedule::names::{Fence, RunId};
use schedd_schedule::time::unix_millis::UnixMillis;
use schedd_store::{Beside, JobRecord, RetryOrder, RetryReply, RunRecord, Store};

const ROUNDS: usize = 8;

/// Retries the dead letter `run`. The run is ready now, or waits until the open run of its job
/// ends. Its attempt numbers continue.
pub async fn retry_run(store: &Store, run: &RunId) -> Result<RetryReply, OperationError> {
    let Some(record) = store.read_run(run).await? else { return Ok(RetryReply::Unknown) };
    for _ in 0..ROUNDS {
        let job = store.read_job(run.job()).await?;
        let may_run_beside = match job.as_ref().filter(|job| is_runnable(job)) {
            Some(job) => understand(job.clone())?.spec.overlap == Overlap::Allow,
            None => false,
        };
        let order = RetryOrder {
            run: run.clone(),
            fence: record.fence,
            // A run in the queue of one host stays in that queue.
            job: job.map(|job| {
                (job.rev, if record.lane.is_of_host() { record.lane.clone() } else { job.lane })
            }),
            beside: if may_run_beside { Beside::Allowed } else { Beside::Waits },
            past: past(&record),
        };
        match store.retry_run(&order).await? {
            RetryReply::Stale => {}
            reply => return Ok(reply),
        }
    }
    Err(OperationError::Contended(run.job().clone()))
}

/// Returns the reply that refuses a retry of `run`, or `None` if the run would be retried. The rules
/// are those of the script.
pub async fn refusal(store: &Store, run: &RunId) -> Result<Option<RetryReply>, OperationError> {
    let Some(record) = store.read_run(run).await? else { return Ok(Some(RetryReply::Unknown)) };
    if !record.state.is_final() {
        return Ok(Some(RetryReply::Already));
    }
    if !record.state.is_dead() {
        let state = record.state.to_string();
        return Ok(Some(RetryReply::Over { state, at: record.finished_at }));
    }
    Ok(match store.read_job(run.job()).await? {
        None => Some(RetryReply::Gone(None)),
        Some(job) if !is_runnable(&job) => Some(RetryReply::Gone(job.ended)),
        Some(job) if job.is_later_than(&record) => Some(RetryReply::Former),
        Some(_) => None,
    })
}

/// Returns true if runs of the job may still execute. A finished one-shot keeps its definition for
/// its remaining runs. A removed job does not run again.
fn is_runnable(job: &JobRecord) -> bool {
    job.ended.as_deref().is_none_or(|how| how == "finished")
}

/// Returns the record of the last attempt of `run` as JSON.
fn past(run: &RunRecord) -> String {
    json!({
        "attempt": run.attempt,
        "state": run.state.as_str(),
        "fence": run.fence.map(Fence::as_u64),
        "node": run.node,
        "started_at_ms": run.started_at.map(UnixMillis::as_i64),
        "finished_at_ms": run.finished_at.map(UnixMillis::as_i64),
        "exit_code": run.exit_code,
        "signal": run.signal,
        "http_status": run.http_status,
        "error": run.error,
        "not_enforced": run.not_enforced,
        "use": run.resources.map(|used| used.to_string()),
    })
    .to_string()
}
