//! Times in Redis that lie in the future, such as times written while Redis' clock was ahead. Also
//! lists jobs without a planned run.

use std::collections::BTreeSet;

use redis::Value;

use crate::Store;
use crate::server::reply::{number_of, text_of};
use crate::server::scripts;
use crate::server::store_error::StoreError;
use schedd_core::domain::queue::lane::Lane;
use schedd_schedule::names::{JobName, RunId};
use schedd_schedule::time::unix_millis::UnixMillis;

/// The most entries read from an index in one call.
const PAGE: usize = 200;

impl Store {
    /// Lists runs of a lane, each with its ready time, from the last ready time backwards. The list
    /// has `limit` entries starting at `offset`. Malformed entries are skipped. Also returns the
    /// number of entries read.
    pub async fn list_due_from_last(
        &self,
        lane: &Lane,
        offset: usize,
        limit: usize,
    ) -> Result<(Vec<(RunId, UnixMillis)>, usize), StoreError> {
        let mut pipeline = redis::pipe();
        let range = pipeline.cmd("ZRANGE").arg(self.keys.due(lane)).arg(offset);
        // By place, because Redis counts through all entries before an offset into a range of times.
        range.arg(offset + limit - 1).arg("REV").arg("WITHSCORES");
        // A due set of the wrong type counts as empty. The poll of its lane reports the wrong type.
        let answer = self.link.ask(&mut pipeline).await?.pop();
        let Some(Ok(Value::Array(flat))) = answer else { return Ok((Vec::new(), 0)) };
        let read = |pair: &[Value]| {
            Some((text_of(&pair[0])?.parse().ok()?, number_of(&pair[1]).and_then(UnixMillis::new)?))
        };
        Ok((flat.chunks_exact(2).filter_map(read).collect(), flat.len() / 2))
    }

    /// Lists all live jobs without a planned run, and all jobs that ended after `after`. Malformed
    /// names are skipped.
    pub async fn list_without_plan(&self, after: UnixMillis) -> Result<Vec<JobName>, StoreError> {
        let mut all = Vec::new();
        let (none, after) = (UnixMillis::END.to_string(), format!("({}", after.as_i64()));
        for (index, from, to) in
            [(self.keys.jobs(), &none, none.as_str()), (self.keys.finished(), &after, "+inf")]
        {
            let mut offset = 0;
            loop {
                let mut pipeline = redis::pipe();
                let range = pipeline.cmd("ZRANGE").arg(&index).arg(from).arg(to).arg("BYSCORE");
                range.arg("LIMIT").arg(offset).arg(PAGE);
                let answer = self.link.query(&mut pipeline).await?;
                let Some(Value::Array(names)) = answer.first() else { break };
                all.extend(names.iter().filter_map(text_of).filter_map(|name| name.parse().ok()));
                offset += names.len();
                if names.len() < PAGE {
                    break;
                }
            }
        }
        Ok(all)
    }

    /// Lists the jobs whose runs ended or wrote output after `after`, according to the indexes.
    /// Only the first 200 such entries of each index are read.
    pub async fn list_ended_after(
        &self,
        after: UnixMillis,
    ) -> Result<BTreeSet<JobName>, StoreError> {
        let mut pipeline = redis::pipe();
        for key in [self.keys.history(), self.keys.dead(), self.keys.outputs()] {
            let range = pipeline.cmd("ZRANGE").arg(key);
            range
                .arg(format!("({}", after.as_i64()))
                .arg(format!("({}", UnixMillis::END))
                .arg("BYSCORE");
            range.arg("LIMIT").arg(0).arg(PAGE);
        }
        let mut jobs = BTreeSet::new();
        for answer in self.link.ask(&mut pipeline).await?.into_iter().flatten() {
            let Value::Array(members) = answer else { continue };
            let names = members
                .iter()
                .filter_map(text_of)
                .filter_map(|member| member.split_once('@')?.0.parse().ok());
            jobs.extend(names);
        }
        Ok(jobs)
    }

    /// Sets the future times of gate checks and node heartbeats to now. If `jobs` is not empty,
    /// future ends and outputs of runs are also set to now. These times change in the indexes of
    /// these jobs and in the indexes of all jobs. Returns the number of times that were changed.
    pub async fn pull_scores_back(&self, jobs: &BTreeSet<JobName>) -> Result<usize, StoreError> {
        let mut call = self.call(&scripts::PULL_SCORES_BACK);
        if !jobs.is_empty() {
            call = call.item();
        }
        for job in jobs {
            call = call.of_job(job);
        }
        let mut reply = self.link.invoke(&call).await?;
        match reply.word.as_str() {
            "pulled" => Ok(usize::try_from(reply.number()?).unwrap_or(0)),
            _ => Err(reply.unknown()),
        }
    }
}
