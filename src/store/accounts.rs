//! What is known of one occurrence of a job that its record does not tell: where a run stands, and what ended around an instant.
//!
//! Invariant: each read is bounded, whatever the size of history.

use redis::Value;

use super::Store;
use super::error::StoreError;
use super::history::RunRecord;
use super::reply::{number_of, text_of};
use crate::domain::gate::Gate;
use crate::domain::ids::{JobName, RunId};
use crate::domain::lane::Lane;
use crate::domain::time::UnixMillis;

/// Where a run stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Standing {
    /// From when it may be claimed, if it is in its queue's due set.
    pub ready: Option<UnixMillis>,
    /// Whether it waits for an open run of its job.
    pub is_waiting: bool,
    /// The gate at which it waits.
    pub gate: Option<Gate>,
    /// Whether it is asked to stop, and by whom.
    pub stop_asked_by: Option<Option<String>>,
}

impl Store {
    /// Where a run stands in its queue, in its job and at these gates.
    pub async fn standing(&self, run: &RunId, lane: &Lane, gates: &[Gate]) -> Result<Standing, StoreError> {
        let id = run.to_string();
        let mut pipeline = redis::pipe();
        pipeline.cmd("ZSCORE").arg(self.keys.due(lane)).arg(&id);
        pipeline.cmd("ZSCORE").arg(self.keys.waiting(run.job())).arg(&id);
        pipeline.cmd("HGET").arg(self.keys.stops()).arg(&id);
        for gate in gates {
            pipeline.cmd("ZSCORE").arg(self.keys.queued(gate)).arg(&id);
        }
        let answer = self.link.query(&mut pipeline).await?;
        let [ready, waiting, stop, queued @ ..] = answer.as_slice() else {
            return Err(StoreError::corrupt("standing", "too few answers"));
        };
        let by = |wish: String| wish.split_once(" by ").map(|(_, by)| by.to_owned());
        Ok(Standing {
            ready: number_of(ready).and_then(UnixMillis::new),
            is_waiting: !matches!(waiting, Value::Nil),
            gate: gates.iter().zip(queued).find(|(_, score)| !matches!(score, Value::Nil)).map(|(gate, _)| gate.clone()),
            stop_asked_by: text_of(stop).map(by),
        })
    }

    /// Runs of a job that ended at `since` or later, the first to end first, at most `limit`.
    pub async fn read_ended_from(&self, job: &JobName, since: UnixMillis, limit: usize) -> Result<Vec<RunRecord>, StoreError> {
        let mut pipeline = redis::pipe();
        let range = pipeline.cmd("ZRANGE").arg(self.keys.job_history(job)).arg(since.as_i64()).arg("+inf").arg("BYSCORE");
        range.arg("LIMIT").arg(0).arg(limit);
        let answer = self.link.query(&mut pipeline).await?;
        let Some(Value::Array(ids)) = answer.first() else { return Ok(Vec::new()) };
        let ids: Vec<RunId> = ids.iter().filter_map(text_of).filter_map(|id| id.parse().ok()).collect();
        Ok(self.read_runs(&ids).await?.into_iter().filter_map(|record| record.ok().flatten()).collect())
    }
}
