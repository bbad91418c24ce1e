//! A mark of the data that lists show, by which a reader sees whether a list can have changed.

use redis::Value;

use crate::Store;
use crate::server::reply::time_of_answer;
use crate::server::store_error::StoreError;
use schedd_schedule::time::unix_millis::UnixMillis;

/// A mark of jobs, runs and queues. It differs after a run was claimed, has ended or was given back,
/// after a job was added, edited or removed, and after the settings of a queue or group changed.
///
/// It does not show a pause of a job, and not what nodes write about themselves and their running
/// runs. [`Store::job_changes`] has the pauses.
#[derive(Debug, Clone, PartialEq)]
pub struct ViewMark(Vec<Value>);

impl Store {
    /// Returns the time of Redis and the present mark, in one round trip of four quick commands.
    pub async fn read_view_mark(&self) -> Result<(UnixMillis, ViewMark), StoreError> {
        let mut pipeline = redis::pipe();
        pipeline.cmd("TIME");
        pipeline.cmd("MGET").arg(&[self.keys.epoch(), self.keys.fence(), self.keys.nudge()]);
        pipeline.cmd("ZCARD").arg(self.keys.leases());
        pipeline.cmd("ZRANGE").arg(self.keys.history()).arg(-1).arg(-1).arg("WITHSCORES");
        let mut answers = self.link.query(&mut pipeline).await?;
        let marks = answers.split_off(answers.len().min(1));
        let now = self.chosen_now().map_or_else(|| time_of_answer(answers.first()), Ok)?;
        Ok((now, ViewMark(marks)))
    }
}
