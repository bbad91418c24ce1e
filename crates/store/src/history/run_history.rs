//! The lists of runs: the history of one job or of all jobs, newest first, and the open runs of a
//! job.

use redis::Value;

use super::run_record::RunRecord;
use crate::Store;
use crate::server::reply::{number_of, text_of};
use crate::server::store_error::StoreError;
use schedd_schedule::names::{JobName, RunId};
use schedd_schedule::time::unix_millis::UnixMillis;

/// A filter that selects ended runs.
#[derive(Debug, Clone)]
pub struct Ended {
    /// The index to search: the history, which has all ended runs, or only the dead letters.
    pub letters: Letters,
    /// The jobs whose runs are selected; empty for all jobs.
    pub jobs: Vec<JobName>,
    /// The earliest end time of selected runs, inclusive; None for no limit.
    pub since: Option<UnixMillis>,
    /// The latest end time of selected runs, exclusive; None for no limit.
    pub until: Option<UnixMillis>,
    /// The rule for runs that deliver notices: they are selected or left out.
    pub notices: RunNotices,
}

/// The rule for runs that deliver notices: they are selected or left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunNotices {
    /// The runs of notices are listed too.
    With,
    /// The runs of notices are left out.
    Without,
}

/// An index of ended runs, either the history or the dead letters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Letters {
    /// The history: all ended runs.
    All,
    /// Dead letters: runs that failed, timed out or were lost.
    Dead,
}

impl Ended {
    /// Returns the filter that selects all ended runs of all jobs, with the runs of notices.
    pub fn history() -> Self {
        Self {
            letters: Letters::All,
            jobs: Vec::new(),
            since: None,
            until: None,
            notices: RunNotices::With,
        }
    }

    /// Returns the filter that selects all dead letters of all jobs, with the runs of notices.
    pub fn dead() -> Self {
        Self { letters: Letters::Dead, ..Self::history() }
    }
}

/// A page of ended runs, newest first.
#[derive(Debug, Clone)]
pub struct HistoryPage {
    /// The runs of the page.
    pub runs: Vec<RunRecord>,
    /// The number of index entries read for the page. The number of runs may be smaller, because
    /// the records of some entries may be gone.
    pub entries: usize,
}

impl Store {
    /// Returns `limit` ended runs of one job or of all jobs, newest first, starting at `offset`.
    pub async fn read_history(
        &self,
        job: Option<&JobName>,
        offset: usize,
        limit: usize,
    ) -> Result<HistoryPage, StoreError> {
        self.read_ended(
            &Ended { jobs: job.cloned().into_iter().collect(), ..Ended::history() },
            offset,
            limit,
        )
        .await
    }

    /// Returns `limit` ended runs that match `ended`, newest first, starting at the entry `offset`.
    pub async fn read_ended(
        &self,
        ended: &Ended,
        offset: usize,
        limit: usize,
    ) -> Result<HistoryPage, StoreError> {
        if limit == 0 {
            return Ok(HistoryPage { runs: Vec::new(), entries: 0 });
        }
        let keys = &self.keys;
        let indexes: Vec<String> = match (ended.letters, ended.jobs.as_slice()) {
            (Letters::All, []) => vec![keys.history()],
            (Letters::All, jobs) => jobs.iter().map(|job| keys.job_history(job)).collect(),
            (Letters::Dead, []) => vec![keys.dead()],
            (Letters::Dead, jobs) => jobs.iter().map(|job| keys.job_dead(job)).collect(),
        };
        // The entries of several indexes are merged, so the first entries of each are read.
        let (from, most) =
            if indexes.len() == 1 { (offset, limit) } else { (0, offset.saturating_add(limit)) };
        let until =
            ended.until.map_or_else(|| "+inf".to_owned(), |until| format!("({}", until.as_i64()));
        let since =
            ended.since.map_or_else(|| "-inf".to_owned(), |since| since.as_i64().to_string());
        let mut pipeline = redis::pipe();
        for index in &indexes {
            pipeline.cmd("ZRANGE").arg(index).arg(&until).arg(&since).arg("BYSCORE").arg("REV");
            pipeline.arg("LIMIT").arg(from).arg(most).arg("WITHSCORES");
        }
        let mut found: Vec<(i64, RunId)> =
            self.link.query(&mut pipeline).await?.iter().flat_map(ids_with_scores).collect();
        if indexes.len() > 1 {
            found.sort_by(|one, other| other.cmp(one));
            found = found.into_iter().skip(offset).take(limit).collect();
        }
        let mut ids: Vec<RunId> = found.into_iter().map(|(_, id)| id).collect();
        let entries = ids.len();
        ids.retain(|id| ended.notices == RunNotices::With || !id.job().is_hidden());
        let records = self.read_runs(&ids).await?;
        let runs = records.into_iter().filter_map(|record| record.ok().flatten()).collect();
        Ok(HistoryPage { runs, entries })
    }

