//! Retention: deletes runs, dead letters, ended jobs and gone nodes beyond their limits, in steps
//! of at most 100.
//!
//! Invariant: dead letters have limits of their own, so that later successes do not delete them. A
//! dead letter that leaves the history stays among the dead letters. The step that deletes a
//! regular run's record adds the run to its job's ledger.
//!
//! After a data loss, the planned run of a job may be an earlier occurrence than before. A run
//! restored from a journal can then be due after the planned run. The record of such a run is kept
//! until the schedule has passed it. Otherwise the occurrence would be planned again or skipped.

use std::collections::BTreeSet;
use std::time::Duration;

use redis::Value;

use crate::Store;
use crate::server::reply::{number_of, text_of};
use crate::server::scripts;
use crate::server::store_error::StoreError;
use schedd_core::domain::name::job_source::SourceName;
use schedd_schedule::names::{JobName, NodeName, RunId};
use schedd_schedule::time::unix_millis::UnixMillis;

/// The number of items deleted in one step.
const STEP: usize = 100;
/// The number of runs read in one pipeline.
const PAGE: usize = 1_000;

/// The part of a run's data that is deleted, as `forget_runs.lua` names it.
#[derive(Clone, Copy)]
enum Reach {
    /// The record of the run is deleted.
    Record,
    /// The run is removed from the history. Its record is deleted unless the run is a dead letter.
    History,
    /// The record of the run is deleted if the run is still a dead letter.
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
    /// Deletes at most 100 runs beyond the limits of the history, of one job or of all jobs: runs
    /// that ended before `before`, and the oldest runs beyond the number `most`. A dead letter
    /// beyond `most` only leaves the history. Returns the number of runs that left the history.
    pub async fn forget_runs(
        &self,
        job: Option<&JobName>,
        before: UnixMillis,
        most: usize,
    ) -> Result<usize, StoreError> {
        let index = job.map_or_else(|| self.keys.history(), |job| self.keys.job_history(job));
        self.trim(&index, before, most, [Reach::Record, Reach::History]).await
    }

    /// Deletes at most 100 dead letters beyond their limits, of one job or of all jobs. These are
    /// dead letters that ended before `before`, and the oldest beyond the number `most`. Returns
    /// the number of deleted dead letters.
    pub async fn forget_dead(
        &self,
        job: Option<&JobName>,
        before: UnixMillis,
        most: usize,
    ) -> Result<usize, StoreError> {
        let index = job.map_or_else(|| self.keys.dead(), |job| self.keys.job_dead(job));
        self.trim(&index, before, most, [Reach::Dead, Reach::Dead]).await
    }

    /// Deletes the dead letters among `runs`, in steps of 100, and records the deletion in the
    /// audit log of each job. Returns the number of deleted dead letters.
    pub async fn purge_dead(&self, runs: &[RunId]) -> Result<u64, StoreError> {
        let (mut purged, request) = (0, format!("{:016x}", fastrand::u64(..)));
        for step in runs.chunks(STEP) {
            let items: Vec<(RunId, Reach)> =
                step.iter().map(|run| (run.clone(), Reach::Dead)).collect();
            purged += self.forget(&items, &request).await?;
        }
        Ok(purged)
    }

    /// Deletes the oldest runs of the key `index` beyond the limits of age and count. Returns the
    /// number of runs that left the index. A run that is due after the planned run of its job is
    /// kept, as is a run still in its job's backfill. Such a run does not block the deletion of
    /// later runs.
    ///
    /// The first value of `reach` is the part to delete of a run that ended before `before`. The
    /// second value is the part to delete of a run beyond the number `most`.
    async fn trim(
        &self,
        index: &str,
        before: UnixMillis,
        most: usize,
        reach: [Reach; 2],
    ) -> Result<usize, StoreError> {
        let (mut passed, [by_age, by_count]) = (0, reach);
        loop {
            let (mut over, oldest) = self.oldest(index, passed, most).await?;
            let (mut items, looked_at) = (Vec::new(), oldest.len());
            for (member, ended) in oldest {
                let is_aged = ended < before.as_i64();
                if !is_aged && over == 0 {
                    break;
                }
                over = over.saturating_sub(1);
                let Ok(run) = member.parse::<RunId>() else { continue };
                items.push((run, if is_aged { by_age } else { by_count }));
            }
            let is_last = items.is_empty();
            let gone = self.forget(&items, "").await?;
            if is_last || gone > 0 {
                return Ok(usize::try_from(gone).unwrap_or(usize::MAX));
            }
            passed += looked_at;
        }
    }

