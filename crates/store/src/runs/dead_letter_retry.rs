//! Retrying a dead letter at an operator's request.

use crate::Store;
use crate::jobs::rev::Rev;
use crate::server::scripts;
use crate::server::store_error::StoreError;
use schedd_core::domain::queue::lane::Lane;
use schedd_schedule::names::{Fence, RunId};
use schedd_schedule::time::unix_millis::UnixMillis;

/// An order to retry a dead letter.
#[derive(Debug, Clone)]
pub struct RetryOrder {
    /// The dead letter to retry.
    pub run: RunId,
    /// The fence of the run's last attempt as the caller read it; None if the record has no fence.
    pub fence: Option<Fence>,
    /// The revision and the lane of the job as read; None if the job does not exist.
    pub job: Option<(Rev, Lane)>,
    /// The rule for the retried run if its job has an open run.
    pub beside: Beside,
    /// The record of the last attempt as JSON.
    pub past: String,
}

/// The rule for a run whose job has an open run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Beside {
    /// The run may start beside the open run: the job's overlap rule is `allow`.
    Allowed,
    /// The run waits until the open run ends.
    Waits,
}

/// The result of an order to retry a dead letter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RetryReply {
    /// The run is in the due set and ready to start.
    Retried,
    /// The run waits for an open run of its job.
    Waiting,
    /// The run is not a dead letter, or is no longer: the run is planned, is running, or has ended
    /// again since it was read.
    Already,
    /// The run ended without becoming a dead letter: it succeeded, was cancelled or was skipped.
    Over {
        /// The final state of the run.
        state: String,
        /// The time the run ended.
        at: Option<UnixMillis>,
    },
    /// The run does not exist.
    Unknown,
    /// The job is no longer defined. The value says how the job ended, if known.
    Gone(Option<String>),
    /// The run belongs to an earlier job of the same name.
    Former,
    /// The job changed. The caller must read the job and decide again.
    Stale,
}

impl Store {
    /// Gives a dead letter a new retry budget. The run is then ready now, or waits for an open run
    /// of its job.
    pub async fn retry_run(&self, order: &RetryOrder) -> Result<RetryReply, StoreError> {
        let default = Lane::default_lane();
        let lane = order.job.as_ref().map_or(&default, |(_, lane)| lane);
        self.note_lanes([lane]).await?;
        let call = self
            .call(&scripts::RETRY_RUN)
            .of_run(&order.run)
            .of_job_lane(lane)
            .arg("kind", if order.run.is_manual() { "manual" } else { "regular" })
            .optional("fence", order.fence)
            .arg("rev", order.job.as_ref().map_or("", |(rev, _)| rev.as_str()))
            .arg("lane", lane.as_str())
            .arg("overlap", if order.beside == Beside::Allowed { "allow" } else { "wait" })
            .arg("past", &order.past)
            .arg("by", &*self.by);
        let mut reply = self.link.invoke(&call).await?;
        Ok(match reply.word.as_str() {
            "retried" => RetryReply::Retried,
            "waiting" => RetryReply::Waiting,
            "already" => RetryReply::Already,
            "over" => {
                let state = reply.text()?;
                RetryReply::Over { state, at: reply.text()?.parse().ok().and_then(UnixMillis::new) }
            }
            "unknown" => RetryReply::Unknown,
            "gone" => RetryReply::Gone(Some(reply.text()?).filter(|how| !how.is_empty())),
            "former" => RetryReply::Former,
            "stale" => RetryReply::Stale,
            _ => return Err(reply.unknown()),
        })
    }
}
