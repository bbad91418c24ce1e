//! The record that a queue has a backlog. All nodes that see one backlog get the same time of its
//! beginning from Redis, so they plan the same run of the job that reports it.

use std::time::Duration;

use crate::Store;
use crate::server::scripts;
use crate::server::scripts::millis;
use crate::server::store_error::StoreError;
use schedd_schedule::names::QueueName;
use schedd_schedule::time::unix_millis::UnixMillis;

/// The time after which a record that no node renewed belongs to an earlier backlog.
const FORGOTTEN: Duration = Duration::from_secs(60);

impl Store {
    /// Records that a queue has a backlog now. Returns the time of the backlog's beginning, which
    /// is earlier if a node recorded the backlog before.
    pub async fn note_backlog(&self, queue: &QueueName) -> Result<UnixMillis, StoreError> {
        let call = self
            .call(&scripts::NOTE_BACKLOG)
            .of_queue(queue)
            .arg("since", "")
            .arg("forgotten_ms", millis(FORGOTTEN));
        let mut reply = self.link.invoke(&call).await?;
        match reply.word.as_str() {
            "begun" | "goes_on" => reply.instant(),
            _ => Err(reply.unknown()),
        }
    }

    /// Records that the backlog of a queue that began at `since` is over.
    pub async fn end_backlog(
        &self,
        queue: &QueueName,
        since: UnixMillis,
    ) -> Result<(), StoreError> {
        let call = self
            .call(&scripts::NOTE_BACKLOG)
            .of_queue(queue)
            .arg("since", since.as_i64())
            .arg("forgotten_ms", millis(FORGOTTEN));
        let reply = self.link.invoke(&call).await?;
        match reply.word.as_str() {
            "over" => Ok(()),
            _ => Err(reply.unknown()),
        }
    }
}
