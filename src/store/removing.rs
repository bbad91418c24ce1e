//! Taking a job out of Redis.
//!
//! Invariant: it says which rev it was computed from; another makes it stale, and then nothing is changed. What of the job was due by
//! then is told of.

use super::Store;
use super::claims::count;
use super::error::StoreError;
use super::gates::names_of;
use super::jobs::{Rev, SourceKind};
use super::scripts::{self, Invocation};
use crate::domain::gate::Gate;
use crate::domain::ids::{JobName, RunId};
use crate::domain::lane::Lane;
use crate::domain::lateness::Stretch;
use crate::domain::time::UnixMillis;
use crate::domain::unique::UniqueKey;

/// What becomes of the open runs of a removed job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopRunning {
    /// They are asked to stop.
    Yes,
    /// They end as if nothing had happened.
    No,
}

/// A job to be taken out.
#[derive(Debug, Clone)]
pub struct RemoveOrder {
    /// Its name.
    pub name: JobName,
    /// The kind of source that wants it out.
    pub kind: SourceKind,
    /// The file it is no longer in, by its [`SourceName`](crate::domain::source::SourceName); empty for the command line.
    pub source: String,
    /// The job's rev and lane as read, none if it is not known.
    pub read: Option<(Rev, Lane)>,
    /// Its planted or held run, as read.
    pub pending: Option<RunId>,
    /// What becomes of its open runs.
    pub running: StopRunning,
    /// Why, as it stands in history.
    pub reason: String,
    /// The occurrences behind its planted or held run that passed, and when one more will have.
    pub passed: (Option<Stretch>, Option<UnixMillis>),
    /// The gates its runs have to pass.
    pub gates: Vec<Gate>,
    /// The unique key the job names, as read.
    pub unique: Option<UniqueKey>,
}

/// What became of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RemoveReply {
    /// It is out; so many running runs were asked to stop.
    Removed(u32),
    /// It was over before: how.
    Over(String),
    /// Another file still lists it.
    Listed,
    /// It belongs to the other kind of source, named.
    Held(String),
    /// The job changed: read it and decide again.
    Stale,
    /// No such job.
    Unknown,
}

impl Store {
    /// Takes a job out.
    pub async fn remove_job(&self, order: &RemoveOrder) -> Result<RemoveReply, StoreError> {
        let (keys, name) = (&self.keys, &order.name);
        let default_lane = Lane::default_lane();
        let lane = order.read.as_ref().map_or(&default_lane, |(_, lane)| lane);
        let run_key = order.pending.as_ref().map_or_else(|| keys.job(name), |run| keys.run(run));
        let (passed, passes_next) = order.passed;
        let passed_run = passed.map(|stretch| RunId::regular(name.clone(), stretch.first));
        let call = Invocation::new(&scripts::REMOVE_JOB)
            .key("job", keys.job(name))
            .key("jobs", keys.jobs())
            .key("job_due", keys.due(lane))
            .key("run", run_key)
            .key("finished", keys.finished())
            .key("history", keys.history())
            .key("job_history", keys.job_history(name))
            .key("totals", keys.totals())
            .key("open", keys.open(name))
            .key("stops", keys.stops())
            .key("source", self.source_key(&order.source))
            .key("nudge", keys.nudge())
            .key("spread", keys.spread(name))
            .key("waiting", keys.waiting(name))
            .key("deeds", keys.deeds(name))
            .key("unique", order.unique.as_ref().map_or_else(|| keys.job(name), |key| keys.unique(key)))
            .key("uniques", keys.uniques())
            .key("gated", keys.gated())
            .key("passed_run", passed_run.as_ref().map_or_else(|| keys.job(name), |run| keys.run(run)))
            .key("deadlines", keys.deadlines())
            .arg("now", self.now_arg())
            .arg("job_name", name.as_str())
            .arg("kind", order.kind.as_str())
            .arg("rev", order.read.as_ref().map_or("", |(rev, _)| rev.as_str()))
            .arg("pending", order.pending.as_ref().map_or_else(String::new, ToString::to_string))
            .arg("pending_due", order.pending.as_ref().map_or(0, |run| run.due().as_i64()))
            .arg("source_name", &order.source)
            .arg("running", if order.running == StopRunning::Yes { "stop" } else { "leave" })
            .arg("reason", &order.reason)
            .arg("by", &*self.by)
            .arg("gates", names_of(&order.gates))
            .arg("unique_key", order.unique.as_ref().map_or("", UniqueKey::as_str))
            .arg("passed", passed_run.map_or_else(String::new, |run| run.to_string()))
            .arg("passed_last", passed.map_or(0, |stretch| stretch.last.as_i64()))
            .arg("passed_count", passed.map_or(0, |stretch| stretch.count))
            .arg("passes_next", passes_next.map_or_else(String::new, |at| at.as_i64().to_string()))
            .gate_keys(keys, &order.gates);
        let mut reply = self.link.invoke(&call).await?;
        Ok(match reply.word.as_str() {
            "removed" => RemoveReply::Removed(count(&mut reply)?),
            "over" => RemoveReply::Over(reply.text()?),
            "listed" => RemoveReply::Listed,
            "held" => RemoveReply::Held(reply.text()?),
            "stale" => RemoveReply::Stale,
            "unknown" => RemoveReply::Unknown,
            _ => return Err(reply.unknown()),
        })
    }
}
