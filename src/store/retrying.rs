//! A dead letter tried again because a person asks.

use super::Store;
use super::error::StoreError;
use super::jobs::Rev;
use super::scripts::{self, Invocation};
use crate::domain::ids::{Fence, RunId};
use crate::domain::lane::Lane;
use crate::domain::time::UnixMillis;

/// One dead letter to be tried again.
#[derive(Debug, Clone)]
pub struct RetryOrder {
    /// The run.
    pub run: RunId,
    /// The fence of its last attempt, as read.
    pub fence: Option<Fence>,
    /// Its job as it was read; none if there is none.
    pub job: Option<(Rev, Lane)>,
    /// Whether it may run beside an open run of its job.
    pub beside: Beside,
    /// The last attempt's record, as JSON.
    pub past: String,
}

/// Whether a run may run beside an open one of its job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Beside {
    /// The job's overlap rule is `allow`.
    Allowed,
    /// It is another: the run waits for the end of the open one.
    Waits,
}

/// What became of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RetryReply {
    /// It is ready.
    Retried,
    /// It waits for an open run of its job.
    Waiting,
    /// It is planned, running or has ended anew since it was read: it has been retried already, or never was dead.
    Already,
    /// It ended well, or was cancelled or skipped.
    Over {
        /// How.
        state: String,
        /// When.
        at: Option<UnixMillis>,
    },
    /// No such run.
    Unknown,
    /// Its job is no longer defined; the word for how it ended, if that is known.
    Gone(Option<String>),
    /// It belongs to an earlier job of this name.
    Former,
    /// The job changed: read it and decide again.
    Stale,
}

impl Store {
    /// Gives a dead letter a new retry budget and makes it ready now.
    pub async fn retry_run(&self, order: &RetryOrder) -> Result<RetryReply, StoreError> {
        let (keys, job) = (&self.keys, order.run.job());
        let default = Lane::default_lane();
        let lane = order.job.as_ref().map_or(&default, |(_, lane)| lane);
        self.note_lanes([lane]).await?;
        let call = self
            .ended_keys(Invocation::new(&scripts::RETRY_RUN), &order.run, lane)
            .key("deeds", keys.deeds(job))
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

    /// The keys that the scripts begin with which look anew at a run that may have ended: where it stands then, and where it
    /// stands if it is to run.
    pub(super) fn ended_keys(&self, call: Invocation, run: &RunId, job_lane: &Lane) -> Invocation {
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
            .key("totals", keys.totals())
            .key("nudge", keys.nudge())
    }
}
