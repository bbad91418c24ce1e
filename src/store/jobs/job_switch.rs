//! Pausing and resuming a job.
//!
//! Invariant: an order to resume names the job's revision as the caller read it, and a call to
//! pause names the planned run. If the job has another revision or planned run, the reply is
//! `stale` and nothing changes.

use super::job_records::JobRecord;
use super::rev::Rev;
use crate::domain::name::names::{JobName, RunId};
use crate::domain::queue::gate::Gate;
use crate::domain::queue::lane::Lane;
use crate::domain::schedule::lateness::SkippedRange;
use crate::store::Store;
use crate::store::gates::gate_calls::names_of;
use crate::store::history::run_record::RunRecord;
use crate::store::runs::successor::Successor;
use crate::store::server::scripts;
use crate::store::server::scripts::Invocation;
use crate::store::server::store_error::StoreError;

/// The result of pausing a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PauseReply {
    /// The job is paused.
    Paused,
    /// The job was paused before.
    Already,
    /// The job does not exist.
    Unknown,
    /// The job changed since the caller read it. The caller must read the job and decide again.
    Stale,
}

/// An order to resume a job.
#[derive(Debug, Clone)]
pub struct ResumeOrder {
    /// The job name.
    pub name: JobName,
    /// The job's revision as the caller read it.
    pub rev: Rev,
    /// The job's lane as the caller read it.
    pub lane: Lane,
    /// The planned run that the pause took out of the due set, if any.
    pub paused_run: Option<RunId>,
    /// The skipped range of occurrences that passed during the pause, if any.
    pub skipped: Option<SkippedRange>,
    /// The next run to add to the due set, if any.
    pub planted: Option<Successor>,
}

/// The result of resuming a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResumeReply {
    /// The job is no longer paused.
    Resumed,
    /// The job was not paused.
    Already,
    /// The job does not exist.
    Unknown,
    /// The job changed since the caller read it. The caller must read the job and decide again.
    Stale,
    /// The occurrence of the next run already has a record. The caller must choose the next
    /// occurrence.
    Occupied,
}

impl Store {
    /// Pauses a job. `job` is the record as the caller read it. `of_job` are the gates that the
    /// job's runs must pass. `open` is the open run of a one-shot job, if any.
    pub async fn pause_job(
        &self,
        job: &JobRecord,
        open: Option<&RunRecord>,
        of_job: &[Gate],
    ) -> Result<PauseReply, StoreError> {
        let keys = &self.keys;
        let call = |places: &[Gate]| {
            let gates: Vec<Gate> = of_job
                .iter()
                .chain(places.iter().filter(|gate| !of_job.contains(gate)))
                .cloned()
                .collect();
            Invocation::new(&scripts::PAUSE_JOB)
                .key("job", keys.job(&job.name))
                .key("jobs", keys.jobs())
                .key("job_due", keys.due(&job.lane))
                .key("audit_log", keys.audit_log(&job.name))
                .key("open", keys.open(&job.name))
                .key("run", open.map_or_else(|| keys.job(&job.name), |open| keys.run(&open.run)))
                .key("run_due", keys.due(open.map_or(&job.lane, |open| &open.lane)))
                .key("counters", keys.counters())
                .key("nudge", keys.nudge())
                .key("deadlines", keys.deadlines())
                .arg("now", self.now_arg())
                .arg("job_name", job.name.as_str())
                .arg("pending", job.pending.as_ref().map_or_else(String::new, ToString::to_string))
                .arg("by", &*self.by)
                .arg("open_run", open.map_or_else(String::new, |open| open.run.to_string()))
                .arg("gates", names_of(&gates))
                .gate_keys(keys, &gates)
        };
        let reply = self.invoke_at_gates(open.map_or(&[], |open| &open.places), call).await?;
        Ok(match reply.word.as_str() {
            "paused" => PauseReply::Paused,
            "already" => PauseReply::Already,
            "unknown" => PauseReply::Unknown,
            "stale" => PauseReply::Stale,
            _ => return Err(reply.unknown()),
        })
    }

    /// Resumes a paused job.
    pub async fn resume_job(&self, order: &ResumeOrder) -> Result<ResumeReply, StoreError> {
        self.note_lanes([&order.lane]).await?;
        let (keys, name, next) = (&self.keys, &order.name, order.planted.as_ref());
        let first =
            order.skipped.map(|skipped_range| RunId::regular(name.clone(), skipped_range.first));
        let run = first
            .as_ref()
            .or(order.paused_run.as_ref())
            .map_or_else(|| keys.job(name), |run| keys.run(run));
        let call = Invocation::new(&scripts::RESUME_JOB)
            .key("job", keys.job(name))
            .key("jobs", keys.jobs())
            .key("job_due", keys.due(&order.lane))
            .key("run", run)
            .key("history", keys.history())
            .key("job_history", keys.job_history(name))
            .key("counters", keys.counters())
            .key("nudge", keys.nudge())
            .key("planted_run", self.successor_key(next, name))
            .key("audit_log", keys.audit_log(name))
            .key("open", keys.open(name))
            .key("schedule_versions", keys.schedule_versions(name))
            .key("deadlines", keys.deadlines())
            .arg("now", self.now_arg())
            .arg("job_name", name.as_str())
            .arg("rev", order.rev.as_str())
            .arg(
                "paused_run",
                order.paused_run.as_ref().map_or_else(String::new, ToString::to_string),
            )
            .arg("first", first.as_ref().map_or_else(String::new, RunId::to_string))
            .arg("first_due", first.as_ref().map_or(0, |run| run.due().as_i64()))
            .arg(
                "last_due",
                order.skipped.map_or_else(String::new, |skipped_range| {
                    skipped_range.last.as_i64().to_string()
                }),
            )
            .arg("count", order.skipped.map_or(0, |skipped_range| skipped_range.count))
            .arg("planted", Successor::id(next))
            .arg("planted_due", Successor::due(next))
            .arg("planted_ready", Successor::ready(next))
            .arg("by", &*self.by);
        let reply = self.link.invoke(&call).await?;
        Ok(match reply.word.as_str() {
            "resumed" => ResumeReply::Resumed,
            "already" => ResumeReply::Already,
            "unknown" => ResumeReply::Unknown,
            "stale" => ResumeReply::Stale,
            "occupied" => ResumeReply::Occupied,
            _ => return Err(reply.unknown()),
        })
    }
}
