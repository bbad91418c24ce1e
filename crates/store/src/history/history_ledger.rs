//! The ledger of a job: a summary of its regular runs whose records were deleted. The ledger keeps
//! recent runs as ranges, and only counts older runs.
//!
//! Invariant: an ended regular run is recorded in exactly one place: in its record while the record
//! is kept, then in a range, then in a count. `forget_runs.lua` writes the ledger in the step that
//! deletes the record. `restore_run.lua` removes an occurrence that was recorded as skipped but
//! ran. Manual runs have no occurrence and are not in the ledger.

use std::collections::BTreeMap;

use redis::Value;

use crate::Store;
use crate::server::reply::{number_of, text_of};
use crate::server::scripts;
use crate::server::store_error::StoreError;
use schedd_core::domain::run::run_state::RunState;
use schedd_schedule::lateness::SkippedRange;
use schedd_schedule::names::{JobName, RunId};
use schedd_schedule::time::unix_millis::UnixMillis;

/// The number of ranges read from the ledger of a job, which is also the number kept there.
const RANGES: usize = 1_000;

/// The summary of a job's ended regular runs whose records were deleted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ledger {
    /// The ranges of the ledger, in order of their first occurrence.
    pub ranges: Vec<LedgerRange>,
    /// The number of occurrences older than the ranges, by the state in which they ended.
    pub before: BTreeMap<String, u64>,
    /// The last occurrence counted in `before`; None if `before` is empty.
    pub until: Option<UnixMillis>,
}

/// A range of occurrences of a job that ended in the same state. When the range was written, no
/// occurrence within the range was known to have another end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LedgerRange {
    /// The first occurrence of the range.
    pub from: UnixMillis,
    /// The last occurrence of the range.
    pub to: UnixMillis,
    /// The number of occurrences in the range.
    pub count: u64,
    /// The state in which the occurrences ended.
    pub state: RunState,
    /// The first 200 bytes of the reason for the state, if the state does not say the reason.
    pub reason: Option<String>,
}

impl Ledger {
    /// Returns the range that says how the occurrence at the time `at` ended: the narrowest range
    /// that contains this time. Returns None if no range contains the time.
    pub fn fate_at(&self, at: UnixMillis) -> Option<&LedgerRange> {
        let holding = self.ranges.iter().filter(|range| range.from <= at && at <= range.to);
        holding.min_by_key(|range| range.to.since(range.from))
    }
}

impl LedgerRange {
    /// Returns true if `at` is the first or the last occurrence of the range. The range does not
    /// store its other occurrences.
    pub fn ends_at(&self, at: UnixMillis) -> bool {
        self.from == at || self.to == at
    }

    /// Returns true if these occurrences were skipped as missed or during a pause. If such
    /// occurrences are in the future, a clock that was ahead skipped them.
    pub fn is_missed(&self) -> bool {
        self.state == RunState::Skipped
            && matches!(self.reason.as_deref(), Some("missed" | "paused"))
    }

    /// Returns the text `FROM:TO:COUNT:STATE` by which scripts identify the range, times in ms.
    pub(crate) fn name(&self) -> String {
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

/// Returns `left`, the part of a range that is kept, as `FIRST:LAST:COUNT` for `ledger.lua`. The
/// times are in ms. The text is empty if no occurrence remains.
pub(crate) fn left_text(left: Option<SkippedRange>) -> String {
    left.map_or_else(String::new, |left| {
        format!("{}:{}:{}", left.first.as_i64(), left.last.as_i64(), left.count)
    })
}

impl Store {
    /// Returns the ledger of a job, without malformed ranges.
    pub async fn read_ledger(&self, job: &JobName) -> Result<Ledger, StoreError> {
        let mut pipeline = redis::pipe();
        pipeline.cmd("ZRANGE").arg(self.keys.ledger(job)).arg(0).arg(RANGES).arg("WITHSCORES");
        pipeline.cmd("HGETALL").arg(self.keys.ledger_before(job));
        let answer = self.link.query(&mut pipeline).await?;
        let [Value::Array(ranges), Value::Array(before)] = answer.as_slice() else {
            return Ok(Ledger::default());
        };
        let ranges = ranges
            .chunks_exact(2)
            .filter_map(|pair| LedgerRange::read(&pair[0], &pair[1]))
            .collect();
        let mut ledger = Ledger { ranges, ..Ledger::default() };
        for pair in before.chunks_exact(2) {
            let (Some(field), Some(number)) = (text_of(&pair[0]), number_of(&pair[1])) else {
                continue;
            };
            match field.as_str() {
                "until" => ledger.until = UnixMillis::new(number),
                "latest" => {}
                _ => drop(ledger.before.insert(field, u64::try_from(number).unwrap_or(0))),
            }
        }
        Ok(ledger)
    }

    /// Returns one value for each of these jobs: true if the job has a ledger with ranges.
    pub async fn have_ledgers(
        &self,
        jobs: impl Iterator<Item = &JobName>,
    ) -> Result<Vec<bool>, StoreError> {
        let mut pipeline = redis::pipe();
        for job in jobs {
            pipeline.cmd("EXISTS").arg(self.keys.ledger(job));
        }
        let answer = self.link.query(&mut pipeline).await?;
        Ok(answer.iter().map(|found| number_of(found) == Some(1)).collect())
    }

    /// Shrinks `range`, which contains `run`, to `left`; removes the range if `left` is None. The
    /// caller found that the run has a record, or that some occurrences are in the future. Returns
    /// false if the range changed after it was read.
    pub async fn repair_ledger_range(
        &self,
        run: &RunId,
        range: &LedgerRange,
        left: Option<SkippedRange>,
    ) -> Result<bool, StoreError> {
        let call = self
            .call(&scripts::REPAIR_LEDGER_RANGE)
            .of_run(run)
            .arg("range", range.name())
            .arg("left", left_text(left));
        let reply = self.link.invoke(&call).await?;
        match reply.word.as_str() {
            "repaired" => Ok(true),
            "stale" => Ok(false),
            _ => Err(reply.unknown()),
        }
    }
}
