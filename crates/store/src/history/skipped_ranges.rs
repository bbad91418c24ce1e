//! The skipped ranges of a job, each kept in one record, and the occurrences of the job that have
//! records of their own.
//!
//! Invariant: a skipped range is stored with the schedule by which it was counted, if the schedule
//! was short enough. The job may have another schedule by now.

use redis::Value;

use super::run_history::ids_of;
use crate::Store;
use crate::server::reply::text_of;
use crate::server::scripts;
use crate::server::store_error::StoreError;
use schedd_schedule::lateness::SkippedRange;
use schedd_schedule::names::{JobName, RunId, RunKind};
use schedd_schedule::time::unix_millis::UnixMillis;

/// The number of ended runs of a job that are read, the newest first.
const LOOKED_AT: usize = 10_000;
/// The number of runs read in one pipeline.
const PAGE: usize = 1_000;
/// The number of runs due before a given time that are searched for a skipped range that contains
/// this time. The nearest run is not enough, because a run restored from a range has a record of
/// its own.
const BEFORE: usize = 100;

/// The ended runs of a job whose records show what happened at a given time.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RecordedAt {
    /// The runs due within one second from the given time.
    pub due: Vec<RunId>,
    /// The skipped range that contains the given time, with its first run; None if no range does.
    pub skipped_range: Option<(RunId, SkippedRecord)>,
}

/// A skipped range with the schedule that was stored with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SkippedRecord {
    /// The skipped range.
    pub skipped_range: SkippedRange,
    /// The schedule by which the range was counted, if the schedule was stored.
    pub counted_by: Option<CountedBy>,
}

/// The schedule of a job when a skipped range of the job was counted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CountedBy {
    /// The schedule part of the job's definition, as canonical JSON with a command that never runs.
    pub definition: String,
    /// The time zone stored with the job.
    pub tz: String,
    /// The time from which an `every` schedule counts its intervals.
    pub anchor: UnixMillis,
    /// The time from which the schedule applied to the job.
    pub since: UnixMillis,
}

impl SkippedRecord {
    fn read(run: &RunId, fields: &Value) -> Option<Self> {
        let Value::Array(fields) = fields else { return None };
        let text = |at: usize| fields.get(at).and_then(text_of).filter(|text| !text.is_empty());
        let instant = |at: usize| text(at).and_then(|ms| ms.parse().ok()).and_then(UnixMillis::new);
        // A run that was claimed and then skipped has a record of its own, which is not a range.
        if text(0)? != "skipped" || text(1).is_some() {
            return None;
        }
        let skipped_range = SkippedRange {
            first: run.due(),
            last: instant(2).unwrap_or(run.due()),
            count: text(3).and_then(|count| count.parse().ok()).unwrap_or(1),
        };
        let counted_by = || {
            Some(CountedBy {
                definition: text(4)?,
                tz: text(5)?,
                anchor: instant(6)?,
                since: instant(7)?,
            })
        };
        Some(Self { skipped_range, counted_by: counted_by() })
    }
}

impl Store {
    /// Returns the occurrences of a job within `[first, last]` whose runs have records, in order.
    /// The search covers open, waiting and spread runs, the newest 10,000 ended runs, and the dead
    /// letters, which may have left the history.
    pub async fn recorded_within(
        &self,
        job: &JobName,
        first: UnixMillis,
        last: UnixMillis,
    ) -> Result<Vec<UnixMillis>, StoreError> {
        let mut pipeline = redis::pipe();
        pipeline.cmd("ZRANGE").arg(self.keys.job_history(job)).arg(0).arg(LOOKED_AT - 1).arg("REV");
        for key in [self.keys.open(job), self.keys.waiting(job)] {
            let range = pipeline.cmd("ZRANGE").arg(key).arg(first.as_i64()).arg(last.as_i64());
            range.arg("BYSCORE").arg("LIMIT").arg(0).arg(1_000);
        }
        // The score of a spread run is the time from which it is ready.
        pipeline.cmd("ZRANGE").arg(self.keys.catch_up(job)).arg(0).arg(999);
        let mut answers = self.link.query(&mut pipeline).await?;
        let mut pipeline = redis::pipe();
        pipeline.cmd("ZRANGE").arg(self.keys.job_dead(job)).arg(0).arg(LOOKED_AT - 1).arg("REV");
        // If the key has the wrong type, the dead letters are left out.
        answers.extend(self.link.ask(&mut pipeline).await?.into_iter().flatten());
        let runs = answers.chunks(1).flat_map(ids_of).filter(|run| run.kind() == RunKind::Regular);
        let mut dues: Vec<UnixMillis> =
            runs.map(|run| run.due()).filter(|due| first <= *due && *due <= last).collect();
        dues.sort_unstable();
        dues.dedup();
        Ok(dues)
    }