    /// Returns the number of members of `index` beyond the number `most`, and the 100 oldest
    /// members with their scores. The first `passed` members are left out of both.
    async fn oldest(
        &self,
        index: &str,
        passed: usize,
        most: usize,
    ) -> Result<(usize, Vec<(String, i64)>), StoreError> {
        let mut pipeline = redis::pipe();
        pipeline.cmd("ZCARD").arg(index);
        pipeline.cmd("ZRANGE").arg(index).arg(passed).arg(passed + STEP - 1).arg("WITHSCORES");
        let answer = self.link.query(&mut pipeline).await?;
        let [total, Value::Array(flat)] = answer.as_slice() else { return Ok((0, Vec::new())) };
        let total = number_of(total).and_then(|n| usize::try_from(n).ok()).unwrap_or(0);
        let over = total.saturating_sub(most).saturating_sub(passed);
        Ok((
            over,
            flat.chunks_exact(2)
                .filter_map(|pair| Some((text_of(&pair[0])?, number_of(&pair[1])?)))
                .collect(),
        ))
    }

    /// Lists jobs with too many ended runs or dead letters. `bounds` returns the most ended runs
    /// and the most dead letters that a job may keep. The search covers the jobs of the next 1,000
    /// runs that ended after `after`. Also returns the time from which to continue; None at the
    /// end.
    pub async fn list_overfull(
        &self,
        after: UnixMillis,
        bounds: impl Fn(&JobName) -> (usize, usize),
    ) -> Result<(Vec<JobName>, Option<UnixMillis>), StoreError> {
        let mut pipeline = redis::pipe();
        let from = format!("({}", after.as_i64());
        pipeline
            .cmd("ZRANGE")
            .arg(self.keys.history())
            .arg(from)
            .arg("+inf")
            .arg("BYSCORE")
            .arg("LIMIT")
            .arg(0)
            .arg(PAGE);
        pipeline.arg("WITHSCORES");
        let answer = self.link.query(&mut pipeline).await?;
        let Some(Value::Array(flat)) = answer.first() else { return Ok((Vec::new(), None)) };
        let ended = |pair: &[Value]| number_of(&pair[1]).and_then(UnixMillis::new);
        let job_of =
            |pair: &[Value]| text_of(&pair[0])?.parse::<RunId>().ok().map(|run| run.job().clone());
        let jobs: BTreeSet<JobName> = flat.chunks_exact(2).filter_map(job_of).collect();
        let (first, last) = (
            flat.chunks_exact(2).next().and_then(ended),
            flat.chunks_exact(2).next_back().and_then(ended),
        );
        let next = match (first, last) {
            // More runs may have ended in the same millisecond as the last run of a full page.
            (Some(first), Some(last)) if flat.len() == PAGE * 2 && first < last => {
                Some(last.saturating_sub(Duration::from_millis(1)))
            }
            (_, last) => last,
        };
        let mut counts = redis::pipe();
        for job in &jobs {
            counts.cmd("ZCARD").arg(self.keys.job_history(job));
            counts.cmd("ZCARD").arg(self.keys.job_dead(job));
        }
        if jobs.is_empty() {
            return Ok((Vec::new(), next));
        }
        // A key of the wrong type counts as empty. The step that trims its job reports the key.
        let counts = self.link.ask(&mut counts).await?;
        let is_over = |count: &Result<Value, _>, most: usize| {
            let count = count
                .as_ref()
                .ok()
                .and_then(number_of)
                .and_then(|count| usize::try_from(count).ok());
            count.is_some_and(|count| count > most)
        };
        let overfull = jobs.into_iter().zip(counts.chunks_exact(2));
        let overfull = overfull.filter(|(job, pair)| {
            let (most, most_dead) = bounds(job);
            is_over(&pair[0], most) || is_over(&pair[1], most_dead)
        });
        Ok((overfull.map(|(job, _)| job).collect(), next))
    }

    async fn forget(&self, items: &[(RunId, Reach)], request: &str) -> Result<u64, StoreError> {
        if items.is_empty() {
            return Ok(0);
        }
        let mut call =
            self.call(&scripts::FORGET_RUNS).arg("request", request).arg("by", &*self.by);
        for (run, reach) in items {
            call = call.item().of_run(run).arg("reach", reach.as_str());
        }
        let mut reply = self.link.invoke(&call).await?;
        match reply.word.as_str() {
            "forgotten" => Ok(u64::try_from(reply.number()?).unwrap_or(0)),
            _ => Err(reply.unknown()),
        }
    }

