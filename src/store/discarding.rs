//! Entries of quarantine let go for good, because a person has looked at them, and the notes of who let them go.
//!
//! Invariant: nothing but a key that was moved aside is deleted, and none without its entry.

use redis::Value;
use serde_json::{Value as Json, json};

use super::Store;
use super::error::StoreError;
use super::quarantine::{EntryKind, QuarantineEntry, member_bytes};
use super::reply::{number_of, text_of};
use super::scripts::{self, Invocation};
use crate::domain::books::{Known, known_key};
use crate::domain::time::UnixMillis;

/// Entries a call discards at most.
const STEP: usize = 100;
/// Notes read at most; as many are kept.
const READ: usize = 200;
/// Characters kept of a name, a key or a reason, each.
const KEPT: usize = 200;

/// An entry that was discarded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Discarded {
    /// Its name in quarantine, of which 200 characters are kept.
    pub name: String,
    /// The key it had stood in, or that it was.
    pub key: String,
    /// Why it was in quarantine.
    pub why: String,
    /// When it was discarded.
    pub at: Option<UnixMillis>,
    /// By whom, as `user@host`; none if that is not known.
    pub by: Option<String>,
}

impl Store {
    /// Discards those of `entries` that are still what was read, in steps of 100, and notes it. With `dropped`, the number that found
    /// no room as it was read, these are told no more. Gives for each entry whether it was discarded.
    pub async fn discard(&self, entries: &[QuarantineEntry], dropped: Option<u64>) -> Result<Vec<bool>, StoreError> {
        let wish = format!("{:016x}", fastrand::u64(..));
        let mut done = Vec::with_capacity(entries.len());
        let mut dropped = dropped.map_or_else(String::new, |count| count.to_string());
        let mut steps: Vec<&[QuarantineEntry]> = entries.chunks(STEP).collect();
        if steps.is_empty() {
            steps.push(&[]);
        }
        for step in steps {
            let mut call = Invocation::new(&scripts::DISCARD_ENTRIES)
                .key("quarantine", self.keys.quarantine())
                .key("discarded", self.keys.discarded())
                .key("totals", self.keys.totals());
            for entry in step {
                call = call.key("aside", self.key_aside(entry).unwrap_or_else(|| self.keys.quarantine().into_bytes()));
            }
            call = call.arg("now", self.now_arg()).arg("dropped", std::mem::take(&mut dropped));
            for entry in step {
                call = call
                    .arg("field", member_bytes(&entry.name))
                    .arg("entry", &entry.raw)
                    .arg("note", note(entry, &self.by, &wish));
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

    /// What was discarded, the newest first; of those beyond 200 the oldest are forgotten. One that cannot be read is left out.
    pub async fn list_discarded(&self) -> Result<Vec<Discarded>, StoreError> {
        let mut pipeline = redis::pipe();
        pipeline.cmd("ZRANGE").arg(self.keys.discarded()).arg(0).arg(READ - 1).arg("REV").arg("WITHSCORES");
        let answer = self.link.query(&mut pipeline).await?;
        let Some(Value::Array(flat)) = answer.first() else { return Ok(Vec::new()) };
        Ok(flat.chunks_exact(2).filter_map(|pair| discarded(&text_of(&pair[0])?, &pair[1])).collect())
    }

    /// The key that goes with an entry. What an entry names that is no key moved aside is somebody's, and stays.
    fn key_aside(&self, entry: &QuarantineEntry) -> Option<Vec<u8>> {
        let EntryKind::Key { aside } = &entry.kind else { return None };
        let rest = self.keys.rest(aside)?;
        (known_key(rest) == Known::SetAside).then(|| member_bytes(aside))
    }
}

fn note(entry: &QuarantineEntry, by: &str, wish: &str) -> String {
    let kept = |text: &str| text.chars().take(KEPT).collect::<String>();
    let note = json!({"name": kept(&entry.name), "key": kept(&entry.key), "why": kept(&entry.why), "by": by, "wish": wish});
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
