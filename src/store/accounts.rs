//! What is kept of one occurrence of a job, wherever it stands now: where a run is, runs that ended around an instant, ranges
//! of runs whose records are no longer kept.
//!
//! Invariant: each read is bounded, whatever the size of history.

use redis::Value;

use super::Store;
use super::error::StoreError;
use super::history::RunRecord;
use super::reply::{number_of, text_of};
use crate::domain::ids::{JobName, QueueName, RunId};
use crate::domain::time::UnixMillis;

/// Ranges of the ledger looked at before an instant: of different states they may lie in each other.
const RANGES: usize = 20;

/// Where a run stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Standing {
    /// From when it may be claimed, if it is in its queue's due set.
    pub ready: Option<UnixMillis>,
    /// Whether it waits for an open run of its job.
    pub is_waiting: bool,
    /// Whether it is asked to stop, and by whom.
    pub stop_asked_by: Option<Option<String>>,
}

/// A range of runs whose records are no longer kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LedgerRange {
    /// The due time of the first.
    pub first: UnixMillis,
    /// The due time of the last.
    pub last: UnixMillis,
    /// How many there are.
    pub count: u64,
    /// How they ended.
    pub state: String,
    /// Why, if the state does not say it.
    pub reason: String,
}

/// What is left of runs that are no longer kept.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Trimmed {
    /// The range an instant lies in.
    pub range: Option<LedgerRange>,
    /// How many runs before all ranges ended in which state, and the last due time among them.
    pub before: Option<(Vec<(String, u64)>, UnixMillis)>,
}

impl Store {
    /// Where a run stands in its queue and its job.
    pub async fn standing(&self, run: &RunId, queue: &QueueName) -> Result<Standing, StoreError> {
        let id = run.to_string();
        let mut pipeline = redis::pipe();
        pipeline.cmd("ZSCORE").arg(self.keys.due(queue)).arg(&id);
        pipeline.cmd("ZSCORE").arg(self.keys.waiting(run.job())).arg(&id);
        pipeline.cmd("HGET").arg(self.keys.stops()).arg(&id);
        let answer = self.link.query(&mut pipeline).await?;
        let [ready, waiting, stop] = answer.as_slice() else { return Err(StoreError::corrupt("standing", "too few answers")) };
        let by = |wish: String| wish.split_once(" by ").map(|(_, by)| by.to_owned());
        Ok(Standing {
            ready: number_of(ready).and_then(UnixMillis::new),
            is_waiting: !matches!(waiting, Value::Nil),
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

    /// What is left of a run due at `at` whose record is no longer kept.
    pub async fn read_trimmed(&self, job: &JobName, at: UnixMillis) -> Result<Trimmed, StoreError> {
        let mut pipeline = redis::pipe();
        let range = pipeline.cmd("ZRANGE").arg(self.keys.ledger(job)).arg(at.as_i64()).arg("-inf").arg("BYSCORE").arg("REV");
        range.arg("LIMIT").arg(0).arg(RANGES).arg("WITHSCORES");
        pipeline.cmd("HGETALL").arg(self.keys.ledger_before(job));
        let answer = self.link.query(&mut pipeline).await?;
        let [Value::Array(ranges), Value::Array(before)] = answer.as_slice() else { return Ok(Trimmed::default()) };
        let range = ranges.chunks_exact(2).filter_map(ledger_range).find(|range| range.last >= at);
        let mut counts: Vec<(String, u64)> = Vec::new();
        let mut until = None;
        for pair in before.chunks_exact(2) {
            let (Some(word), Some(number)) = (text_of(&pair[0]), number_of(&pair[1])) else { continue };
            if word == "until" {
                until = UnixMillis::new(number);
            } else if let Ok(count) = u64::try_from(number) {
                counts.push((word.replace('_', " "), count));
            }
        }
        counts.sort();
        Ok(Trimmed { range, before: until.filter(|until| *until >= at).map(|until| (counts, until)) })
    }
}

fn ledger_range(pair: &[Value]) -> Option<LedgerRange> {
    let (member, first) = (text_of(&pair[0])?, number_of(&pair[1])?);
    let mut parts = member.splitn(4, ':');
    Some(LedgerRange {
        first: UnixMillis::new(first)?,
        last: UnixMillis::new(parts.next()?.parse().ok()?)?,
        count: parts.next()?.parse().ok()?,
        state: parts.next()?.to_owned(),
        reason: parts.next().unwrap_or_default().to_owned(),
    })
}