    /// Deletes at most 100 jobs: jobs that ended before `before`, and the oldest ended jobs beyond
    /// the number `most`. Returns the number of checked jobs.
    pub async fn forget_jobs(&self, before: UnixMillis, most: usize) -> Result<usize, StoreError> {
        let (mut over, oldest) = self.oldest(&self.keys.finished(), 0, most).await?;
        let mut names: Vec<JobName> = Vec::new();
        for (member, ended) in oldest {
            if ended >= before.as_i64() && over == 0 {
                break;
            }
            over = over.saturating_sub(1);
            names.extend(member.parse::<JobName>());
        }
        self.forget_ended(&names).await?;
        Ok(names.len())
    }

    /// Deletes the hidden jobs among `jobs` that have no notice to send and no dead letter, even if
    /// they ended just now. `jobs` may have at most 100 names.
    pub async fn forget_idle_jobs(&self, jobs: &[JobName]) -> Result<(), StoreError> {
        let mut pipeline = redis::pipe();
        for job in jobs {
            pipeline.cmd("EXISTS").arg(self.keys.job(job));
            pipeline.cmd("ZCARD").arg(self.keys.manual(job));
            pipeline.cmd("ZCARD").arg(self.keys.job_dead(job));
        }
        // A job with a key of the wrong type is deleted at its age limit, and `doctor` reports the
        // key.
        let counts = self.link.ask(&mut pipeline).await?;
        let is_idle = |counts: &[Result<Value, _>]| {
            let counts = counts.iter().map(|count| count.as_ref().ok().and_then(number_of));
            counts.eq([Some(1), Some(0), Some(0)])
        };
        let idle = jobs.iter().zip(counts.chunks_exact(3)).filter(|(_, counts)| is_idle(counts));
        let idle: Vec<JobName> = idle.map(|(job, _)| job.clone()).collect();
        self.forget_ended(&idle).await
    }

    async fn forget_ended(&self, names: &[JobName]) -> Result<(), StoreError> {
        if names.is_empty() {
            return Ok(());
        }
        let mut call = self.call(&scripts::FORGET_JOBS);
        for name in names {
            call = call.item().of_job(name);
        }
        self.unlist(names).await?;
        self.link.invoke(&call).await?;
        Ok(())
    }

    /// Removes ended jobs from the lists of jobs that each file declares, before the records of the
    /// jobs are deleted. Such a list names only existing jobs.
    async fn unlist(&self, names: &[JobName]) -> Result<(), StoreError> {
        let mut pipeline = redis::pipe();
        for job in self
            .read_jobs(names)
            .await?
            .into_iter()
            .filter_map(|job| job.ok().flatten())
            .filter(|job| !job.is_live())
        {
            for source in
                job.listed_by.keys().filter_map(|source| source.parse::<SourceName>().ok())
            {
                pipeline.cmd("HDEL").arg(self.keys.source(&source)).arg(job.name.as_str());
            }
        }
        if !pipeline.is_empty() {
            // A list of the wrong type must not block the deletion.
            self.link.ask(&mut pipeline).await?;
        }
        Ok(())
    }

    /// Lists at most 100 nodes that were last seen before `before`, the longest unseen node first.
    pub async fn list_gone_nodes(&self, before: UnixMillis) -> Result<Vec<NodeName>, StoreError> {
        let mut pipeline = redis::pipe();
        let until = format!("({}", before.as_i64());
        pipeline
            .cmd("ZRANGE")
            .arg(self.keys.nodes())
            .arg("-inf")
            .arg(until)
            .arg("BYSCORE")
            .arg("LIMIT")
            .arg(0)
            .arg(STEP);
        let answer = self.link.query(&mut pipeline).await?;
        let Some(Value::Array(names)) = answer.first() else { return Ok(Vec::new()) };
        Ok(names.iter().filter_map(text_of).filter_map(|name| name.parse().ok()).collect())
    }

    /// Deletes at most 100 nodes that were last seen before `before` and whose files list no job,
    /// queue or group. Returns the number of deleted nodes.
    pub async fn forget_nodes(
        &self,
        nodes: &[NodeName],
        before: UnixMillis,
    ) -> Result<usize, StoreError> {
        if nodes.is_empty() {
            return Ok(0);
        }
        let mut call = self.call(&scripts::FORGET_NODES).arg("before", before.as_i64());
        for node in nodes.iter().take(STEP) {
            call = call
                .item()
                .key("node", self.keys.node(node))
                .key("source", self.keys.source(&node.into()))
                .key("declared", self.keys.declared(&node.into()))
                .arg("node_name", node.as_str());
        }
        let mut reply = self.link.invoke(&call).await?;
        match reply.word.as_str() {
            "forgotten" => Ok(usize::try_from(reply.number()?).unwrap_or(0)),
            _ => Err(reply.unknown()),
        }
    }
}
