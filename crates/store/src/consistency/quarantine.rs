//! The quarantine: the place for data that no schedd could have written. Such data is reported and
//! never runs, and only an operator deletes it (`quarantine_discard`).
//!
//! Entries of sets are copied into one hash. Whole keys are renamed and listed in that hash. The
//! quarantine keeps at most 10,000 entries. When the quarantine is full, a damaged key stays where
//! it is. A damaged set entry is removed and counted, because each poll would find the entry again;
//! the caller logs the removal.

use redis::Value;
use serde_json::Value as Json;

use crate::Store;
use crate::gates::gate_calls::names_of;
use crate::runs::due_poll::DueEntry;
pub(crate) use crate::server::member_text::{member_bytes, shown_member};
use crate::server::reply::{number_of, text_of};
use crate::server::scripts;
use crate::server::store_error::StoreError;
use schedd_core::domain::queue::gate::Gate;
use schedd_core::domain::queue::lane::Lane;
use schedd_schedule::names::{JobName, RunId};
use schedd_schedule::time::unix_millis::UnixMillis;

/// The result of moving a set entry to quarantine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Quarantined {
    /// The entry is in quarantine.
    Kept,
    /// The quarantine is full. The entry was removed and only counted.
    Dropped,
    /// The entry was already gone.
    Gone,
}

/// The result of moving a key to quarantine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SetAside {
    /// The key is in quarantine under this new name.
    Kept(String),
    /// The key was already gone.
    Gone,
    /// The quarantine is full. The key was not moved.
    Full,
}

/// An entry of the quarantine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QuarantineEntry {
    /// The name of the entry in quarantine; bytes that are not text are written `\xNN`.
    pub name: String,
    /// The original key of the data; for a set member, the key of its set.
    pub key: String,
    /// The reason why the data was moved to quarantine.
    pub why: String,
    /// The time the data was moved to quarantine; None if unknown.
    pub at: Option<UnixMillis>,
    /// The kind of data: a set member or a whole key.
    pub kind: EntryKind,
    /// The stored bytes of the entry. The entry is restored or discarded only if Redis still has
    /// the same bytes.
    pub(crate) raw: Vec<u8>,
}

/// The kind of data in a quarantine entry: a set member or a whole key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EntryKind {
    /// A member of a set, with its score.
    Member {
        /// The score of the member in its set, as text.
        score: String,
    },
    /// A whole key.
    Key {
        /// The new name of the key.
        aside: String,
    },
}

impl Store {
    /// Moves an entry of a lane's due set to quarantine for the reason `why`.
    pub async fn quarantine_run(
        &self,
        lane: &Lane,
        entry: &DueEntry,
        why: &str,
    ) -> Result<Quarantined, StoreError> {
        self.quarantine(&self.keys.due(lane), entry, why).await
    }

    /// Moves an entry of the index of leases to quarantine for the reason `why`.
    pub async fn quarantine_lease(
        &self,
        entry: &DueEntry,
        why: &str,
    ) -> Result<Quarantined, StoreError> {
        self.quarantine(&self.keys.leases(), entry, why).await
    }

    pub(crate) async fn quarantine(
        &self,
        set: &str,
        entry: &DueEntry,
        why: &str,
    ) -> Result<Quarantined, StoreError> {
        let is_due = self.keys.rest(set).is_some_and(|rest| rest.starts_with("due:"));
        let run: Option<RunId> = if is_due { entry.member.parse().ok() } else { None };
        let call = |gates: &[Gate]| {
            let call = self
                .call(&scripts::QUARANTINE_RUN)
                .key("set", member_bytes(set))
                .key(
                    "run",
                    run.as_ref().map_or_else(|| self.keys.quarantine(), |run| self.keys.run(run)),
                )
                .arg("member", member_bytes(&entry.member))
                .arg("score", &entry.score)
                .arg("why", why)
                .optional("id", run.as_ref())
                .arg("gates", names_of(gates));
            call.gate_keys(&self.keys, gates)
        };
        let reply = self.invoke_at_gates(&[], call).await?;
        match reply.word.as_str() {
            "quarantined" => Ok(Quarantined::Kept),
            "dropped" => Ok(Quarantined::Dropped),
            "gone" => Ok(Quarantined::Gone),
            _ => Err(reply.unknown()),
        }
    }

