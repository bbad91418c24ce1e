//! The ids of all runs of a job: planned, open, waiting and ended.

use redis::Value;

use super::run_history::ids_of;
use crate::Store;
use crate::server::reply::text_of;
use crate::server::store_error::StoreError;
use schedd_schedule::names::{JobName, RunId};

/// The maximum number of ids read from each index of a job's runs that have not ended.
const OPEN_RUNS: usize = 1_000;
/// The number of commands sent for each job.
const COMMANDS: usize = 6;

impl Store {
    /// Returns the ids of the runs of each of these jobs, newest due first: the planned run, at most
    /// 1,000 runs of each index of runs that have not ended, and the last `newest` ended runs.
    pub async fn list_runs_of(
        &self,
        jobs: &[JobName],
        newest: usize,
    ) -> Result<Vec<Vec<RunId>>, StoreError> {
        if jobs.is_empty() || newest == 0 {
            return Ok(vec![Vec::new(); jobs.len()]);
        }
        let keys = &self.keys;
        let mut pipeline = redis::pipe();
        for job in jobs {
            pipeline.cmd("HGET").arg(keys.job(job)).arg("pending");
            for index in [keys.open(job), keys.waiting(job), keys.catch_up(job), keys.manual(job)] {
                pipeline.cmd("ZRANGE").arg(index).arg(0).arg(OPEN_RUNS - 1);
            }
            pipeline.cmd("ZRANGE").arg(keys.job_history(job)).arg(0).arg(newest - 1).arg("REV");
        }
        let answers = self.well_typed(&mut pipeline).await?;
        let runs = answers.chunks_exact(COMMANDS).map(|of| {
            let planned = text_of(&of[0]).and_then(|id| id.parse().ok());
            let mut runs: Vec<RunId> = planned.into_iter().collect();
            runs.extend(of[1..].iter().flat_map(|ids: &Value| ids_of(std::slice::from_ref(ids))));
            runs.sort_unstable_by(|a, b| b.cmp(a));
            runs.dedup();
            runs
        });
        Ok(runs.collect())
    }
}
