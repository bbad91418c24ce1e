//! Failed notifications: notices that failed for good, and notices that wait for a retry.
//!
//! Invariant: the count comes from the dead letters that are kept. A notice that a later retry
//! delivered, or that was purged, no longer counts.

use std::collections::BTreeSet;

use redis::Value;

use crate::Store;
use crate::history::run_record::RunRecord;
use crate::server::reply::{number_of, text_of};
use crate::server::store_error::StoreError;
use schedd_core::domain::queue::lane::Lane;
use schedd_core::domain::run::run_state::RunState;
use schedd_schedule::names::{JobName, RunId};
use schedd_schedule::time::unix_millis::UnixMillis;

/// The number of dead letters read in one call.
const PAGE: usize = 10_000;
/// The number of dead letters searched, newest first.
const LOOKED_AT: usize = 100_000;
/// The number of waiting notices that are checked.
const WAITING: usize = 1_000;

/// The kept notices of one job and kind that failed for good.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FailedNotice {
    /// The hidden job whose runs are these notices.
    pub job: JobName,
    /// The number of notices that failed for good.
    pub count: u64,
    /// The notice that failed last, and the time of its failure.
    pub last: (RunId, UnixMillis),
}

impl Store {
    /// Returns the notices of these hidden jobs that failed for good. Jobs without such notices are
    /// left out.
    pub async fn read_failed_notices(
        &self,
        jobs: &[JobName],
    ) -> Result<Vec<FailedNotice>, StoreError> {
        let mut pipeline = redis::pipe();
        for job in jobs {
            pipeline.cmd("ZCARD").arg(self.keys.job_dead(job));
            pipeline
                .cmd("ZRANGE")
                .arg(self.keys.job_dead(job))
                .arg(0)
                .arg(0)
                .arg("REV")
                .arg("WITHSCORES");
        }
        // A key of the wrong type counts as missing. The consistency check reports the key.
        let answers: Vec<Option<Value>> =
            self.link.ask(&mut pipeline).await?.into_iter().map(Result::ok).collect();
        let read = |(job, answers): (&JobName, &[Option<Value>])| {
            let [Some(count), Some(Value::Array(last))] = answers else { return None };
            let run = text_of(last.first()?)?.parse().ok()?;
            let at = number_of(last.get(1)?).and_then(UnixMillis::new)?;
            Some(FailedNotice {
                job: job.clone(),
                count: u64::try_from(number_of(count)?).ok()?,
                last: (run, at),
            })
        };
        Ok(jobs.iter().zip(answers.chunks_exact(2)).filter_map(read).collect())
    }

    /// Lists notices that failed and wait for a retry, the earliest retry first. Only the next
    /// 1,000 waiting notices of all jobs are searched.
    pub async fn list_retried_notices(&self) -> Result<Vec<RunRecord>, StoreError> {
        let ids = self.run_ids(&self.keys.due(&Lane::of_notices()), WAITING).await?;
        self.retried_among(&ids).await
    }

    /// Lists notices of these hidden jobs that failed and wait for a retry, the earliest retry
    /// first.
    pub async fn read_retried_notices(
        &self,
        jobs: &[JobName],
    ) -> Result<Vec<RunRecord>, StoreError> {
        let mut ids = Vec::new();
        for job in jobs {
            ids.extend(self.list_manual(job).await?);
        }
        self.retried_among(&ids).await
    }

    async fn retried_among(&self, ids: &[RunId]) -> Result<Vec<RunRecord>, StoreError> {
        // An unreadable record is skipped. The consistency check reports the record.
        let records =
            self.read_runs(ids).await?.into_iter().filter_map(|record| record.ok().flatten());
        let mut retried: Vec<RunRecord> =
            records.filter(|run| run.state == RunState::Scheduled && run.attempt > 0).collect();
        retried.sort_by_key(|run| run.ready);
        Ok(retried)
    }

    /// Lists the notices of all jobs that failed for good, among the newest 100,000 dead letters.
    pub async fn list_failed_notices(&self) -> Result<Vec<FailedNotice>, StoreError> {
        let mut jobs = BTreeSet::new();
        for from in (0..LOOKED_AT).step_by(PAGE) {
            let mut pipeline = redis::pipe();
            pipeline.cmd("ZRANGE").arg(self.keys.dead()).arg(from).arg(from + PAGE - 1).arg("REV");
            let answer = self.link.query(&mut pipeline).await?;
            let Some(Value::Array(ids)) = answer.first() else { break };
            let runs = ids.iter().filter_map(text_of).filter_map(|id| id.parse::<RunId>().ok());
            jobs.extend(runs.map(|run| run.job().clone()).filter(JobName::is_hidden));
            if ids.len() < PAGE {
                break;
            }
        }
        self.read_failed_notices(&jobs.into_iter().collect::<Vec<_>>()).await
    }
}
