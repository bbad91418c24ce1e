//! The marks of the HTTP API: the answers to requests with an idempotency key, and the used links. A
//! repeated request gets the answer of the first, and a link works once on all nodes.

use std::time::Duration;

use redis::Value;

use super::Store;
use super::server::reply::text_of;
use super::server::scripts;
use super::server::scripts::millis;
use super::server::store_error::StoreError;
use schedd_schedule::names::RunId;

/// The time for which an answer is kept.
const KEPT: Duration = Duration::from_secs(24 * 3_600);
/// The time after which a request without an answer counts as lost with its node, unless its mark was
/// renewed.
const UNDER_WAY: Duration = Duration::from_secs(60);
/// The time for which a used link is known. It is longer than a link lives, because the clocks of the
/// nodes differ.
const USED: Duration = Duration::from_secs(3_600);

/// The text that takes the place of the mark of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MarkSuccessor<'a> {
    /// The mark itself: the request is still under way.
    Mark,
    /// The answer.
    Answer(&'a str),
    /// No text: the request failed and may be repeated.
    Nothing,
}

impl Store {
    /// Stores `mark` for a request that begins. No other request has the same mark. Returns None, or
    /// the text that an earlier request with the same id stored.
    pub async fn begin_answer(&self, id: &str, mark: &str) -> Result<Option<String>, StoreError> {
        let mut pipeline = redis::pipe();
        pipeline.cmd("SET").arg(self.keys.answer(id)).arg(mark).arg("NX").arg("GET");
        pipeline.arg("PX").arg(millis(UNDER_WAY));
        let answer = self.link.query(&mut pipeline).await?;
        Ok(answer.first().filter(|found| **found != Value::Nil).and_then(text_of))
    }

    /// Returns the mark of a request or its answer, or `None` if neither is kept.
    pub async fn read_answer(&self, id: &str) -> Result<Option<String>, StoreError> {
        let mut pipeline = redis::pipe();
        pipeline.cmd("GET").arg(self.keys.answer(id));
        let answer = self.link.query(&mut pipeline).await?;
        Ok(answer.first().filter(|found| **found != Value::Nil).and_then(text_of))
    }

    /// Replaces the mark of a request. Returns false and changes nothing if another request has the id
    /// meanwhile.
    pub async fn replace_mark(
        &self,
        id: &str,
        mark: &str,
        by: MarkSuccessor<'_>,
    ) -> Result<bool, StoreError> {
        let (text, lifetime) = match by {
            MarkSuccessor::Mark => (mark, UNDER_WAY),
            MarkSuccessor::Answer(answer) => (answer, KEPT),
            MarkSuccessor::Nothing => ("", Duration::ZERO),
        };
        let call = self
            .call(&scripts::REPLACE_MARK)
            .key("answer", self.keys.answer(id))
            .arg("own_mark", mark)
            .arg("successor", text)
            .arg("lifetime_ms", millis(lifetime));
        let reply = self.link.invoke(&call).await?;
        match reply.word.as_str() {
            "replaced" => Ok(true),
            "another" => Ok(false),
            _ => Err(reply.unknown()),
        }
    }

    /// Returns the note of the claims of a worker with this id: marks, and of each claim its writer and
    /// the ids of the runs that it wanted, with a space before each. Returns None if there is no note.
    pub async fn read_worker_claim(&self, id: &str) -> Result<Option<String>, StoreError> {
        self.read_answer(id).await
    }

    /// Adds `mark` to the note of the claims of a worker with this id, and keeps the note for `keep`.
    /// Returns the note.
    pub async fn mark_worker_claim(
        &self,
        id: &str,
        mark: &str,
        keep: Duration,
    ) -> Result<String, StoreError> {
        let key = self.keys.answer(id);
        let mut pipeline = redis::pipe();
        pipeline.cmd("APPEND").arg(&key).arg(format!(" {mark}"));
        pipeline.cmd("PEXPIRE").arg(&key).arg(millis(keep));
        pipeline.cmd("GET").arg(&key);
        Ok(self.link.query(&mut pipeline).await?.get(2).and_then(text_of).unwrap_or_default())
    }

    /// Replaces the note of the claims of a worker with this id by `mark`.
    pub async fn shorten_worker_claim(
        &self,
        id: &str,
        mark: &str,
        keep: Duration,
    ) -> Result<(), StoreError> {
        let mut pipeline = redis::pipe();
        let note = pipeline.cmd("SET").arg(self.keys.answer(id)).arg(format!(" {mark}"));
        note.arg("PX").arg(millis(keep));
        self.link.query(&mut pipeline).await.map(drop)
    }

    /// Returns the commands that add the ids of the runs that the claim `id` of a worker is about to
    /// claim, and keep the note for `keep`. So the same claim finds these runs if its answer was
    /// lost, also if it is sent again while the first is under way.
    pub(crate) fn worker_claim_note<'r>(
        &self,
        id: &str,
        writer: &str,
        runs: impl Iterator<Item = &'r RunId>,
        keep: Duration,
    ) -> Vec<redis::Cmd> {
        let key = self.keys.answer(id);
        let mut ids = format!(" {writer}");
        for run in runs {
            ids.push(' ');
            ids.push_str(&run.to_string());
        }
        let (mut append, mut expire) = (redis::cmd("APPEND"), redis::cmd("PEXPIRE"));
        append.arg(&key).arg(ids);
        expire.arg(&key).arg(millis(keep));
        vec![append, expire]
    }

    /// Marks the link whose code has the SHA-256 `hash` as used. Returns false if the link was used
    /// before, on any node.
    pub async fn use_link(&self, hash: &str) -> Result<bool, StoreError> {
        let mut pipeline = redis::pipe();
        pipeline.cmd("SET").arg(self.keys.used_link(hash)).arg("").arg("NX");
        pipeline.arg("PX").arg(millis(USED));
        let answer = self.link.query(&mut pipeline).await?;
        Ok(answer.first().is_some_and(|answer| *answer != Value::Nil))
    }
}
