//! The stretches of a job's occurrences that are told as skipped in one record each, and which occurrences have their own.
//!
//! Invariant: a stretch is read with what it was counted by, where that was short enough to be kept with it: the job may have another
//! schedule by now.

use redis::Value;

use super::Store;
use super::error::StoreError;
use super::history::ids_of;
use super::reply::text_of;
use super::scripts::{self, Invocation};
use crate::domain::ids::{JobName, RunId, RunKind};
use crate::domain::lateness::Stretch;
use crate::domain::time::UnixMillis;

/// Runs of a job looked at: the newest that ended.
const LOOKED_AT: usize = 10_000;
/// Runs asked about in one go.
const PAGE: usize = 1_000;
/// Runs due before an instant that may tell of it: what was given back out of a stretch stands within none.
const BEFORE: usize = 100;

/// What the runs of a job that ended tell of an instant.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ToldAt {
    /// Those due within the second from it on.
    pub due: Vec<RunId>,
    /// The first of the stretch it is in.
    pub stretch: Option<RunId>,
}

/// A stretch as it is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptStretch {
    /// What it tells.
    pub stretch: Stretch,
    /// What it was counted by, if that is kept.
    pub counted_by: Option<CountedBy>,
}

/// What a job was when a stretch of it was counted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CountedBy {
    /// What of its definition tells its occurrences, as `config::surface` writes it, with an action that is never done.
    pub definition: String,
    /// The zone kept with it.
    pub tz: String,
    /// What `every` counts from.
    pub anchor: UnixMillis,
    /// From when its schedule held.
    pub since: UnixMillis,
}

impl KeptStretch {
    fn read(run: &RunId, fields: &Value) -> Option<Self> {
        let Value::Array(fields) = fields else { return None };
        let text = |at: usize| fields.get(at).and_then(text_of).filter(|text| !text.is_empty());
        let instant = |at: usize| text(at).and_then(|ms| ms.parse().ok()).and_then(UnixMillis::new);
        // A run that was claimed and then skipped tells of itself, and not that it never ran.
        if text(0)? != "skipped" || text(1).is_some() {
            return None;
        }
        let stretch = Stretch {
            first: run.due(),
            last: instant(2).unwrap_or(run.due()),
            count: text(3).and_then(|count| count.parse().ok()).unwrap_or(1),
        };
        let counted_by = || Some(CountedBy { definition: text(4)?, tz: text(5)?, anchor: instant(6)?, since: instant(7)? });
        Some(Self { stretch, counted_by: counted_by() })
    }
}

impl Store {
    /// The occurrences of a job within `[first, last]` whose runs have records, in order: of those that are open or wait, of its
    /// runs that ended, the newest 10,000, and of its dead letters, which may have left history.
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
        let mut answers = self.link.query(&mut pipeline).await?;
        let mut pipeline = redis::pipe();
        pipeline.cmd("ZRANGE").arg(self.keys.job_dead(job)).arg(0).arg(LOOKED_AT - 1).arg("REV");
        // Where that key holds something else there is none, and nothing waits for it.
        answers.extend(self.link.ask(&mut pipeline).await?.into_iter().flatten());
        let runs = answers.chunks(1).flat_map(ids_of).filter(|run| run.kind() == RunKind::Regular);
        let mut dues: Vec<UnixMillis> = runs.map(|run| run.due()).filter(|due| first <= *due && *due <= last).collect();
        dues.sort_unstable();
        dues.dedup();
        Ok(dues)
    }

    /// The stretches of a job that tell of its occurrences as skipped, among its runs that ended, the newest 10,000.
    pub async fn list_stretches(&self, job: &JobName) -> Result<Vec<KeptStretch>, StoreError> {
        let mut pipeline = redis::pipe();
        pipeline.cmd("ZRANGE").arg(self.keys.job_history(job)).arg(0).arg(LOOKED_AT - 1).arg("REV");
        let mut runs = ids_of(&self.link.query(&mut pipeline).await?);
        runs.retain(|run| run.kind() == RunKind::Regular);
        self.read_stretches(&runs).await.map(|all| all.into_iter().flatten().collect())
    }

    /// What those of a job's runs that ended, the newest 10,000, tell of an instant, whenever they ended.
    pub async fn told_at(&self, job: &JobName, at: UnixMillis) -> Result<ToldAt, StoreError> {
        let mut pipeline = redis::pipe();
        pipeline.cmd("ZRANGE").arg(self.keys.job_history(job)).arg(0).arg(LOOKED_AT - 1).arg("REV");
        let runs = ids_of(&self.link.query(&mut pipeline).await?);
        let due = runs.iter().filter(|run| run.due() == at || run.due().floor_to_second() == at).cloned().collect();
        let mut before: Vec<RunId> = runs.into_iter().filter(|run| run.kind() == RunKind::Regular && run.due() <= at).collect();
        before.sort_unstable_by_key(|run| std::cmp::Reverse(run.due()));
        before.truncate(BEFORE);
        let kept = self.read_stretches(&before).await?;
        let covers = |kept: &Option<KeptStretch>| kept.as_ref().is_some_and(|kept| kept.stretch.last >= at);
        let stretch = kept.iter().position(covers).and_then(|place| before.into_iter().nth(place));
        Ok(ToldAt { due, stretch })
    }

    /// Has the record of a stretch tell `wanted` where it told `read`, with the same first occurrence. Whether it did tell that.
    pub async fn mend_stretch(&self, run: &RunId, read: Stretch, wanted: Stretch) -> Result<bool, StoreError> {
        let call = Invocation::new(&scripts::MEND_STRETCH)
            .key("run", self.keys.run(run))
            .key("totals", self.keys.totals())
            .arg("last", read.last.as_i64())
            .arg("count", read.count)
            .arg("new_last", wanted.last.as_i64())
            .arg("new_count", wanted.count);
        let reply = self.link.invoke(&call).await?;
        match reply.word.as_str() {
            "mended" => Ok(true),
            "stale" => Ok(false),
            _ => Err(reply.unknown()),
        }
    }

    /// The stretch that each of these runs tells of; none of one that is not skipped, or was claimed before.
    pub async fn read_stretches(&self, runs: &[RunId]) -> Result<Vec<Option<KeptStretch>>, StoreError> {
        let mut all = Vec::with_capacity(runs.len());
        for page in runs.chunks(PAGE) {
            let mut pipeline = redis::pipe();
            for run in page {
                let read = pipeline.cmd("HMGET").arg(self.keys.run(run));
                read.arg(&["state", "fence", "skipped_to", "skipped_count", "of_def", "of_tz", "of_anchor", "of_since"]);
            }
            // A record that holds something else is told of where it is met.
            let answers = self.link.ask(&mut pipeline).await?;
            all.extend(page.iter().zip(answers).map(|(run, fields)| KeptStretch::read(run, &fields.ok()?)));
        }
        Ok(all)
    }
}
