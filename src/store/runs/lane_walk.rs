//! The due runs of a lane that are too far back for a poll, which lists only the first runs.
//!
//! Invariant: the functions here only read, and list runs in ready order. A listed run may be gone
//! a moment later, so a claim checks each run again.

use redis::Value;

use super::due_poll::{DueEntry, due_entries};
use crate::domain::queue::lane::Lane;
use crate::store::Store;
use crate::store::server::member_text::member_bytes;
use crate::store::server::scripts;
use crate::store::server::store_error::StoreError;

impl Store {
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
