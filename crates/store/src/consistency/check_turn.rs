//! The stored state of the background consistency check. The check runs in slices: in each slice,
//! one node checks a part of the data. The state has the start of the last slice, the cursor from
//! which the next slice continues, and the findings.
//!
//! Invariant: Redis gives each slice to one node, and any node may get the next slice. Each slice
//! overwrites all stored findings.

use std::time::Duration;

use redis::Value;

use crate::Store;
use crate::server::reply::text_of;
use crate::server::scripts;
use crate::server::scripts::millis;
use crate::server::store_error::StoreError;
use schedd_schedule::names::NodeName;
use schedd_schedule::time::unix_millis::UnixMillis;

/// The data that a node receives from Redis when it begins a slice of the background consistency
/// check.
#[derive(Debug, Clone)]
pub struct CheckTurn {
    /// The start of the slice, by Redis' time.
    pub now: UnixMillis,
    /// The cursor of the background consistency check, from which this slice continues. The last
    /// slice wrote this text. Empty before the first slice.
    pub place: String,
    /// The findings that still applied at the end of the last slice, as JSON that the last slice
    /// wrote. Empty before the first slice.
    pub list: String,
    /// The time the last full check ended; None before the end of the first full check.
    pub round_at: Option<UnixMillis>,
}

/// The result of one slice of the background consistency check, as stored in Redis.
#[derive(Debug, Clone)]
pub struct CheckNote {
    /// The start of the slice, by Redis' time.
    pub at: UnixMillis,
    /// The time the last full check ended; None before the end of the first full check.
    pub round_at: Option<UnixMillis>,
    /// The cursor of the background consistency check, from which the next slice continues. The
    /// text names a part of the data and a position in this part, such as `due:default 17`.
    pub place: String,
    /// The findings that still apply, as JSON. The findings of earlier slices come first.
    pub list: String,
    /// The number of findings, including findings that `list` has no room for.
    pub findings: u64,
}

impl Store {
    /// Begins a slice of the consistency check if the last slice began at least `every` ago. If the
    /// last slice began later, returns the time until the next slice as an error value.
    pub async fn take_check_turn(
        &self,
        node: &NodeName,
        every: Duration,
    ) -> Result<Result<CheckTurn, Duration>, StoreError> {
        let call = self
            .call(&scripts::TAKE_CHECK_TURN)
            .arg("node", node.as_str())
            .arg("every_ms", millis(every));
        let mut reply = self.link.invoke(&call).await?;
        match reply.word.as_str() {
            "turn" => Ok(Ok(CheckTurn {
                now: reply.instant()?,
                place: reply.text()?,
                list: reply.text()?,
                round_at: reply.text()?.parse().ok().and_then(UnixMillis::new),
            })),
            "later" => Ok(Err(Duration::from_millis(reply.number()?.unsigned_abs()))),
            _ => Err(reply.unknown()),
        }
    }

    /// Records the result of a slice of the consistency check.
    pub async fn write_check_note(&self, note: &CheckNote) -> Result<(), StoreError> {
        let mut pipeline = redis::pipe();
        let write = pipeline.cmd("HSET").arg(self.keys.consistency_check());
        write
            .arg("at")
            .arg(note.at.as_i64())
            .arg("place")
            .arg(&note.place)
            .arg("list")
            .arg(&note.list);
        write.arg("findings").arg(note.findings);
        if let Some(at) = note.round_at {
            write.arg("round_at").arg(at.as_i64());
        }
        self.link.query(&mut pipeline).await.map(|_| ())
    }

    /// Returns the result of the last slice; None if no slice has ended yet.
    pub async fn read_check_note(&self) -> Result<Option<CheckNote>, StoreError> {
        let mut pipeline = redis::pipe();
        pipeline
            .cmd("HMGET")
            .arg(self.keys.consistency_check())
            .arg(&["at", "place", "list", "findings", "round_at"]);
        let answer = self.link.query(&mut pipeline).await?;
        let Some(Value::Array(fields)) = answer.first() else { return Ok(None) };
        let text = |at: usize| fields.get(at).and_then(text_of);
        let at = text(0).and_then(|at| at.parse().ok()).and_then(UnixMillis::new);
        Ok(at.map(|at| CheckNote {
            at,
            round_at: text(4).and_then(|at| at.parse().ok()).and_then(UnixMillis::new),
            place: text(1).unwrap_or_default(),
            list: text(2).unwrap_or_default(),
            findings: text(3).and_then(|count| count.parse().ok()).unwrap_or(0),
        }))
    }
}
