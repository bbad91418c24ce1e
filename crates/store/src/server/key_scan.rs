//! Scans of the keys of the namespace, with their types and expiry times, and of the members of
//! sorted sets. Also finds namespaces with a similar name. `doctor` scans all keys of Redis in one
//! pass; the background consistency check scans a part at a time.

use std::collections::{BTreeMap, BTreeSet};

use redis::Value;

use super::reply::{number_of, text_of};
use super::store_error::StoreError;
use crate::Store;
use crate::consistency::quarantine::Quarantined;
use crate::runs::due_poll::DueEntry;
use crate::server::member_text::{member_bytes, shown_member};
use schedd_core::domain::consistency::KeyFacts;

/// The number of keys or members that one call of SCAN or ZSCAN asks for.
const PAGE: usize = 1_000;

impl Store {
    /// Returns the keys of the namespace whose names within the namespace match the pattern `of`.
    /// Each key comes with its type and expiry.
    pub async fn scan_keys(&self, of: &str) -> Result<Vec<KeyFacts>, StoreError> {
        let pattern = self.keys.whole(of);
        let mut found: BTreeMap<String, KeyFacts> = BTreeMap::new();
        let mut cursor = Some(0);
        while let Some(at) = cursor {
            let (names, next) = self.scan_page(&pattern, at, PAGE).await?;
            let keys = if names.is_empty() { Vec::new() } else { self.look_at_keys(names).await? };
            found.extend(keys.into_iter().map(|key| (key.name.clone(), key)));
            cursor = Some(next).filter(|next| *next != 0);
        }
        Ok(found.into_values().collect())
    }

    /// Scans about `count` keys of the whole Redis, starting at `cursor`. Returns the keys that
    /// belong to the namespace, and the next cursor, which is 0 at the end.
    pub async fn scan_some_keys(
        &self,
        cursor: u64,
        count: usize,
    ) -> Result<(Vec<KeyFacts>, u64), StoreError> {
        let (names, next) = self.scan_page(&self.keys.whole("*"), cursor, count).await?;
        let keys = if names.is_empty() { Vec::new() } else { self.look_at_keys(names).await? };
        Ok((keys, next))
    }

    /// Returns the number of keys in the whole Redis, including keys outside the namespace.
    pub async fn count_keys(&self) -> Result<u64, StoreError> {
        let mut pipeline = redis::pipe();
        pipeline.cmd("DBSIZE");
        let answer = self.link.query(&mut pipeline).await?;
        Ok(answer
            .first()
            .and_then(number_of)
            .and_then(|count| u64::try_from(count).ok())
            .unwrap_or(0))
    }

    async fn look_at_keys(&self, names: Vec<Vec<u8>>) -> Result<Vec<KeyFacts>, StoreError> {
        let mut pipeline = redis::pipe();
        for name in &names {
            pipeline.cmd("TYPE").arg(name);
            pipeline.cmd("PTTL").arg(name);
        }
        let answers = self.link.query(&mut pipeline).await?;
        let look = |(name, pair): (Vec<u8>, &[Value])| {
            let name = shown_member(&Value::BulkString(name))?;
            // The key was deleted during the scan.
            let kind = text_of(&pair[0]).filter(|kind| kind != "none")?;
            let rest = self.keys.rest(&name).unwrap_or_default().to_owned();
            let expires = number_of(&pair[1]).is_some_and(|ms| ms >= 0);
            Some(KeyFacts { name, rest, kind, expires })
        };
        Ok(names.into_iter().zip(answers.chunks_exact(2)).filter_map(look).collect())
    }

    /// Returns the type and expiry of one key; None if the key does not exist.
    pub async fn look_at_key(&self, name: &str) -> Result<Option<KeyFacts>, StoreError> {
        Ok(self.look_at_keys(vec![member_bytes(name)]).await?.pop())
    }

    /// Removes the expiry of a key. Returns true if the key had an expiry.
    pub async fn persist_key(&self, name: &str) -> Result<bool, StoreError> {
        let mut pipeline = redis::pipe();
        pipeline.cmd("PERSIST").arg(member_bytes(name));
        Ok(self.link.query(&mut pipeline).await?.first().and_then(number_of) == Some(1))
    }

