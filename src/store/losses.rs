//! The mark that tells whether data is what it was, and the record of the times it was not.
//!
//! Invariant: one loss gets one mark, whoever notices it first; each loss says which mark it followed, so that a node that was
//! away tells its own data after a loss from another's.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::Store;
use super::claims::millis;
use super::error::StoreError;
use super::reply::{number_of, text_of};
use super::scripts::{self, Invocation};
use crate::domain::ids::{Fence, JobName, NodeName};
use crate::domain::time::UnixMillis;

/// Jobs named in one report at most.
pub const JOBS_NAMED: usize = 100;
/// Records read at most; as many are kept.
const READ: usize = 200;

/// What kind of loss it was, as far as the marks tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LossKind {
    /// All was gone.
    Flushed,
    /// An older state came back: a snapshot, or a replica that had not got the end.
    Older,
    /// The mark was gone, or began anew, while fences had gone on.
    Unmarked,
}

impl LossKind {
    /// What happened, for a sentence.
    pub fn words(self) -> &'static str {
        match self {
            Self::Flushed => "its data was deleted",
            Self::Older => "an older state of its data came back (a snapshot, or a failover that lost the end)",
            Self::Unmarked => "the mark of its data was deleted or begun anew",
        }
    }
}

/// A loss as the node that noticed it first recorded it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Loss {
    /// The mark given because of it.
    pub epoch: String,
    /// The mark the data had when that node last saw it whole.
    pub before: String,
    /// The mark found; empty if there was none.
    pub found: String,
    /// What kind of loss.
    pub kind: LossKind,
    /// The node.
    pub by: String,
    /// When its data was last seen whole, by Redis' clock, ms.
    pub whole_at_ms: i64,
    /// The newest thing written down before that which the data still had, by Redis' clock, ms: what was written before it is
    /// there. 0 if nothing was.
    #[serde(default)]
    pub kept_to_ms: i64,
}

impl Loss {
    /// Whether the data had the mark `epoch` before, or in the moment it was noticed.
    pub fn follows(&self, epoch: &str) -> bool {
        !epoch.is_empty() && (self.before == epoch || self.found == epoch)
    }
}

/// What one node knew of a loss.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LossReport {
    /// The mark the loss gave.
    pub epoch: String,
    /// The node.
    pub node: String,
    /// Ended runs its journal gave back.
    pub restored: u64,
    /// Runs that may not start again and whose end is not known: they ended `lost`.
    pub lost: u64,
    /// How many jobs added by `schedctl` it misses.
    pub jobs_gone: u64,
    /// The first of them, each with its schedule.
    pub gone: Vec<(String, String)>,
}

/// A loss with what nodes reported of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LossRecord {
    /// When it was noticed.
    pub at: Option<UnixMillis>,
    /// The loss.
    pub loss: Loss,
    /// Reports, one a node.
    pub reports: Vec<LossReport>,
}

impl LossRecord {
    /// The jobs some node misses, each with its schedule.
    pub fn jobs_gone(&self) -> Vec<(JobName, String)> {
        let all = self.reports.iter().flat_map(|report| &report.gone);
        let mut named: Vec<(JobName, String)> =
            all.filter_map(|(name, schedule)| Some((name.parse().ok()?, schedule.clone()))).collect();
        named.sort();
        named.dedup_by(|one, next| one.0 == next.0);
        named
    }
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Entry {
    Loss(Loss),
    Report(LossReport),
}

/// What became of a new mark.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EpochReply {
    /// The data has it.
    Begun,
    /// Another node was first.
    Another,
}

/// What became of a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReportReply {
    /// It is kept; the last fence issued, which is now no lower than any this node has seen.
    Reported(u64),
    /// The data has another mark by now.
    Moved,
}

