//! What is past its bounds is forgotten, in steps of at most 100: runs, dead letters, jobs that ended.
//!
//! Invariant: a dead letter is kept by bounds of its own, so no number of later successes pushes it out. It may leave history
//! before, and then stands among the dead letters only.

use redis::Value;

use super::Store;
use super::error::StoreError;
use super::reply::{number_of, text_of};
use super::scripts::{self, Invocation};
use crate::domain::ids::{JobName, RunId};
use crate::domain::time::UnixMillis;

/// Items of one step.
const STEP: usize = 100;

/// How much of a run is forgotten, as `forget_runs.lua` has it.
#[derive(Clone, Copy)]
enum Reach {
    /// All of it.
    Record,
    /// Its place in history; all of it unless it is a dead letter.
    History,
    /// All of it if it still is a dead letter.
    Dead,
}

impl Reach {
    fn as_str(self) -> &'static str {
        match self {
            Self::Record => "record",
            Self::History => "history",
            Self::Dead => "dead",
        }
    }
}

impl Store {
    /// Forgets runs past what history keeps: those that ended before `before`, and the oldest beyond `most`, of which dead
    /// letters only leave history; at most 100, of one job or of all. Gives how many.
    pub async fn forget_runs(&self, job: Option<&JobName>, before: UnixMillis, most: usize) -> Result<usize, StoreError> {
        let index = job.map_or_else(|| self.keys.history(), |job| self.keys.job_history(job));
        let items = self.past_bounds(&index, before, most, [Reach::Record, Reach::History]).await?;
        self.forget(&items).await?;
        Ok(items.len())
    }

    /// Forgets dead letters past what is kept of them: those that ended before `before`, and the oldest beyond `most`; at
    /// most 100, of one job or of all. Gives how many.
    pub async fn forget_dead(&self, job: Option<&JobName>, before: UnixMillis, most: usize) -> Result<usize, StoreError> {
        let index = job.map_or_else(|| self.keys.dead(), |job| self.keys.job_dead(job));
        let items = self.past_bounds(&index, before, most, [Reach::Dead, Reach::Dead]).await?;
        self.forget(&items).await?;
        Ok(items.len())
    }

    /// Forgets those of `runs` that are dead letters, for good, in steps of 100. Gives how many were.
    pub async fn purge_dead(&self, runs: &[RunId]) -> Result<u64, StoreError> {
        let mut purged = 0;
        for step in runs.chunks(STEP) {
            let items: Vec<(RunId, Reach)> = step.iter().map(|run| (run.clone(), Reach::Dead)).collect();
            purged += self.forget(&items).await?;
        }
        Ok(purged)
    }

    /// The oldest runs of `index` that are past its bounds, at most 100: past its age, and past its count.
    async fn past_bounds(
        &self,
        index: &str,
        before: UnixMillis,
        most: usize,
        [by_age, by_count]: [Reach; 2],
    ) -> Result<Vec<(RunId, Reach)>, StoreError> {
        let (mut over, oldest) = self.oldest(index, most).await?;
        let mut items = Vec::new();
        for (member, ended) in oldest {
            let is_aged = ended < before.as_i64();
            if !is_aged && over == 0 {
                break;
            }
            over = over.saturating_sub(1);
            let Ok(run) = member.parse::<RunId>() else { continue };
            items.push((run, if is_aged { by_age } else { by_count }));
        }
        Ok(items)
    }

    /// How many members of `index` are beyond `most`, and its first hundred with their scores.
    async fn oldest(&self, index: &str, most: usize) -> Result<(usize, Vec<(String, i64)>), StoreError> {
        let mut pipeline = redis::pipe();
        pipeline.cmd("ZCARD").arg(index);
        pipeline.cmd("ZRANGE").arg(index).arg(0).arg(STEP - 1).arg("WITHSCORES");
        let answer = self.link.query(&mut pipeline).await?;
        let [total, Value::Array(flat)] = answer.as_slice() else { return Ok((0, Vec::new())) };
        let over = number_of(total).and_then(|n| usize::try_from(n).ok()).unwrap_or(0).saturating_sub(most);
        Ok((over, flat.chunks_exact(2).filter_map(|pair| Some((text_of(&pair[0])?, number_of(&pair[1])?))).collect()))
    }

    async fn forget(&self, items: &[(RunId, Reach)]) -> Result<u64, StoreError> {
        if items.is_empty() {
            return Ok(0);
        }
        let keys = &self.keys;
        let mut call = Invocation::new(&scripts::FORGET_RUNS).key("history", keys.history()).key("dead", keys.dead());
        for (run, reach) in items {
            call = call
                .key("run", keys.run(run))
                .key("job_history", keys.job_history(run.job()))
                .key("job_dead", keys.job_dead(run.job()))
                .arg("id", run.to_string())
                .arg("reach", reach.as_str());
        }
        let mut reply = self.link.invoke(&call).await?;
        match reply.word.as_str() {
            "forgotten" => Ok(u64::try_from(reply.number()?).unwrap_or(0)),
            _ => Err(reply.unknown()),
        }
    }

    /// Forgets jobs that ended before `before`, and the first to end beyond `most`; at most 100. Gives how many were looked at.
    pub async fn forget_jobs(&self, before: UnixMillis, most: usize) -> Result<usize, StoreError> {
        let (mut over, oldest) = self.oldest(&self.keys.finished(), most).await?;
        let mut call = Invocation::new(&scripts::FORGET_JOBS).key("finished", self.keys.finished()).arg("now", self.now_arg());
        let mut looked_at = 0;
        for (member, ended) in oldest {
            if ended >= before.as_i64() && over == 0 {
                break;
            }
            over = over.saturating_sub(1);
            let Ok(name) = member.parse::<JobName>() else { continue };
            call = call
                .key("job", self.keys.job(&name))
                .key("open", self.keys.open(&name))
                .key("waiting", self.keys.waiting(&name))
                .key("spread", self.keys.spread(&name))
                .key("deeds", self.keys.deeds(&name))
                .arg("job_name", member);
            looked_at += 1;
        }
        if looked_at > 0 {
            self.link.invoke(&call).await?;
        }
        Ok(looked_at)
    }
}
