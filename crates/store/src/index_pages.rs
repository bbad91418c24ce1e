//! Pages of the indexes of jobs and of ended runs. A page begins behind a cursor, so the next page is
//! right even if entries of earlier pages were added or removed meanwhile.

use std::cmp::Ordering;

use redis::Value;

use super::Store;
use super::history::run_history::{Ended, Letters};
use super::server::reply::{number_of, text_of};
use super::server::scripts;
use super::server::store_error::StoreError;
use schedd_schedule::names::{JobName, RunId};
use schedd_schedule::time::unix_millis::UnixMillis;

/// A place in an index: the score and the member of the entry before it. The score is that of a
/// time in ms, or an infinity for the start of the index.
#[derive(Debug, Clone, PartialEq)]
pub struct IndexCursor {
    /// The score of the entry.
    pub score: f64,
    /// The member of the entry.
    pub member: String,
}

impl IndexCursor {
    /// Returns the place before the entry with the lowest score.
    pub fn lowest() -> Self {
        Self { score: f64::NEG_INFINITY, member: String::new() }
    }

    /// Returns the place before the entry with the highest score that is below `until`, in an index
    /// that is read downwards.
    pub fn below(until: Option<UnixMillis>) -> Self {
        #[expect(clippy::cast_precision_loss, reason = "times in ms are below 2^53")]
        let score = until.map_or(f64::INFINITY, |until| until.as_i64() as f64);
        Self { score, member: String::new() }
    }

    /// Returns the place of a run in a list by due time.
    pub fn of_due(run: &RunId) -> Self {
        #[expect(clippy::cast_precision_loss, reason = "times in ms are below 2^53")]
        let score = run.due().as_i64() as f64;
        Self { score, member: run.to_string() }
    }

    /// Compares two places of an index that is read upwards.
    pub fn compare(&self, other: &Self) -> Ordering {
        self.score.total_cmp(&other.score).then_with(|| self.member.cmp(&other.member))
    }

    fn score_text(&self) -> String {
        if self.score.is_infinite() {
            return if self.score > 0.0 { "+inf" } else { "-inf" }.to_owned();
        }
        format!("{:.0}", self.score)
    }
}

/// An index of jobs, ordered by the next due time or by the end of the job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JobIndex {
    /// The jobs that are defined.
    Defined,
    /// The jobs that are over.
    Over,
}

impl Store {
    /// Returns at most `most` jobs of an index behind `cursor`, each with its place.
    pub async fn page_of_jobs(
        &self,
        index: JobIndex,
        cursor: &IndexCursor,
        most: usize,
    ) -> Result<Vec<(IndexCursor, Option<JobName>)>, StoreError> {
        let key = match index {
            JobIndex::Defined => self.keys.jobs(),
            JobIndex::Over => self.keys.finished(),
        };
        let entries = self.read_page(&key, cursor, "up", most).await?;
        Ok(entries.into_iter().map(|entry| (entry.clone(), entry.member.parse().ok())).collect())
    }

    /// Returns at most `most` ended runs behind `cursor`, the newest first, each with its place. The
    /// time `since` of the filter is applied, but not `until`, which the cursor replaces.
    pub async fn page_of_ended(
        &self,
        ended: &Ended,
        cursor: &IndexCursor,
        most: usize,
    ) -> Result<Vec<(IndexCursor, Option<RunId>)>, StoreError> {
        let keys = &self.keys;
        let indexes: Vec<String> = match (ended.letters, ended.jobs.as_slice()) {
            (Letters::All, []) => vec![keys.history()],
            (Letters::All, jobs) => jobs.iter().map(|job| keys.job_history(job)).collect(),
            (Letters::Dead, []) => vec![keys.dead()],
            (Letters::Dead, jobs) => jobs.iter().map(|job| keys.job_dead(job)).collect(),
        };
        // The requests go out together, so many indexes need one round trip.
        let pages = indexes.iter().map(|index| self.read_page(index, cursor, "down", most));
        let mut entries: Vec<IndexCursor> =
            futures_util::future::try_join_all(pages).await?.into_iter().flatten().collect();
        entries.sort_by(|a, b| b.compare(a));
        entries.truncate(most);
        let since = IndexCursor::below(ended.since).score;
        entries.retain(|entry| ended.since.is_none() || entry.score >= since);
        Ok(entries.into_iter().map(|entry| (entry.clone(), entry.member.parse().ok())).collect())
    }

    /// Returns at most `most` ended runs behind `cursor`, the oldest first, each with its place.
    pub async fn ended_after(
        &self,
        cursor: &IndexCursor,
        most: usize,
    ) -> Result<Vec<(IndexCursor, Option<RunId>)>, StoreError> {
        let entries = self.read_page(&self.keys.history(), cursor, "up", most).await?;
        Ok(entries.into_iter().map(|entry| (entry.clone(), entry.member.parse().ok())).collect())
    }

    /// Returns `limit` members of the zset `key` after the first `skip`, the lowest score first.
    pub(super) async fn waiting_members(
        &self,
        key: &str,
        skip: usize,
        limit: usize,
    ) -> Result<Vec<Vec<u8>>, StoreError> {
        let mut pipeline = redis::pipe();
        pipeline.cmd("ZRANGE").arg(key).arg(skip).arg((skip + limit).saturating_sub(1));
        let answer = self.link.query(&mut pipeline).await?;
        let Some(Value::Array(members)) = answer.first() else { return Ok(Vec::new()) };
        let bytes = |member: &Value| match member {
            Value::BulkString(bytes) => bytes.clone(),
            // Redis has only texts here. An empty member is malformed, and still counts as read.
            _ => Vec::new(),
        };
        Ok(members.iter().map(bytes).collect())
    }

    /// Returns the entries of the index `key` behind `cursor`. With the order `down`, the entries
    /// with the highest scores come first.
    async fn read_page(
        &self,
        key: &str,
        cursor: &IndexCursor,
        order: &str,
        most: usize,
    ) -> Result<Vec<IndexCursor>, StoreError> {
        let call = self
            .call(&scripts::READ_PAGE)
            .key("index", key)
            .arg("score", cursor.score_text())
            .arg("member", &cursor.member)
            .arg("order", order)
            .arg("most", most);
        let mut reply = self.link.invoke(&call).await?;
        if reply.word != "page" {
            return Err(reply.unknown());
        }
        let Value::Array(flat) = reply.value()? else { return Ok(Vec::new()) };
        let entry = |pair: &[Value]| {
            #[expect(clippy::cast_precision_loss, reason = "times in ms are below 2^53")]
            let score = number_of(&pair[1])? as f64;
            Some(IndexCursor { score, member: text_of(&pair[0])? })
        };
        Ok(flat.chunks_exact(2).filter_map(entry).collect())
    }
}
