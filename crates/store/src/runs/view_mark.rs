//! A mark of the data that lists show, by which a reader sees whether a list can have changed.

use redis::Value;

use crate::Store;
use crate::server::reply::time_of_answer;
use crate::server::store_error::StoreError;
use schedd_core::domain::explain::GONE_AFTER;
use schedd_schedule::time::unix_millis::UnixMillis;

/// A mark of jobs, runs and queues. It differs after a run was claimed, has ended or was given back,
/// after a job was added, edited or removed, after the settings of a queue or group changed, and
/// after the number of nodes that run has changed.
///
/// It does not show a pause of a job, and not what else nodes write about themselves and their
/// running runs. [`Store::job_changes`] has the pauses.
#[derive(Debug, Clone, PartialEq)]
pub struct ViewMark(Vec<Value>);

impl Store {
    /// Returns the time of Redis and the present mark, in one round trip of five quick commands.
    /// A node counts as running if it was seen within [`GONE_AFTER`] before the time `about`.
    pub async fn read_view_mark(
        &self,
        about: UnixMillis,
    ) -> Result<(UnixMillis, ViewMark), StoreError> {
        let seen_since = about.saturating_sub(GONE_AFTER).as_i64();
        let mut pipeline = redis::pipe();
        pipeline.cmd("TIME");
        pipeline.cmd("MGET").arg(&[self.keys.epoch(), self.keys.fence(), self.keys.nudge()]);
        pipeline.cmd("ZCARD").arg(self.keys.leases());
        pipeline.cmd("ZRANGE").arg(self.keys.history()).arg(-1).arg(-1).arg("WITHSCORES");
        pipeline.cmd("ZCOUNT").arg(self.keys.nodes()).arg(seen_since).arg("+inf");
        let mut answers = self.link.query(&mut pipeline).await?;
        let marks = answers.split_off(answers.len().min(1));
        let now = self.chosen_now().map_or_else(|| time_of_answer(answers.first()), Ok)?;
        Ok((now, ViewMark(marks)))
    }
}
