//! Facts about a run that its record does not contain: the set or gate in which the run waits. Also
//! the runs of a job that ended since a given time.
//!
//! Invariant: each read is bounded, whatever the size of the history.

use redis::Value;

use crate::Store;
use crate::history::run_record::RunRecord;
use crate::server::reply::{number_of, text_of};
use crate::server::store_error::StoreError;
use schedd_core::domain::queue::gate::Gate;
use schedd_core::domain::queue::lane::Lane;
use schedd_schedule::names::{JobName, RunId};
use schedd_schedule::time::unix_millis::UnixMillis;

/// The set in which a run waits: the due set, the waiting runs of its job, or the waiters of a
/// gate. Also the request to stop the run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunPlacement {
    /// The time from which the run may be claimed; None if the run is not in its lane's due set.
    pub ready: Option<UnixMillis>,
    /// True if the run waits for an open run of its job.
    pub is_waiting: bool,
    /// The gate at which the run waits; None if it waits at none of the given gates.
    pub gate: Option<Gate>,
    /// The request to stop the run, if one was made. The inner value is the author of the request,
    /// if known.
    pub stop_asked_by: Option<Option<String>>,
}

impl Store {
    /// Returns the set in which a run waits: the due set of `lane`, the waiting runs of its job, or
    /// the waiters of one of `gates`.
    pub async fn standing(
        &self,
        run: &RunId,
        lane: &Lane,
        gates: &[Gate],
    ) -> Result<RunPlacement, StoreError> {
        let id = run.to_string();
        let mut pipeline = redis::pipe();
        pipeline.cmd("ZSCORE").arg(self.keys.due(lane)).arg(&id);
        pipeline.cmd("ZSCORE").arg(self.keys.waiting(run.job())).arg(&id);
        pipeline.cmd("HGET").arg(self.keys.stop_requests()).arg(&id);
        for gate in gates {
            pipeline.cmd("ZSCORE").arg(self.keys.gate_waiters(gate)).arg(&id);
        }
        let answer = self.link.query(&mut pipeline).await?;
        let [ready, waiting, stop, queued @ ..] = answer.as_slice() else {
            return Err(StoreError::corrupt(
                format!("reply about run {run}"),
                format!("found {} values, wanted at least 3", answer.len()),
            ));
        };
        let by = |request: String| request.split_once(" by ").map(|(_, by)| by.to_owned());
        Ok(RunPlacement {
            ready: number_of(ready).and_then(UnixMillis::new),
            is_waiting: !matches!(waiting, Value::Nil),
            gate: gates
                .iter()
                .zip(queued)
                .find(|(_, score)| !matches!(score, Value::Nil))
                .map(|(gate, _)| gate.clone()),
            stop_asked_by: text_of(stop).map(by),
        })
    }

    /// Returns at most `limit` runs of a job that ended at `since` or later, the earliest end
    /// first.
    pub async fn read_ended_from(
        &self,
        job: &JobName,
        since: UnixMillis,
        limit: usize,
    ) -> Result<Vec<RunRecord>, StoreError> {
        let mut pipeline = redis::pipe();
        let range = pipeline
            .cmd("ZRANGE")
            .arg(self.keys.job_history(job))
            .arg(since.as_i64())
            .arg("+inf")
            .arg("BYSCORE");
        range.arg("LIMIT").arg(0).arg(limit);
        let answer = self.link.query(&mut pipeline).await?;
        let Some(Value::Array(ids)) = answer.first() else { return Ok(Vec::new()) };
        let ids: Vec<RunId> =
            ids.iter().filter_map(text_of).filter_map(|id| id.parse().ok()).collect();
        Ok(self
            .read_runs(&ids)
            .await?
            .into_iter()
            .filter_map(|record| record.ok().flatten())
            .collect())
    }
}
