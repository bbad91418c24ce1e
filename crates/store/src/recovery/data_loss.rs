//! The epoch, which identifies the data in Redis, and the records of data losses.
//!
//! Invariant: one data loss leads to one new epoch, whichever node notices the loss first. Each
//! loss record names the epoch before the loss. A node compares that epoch with the epoch of the
//! data it last saw, to find out if its data was lost.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::Store;
use crate::server::reply::{number_of, text_of};
use crate::server::scripts;
use crate::server::scripts::millis;
use crate::server::store_error::StoreError;
use schedd_schedule::names::{Fence, JobName, NodeName};
use schedd_schedule::time::unix_millis::UnixMillis;

/// The most jobs that one report of a data loss names.
pub const JOBS_NAMED: usize = 100;
/// The number of loss records read, which is also the number of records kept.
const READ: usize = 200;

/// The kind of a data loss, derived from the epoch and the last fence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LossKind {
    /// All data was gone.
    Flushed,
    /// An older state came back: a snapshot, or a replica without the latest writes.
    Older,
    /// The epoch was gone or new, but the last fence had not decreased.
    Unmarked,
}

impl LossKind {
    /// Returns the description of this kind of loss, as a part of a sentence.
    pub fn words(self) -> &'static str {
        match self {
            Self::Flushed => "all data was deleted",
            Self::Older => {
                "an older state came back (a snapshot, or a failover that lost the newest writes)"
            }
            Self::Unmarked => "the epoch key was deleted or replaced",
        }
    }
}

/// A data loss as recorded by the node that noticed it first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DataLoss {
    /// The epoch that was set because of the loss.
    pub epoch: String,
    /// The epoch of the data when the node `by` last saw it complete.
    pub before: String,
    /// The epoch of the data when the loss was found; empty if there was no epoch.
    pub found: String,
    /// The data that was lost: all data, the latest writes, or only the epoch.
    pub kind: LossKind,
    /// The node that noticed the loss first.
    pub by: String,
    /// The time when the node `by` last saw the data complete: Unix time in ms, by Redis' clock.
    pub whole_at_ms: i64,
    /// The time of the newest end of a run or heartbeat that survived the loss, no later than
    /// `whole_at_ms`. It is a Unix time in ms, by Redis' clock. Data written before this time is
    /// complete. 0 if no end and no heartbeat survived.
    #[serde(default)]
    pub kept_to_ms: i64,
}

impl DataLoss {
    /// Returns true if the data had the epoch `epoch` before the loss, or when the loss was
    /// noticed.
    pub fn follows(&self, epoch: &str) -> bool {
        !epoch.is_empty() && (self.before == epoch || self.found == epoch)
    }
}

/// The report of one node about a data loss: the runs that it restored and the jobs that it misses.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LossReport {
    /// The epoch that was set because of the loss.
    pub epoch: String,
    /// The node that reports.
    pub node: String,
    /// The number of ended runs restored from the node's journal.
    pub restored: u64,
    /// The number of runs that ended `lost`: such runs must not start again, and their end is
    /// unknown.
    pub lost: u64,
    /// The number of jobs added by `schedctl` that the node knew and the data no longer has.
    pub jobs_gone: u64,
    /// The name and the schedule of each missing job, sorted by name. If more than [`JOBS_NAMED`]
    /// jobs are missing, only the first [`JOBS_NAMED`] are listed.
    pub gone: Vec<(String, String)>,
}

/// A data loss with the reports of all nodes about the loss.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LossRecord {
    /// The time a node first noticed the loss; None if the stored time is invalid.
    pub at: Option<UnixMillis>,
    /// The loss, as recorded by the node that noticed it first.
    pub loss: DataLoss,
    /// The reports about the loss, one for each node.
    pub reports: Vec<LossReport>,
}

impl LossRecord {
    /// Returns the jobs that any node misses, each with its schedule.
    pub fn jobs_gone(&self) -> Vec<(JobName, String)> {
        let all = self.reports.iter().flat_map(|report| &report.gone);
        let mut named: Vec<(JobName, String)> = all
            .filter_map(|(name, schedule)| Some((name.parse().ok()?, schedule.clone())))
            .collect();
        named.sort();
        named.dedup_by(|one, next| one.0 == next.0);
        named
    }
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Entry {
    Loss(DataLoss),
    Report(LossReport),
}

/// The result of setting a new epoch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EpochReply {
    /// The data has the new epoch.
    Begun,
    /// Another node set a new epoch first.
    Another,
}