    /// Returns the namespaces in this Redis whose names differ from this namespace only in upper
    /// and lower case.
    pub async fn namespaces_like_this(&self) -> Result<BTreeSet<String>, StoreError> {
        let own = self.namespace();
        let either = |c: char| match (c.to_ascii_lowercase(), c.to_ascii_uppercase()) {
            (lower, upper) if lower == upper => lower.to_string(),
            (lower, upper) => format!("[{lower}{upper}]"),
        };
        let pattern = format!("{{{}}}:*", own.chars().map(either).collect::<String>());
        let mut others = BTreeSet::new();
        let mut cursor = Some(0);
        while let Some(at) = cursor {
            let (names, next) = self.scan_page(&pattern, at, PAGE).await?;
            for name in names {
                let text = String::from_utf8_lossy(&name).into_owned();
                let tag = text
                    .strip_prefix('{')
                    .and_then(|rest| rest.split_once('}'))
                    .map(|(tag, _)| tag.to_owned());
                others.extend(tag.filter(|tag| tag != own));
            }
            cursor = Some(next).filter(|next| *next != 0);
        }
        Ok(others)
    }

    async fn scan_page(
        &self,
        pattern: &str,
        cursor: u64,
        count: usize,
    ) -> Result<(Vec<Vec<u8>>, u64), StoreError> {
        let mut pipeline = redis::pipe();
        pipeline.cmd("SCAN").arg(cursor).arg("MATCH").arg(pattern).arg("COUNT").arg(count);
        let answer = self.link.query(&mut pipeline).await?;
        let Some(Value::Array(parts)) = answer.first() else { return Ok((Vec::new(), 0)) };
        let [next, Value::Array(names)] = parts.as_slice() else { return Ok((Vec::new(), 0)) };
        let bytes = |name: &Value| match name {
            Value::BulkString(bytes) => Some(bytes.clone()),
            _ => None,
        };
        let next = text_of(next).and_then(|text| text.parse().ok()).unwrap_or(0);
        Ok((names.iter().filter_map(bytes).collect(), next))
    }

    /// Reads a page of each of these sorted sets, each given by its name within the namespace and a
    /// cursor. Returns the entries and the cursor of the next page, which is 0 at the end. A key of
    /// the wrong type has no entries.
    pub async fn scan_sets(
        &self,
        sets: &[(String, u64)],
    ) -> Result<Vec<(Vec<DueEntry>, u64)>, StoreError> {
        let mut pipeline = redis::pipe();
        for (rest, cursor) in sets {
            pipeline
                .cmd("ZSCAN")
                .arg(member_bytes(&self.keys.whole(rest)))
                .arg(*cursor)
                .arg("COUNT")
                .arg(PAGE);
        }
        let read = |answer: Result<Value, redis::RedisError>| {
            let Ok(Value::Array(parts)) = answer else { return (Vec::new(), 0) };
            let [next, Value::Array(flat)] = parts.as_slice() else { return (Vec::new(), 0) };
            let entry = |pair: &[Value]| {
                Some(DueEntry { member: shown_member(&pair[0])?, score: text_of(&pair[1])? })
            };
            let next = text_of(next).and_then(|text| text.parse().ok()).unwrap_or(0);
            (flat.chunks_exact(2).filter_map(entry).collect(), next)
        };
        Ok(self.link.ask(&mut pipeline).await?.into_iter().map(read).collect())
    }

    /// Lists the ids of the runs that are asked to stop, as stored in Redis.
    pub async fn list_stops(&self) -> Result<Vec<String>, StoreError> {
        let mut pipeline = redis::pipe();
        pipeline.cmd("HKEYS").arg(self.keys.stop_requests());
        let answer = self.link.query(&mut pipeline).await?;
        let Some(Value::Array(fields)) = answer.first() else { return Ok(Vec::new()) };
        Ok(fields.iter().filter_map(shown_member).collect())
    }

    /// Moves an entry of a sorted set to quarantine if the entry is unchanged. `rest` is the name
    /// of the set within the namespace, and `why` the fault of the entry.
    pub async fn quarantine_entry(
        &self,
        rest: &str,
        entry: &DueEntry,
        why: &str,
    ) -> Result<Quarantined, StoreError> {
        self.quarantine(&self.keys.whole(rest), entry, why).await
    }

    /// Returns the full name of the key whose name within the namespace is `rest`.
    pub fn key_named(&self, rest: &str) -> String {
        self.keys.whole(rest)
    }
}