    /// Lists the open regular runs of a job, oldest due first, at most 1,000.
    pub async fn list_open(&self, job: &JobName) -> Result<Vec<RunId>, StoreError> {
        self.run_ids(&self.keys.open(job), 1_000).await
    }

    /// Lists the open regular runs of a job due after `after`, oldest due first, at most 1,000.
    pub async fn list_open_after(
        &self,
        job: &JobName,
        after: UnixMillis,
    ) -> Result<Vec<RunId>, StoreError> {
        let mut pipeline = redis::pipe();
        let from = format!("({}", after.as_i64());
        pipeline
            .cmd("ZRANGE")
            .arg(self.keys.open(job))
            .arg(from)
            .arg("+inf")
            .arg("BYSCORE")
            .arg("LIMIT")
            .arg(0)
            .arg(1_000);
        Ok(ids_of(&self.link.query(&mut pipeline).await?))
    }

    /// Lists the manual runs of a job that have not ended, oldest due first, at most 1,000.
    pub async fn list_manual(&self, job: &JobName) -> Result<Vec<RunId>, StoreError> {
        self.run_ids(&self.keys.manual(job), 1_000).await
    }

    /// Lists the runs of a job that wait for an open run of the same job, oldest due first, at most
    /// 1,000.
    pub async fn list_waiting(&self, job: &JobName) -> Result<Vec<RunId>, StoreError> {
        self.run_ids(&self.keys.waiting(job), 1_000).await
    }

    /// Lists the missed runs of a job to which catch-up gave start times of their own, at most
    /// 1,000. The run with the earliest ready time is first.
    pub async fn list_spread(&self, job: &JobName) -> Result<Vec<RunId>, StoreError> {
        self.run_ids(&self.keys.catch_up(job), 1_000).await
    }

    /// Lists the dead letters of all jobs, oldest first, at most `limit`.
    pub async fn list_dead(&self, limit: usize) -> Result<Vec<RunId>, StoreError> {
        self.run_ids(&self.keys.dead(), limit).await
    }

    pub(crate) async fn run_ids(
        &self,
        index: &str,
        limit: usize,
    ) -> Result<Vec<RunId>, StoreError> {
        let mut pipeline = redis::pipe();
        pipeline.cmd("ZRANGE").arg(index).arg(0).arg(limit.saturating_sub(1));
        Ok(ids_of(&self.link.query(&mut pipeline).await?))
    }
}

fn ids_with_scores(answer: &Value) -> Vec<(i64, RunId)> {
    let Value::Array(flat) = answer else { return Vec::new() };
    let pair = |pair: &[Value]| Some((number_of(&pair[1])?, text_of(&pair[0])?.parse().ok()?));
    flat.chunks_exact(2).filter_map(pair).collect()
}

pub(crate) fn ids_of(answer: &[Value]) -> Vec<RunId> {
    let Some(Value::Array(ids)) = answer.first() else { return Vec::new() };
    ids.iter().filter_map(text_of).filter_map(|id| id.parse().ok()).collect()
}
