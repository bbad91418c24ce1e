//! Retrying a dead letter at an operator's request.

use crate::domain::name::names::{Fence, RunId};
use crate::domain::queue::lane::Lane;
use crate::domain::time::unix_millis::UnixMillis;
use crate::store::Store;
use crate::store::jobs::rev::Rev;
use crate::store::server::scripts;
use crate::store::server::scripts::Invocation;
use crate::store::server::store_error::StoreError;

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
        let (keys, job) = (&self.keys, order.run.job());
        let default = Lane::default_lane();
        let lane = order.job.as_ref().map_or(&default, |(_, lane)| lane);
        self.note_lanes([lane]).await?;
        let call = self
            .ended_keys(Invocation::new(&scripts::RETRY_RUN), &order.run, lane)
            .key("audit_log", keys.audit_log(job))
            .key("deadlines", keys.deadlines())
            .key("manual", keys.manual(job))
            .arg("now", self.now_arg())
            .arg("id", order.run.to_string())
            .arg("job_name", job.as_str())
            .arg("due_ms", order.run.due().as_i64())
            .arg("kind", if order.run.is_manual() { "manual" } else { "regular" })
            .arg("fence", order.fence.map_or_else(String::new, |fence| fence.to_string()))
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

    /// Adds the first twelve keys of `retry_run.lua`. Among them are the indexes of ended runs,
    /// which the run leaves, and the due set, which the run enters.
    pub(crate) fn ended_keys(&self, call: Invocation, run: &RunId, job_lane: &Lane) -> Invocation {
        let (keys, job) = (&self.keys, run.job());
        call.key("run", keys.run(run))
            .key("job", keys.job(job))
            .key("job_due", keys.due(job_lane))
            .key("open", keys.open(job))
            .key("waiting", keys.waiting(job))
            .key("history", keys.history())
            .key("job_history", keys.job_history(job))
            .key("dead", keys.dead())
            .key("job_dead", keys.job_dead(job))
            .key("finished", keys.finished())
            .key("counters", keys.counters())
            .key("nudge", keys.nudge())
    }
}