/// The result of storing a report about a data loss.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReportReply {
    /// The report is stored. The value is the last fence issued, which is now at least the highest
    /// fence that this node has seen.
    Reported(u64),
    /// The report is not stored, because the data has another epoch by now.
    Moved,
}

impl Store {
    /// Replaces the epoch `read` by `new`, because there was no epoch yet (`read` is empty) or
    /// because of `loss`. After a loss, no run is due for the duration `settle`. New fences are
    /// above `highest`.
    pub async fn begin_epoch(
        &self,
        read: &str,
        new: &str,
        loss: Option<&DataLoss>,
        highest: u64,
        settle: Duration,
    ) -> Result<EpochReply, StoreError> {
        let record = loss.map_or_else(String::new, |loss| text(&Entry::Loss(loss.clone())));
        let call = self
            .call(&scripts::BEGIN_EPOCH)
            .arg("read", read)
            .arg("new_epoch", new)
            .arg("loss", record)
            .arg("highest", highest.min(Fence::MAX))
            .arg("restore_ms", millis(settle));
        let reply = self.link.invoke(&call).await?;
        match reply.word.as_str() {
            "begun" => Ok(EpochReply::Begun),
            "another" => Ok(EpochReply::Another),
            _ => Err(reply.unknown()),
        }
    }

    /// Returns the time of the newest entry not later than `until`. An entry is the end of a run or
    /// the heartbeat of a node. Returns None if there is no such entry.
    pub async fn newest_trace(&self, until: UnixMillis) -> Result<Option<UnixMillis>, StoreError> {
        let mut pipeline = redis::pipe();
        for key in [self.keys.history(), self.keys.nodes()] {
            let range = pipeline
                .cmd("ZRANGE")
                .arg(key)
                .arg(until.as_i64())
                .arg("-inf")
                .arg("BYSCORE")
                .arg("REV");
            range.arg("LIMIT").arg(0).arg(1).arg("WITHSCORES");
        }
        // A key of the wrong type is ignored.
        let answers = self.link.ask(&mut pipeline).await?;
        let newest = answers.iter().filter_map(|answer| match answer {
            Ok(redis::Value::Array(pair)) => {
                pair.get(1).and_then(number_of).and_then(UnixMillis::new)
            }
            _ => None,
        });
        Ok(newest.max())
    }

    /// Stores the report of this node about a data loss. `highest` is the highest fence that this
    /// node has seen.
    pub async fn report_loss(
        &self,
        report: &LossReport,
        highest: u64,
    ) -> Result<ReportReply, StoreError> {
        let call = self
            .call(&scripts::REPORT_LOSS)
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

    /// Lists the data losses with their reports, the newest loss first. Only the newest 200 records
    /// are kept. Unreadable records are skipped.
    pub async fn read_losses(&self) -> Result<Vec<LossRecord>, StoreError> {
        let mut pipeline = redis::pipe();
        pipeline
            .cmd("ZRANGE")
            .arg(self.keys.data_losses())
            .arg(0)
            .arg(READ - 1)
            .arg("REV")
            .arg("WITHSCORES");
        let answer = self.link.query(&mut pipeline).await?;
        let Some(redis::Value::Array(flat)) = answer.first() else { return Ok(Vec::new()) };
        let (mut losses, mut reports) = (Vec::new(), Vec::new());
        for pair in flat.chunks_exact(2) {
            let at = number_of(&pair[1]).and_then(UnixMillis::new);
            match text_of(&pair[0]).and_then(|text| serde_json::from_str(&text).ok()) {
                Some(Entry::Loss(loss)) => {
                    losses.push(LossRecord { at, loss, reports: Vec::new() });
                }
                Some(Entry::Report(report)) => reports.push(report),
                None => {}
            }
        }
        for report in reports {
            if let Some(record) = losses.iter_mut().find(|record| record.loss.epoch == report.epoch)
            {
                record.reports.push(report);
            }
        }
        Ok(losses)
    }
}

/// Returns a new epoch that begins at `now`, chosen by `node`.
pub fn new_epoch(now: UnixMillis, node: &NodeName) -> String {
    format!("{}-{node}-{:08x}", now.as_i64(), fastrand::u32(..))
}

/// Returns the time an epoch began, by Redis' clock; None if the epoch is malformed.
pub fn begun_at(epoch: &str) -> Option<UnixMillis> {
    epoch.split_once('-').and_then(|(ms, _)| ms.parse().ok()).and_then(UnixMillis::new)
}

fn text(entry: &Entry) -> String {
    serde_json::to_string(entry).unwrap_or_default()
}
