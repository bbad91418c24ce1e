//! The runs of a lane that are too far back for a poll, which lists only the first due runs.
//!
//! Invariant: the functions here only read, and list runs in ready order. A listed run may be gone
//! a moment later, so a claim checks each run again.

use redis::Value;

use super::due_poll::{DueEntry, due_entries};
use crate::Store;
use crate::server::member_text::{member_bytes, shown_member};
use crate::server::reply::number_of;
use crate::server::scripts;
use crate::server::store_error::StoreError;
use schedd_core::domain::queue::lane::Lane;
use schedd_schedule::time::unix_millis::UnixMillis;

impl Store {
    /// Lists at most `most` entries of the due set of `lane` after the first `skip`, in ready order,
    /// each with its ready time. The entries include runs that are due later. A key of the wrong
    /// type counts as empty, and the consistency check reports the key.
    pub async fn list_entries(
        &self,
        lane: &Lane,
        skip: usize,
        most: usize,
    ) -> Result<Vec<(String, UnixMillis)>, StoreError> {
        let mut pipeline = redis::pipe();
        let last = (skip + most).saturating_sub(1);
        pipeline.cmd("ZRANGE").arg(self.keys.due(lane)).arg(skip).arg(last).arg("WITHSCORES");
        let answer = self.link.ask(&mut pipeline).await?.into_iter().next();
        let Some(Ok(Value::Array(flat))) = answer else { return Ok(Vec::new()) };
        let entries = flat.chunks_exact(2).filter_map(|pair| {
            let at = number_of(&pair[1]).and_then(UnixMillis::new).unwrap_or(UnixMillis::EPOCH);
            Some((shown_member(&pair[0])?, at))
        });
        Ok(entries.collect())
    }

    /// Lists at most `most` due entries of `lane` in ready order, after the entry `after` or from
    /// the start. Returns None if the entry `after` is gone.
    pub async fn list_behind(
        &self,
        lane: &Lane,
        after: Option<&str>,
        most: usize,
    ) -> Result<Option<Vec<DueEntry>>, StoreError> {
        let call = self
            .call(&scripts::LIST_BEHIND)
            .of_lane(lane)
            .arg("after", member_bytes(after.unwrap_or_default()))
            .arg("most", most);
        let mut reply = self.link.invoke(&call).await?;
        match reply.word.as_str() {
            "gone" => Ok(None),
            "behind" => {
                let value = reply.value()?;
                let bad = || {
                    let found = format!("found {value:?}, wanted due runs with their ready times");
                    StoreError::corrupt("reply of script list_behind", found)
                };
                let Value::Array(flat) = &value else { return Err(bad()) };
                due_entries(flat).map(Some).ok_or_else(bad)
            }
            _ => Err(reply.unknown()),
        }
    }
}
