//! Cancelling one run at an operator's request, in any state.
//!
//! Invariant: a planned run ends at once. A running run is only asked to stop, and the node that
//! executes the run ends it.

use super::successor::Successor;
use crate::Store;
use crate::gates::gate_calls::names_of;
use crate::jobs::rev::Rev;
use crate::server::reply::Reply;
use crate::server::scripts;
use crate::server::store_error::StoreError;
use schedd_core::domain::queue::gate::Gate;
use schedd_core::domain::queue::lane::Lane;
use schedd_schedule::names::RunId;
use schedd_schedule::time::unix_millis::UnixMillis;

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
            self.call(&scripts::CANCEL_RUN)
                .of_run(&order.run)
                .of_lane(&order.lane)
                .of_job_lane(job_lane)
                .key("successor_run", self.successor_key(next, job))
                .arg("kind", if order.run.is_manual() { "manual" } else { "regular" })
                .arg("rev", order.job.as_ref().map_or("", |(rev, _)| rev.as_str()))
                .arg("lane", order.lane.as_str())
                .arg("reason", &order.reason)
                .successor("successor", next)
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
