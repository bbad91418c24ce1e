//! Pausing and resuming a job, and setting the time of its next run.
//!
//! Invariant: an order to resume names the job's revision as the caller read it, and a call to
//! pause names the planned run. If the job has another revision or planned run, the reply is
//! `stale` and nothing changes.

use super::job_records::JobRecord;
use super::rev::Rev;
use crate::Store;
use crate::gates::gate_calls::names_of;
use crate::history::run_record::RunRecord;
use crate::runs::successor::Successor;
use crate::server::scripts;
use crate::server::store_error::StoreError;
use schedd_core::domain::queue::gate::Gate;
use schedd_core::domain::queue::lane::Lane;
use schedd_schedule::lateness::SkippedRange;
use schedd_schedule::names::{Fence, GroupName, JobName, RunId};
use schedd_schedule::time::unix_millis::UnixMillis;

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

/// The result of setting the time of a job's next run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NextReply {
    /// The planned run does not start before the time. None if the end of the open run plans the
    /// next run.
    Postponed(Option<RunId>),
    /// A run was planned for the time, because no run was planned before it.
    Planted(RunId),
    /// The next turn of the group does not start before the time.
    Turn(String),
    /// The job is paused.
    Paused,
    /// The job does not exist, or is over.
    Unknown,
    /// The run that asks has lost its lease.
    Lost,
    /// The job changed since it was read.
    Stale,
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
            self.call(&scripts::PAUSE_JOB)
                .of_job(&job.name)
                .of_job_lane(&job.lane)
                .key("run", open.map_or_else(|| keys.job(&job.name), |open| keys.run(&open.run)))
                .key("run_due", keys.due(open.map_or(&job.lane, |open| &open.lane)))
                .optional("pending", job.pending.as_ref())
                .arg("by", &*self.by)
                .optional("open_run", open.map(|open| &open.run))
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
        let call = self
            .call(&scripts::RESUME_JOB)
            .of_job(name)
            .of_job_lane(&order.lane)
            .key("run", run)
            .key("planted_run", self.successor_key(next, name))
            .arg("rev", order.rev.as_str())
            .arg(
                "paused_run",
                order.paused_run.as_ref().map_or_else(String::new, ToString::to_string),
            )
            .optional("first", first.as_ref())
            .arg("first_due", first.as_ref().map_or(0, |run| run.due().as_i64()))
            .arg(
                "last_due",
                order.skipped.map_or_else(String::new, |skipped_range| {
                    skipped_range.last.as_i64().to_string()
                }),
            )
            .arg("count", order.skipped.map_or(0, |skipped_range| skipped_range.count))
            .successor("planted", next)
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

    /// Sets the time `at` before which no run of `job` starts. `run` is planned if no run of the
    /// job is planned before that time. `asked_by` is the run that asks, or `None` for the user of
    /// this store.
    pub async fn set_next(
        &self,
        job: &JobRecord,
        at: UnixMillis,
        run: &RunId,
        group: Option<&GroupName>,
        asked_by: Option<(&RunId, Fence)>,
    ) -> Result<NextReply, StoreError> {
        self.note_lanes([&job.lane]).await?;
        let keys = &self.keys;
        let gates: Vec<Gate> = group.map(Gate::of_group).into_iter().collect();
        let user = if asked_by.is_some() { "" } else { &*self.by };
        let old = job.next_run.as_ref();
        let call = self
            .call(&scripts::SET_NEXT)
            .of_run(run)
            .of_job_lane(&job.lane)
            .key("old_run", old.map_or_else(|| keys.job(&job.name), |old| keys.run(old)))
            .key(
                "asking_run",
                asked_by.map_or_else(|| keys.job(&job.name), |(run, _)| keys.run(run)),
            )
            .arg("lane", job.lane.as_str())
            .optional("pending", job.pending.as_ref())
            .arg("at", at.as_i64())
            .optional("old", old)
            .arg("asked_by", asked_by.map_or_else(|| user.to_owned(), |(run, _)| run.to_string()))
            .optional("asking_fence", asked_by.map(|(_, fence)| fence))
            .arg("by", user)
            .arg("gates", names_of(&gates))
            .gate_keys(keys, &gates);
        let mut reply = self.link.invoke(&call).await?;
        let word = reply.word.clone();
        let mut id = || -> Result<RunId, StoreError> {
            let text = reply.text()?;
            text.parse().map_err(|_| {
                StoreError::corrupt("reply of script set_next", format!("found run id {text:?}"))
            })
        };
        Ok(match word.as_str() {
            "postponed" => NextReply::Postponed(id().ok()),
            "planted" => NextReply::Planted(id()?),
            "turn" => NextReply::Turn(reply.text()?),
            "paused" => NextReply::Paused,
            "unknown" => NextReply::Unknown,
            "lost" => NextReply::Lost,
            "stale" => NextReply::Stale,
            _ => return Err(reply.unknown()),
        })
    }
}
