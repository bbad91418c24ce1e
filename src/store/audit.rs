//! The slow check of the books as it is kept: whose turn it is, where it goes on, what it found.
//!
//! Invariant: one node has a turn at a time, whichever comes first; what a turn found is written whole over what the last did.

use std::time::Duration;

use redis::Value;

use super::Store;
use super::claims::millis;
use super::error::StoreError;
use super::reply::text_of;
use super::scripts::{self, Invocation};
use crate::domain::ids::NodeName;
use crate::domain::time::UnixMillis;

/// A node's turn.
#[derive(Debug, Clone)]
pub struct AuditTurn {
    /// Redis' time.
    pub now: UnixMillis,
    /// Where it goes on, as the last turn wrote it.
    pub place: String,
    /// What the last turns found and still held, as they wrote it.
    pub list: String,
    /// When the last round of all the books ended.
    pub round_at: Option<UnixMillis>,
}

/// What a turn leaves behind.
#[derive(Debug, Clone)]
pub struct AuditNote {
    /// When the turn began, by Redis' time.
    pub at: UnixMillis,
    /// When the last round of all the books ended; none before the first.
    pub round_at: Option<UnixMillis>,
    /// Where the next goes on.
    pub place: String,
    /// What was found and still holds, the newest first.
    pub list: String,
    /// How much that is, also what the list has no room for.
    pub findings: u64,
}

impl Store {
    /// Takes the turn, if the last one began `every` ago.
    pub async fn take_audit(&self, node: &NodeName, every: Duration) -> Result<Option<AuditTurn>, StoreError> {
        let call = Invocation::new(&scripts::TAKE_AUDIT)
            .key("audit", self.keys.audit())
            .arg("now", self.now_arg())
            .arg("node", node.as_str())
            .arg("every_ms", millis(every));
        let mut reply = self.link.invoke(&call).await?;
        match reply.word.as_str() {
            "turn" => Ok(Some(AuditTurn {
                now: super::claims::instant(&mut reply)?,
                place: reply.text()?,
                list: reply.text()?,
                round_at: reply.text()?.parse().ok().and_then(UnixMillis::new),
            })),
            "later" => Ok(None),
            _ => Err(reply.unknown()),
        }
    }

    /// Writes down what a turn found.
    pub async fn note_audit(&self, note: &AuditNote) -> Result<(), StoreError> {
        let mut pipeline = redis::pipe();
        let write = pipeline.cmd("HSET").arg(self.keys.audit());
        write.arg("at").arg(note.at.as_i64()).arg("place").arg(&note.place).arg("list").arg(&note.list);
        write.arg("findings").arg(note.findings);
        if let Some(at) = note.round_at {
            write.arg("round_at").arg(at.as_i64());
        }
        self.link.query(&mut pipeline).await.map(|_| ())
    }

    /// When the books were last checked, how much was found and still held, and what; none before the first check.
    pub async fn read_audit(&self) -> Result<Option<AuditNote>, StoreError> {
        let mut pipeline = redis::pipe();
        pipeline.cmd("HMGET").arg(self.keys.audit()).arg(&["at", "place", "list", "findings", "round_at"]);
        let answer = self.link.query(&mut pipeline).await?;
        let Some(Value::Array(fields)) = answer.first() else { return Ok(None) };
        let text = |at: usize| fields.get(at).and_then(text_of);
        let at = text(0).and_then(|at| at.parse().ok()).and_then(UnixMillis::new);
        Ok(at.map(|at| AuditNote {
            at,
            round_at: text(4).and_then(|at| at.parse().ok()).and_then(UnixMillis::new),
            place: text(1).unwrap_or_default(),
            list: text(2).unwrap_or_default(),
            findings: text(3).and_then(|count| count.parse().ok()).unwrap_or(0),
        }))
    }
}
