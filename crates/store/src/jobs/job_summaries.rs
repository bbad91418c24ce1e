//! The jobs with the state of their runs, for a list of jobs.

use std::collections::{BTreeMap, BTreeSet};

use redis::Value;

use super::job_records::JobRecord;
use crate::Store;
use crate::server::reply::{number_of, text_of};
use crate::server::store_error::StoreError;
use schedd_schedule::names::RunId;
use schedd_schedule::time::unix_millis::UnixMillis;

/// A job with the state of its runs, for a list of jobs.
#[derive(Debug, Clone)]
pub struct JobSummary {
    /// The job.
    pub job: JobRecord,
    /// The number of open regular runs. For a hidden job, the number of its manual runs that have
    /// not ended.
    pub open: u64,
    /// True if a run of the job is executing. Only the first ten open regular runs and the first
    /// ten manual runs are checked.
    pub is_running: bool,
    /// The earliest retry among the ten open regular runs and ten manual runs that were checked, if
    /// any.
    pub retry: Option<RecordedRetry>,
    /// The run of the job that ended last; None if the job has no ended run.
    pub last_run: Option<RunId>,
}

/// A run that has begun and now waits for a retry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordedRetry {
    /// The time of the retry.
    pub at: UnixMillis,
    /// The run that is retried.
    pub run: RunId,
}

impl Store {
    /// Returns a summary of each job. A key of the wrong type counts as empty, so that one damaged
    /// key does not hide all jobs.
    pub async fn summarise(&self, jobs: Vec<JobRecord>) -> Result<Vec<JobSummary>, StoreError> {
        let mut pipeline = redis::pipe();
        for job in &jobs {
            // All runs of a hidden job are manual.
            let open = if job.name.is_hidden() {
                self.keys.manual(&job.name)
            } else {
                self.keys.open(&job.name)
            };
            pipeline.cmd("ZCARD").arg(&open);
            pipeline.cmd("ZRANGE").arg(&open).arg(0).arg(9);
            pipeline.cmd("ZRANGE").arg(self.keys.job_history(&job.name)).arg(-1).arg(-1);
            pipeline.cmd("ZRANGE").arg(self.keys.manual(&job.name)).arg(0).arg(9);
        }
        let answers = self.well_typed(&mut pipeline).await?;
        let ids = |value: &Value| match value {
            Value::Array(ids) => {
                ids.iter().filter_map(text_of).filter_map(|id| id.parse().ok()).collect()
            }
            _ => Vec::<RunId>::new(),
        };
        let asked: Vec<(usize, RunId)> = jobs
            .iter()
            .zip(answers.chunks_exact(4))
            .map(|(_, of)| [ids(&of[1]), ids(&of[3])].concat())
            .enumerate()
            .flat_map(|(at, runs)| runs.into_iter().map(move |run| (at, run)))
            .collect();
        let (running, mut retries) = self.begun_among(&asked).await?;
        let summary = |(at, (job, of)): (usize, (JobRecord, &[Value]))| JobSummary {
            job,
            open: number_of(&of[0]).and_then(|n| u64::try_from(n).ok()).unwrap_or(0),
            is_running: running.contains(&at),
            retry: retries.remove(&at),
            last_run: ids(&of[2]).pop(),
        };
        Ok(jobs.into_iter().zip(answers.chunks_exact(4)).enumerate().map(summary).collect())
    }

    /// Finds executing runs and retries among `runs`, each given with the index of its job. Returns
    /// the indexes of the jobs with an executing run. Also returns the earliest retry of each job,
    /// by the job's index.
    async fn begun_among(
        &self,
        runs: &[(usize, RunId)],
    ) -> Result<(BTreeSet<usize>, BTreeMap<usize, RecordedRetry>), StoreError> {
        let (mut running, mut retries) = (BTreeSet::new(), BTreeMap::<usize, RecordedRetry>::new());
        let mut pipeline = redis::pipe();
        for (_, run) in runs {
            pipeline.cmd("HMGET").arg(self.keys.run(run)).arg(&["fence", "state", "ready"]);
        }
        for ((at, run), fields) in runs.iter().zip(self.well_typed(&mut pipeline).await?) {
            let Value::Array(fields) = fields else { continue };
            let field =
                |at: usize| fields.get(at).and_then(text_of).filter(|text| !text.is_empty());
            match (field(0), field(1).as_deref()) {
                (Some(_), Some("running")) => {
                    running.insert(*at);
                }
                (Some(_), Some("scheduled")) => {
                    let ready = field(2).and_then(|ms| ms.parse().ok()).and_then(UnixMillis::new);
                    let Some(ready) = ready else { continue };
                    let retry = RecordedRetry { at: ready, run: run.clone() };
                    let first = retries.entry(*at).or_insert_with(|| retry.clone());
                    if retry.at < first.at {
                        *first = retry;
                    }
                }
                _ => {}
            }
        }
        Ok((running, retries))
    }
}
