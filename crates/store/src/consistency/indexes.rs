//! The indexes of jobs and runs, read in pages by the consistency check.
//!
//! Invariant: each read is bounded. A member that stays in an index during a scan is always found.

use std::collections::BTreeMap;

use redis::Value;

use super::quarantine::shown_member;
use crate::Store;
use crate::server::redis_keys::parse_lease_member;
use crate::server::reply::text_of;
use crate::server::store_error::StoreError;
use schedd_core::domain::queue::lane::Lane;
use schedd_schedule::names::{Fence, JobName, QueueName, RunId};

/// An index whose members are jobs or runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum IndexName {
    /// The index of the live jobs.
    Jobs,
    /// The index of the ended jobs.
    Finished,
    /// The due set of a lane.
    Due(Lane),
    /// The set of executing runs of a queue.
    Running(QueueName),
    /// The index of all leases.
    Leases,
    /// The index of runs that are asked to stop.
    Stops,
    /// The index of ended runs.
    History,
    /// The index of dead letters.
    Dead,
    /// The index of the deadlines of runs.
    Deadlines,
}

/// A page of an index.
#[derive(Debug, Clone, Default)]
pub struct IndexPage {
    /// The members of the page as text; bytes that are not text are written `\xNN`.
    pub members: Vec<String>,
    /// The position of the next page; 0 if this page is the last.
    pub cursor: u64,
}

impl Store {
    /// Reads a page of an index. A member that stays in the index during the scan is found at least
    /// once, perhaps twice.
    pub async fn scan_index(
        &self,
        index: &IndexName,
        cursor: u64,
        count: usize,
    ) -> Result<IndexPage, StoreError> {
        let keys = &self.keys;
        let (command, key) = match index {
            IndexName::Jobs => ("ZSCAN", keys.jobs()),
            IndexName::Finished => ("ZSCAN", keys.finished()),
            IndexName::Due(lane) => ("ZSCAN", keys.due(lane)),
            IndexName::Running(queue) => ("ZSCAN", keys.running(queue)),
            IndexName::Leases => ("ZSCAN", keys.leases()),
            IndexName::Stops => ("HSCAN", keys.stop_requests()),
            IndexName::History => ("ZSCAN", keys.history()),
            IndexName::Dead => ("ZSCAN", keys.dead()),
            IndexName::Deadlines => ("ZSCAN", keys.deadlines()),
        };
        let mut pipeline = redis::pipe();
        pipeline.cmd(command).arg(key).arg(cursor).arg("COUNT").arg(count);
        let answer = self.link.query(&mut pipeline).await?;
        let Some(Value::Array(parts)) = answer.first() else { return Ok(IndexPage::default()) };
        let [next, Value::Array(flat)] = parts.as_slice() else { return Ok(IndexPage::default()) };
        let cursor = text_of(next).and_then(|text| text.parse().ok()).unwrap_or(0);
        Ok(IndexPage {
            members: flat.chunks_exact(2).filter_map(|pair| shown_member(&pair[0])).collect(),
            cursor,
        })
    }

    /// Lists the runs in a job's sets of open, manual, waiting and spread runs, at most `limit` of
    /// each set.
    pub async fn list_places(&self, job: &JobName, limit: usize) -> Result<Vec<RunId>, StoreError> {
        let mut pipeline = redis::pipe();
        for key in [
            self.keys.open(job),
            self.keys.manual(job),
            self.keys.waiting(job),
            self.keys.catch_up(job),
        ] {
            pipeline.cmd("ZRANGE").arg(key).arg(0).arg(limit.saturating_sub(1));
        }
        let answers = self.link.query(&mut pipeline).await?;
        let ids = answers.iter().filter_map(|answer| match answer {
            Value::Array(ids) => Some(ids),
            _ => None,
        });
        Ok(ids.flatten().filter_map(text_of).filter_map(|id| id.parse().ok()).collect())
    }

    /// Returns the runs that have a lease, each with the fences of its leases. Only the first
    /// `limit` leases are read.
    pub async fn read_leased(
        &self,
        limit: usize,
    ) -> Result<BTreeMap<RunId, Vec<Fence>>, StoreError> {
        let mut leased: BTreeMap<RunId, Vec<Fence>> = BTreeMap::new();
        for lease in self.list_leases(limit).await?.into_iter().flatten() {
            leased.entry(lease.run).or_default().push(lease.fence);
        }
        Ok(leased)
    }
}

impl IndexName {
    /// Returns the run that a member of this index names. For a lease, also returns the fence.
    /// Returns None if the member is malformed.
    pub fn run_of(&self, member: &str) -> Option<(RunId, Option<Fence>)> {
        match self {
            Self::Leases => parse_lease_member(member).map(|(run, fence)| (run, Some(fence))),
            Self::Deadlines => Some((member.split_once(' ')?.0.parse().ok()?, None)),
            _ => Some((member.parse().ok()?, None)),
        }
    }
}
