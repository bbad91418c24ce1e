//! Removing a job from Redis.
//!
//! Invariant: each order names the revision of the job from which the order was computed. If the
//! job has another revision, the reply is `stale` and nothing changes. Occurrences that are due at
//! the removal are recorded.

use super::job_records::SourceKind;
use super::rev::Rev;
use crate::Store;
use crate::gates::gate_calls::names_of;
use crate::server::scripts;
use crate::server::store_error::StoreError;
use schedd_core::domain::job::unique_rule::UniqueKey;
use schedd_core::domain::queue::gate::Gate;
use schedd_core::domain::queue::lane::Lane;
use schedd_schedule::lateness::SkippedRange;
use schedd_schedule::names::{JobName, RunId};
use schedd_schedule::time::unix_millis::UnixMillis;

/// The choice between stopping the executing runs of a removed job and letting them end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopRunning {
    /// Ask the executing runs to stop.
    Yes,
    /// Let the executing runs end normally.
    No,
}

/// An order to remove a job.
#[derive(Debug, Clone)]
pub struct RemoveOrder {
    /// The job name.
    pub name: JobName,
    /// The kind of source that asks for the removal.
    pub kind: SourceKind,
    /// The file that no longer lists the job, by its
    /// [`SourceName`](schedd_core::domain::name::job_source::SourceName); empty for the command line.
    pub source: String,
    /// The job's revision and lane as the caller read them; None if no job has this name.
    pub read: Option<(Rev, Lane)>,
    /// The job's planned run, or the planned run that a pause removed from the due set. Both are as
    /// the caller read them; None if the job had neither.
    pub pending: Option<RunId>,
    /// The choice between stopping the job's executing runs and letting them end.
    pub running: StopRunning,
    /// The reason of the removal, as history shows it.
    pub reason: String,
    /// The occurrences that passed after the planned run, as a skipped range, and the time of the
    /// next occurrence. From that time on the range is out of date, and the reply is `stale`. A
    /// value is None if there is no such occurrence.
    pub passed: (Option<SkippedRange>, Option<UnixMillis>),
    /// The gates that the job's runs must pass.
    pub gates: Vec<Gate>,
    /// The unique key that the job names, as the caller read it; None if it names no key.
    pub unique: Option<UniqueKey>,
}

/// The result of removing a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RemoveReply {
    /// The job is removed. The value is the number of executing runs that were asked to stop.
    Removed(u32),
    /// The job had ended before. The value is `finished` or the reason of its removal.
    Over(String),
    /// The job was not removed, because another file still lists the job.
    Listed,
    /// The job was not removed, because it comes from the other kind of source. The value names
    /// that kind: `file` or `api`.
    OtherKind(String),
    /// The job changed since the caller read it. The caller must read the job and decide again.
    Stale,
    /// The job does not exist.
    Unknown,
}

impl Store {
    /// Removes a job: no further run of the job is planned or starts. The record of the job is kept
    /// until its retention is over.
    pub async fn remove_job(&self, order: &RemoveOrder) -> Result<RemoveReply, StoreError> {
        let (keys, name) = (&self.keys, &order.name);
        let default_lane = Lane::default_lane();
        let lane = order.read.as_ref().map_or(&default_lane, |(_, lane)| lane);
        let run_key = order.pending.as_ref().map_or_else(|| keys.job(name), |run| keys.run(run));
        let (passed, passes_next) = order.passed;
        let passed_run =
            passed.map(|skipped_range| RunId::regular(name.clone(), skipped_range.first));
        let call = self
            .call(&scripts::REMOVE_JOB)
            .of_job(name)
            .of_job_lane(lane)
            .key("run", run_key)
            .key("source", self.source_key(&order.source))
            .key(
                "unique",
                order.unique.as_ref().map_or_else(|| keys.job(name), |key| keys.unique(key)),
            )
            .key(
                "passed_run",
                passed_run.as_ref().map_or_else(|| keys.job(name), |run| keys.run(run)),
            )
            .arg("kind", order.kind.as_str())
            .arg("rev", order.read.as_ref().map_or("", |(rev, _)| rev.as_str()))
            .optional("pending", order.pending.as_ref())
            .arg("pending_due", order.pending.as_ref().map_or(0, |run| run.due().as_i64()))
            .arg("source_name", &order.source)
            .arg("running", if order.running == StopRunning::Yes { "stop" } else { "leave" })
            .arg("reason", &order.reason)
            .arg("by", &*self.by)
            .arg("gates", names_of(&order.gates))
            .arg("unique_key", order.unique.as_ref().map_or("", UniqueKey::as_str))
            .optional("passed", passed_run)
            .arg("passed_last", passed.map_or(0, |skipped_range| skipped_range.last.as_i64()))
            .arg("passed_count", passed.map_or(0, |skipped_range| skipped_range.count))
            .optional("passes_next", passes_next.map(UnixMillis::as_i64))
            .gate_keys(keys, &order.gates);
        let mut reply = self.link.invoke(&call).await?;
        Ok(match reply.word.as_str() {
            "removed" => RemoveReply::Removed(reply.count()?),
            "over" => RemoveReply::Over(reply.text()?),
            "listed" => RemoveReply::Listed,
            "other_kind" => RemoveReply::OtherKind(reply.text()?),
            "stale" => RemoveReply::Stale,
            "unknown" => RemoveReply::Unknown,
            _ => return Err(reply.unknown()),
        })
    }
}