    /// Returns the skipped ranges of a job, among its newest 10,000 ended runs.
    pub async fn list_skipped_ranges(
        &self,
        job: &JobName,
    ) -> Result<Vec<SkippedRecord>, StoreError> {
        let mut pipeline = redis::pipe();
        pipeline.cmd("ZRANGE").arg(self.keys.job_history(job)).arg(0).arg(LOOKED_AT - 1).arg("REV");
        let mut runs = ids_of(&self.link.query(&mut pipeline).await?);
        runs.retain(|run| run.kind() == RunKind::Regular);
        self.read_skipped_ranges(&runs).await.map(|all| all.into_iter().flatten().collect())
    }

    /// Returns the runs of a job that record what happened at the time `at`, among its newest
    /// 10,000 ended runs.
    pub async fn reported_at(
        &self,
        job: &JobName,
        at: UnixMillis,
    ) -> Result<RecordedAt, StoreError> {
        let mut pipeline = redis::pipe();
        pipeline.cmd("ZRANGE").arg(self.keys.job_history(job)).arg(0).arg(LOOKED_AT - 1).arg("REV");
        let runs = ids_of(&self.link.query(&mut pipeline).await?);
        let due = runs
            .iter()
            .filter(|run| run.due() == at || run.due().floor_to_second() == at)
            .cloned()
            .collect();
        let mut before: Vec<RunId> = runs
            .into_iter()
            .filter(|run| run.kind() == RunKind::Regular && run.due() <= at)
            .collect();
        before.sort_unstable_by_key(|run| std::cmp::Reverse(run.due()));
        before.truncate(BEFORE);
        let kept = self.read_skipped_ranges(&before).await?;
        let skipped_range = before
            .into_iter()
            .zip(kept)
            .filter_map(|(first, kept)| Some((first, kept?)))
            .find(|(_, kept)| kept.skipped_range.last >= at);
        Ok(RecordedAt { due, skipped_range })
    }

    /// Changes the record of a skipped range from `read` to `wanted`, which has the same first
    /// occurrence. Returns false if the record differs from `read`.
    pub async fn repair_skipped_range(
        &self,
        run: &RunId,
        read: SkippedRange,
        wanted: SkippedRange,
    ) -> Result<bool, StoreError> {
        let call = self
            .call(&scripts::REPAIR_SKIPPED_RANGE)
            .of_run(run)
            .arg("last", read.last.as_i64())
            .arg("count", read.count)
            .arg("new_last", wanted.last.as_i64())
            .arg("new_count", wanted.count);
        let reply = self.link.invoke(&call).await?;
        match reply.word.as_str() {
            "repaired" => Ok(true),
            "stale" => Ok(false),
            _ => Err(reply.unknown()),
        }
    }

    /// Returns the skipped range in the record of each of these runs. Returns None for a run that
    /// was not skipped, or was claimed before.
    pub async fn read_skipped_ranges(
        &self,
        runs: &[RunId],
    ) -> Result<Vec<Option<SkippedRecord>>, StoreError> {
        let mut all = Vec::with_capacity(runs.len());
        for page in runs.chunks(PAGE) {
            let mut pipeline = redis::pipe();
            for run in page {
                let read = pipeline.cmd("HMGET").arg(self.keys.run(run));
                read.arg(&[
                    "state",
                    "fence",
                    "skipped_to",
                    "skipped_count",
                    "of_def",
                    "of_tz",
                    "of_anchor",
                    "of_since",
                ]);
            }
            // A record of the wrong type gives None. The code that uses the record reports the
            // wrong type.
            let answers = self.link.ask(&mut pipeline).await?;
            all.extend(
                page.iter()
                    .zip(answers)
                    .map(|(run, fields)| SkippedRecord::read(run, &fields.ok()?)),
            );
        }
        Ok(all)
    }
}
