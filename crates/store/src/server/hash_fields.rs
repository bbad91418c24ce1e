//! Reads the fields of many Redis hashes and the texts of many string keys, and removes unreadable
//! fields of Redis hashes.

use redis::Value;

use super::reply::text_of;
use super::scripts;
use super::store_error::StoreError;
use crate::Store;
use crate::server::member_text::{member_bytes, shown_member};

/// The number of fields read from a hash in one step.
const PAGE: usize = 1_000;
/// The number of hashes read in one pipeline.
const HASHES: usize = 100;
/// The number of fields removed in one call.
const STEP: usize = 500;

/// A field and its value in display form: bytes that are not text are written `\xNN`.
type Field = (String, String);

impl Store {
    /// Returns the fields of each of these keys, given by full name. A missing key or a key of the
    /// wrong type has no fields.
    pub async fn read_fields(&self, keys: &[String]) -> Result<Vec<Vec<Field>>, StoreError> {
        let mut all: Vec<Vec<Field>> = vec![Vec::new(); keys.len()];
        for first in (0..keys.len()).step_by(HASHES) {
            let mut left: Vec<(usize, u64)> =
                (first..keys.len().min(first + HASHES)).map(|at| (at, 0)).collect();
            while !left.is_empty() {
                let mut pipeline = redis::pipe();
                for (at, cursor) in &left {
                    pipeline
                        .cmd("HSCAN")
                        .arg(member_bytes(&keys[*at]))
                        .arg(*cursor)
                        .arg("COUNT")
                        .arg(PAGE);
                }
                let answers = self.link.ask(&mut pipeline).await?;
                left = left
                    .into_iter()
                    .zip(answers)
                    .filter_map(|((at, _), answer)| Some((at, take(answer, &mut all[at])?)))
                    .collect();
            }
        }
        Ok(all)
    }

    /// Returns the text of each of these string keys, given by full name, in display form. A
    /// missing key or a key of the wrong type gives None.
    pub async fn read_texts(&self, keys: &[String]) -> Result<Vec<Option<String>>, StoreError> {
        let mut all = Vec::with_capacity(keys.len());
        for some in keys.chunks(PAGE) {
            let mut pipeline = redis::pipe();
            for key in some {
                pipeline.cmd("GET").arg(member_bytes(key));
            }
            let answers = self.link.ask(&mut pipeline).await?;
            all.extend(
                answers.into_iter().map(|answer| answer.ok().as_ref().and_then(shown_member)),
            );
        }
        Ok(all)
    }

    /// Removes the fields of hash `key` that still have the values in `seen`. Returns the removed
    /// fields.
    pub async fn drop_fields(&self, key: &str, seen: &[Field]) -> Result<Vec<Field>, StoreError> {
        let mut dropped = Vec::new();
        for step in seen.chunks(STEP) {
            let mut call = self.call(&scripts::DROP_FIELDS).key("key", member_bytes(key));
            for (field, value) in step {
                call = call.arg("field", member_bytes(field)).arg("seen", member_bytes(value));
            }
            let mut reply = self.link.invoke(&call).await?;
            if reply.word != "dropped" {
                return Err(reply.unknown());
            }
            while let Ok(number) = reply.number() {
                let at = usize::try_from(number).ok().and_then(|number| number.checked_sub(1));
                dropped.extend(at.and_then(|at| step.get(at)).cloned());
            }
        }
        Ok(dropped)
    }
}

/// Adds one page of HSCAN to `fields`. Returns the next cursor, or None after the last page.
fn take(answer: Result<Value, redis::RedisError>, fields: &mut Vec<Field>) -> Option<u64> {
    let Ok(Value::Array(parts)) = answer else { return None };
    let [next, Value::Array(flat)] = parts.as_slice() else { return None };
    fields.extend(
        flat.chunks_exact(2)
            .filter_map(|pair| Some((shown_member(&pair[0])?, shown_member(&pair[1])?))),
    );
    text_of(next).and_then(|text| text.parse().ok()).filter(|cursor| *cursor != 0)
}
