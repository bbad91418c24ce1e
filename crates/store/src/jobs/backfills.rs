//! Backfills. The past occurrences that an operator asked for wait in a list of the job. Only the
//! first occurrence of the list has a run.

use redis::Value;

use crate::Store;
use crate::server::reply::text_of;
use crate::server::scripts;
use crate::server::store_error::StoreError;
use schedd_core::domain::queue::lane::Lane;
use schedd_schedule::names::{JobName, RunId};

/// The most backfill runs that one call of the script adds to the list of its job.
const STEP: usize = 100;

/// The result of adding past occurrences to the backfill of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BackfillReply {
    /// The request was carried out. The value is the number of occurrences added to the job's
    /// backfill list. The other occurrences were in the list before or already have a backfill run.
    Queued(u64),
    /// The list became full. The value is the number of occurrences that were added before that.
    Full(u64),
    /// The job does not exist.
    Unknown,
}

/// The result of planning the run of the first waiting occurrence of a backfill.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PlantReply {
    /// The run of the first waiting occurrence is now due.
    Planted,
    /// No run was planned, because a backfill run of the job has not ended.
    Busy,
    /// The run of this occurrence has ended. The next occurrence is now the first.
    Over,
    /// No occurrence of the job waits for backfill, or the job does not exist.
    Empty,
    /// Another occurrence is now the first, or the job changed. The caller must read the list and
    /// the job again.
    Stale,
}

impl Store {
    /// Adds occurrences to the backfill of a job, in steps of 100. `runs` are the ids of their
    /// backfill runs.
    pub async fn queue_backfill(
        &self,
        job: &JobName,
        runs: &[RunId],
    ) -> Result<BackfillReply, StoreError> {
        let (mut queued, mut by) = (0, &*self.by);
        for step in runs.chunks(STEP) {
            let mut call = self.call(&scripts::QUEUE_BACKFILL).of_job(job).arg("by", by);
            by = "";
            for run in step {
                call = call.item().of_run(run);
            }
            let mut reply = self.link.invoke(&call).await?;
            let word = reply.word.clone();
            if word == "unknown" {
                return Ok(BackfillReply::Unknown);
            }
            queued += u64::try_from(reply.number()?).unwrap_or(0);
            match word.as_str() {
                "queued" => {}
                "full" => return Ok(BackfillReply::Full(queued)),
                _ => return Err(reply.unknown()),
            }
        }
        Ok(BackfillReply::Queued(queued))
    }

    /// Makes the run `first` due unless a backfill run of its job is open. `first` is the run of
    /// the first waiting occurrence. `lane` is the job's lane as the caller read it.
    pub async fn plant_backfill(
        &self,
        first: &RunId,
        lane: &Lane,
    ) -> Result<PlantReply, StoreError> {
        self.note_lanes([lane]).await?;
        let job = first.job();
        let call = self
            .call(&scripts::PLANT_BACKFILL)
            .of_job(job)
            .of_run(first)
            .of_job_lane(lane)
            .arg("lane", lane.as_str());
        let reply = self.link.invoke(&call).await?;
        Ok(match reply.word.as_str() {
            "planted" => PlantReply::Planted,
            "busy" => PlantReply::Busy,
            "over" => PlantReply::Over,
            "empty" | "unknown" => PlantReply::Empty,
            "stale" => PlantReply::Stale,
            _ => return Err(reply.unknown()),
        })
    }

    /// Drops the waiting occurrences of a job's backfill. Returns the number of dropped
    /// occurrences, including an occurrence whose run is open.
    pub async fn drop_backfill(&self, job: &JobName) -> Result<u64, StoreError> {
        let call = self.call(&scripts::DROP_BACKFILL).of_job(job).arg("by", &*self.by);
        let mut reply = self.link.invoke(&call).await?;
        match reply.word.as_str() {
            "dropped" => Ok(u64::try_from(reply.number()?).unwrap_or(0)),
            _ => Err(reply.unknown()),
        }
    }

    /// Lists the backfill runs of a job that are open or still to come, at most `limit`. The run
    /// with the oldest due time is the first.
    pub async fn list_backfill(
        &self,
        job: &JobName,
        limit: usize,
    ) -> Result<Vec<RunId>, StoreError> {
        self.run_ids(&self.keys.backfill(job), limit).await
    }

    /// Lists the jobs with an unfinished backfill, at most `limit`.
    pub async fn list_backfills(&self, limit: usize) -> Result<Vec<JobName>, StoreError> {
        let mut pipeline = redis::pipe();
        pipeline.cmd("ZRANGE").arg(self.keys.backfills()).arg(0).arg(limit.saturating_sub(1));
        let answer = self.link.query(&mut pipeline).await?;
        let Some(Value::Array(names)) = answer.first() else { return Ok(Vec::new()) };
        Ok(names.iter().filter_map(text_of).filter_map(|name| name.parse().ok()).collect())
    }
}
