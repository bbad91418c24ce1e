//! The ledger of a job: how its regular runs ended whose records were trimmed, in ranges, and in counts what is older still.
//!
//! Invariant: a regular run that ended is told of in one place: its record while that is kept, then a range, then a count.
//! Written by `forget_runs.lua`, in the step that deletes the record, and by `restore_run.lua`, which takes out what was told as
//! skipped and ran. Runs by hand are no occurrences and not in it.

use std::collections::BTreeMap;

use redis::Value;

use super::Store;
use super::error::StoreError;
use super::reply::{number_of, text_of};
use super::scripts::{self, Invocation};
use crate::domain::ids::{JobName, RunId};
use crate::domain::lateness::Stretch;
use crate::domain::run::RunState;
use crate::domain::time::UnixMillis;

/// The most ranges read of a job: as many as are kept.
const RANGES: usize = 1_000;

/// How the trimmed runs of a job ended.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ledger {
    /// The ranges, the one that begins first before the others.
    pub ranges: Vec<LedgerRange>,
    /// What is older than the ranges: how many occurrences ended in each state.
    pub before: BTreeMap<String, u64>,
    /// The last occurrence among those.
    pub until: Option<UnixMillis>,
}

/// Occurrences that ended alike, with none trimmed before them in between that did not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LedgerRange {
    /// The first occurrence.
    pub from: UnixMillis,
    /// The last one.
    pub to: UnixMillis,
    /// How many there are.
    pub count: u64,
    /// How they ended.
    pub state: RunState,
    /// Why, if the state does not say it: its first 200 bytes.
    pub reason: Option<String>,
}

impl Ledger {
    /// What became of the occurrence at `at`: the narrowest range that holds it tells. None if no range does.
    pub fn fate_at(&self, at: UnixMillis) -> Option<&LedgerRange> {
        let holding = self.ranges.iter().filter(|range| range.from <= at && at <= range.to);
        holding.min_by_key(|range| range.to.since(range.from))
    }
}

impl LedgerRange {
    /// Whether an occurrence at `at` is one of its two ends, of which it is known for sure.
    pub fn ends_at(&self, at: UnixMillis) -> bool {
        self.from == at || self.to == at
    }

    /// What `ledger.lua` names it by.
    pub(super) fn name(&self) -> String {
        format!("{}:{}:{}:{}", self.from.as_i64(), self.to.as_i64(), self.count, self.state)
    }

    fn read(member: &Value, from: &Value) -> Option<Self> {
        let member = text_of(member)?;
        let mut parts = member.splitn(4, ':');
        let mut part = || parts.next();
        Some(Self {
            to: UnixMillis::new(part()?.parse().ok()?)?,
            count: part()?.parse().ok()?,
            state: part()?.parse().ok().filter(|state: &RunState| state.is_final())?,
            reason: part().filter(|reason| !reason.is_empty()).map(str::to_owned),
            from: UnixMillis::new(number_of(from)?)?,
        })
    }
}

/// What is left of a range, as `ledger.lua` reads it.
pub(super) fn left_text(left: Option<Stretch>) -> String {
    left.map_or_else(String::new, |left| format!("{}:{}:{}", left.first.as_i64(), left.last.as_i64(), left.count))
}

impl Store {
    /// What is known of the trimmed runs of a job. A range that cannot be read is left out.
    pub async fn read_ledger(&self, job: &JobName) -> Result<Ledger, StoreError> {
        let mut pipeline = redis::pipe();
        pipeline.cmd("ZRANGE").arg(self.keys.ledger(job)).arg(0).arg(RANGES).arg("WITHSCORES");
        pipeline.cmd("HGETALL").arg(self.keys.ledger_before(job));
        let answer = self.link.query(&mut pipeline).await?;
        let [Value::Array(ranges), Value::Array(before)] = answer.as_slice() else { return Ok(Ledger::default()) };
        let ranges = ranges.chunks_exact(2).filter_map(|pair| LedgerRange::read(&pair[0], &pair[1])).collect();
        let mut ledger = Ledger { ranges, ..Ledger::default() };
        for pair in before.chunks_exact(2) {
            let (Some(field), Some(number)) = (text_of(&pair[0]), number_of(&pair[1])) else { continue };
            match field.as_str() {
                "until" => ledger.until = UnixMillis::new(number),
                "latest" => {}
                _ => drop(ledger.before.insert(field, u64::try_from(number).unwrap_or(0))),
            }
        }
        Ok(ledger)
    }

    /// Whether each of these jobs has a ledger.
    pub async fn have_ledgers(&self, jobs: impl Iterator<Item = &JobName>) -> Result<Vec<bool>, StoreError> {
        let mut pipeline = redis::pipe();
        for job in jobs {
            pipeline.cmd("EXISTS").arg(self.keys.ledger(job));
        }
        if pipeline.is_empty() {
            return Ok(Vec::new());
        }
        let answer = self.link.query(&mut pipeline).await?;
        Ok(answer.iter().map(|found| number_of(found) == Some(1)).collect())
    }

    /// Has the range that tells of `run` tell of `left` only, for the run has a record. Whether it was as read.
    pub async fn mend_range(&self, run: &RunId, range: &LedgerRange, left: Option<Stretch>) -> Result<bool, StoreError> {
        let call = Invocation::new(&scripts::MEND_RANGE)
            .key("ledger", self.keys.ledger(run.job()))
            .key("totals", self.keys.totals())
            .arg("due_ms", run.due().as_i64())
            .arg("range", range.name())
            .arg("left", left_text(left));
        let reply = self.link.invoke(&call).await?;
        match reply.word.as_str() {
            "mended" => Ok(true),
            "stale" => Ok(false),
            _ => Err(reply.unknown()),
        }
    }
}