impl Store {
    /// Gives data that has the mark `read` (empty: none) the mark `new`: on its first day, or for `loss`. After a loss nothing
    /// is ripe for `settle`, and fences rise from `highest` on.
    pub async fn begin_epoch(
        &self,
        read: &str,
        new: &str,
        loss: Option<&Loss>,
        highest: u64,
        settle: Duration,
    ) -> Result<EpochReply, StoreError> {
        let record = loss.map_or_else(String::new, |loss| text(&Entry::Loss(loss.clone())));
        let call = Invocation::new(&scripts::BEGIN_EPOCH)
            .key("epoch", self.keys.epoch())
            .key("losses", self.keys.losses())
            .key("settling", self.keys.settling())
            .key("fence", self.keys.fence())
            .arg("now", self.now_arg())
            .arg("read", read)
            .arg("new_epoch", new)
            .arg("loss", record)
            .arg("highest", highest.min(Fence::MAX))
            .arg("settle_ms", millis(settle));
        let reply = self.link.invoke(&call).await?;
        match reply.word.as_str() {
            "begun" => Ok(EpochReply::Begun),
            "another" => Ok(EpochReply::Another),
            _ => Err(reply.unknown()),
        }
    }

    /// When the newest thing was written down that the data tells of and that happened up to `until`: the end of a run, or a
    /// node's sign of life.
    pub async fn newest_trace(&self, until: UnixMillis) -> Result<Option<UnixMillis>, StoreError> {
        let mut pipeline = redis::pipe();
        for key in [self.keys.history(), self.keys.nodes()] {
            let range = pipeline.cmd("ZRANGE").arg(key).arg(until.as_i64()).arg("-inf").arg("BYSCORE").arg("REV");
            range.arg("LIMIT").arg(0).arg(1).arg("WITHSCORES");
        }
        // A key that holds something else tells nothing.
        let answers = self.link.ask(&mut pipeline).await?;
        let newest = answers.iter().filter_map(|answer| match answer {
            Ok(redis::Value::Array(pair)) => pair.get(1).and_then(number_of).and_then(UnixMillis::new),
            _ => None,
        });
        Ok(newest.max())
    }

    /// Records what this node knew of a loss.
    pub async fn report_loss(&self, report: &LossReport, highest: u64) -> Result<ReportReply, StoreError> {
        let call = Invocation::new(&scripts::REPORT_LOSS)
            .key("epoch", self.keys.epoch())
            .key("losses", self.keys.losses())
            .key("fence", self.keys.fence())
            .arg("now", self.now_arg())
            .arg("read", &report.epoch)
            .arg("report", text(&Entry::Report(report.clone())))
            .arg("highest", highest.min(Fence::MAX));
        let mut reply = self.link.invoke(&call).await?;
        match reply.word.as_str() {
            "reported" => Ok(ReportReply::Reported(u64::try_from(reply.number()?).unwrap_or(0))),
            "moved" => Ok(ReportReply::Moved),
            _ => Err(reply.unknown()),
        }
    }

    /// The losses noticed, the newest first; of those beyond 200 records the oldest are forgotten. One that cannot be read is
    /// left out.
    pub async fn read_losses(&self) -> Result<Vec<LossRecord>, StoreError> {
        let mut pipeline = redis::pipe();
        pipeline.cmd("ZRANGE").arg(self.keys.losses()).arg(0).arg(READ - 1).arg("REV").arg("WITHSCORES");
        let answer = self.link.query(&mut pipeline).await?;
        let Some(redis::Value::Array(flat)) = answer.first() else { return Ok(Vec::new()) };
        let (mut losses, mut reports) = (Vec::new(), Vec::new());
        for pair in flat.chunks_exact(2) {
            let at = number_of(&pair[1]).and_then(UnixMillis::new);
            match text_of(&pair[0]).and_then(|text| serde_json::from_str(&text).ok()) {
                Some(Entry::Loss(loss)) => losses.push(LossRecord { at, loss, reports: Vec::new() }),
                Some(Entry::Report(report)) => reports.push(report),
                None => {}
            }
        }
        for report in reports {
            if let Some(record) = losses.iter_mut().find(|record| record.loss.epoch == report.epoch) {
                record.reports.push(report);
            }
        }
        Ok(losses)
    }
}

/// An epoch begun at `now`.
pub fn new_epoch(now: UnixMillis, node: &NodeName) -> String {
    format!("{}-{node}-{:08x}", now.as_i64(), fastrand::u32(..))
}

/// When an epoch began, by Redis' clock; none if it does not say.
pub fn begun_at(epoch: &str) -> Option<UnixMillis> {
    epoch.split_once('-').and_then(|(ms, _)| ms.parse().ok()).and_then(UnixMillis::new)
}

fn text(entry: &Entry) -> String {
    serde_json::to_string(entry).unwrap_or_default()
}