    /// Moves a whole key to quarantine for the reason `why`. `rest` is the name of the key without
    /// its namespace.
    ///
    /// Each file has a list of the jobs that the file defined. If `job` is given, the name of that
    /// job is removed from these lists. The next apply of such a file then adds the job again.
    pub async fn quarantine_key(
        &self,
        rest: &str,
        why: &str,
        job: Option<&str>,
    ) -> Result<SetAside, StoreError> {
        let keys = &self.keys;
        let mut now = self.now().await?;
        let sources = match job {
            Some(_) => self.list_sources().await?,
            None => Vec::new(),
        };
        loop {
            let aside = keys.set_aside(rest, now);
            let field = keys.rest(&aside).unwrap_or_default().to_owned();
            let mut call = self
                .call(&scripts::QUARANTINE_KEY)
                .key("key", member_bytes(&keys.whole(rest)))
                .key("aside", member_bytes(&aside))
                .arg("field", member_bytes(&field))
                .arg("why", why)
                .arg("job_name", job.unwrap_or_default());
            for source in &sources {
                call = call.item().key("source", keys.whole(source));
            }
            let reply = self.link.invoke(&call).await?;
            match reply.word.as_str() {
                "quarantined" => return Ok(SetAside::Kept(aside)),
                "gone" => return Ok(SetAside::Gone),
                "full" => return Ok(SetAside::Full),
                "taken" => now = now.saturating_add(std::time::Duration::from_millis(1)),
                _ => return Err(reply.unknown()),
            }
        }
    }

    /// Returns the names of the keys that list the jobs of a file, such as `source:NODE`, without
    /// the prefix of the namespace.
    async fn list_sources(&self) -> Result<Vec<String>, StoreError> {
        let (_, nodes) = self.list_nodes().await?;
        let mut sources: Vec<String> =
            nodes.into_iter().map(|node| format!("source:{}", node.name)).collect();
        let listed = self.scan_keys("source:*").await?.into_iter().map(|key| key.rest);
        sources.extend(listed);
        sources.sort();
        sources.dedup();
        Ok(sources)
    }

    /// Lists the entries of the quarantine, the oldest first, at most `limit`. Also returns the
    /// total number of entries.
    pub async fn list_quarantine(
        &self,
        limit: usize,
    ) -> Result<(u64, Vec<QuarantineEntry>), StoreError> {
        let (mut cursor, mut entries) = (0_u64, Vec::new());
        loop {
            let mut pipeline = redis::pipe();
            pipeline.cmd("HSCAN").arg(self.keys.quarantine()).arg(cursor).arg("COUNT").arg(1_000);
            pipeline.cmd("HLEN").arg(self.keys.quarantine());
            let answer = self.link.query(&mut pipeline).await?;
            let [Value::Array(parts), total] = answer.as_slice() else { return Ok((0, entries)) };
            let total = number_of(total).and_then(|n| u64::try_from(n).ok()).unwrap_or(0);
            let [next, Value::Array(flat)] = parts.as_slice() else { return Ok((total, entries)) };
            entries.extend(flat.chunks_exact(2).filter_map(|pair| entry(&pair[0], &pair[1])));
            cursor = text_of(next).and_then(|text| text.parse().ok()).unwrap_or(0);
            if cursor == 0 {
                entries.sort_by(|a, b| (a.at, &a.name).cmp(&(b.at, &b.name)));
                entries.dedup_by(|a, b| a.name == b.name);
                entries.truncate(limit);
                return Ok((total, entries));
            }
        }
    }

    /// Returns true if a definition of this job is in quarantine.
    pub async fn is_set_aside(&self, job: &JobName) -> Result<bool, StoreError> {
        let pattern = format!("quarantined:job:{job}:*");
        let mut cursor = 0_u64;
        loop {
            let mut pipeline = redis::pipe();
            let scan = pipeline.cmd("HSCAN").arg(self.keys.quarantine()).arg(cursor);
            scan.arg("MATCH").arg(&pattern).arg("COUNT").arg(1_000);
            let answer = self.link.query(&mut pipeline).await?;
            let Some(Value::Array(parts)) = answer.first() else { return Ok(false) };
            let [next, Value::Array(found)] = parts.as_slice() else { return Ok(false) };
            if !found.is_empty() {
                return Ok(true);
            }
            cursor = text_of(next).and_then(|text| text.parse().ok()).unwrap_or(0);
            if cursor == 0 {
                return Ok(false);
            }
        }
    }

    /// Returns the quarantine entry with this name; None if there is no such entry.
    pub async fn read_quarantined(
        &self,
        name: &str,
    ) -> Result<Option<QuarantineEntry>, StoreError> {
        let field = member_bytes(name);
        let mut pipeline = redis::pipe();
        pipeline.cmd("HGET").arg(self.keys.quarantine()).arg(&field);
        let answer = self.link.query(&mut pipeline).await?;
        Ok(answer
            .first()
            .filter(|value| **value != Value::Nil)
            .and_then(|value| entry(&Value::BulkString(field), value)))
    }
}

fn entry(field: &Value, value: &Value) -> Option<QuarantineEntry> {
    let Value::BulkString(raw) = value else { return None };
    let json: Json = serde_json::from_slice(raw).unwrap_or_default();
    let text = |word: &str| json.get(word).and_then(Json::as_str).unwrap_or_default().to_owned();
    let kind = match json.get("aside") {
        Some(_) => EntryKind::Key { aside: text("aside") },
        None => EntryKind::Member { score: text("score") },
    };
    Some(QuarantineEntry {
        name: shown_member(field)?,
        key: text("key"),
        why: text("why"),
        at: text("at").parse().ok().and_then(UnixMillis::new),
        kind,
        raw: raw.clone(),
    })
}
