//! Deleting quarantine entries for good at an operator's request. A log records who deleted which
//! entry.
//!
//! Invariant: the only keys deleted here are quarantined keys, each together with its quarantine
//! entry.

use redis::Value;
use serde_json::{Value as Json, json};

use super::quarantine::{EntryKind, QuarantineEntry, member_bytes};
use crate::Store;
use crate::server::reply::{number_of, text_of};
use crate::server::scripts;
use crate::server::store_error::StoreError;
use schedd_core::domain::consistency::{KnownNames, known_key};
use schedd_schedule::time::unix_millis::UnixMillis;

/// The most entries discarded in one call.
const STEP: usize = 100;
/// The number of log entries read, which is also the number of log entries kept.
const READ: usize = 200;
/// The maximum number of characters of a name, a key or a reason in the log.
const KEPT: usize = 200;

/// A log entry about a discarded quarantine entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Discarded {
    /// The name of the entry in quarantine, cut to 200 characters.
    pub name: String,
    /// The original key of the data; for a set member, the key of its set. Cut to 200 characters.
    pub key: String,
    /// The reason why the data was in quarantine, cut to 200 characters.
    pub why: String,
    /// The time the entry was discarded; None if unknown.
    pub at: Option<UnixMillis>,
    /// The operator who discarded the entry, as `user@host`; None if unknown.
    pub by: Option<String>,
}

impl Store {
    /// Deletes the quarantine entries that did not change since the caller read them, in steps of
    /// 100, and logs each deletion. Returns one value for each of `entries`, in order: true if the
    /// entry was deleted.
    ///
    /// `dropped` is the number of entries that found no room in quarantine, as the caller read this
    /// number. The counter of such entries is cleared if it still has this value.
    pub async fn discard(
        &self,
        entries: &[QuarantineEntry],
        dropped: Option<u64>,
    ) -> Result<Vec<bool>, StoreError> {
        let request = format!("{:016x}", fastrand::u64(..));
        let mut done = Vec::with_capacity(entries.len());
        let mut dropped = dropped.map_or_else(String::new, |count| count.to_string());
        let mut steps: Vec<&[QuarantineEntry]> = entries.chunks(STEP).collect();
        if steps.is_empty() {
            steps.push(&[]);
        }
        for step in steps {
            let dropped = std::mem::take(&mut dropped);
            let mut call = self.call(&scripts::DISCARD_ENTRIES).arg("dropped", dropped);
            for entry in step {
                let no_key = || self.keys.quarantine().into_bytes();
                call = call
                    .item()
                    .key("aside", self.key_aside(entry).unwrap_or_else(no_key))
                    .arg("field", member_bytes(&entry.name))
                    .arg("entry", &entry.raw)
                    .arg("note", note(entry, &self.by, &request));
            }
            let mut reply = self.link.invoke(&call).await?;
            if reply.word != "discarded" {
                return Err(reply.unknown());
            }
            let mut are_done = vec![false; step.len()];
            while let Ok(place) = reply.number() {
                let at = usize::try_from(place).ok().and_then(|place| place.checked_sub(1));
                if let Some(is_done) = at.and_then(|at| are_done.get_mut(at)) {
                    *is_done = true;
                }
            }
            done.extend(are_done);
        }
        Ok(done)
    }

    /// Lists the log entries about discarded quarantine entries, the newest first. Only the newest
    /// 200 log entries are kept. Unreadable log entries are skipped.
    pub async fn list_discarded(&self) -> Result<Vec<Discarded>, StoreError> {
        let mut pipeline = redis::pipe();
        pipeline
            .cmd("ZRANGE")
            .arg(self.keys.discarded())
            .arg(0)
            .arg(READ - 1)
            .arg("REV")
            .arg("WITHSCORES");
        let answer = self.link.query(&mut pipeline).await?;
        let Some(Value::Array(flat)) = answer.first() else { return Ok(Vec::new()) };
        Ok(flat
            .chunks_exact(2)
            .filter_map(|pair| discarded(&text_of(&pair[0])?, &pair[1]))
            .collect())
    }

    /// Returns the quarantined key of an entry; None for a set member. Also returns None if the key
    /// does not have the name of a quarantined key, because such a key may belong to another
    /// program.
    fn key_aside(&self, entry: &QuarantineEntry) -> Option<Vec<u8>> {
        let EntryKind::Key { aside } = &entry.kind else { return None };
        let rest = self.keys.rest(aside)?;
        (known_key(rest) == KnownNames::SetAside).then(|| member_bytes(aside))
    }
}

fn note(entry: &QuarantineEntry, by: &str, request: &str) -> String {
    let kept = |text: &str| text.chars().take(KEPT).collect::<String>();
    let note = json!({"name": kept(&entry.name), "key": kept(&entry.key), "why": kept(&entry.why), "by": by, "request": request});
    note.to_string()
}

fn discarded(member: &str, score: &Value) -> Option<Discarded> {
    let json: Json = serde_json::from_str(member).ok()?;
    let text = |word: &str| json[word].as_str().map(str::to_owned);
    Some(Discarded {
        name: text("name")?,
        key: text("key")?,
        why: text("why")?,
        at: number_of(score).and_then(UnixMillis::new),
        by: text("by").filter(|by| !by.is_empty()),
    })
}
