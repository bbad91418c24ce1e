//! The answers to HTTP requests with an idempotency key, kept for a day. A repeated request gets the
//! answer of the first.

use std::time::Duration;

use redis::Value;

use super::Store;
use super::server::reply::text_of;
use super::server::scripts::millis;
use super::server::store_error::StoreError;

/// The time for which an answer is kept.
const KEPT: Duration = Duration::from_secs(24 * 3_600);
/// The time after which a request without an answer counts as lost with its node.
const UNDER_WAY: Duration = Duration::from_secs(60);

impl Store {
    /// Stores `mark` for a request that begins. Returns None, or the text that an earlier request
    /// with the same id stored.
    pub async fn begin_answer(&self, id: &str, mark: &str) -> Result<Option<String>, StoreError> {
        let mut pipeline = redis::pipe();
        pipeline.cmd("SET").arg(self.keys.answer(id)).arg(mark).arg("NX").arg("GET");
        pipeline.arg("PX").arg(millis(UNDER_WAY));
        let answer = self.link.query(&mut pipeline).await?;
        Ok(answer.first().filter(|found| **found != Value::Nil).and_then(text_of))
    }

    /// Stores the answer to a request that has ended.
    pub async fn keep_answer(&self, id: &str, answer: &str) -> Result<(), StoreError> {
        let mut pipeline = redis::pipe();
        pipeline.cmd("SET").arg(self.keys.answer(id)).arg(answer).arg("PX").arg(millis(KEPT));
        self.link.query(&mut pipeline).await.map(drop)
    }

    /// Removes the mark of a request that failed, so that it can be repeated.
    pub async fn drop_answer(&self, id: &str) -> Result<(), StoreError> {
        let mut pipeline = redis::pipe();
        pipeline.cmd("DEL").arg(self.keys.answer(id));
        self.link.query(&mut pipeline).await.map(drop)
    }
}
