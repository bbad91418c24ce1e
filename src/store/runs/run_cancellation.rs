//! Cancelling one run at an operator's request, in any state.
//!
//! Invariant: a planned run ends at once. A running run is only asked to stop, and the node that
//! executes the run ends it.

use super::successor::Successor;
use crate::domain::name::names::RunId;
use crate::domain::queue::gate::Gate;
use crate::domain::queue::lane::Lane;
use crate::domain::time::unix_millis::UnixMillis;
use crate::store::Store;
use crate::store::gates::gate_calls::names_of;
use crate::store::jobs::rev::Rev;
use crate::store::server::reply::Reply;
use crate::store::server::scripts;
use crate::store::server::scripts::Invocation;
use crate::store::server::store_error::StoreError;

/// A request to cancel one run, with the facts about the run and its job that the caller read.
#[derive(Debug, Clone)]
pub struct CancelOrder {
    /// The run to cancel.
    pub run: RunId,
    /// The lane the run is in.
    pub lane: Lane,
    /// The revision and lane of the job as the caller read them; None if the job does not exist.
    /// The script compares the revision if the run is the job's pending run.
    pub job: Option<(Rev, Lane)>,
    /// The next run to add to the due set if the cancelled run is the job's pending run.
    pub successor: Option<Successor>,
    /// The reason for the cancellation, shown in the history.
    pub reason: String,
}

/// The result of a cancel order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CancelReply {
    /// The run is cancelled, now or by an earlier order.
    Cancelled,
    /// The run is executing. The node that executes the run was asked to stop it.
    Requested,
    /// The run had ended before this order.
    Over {
        /// The final state of the run.
        state: String,
        /// The time the run ended.
        at: Option<UnixMillis>,
    },
    /// The run does not exist.
    Unknown,
    /// The job changed. The caller must read the job and decide again.
    Stale,
    /// The successor's occurrence already has a record. The caller must choose the next occurrence.
    Occupied,
}

impl Store {
    /// Cancels one run, or asks its node to stop it.
    pub async fn cancel_run(&self, order: &CancelOrder) -> Result<CancelReply, StoreError> {
        let (keys, job) = (&self.keys, order.run.job());
        let next = order.successor.as_ref();
        let job_lane = order.job.as_ref().map_or(&order.lane, |(_, lane)| lane);
        let call = |places: &[Gate]| {
            Invocation::new(&scripts::CANCEL_RUN)
                .key("run", keys.run(&order.run))
                .key("job", keys.job(job))
                .key("jobs", keys.jobs())
                .key("due", keys.due(&order.lane))
                .key("job_due", keys.due(job_lane))
                .key("open", keys.open(job))
                .key("waiting", keys.waiting(job))
                .key("stop_requests", keys.stop_requests())
                .key("history", keys.history())
                .key("job_history", keys.job_history(job))
                .key("finished", keys.finished())
                .key("counters", keys.counters())
                .key("nudge", keys.nudge())
                .key("successor_run", self.successor_key(next, job))
                .key("catch_up", keys.catch_up(job))
                .key("audit_log", keys.audit_log(job))
                .key("manual", keys.manual(job))
                .key("deadlines", keys.deadlines())
                .arg("now", self.now_arg())
                .arg("id", order.run.to_string())
                .arg("job_name", job.as_str())
                .arg("due_ms", order.run.due().as_i64())
                .arg("kind", if order.run.is_manual() { "manual" } else { "regular" })
                .arg("rev", order.job.as_ref().map_or("", |(rev, _)| rev.as_str()))
                .arg("lane", order.lane.as_str())
                .arg("reason", &order.reason)
                .arg("successor", Successor::id(next))
                .arg("successor_due", Successor::due(next))
                .arg("successor_ready", Successor::ready(next))
                .arg("by", &*self.by)
                .arg("job_lane", job_lane.as_str())
                .arg("gates", names_of(places))
                .gate_keys(keys, places)
        };
        let mut reply = self.invoke_at_gates(&[], call).await?;
        Ok(match reply.word.as_str() {
            "cancelled" => CancelReply::Cancelled,
            "requested" => CancelReply::Requested,
            "over" => over(&mut reply)?,
            "unknown" => CancelReply::Unknown,
            "stale" => CancelReply::Stale,
            "occupied" => CancelReply::Occupied,
            _ => return Err(reply.unknown()),
        })
    }
}

fn over(reply: &mut Reply) -> Result<CancelReply, StoreError> {
    let state = reply.text()?;
    let at = reply.text()?.parse().ok().and_then(UnixMillis::new);
    Ok(CancelReply::Over { state, at })
}
