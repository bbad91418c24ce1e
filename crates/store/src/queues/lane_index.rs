//! The lanes in use: the plain lane of each queue, which has the name of the queue, and the
//! registered lanes. A registered lane is for a priority, labels or a shard.
//!
//! Invariant: the script that first adds a run to a lane that is not plain also registers the lane.
//! A lane is registered before a run is restored into it. So nodes know the lane of every due run.

use std::collections::BTreeSet;

use redis::Value;

use crate::Store;
use crate::server::reply::{number_of, text_of};
use crate::server::scripts;
use crate::server::store_error::StoreError;
use schedd_core::domain::queue::lane::Lane;
use schedd_schedule::time::unix_millis::UnixMillis;

/// The maximum number of registered lanes. More are needed only if labels are misused, such as a
/// label for each customer.
const MOST: usize = 10_000;

impl Store {
    /// Returns the registered lanes, at most 10,000. If there are more, the lanes used last are
    /// returned. A registered lane is never plain. Malformed entries are skipped.
    pub async fn read_lanes(&self) -> Result<BTreeSet<Lane>, StoreError> {
        let mut pipeline = redis::pipe();
        pipeline.cmd("ZRANGE").arg(self.keys.lanes()).arg(0).arg(MOST - 1).arg("REV");
        let answer = self.link.query(&mut pipeline).await?;
        let Some(Value::Array(lanes)) = answer.first() else { return Ok(BTreeSet::new()) };
        Ok(lanes.iter().filter_map(|lane| text_of(lane)?.parse().ok()).collect())
    }

    /// Returns all lanes except the lanes of hosts and of notices: the plain lanes of declared
    /// queues and the registered lanes. An index of lanes that has the wrong type counts as empty,
    /// and the consistency check reports it.
    pub async fn list_lanes(&self) -> Result<BTreeSet<Lane>, StoreError> {
        let mut lanes: BTreeSet<Lane> = match self.read_lanes().await {
            Err(StoreError::WrongType { .. }) => BTreeSet::new(),
            lanes => lanes?,
        };
        lanes.extend(self.read_queues().await?.into_keys().map(Lane::from));
        lanes.insert(Lane::default_lane());
        Ok(lanes)
    }

    /// Returns the number of planned runs in each of these lanes; 0 for a key of the wrong type.
    pub async fn count_scheduled(&self, lanes: &[Lane]) -> Result<Vec<u64>, StoreError> {
        let mut pipeline = redis::pipe();
        for lane in lanes {
            pipeline.cmd("ZCARD").arg(self.keys.due(lane));
        }
        let counts = self.link.ask(&mut pipeline).await?.into_iter();
        Ok(counts
            .map(|count| {
                count
                    .ok()
                    .as_ref()
                    .and_then(number_of)
                    .and_then(|n| u64::try_from(n).ok())
                    .unwrap_or(0)
            })
            .collect())
    }

    /// Registers these lanes, so that nodes poll them. A plain lane is not registered, because
    /// nodes know it by its queue.
    pub async fn note_lanes(
        &self,
        lanes: impl IntoIterator<Item = &Lane>,
    ) -> Result<(), StoreError> {
        let lanes: Vec<&Lane> = lanes.into_iter().filter(|lane| !lane.is_plain()).collect();
        if lanes.is_empty() {
            return Ok(());
        }
        let mut call = self.call(&scripts::NOTE_LANES);
        for lane in lanes {
            call = call.arg("lane", lane.as_str());
        }
        let reply = self.link.invoke(&call).await?;
        if reply.word == "noted" { Ok(()) } else { Err(reply.unknown()) }
    }

    /// Removes registered lanes that are unused since `before` and have no planned run, at most 100
    /// a call. Returns the number of removed lanes.
    pub async fn forget_lanes(&self, before: UnixMillis) -> Result<usize, StoreError> {
        let mut pipeline = redis::pipe();
        let range = pipeline
            .cmd("ZRANGE")
            .arg(self.keys.lanes())
            .arg("-inf")
            .arg(format!("({}", before.as_i64()));
        range.arg("BYSCORE").arg("LIMIT").arg(0).arg(100);
        let answer = self.link.query(&mut pipeline).await?;
        let Some(Value::Array(old)) = answer.first() else { return Ok(0) };
        let old: Vec<Lane> = old.iter().filter_map(|lane| text_of(lane)?.parse().ok()).collect();
        if old.is_empty() {
            return Ok(0);
        }
        let mut call = self.call(&scripts::FORGET_LANES).arg("before", before.as_i64());
        for lane in &old {
            call = call.item().of_lane(lane).arg("lane", lane.as_str());
        }
        let mut reply = self.link.invoke(&call).await?;
        match reply.word.as_str() {
            "forgotten" => Ok(usize::try_from(reply.number()?).unwrap_or(0)),
            _ => Err(reply.unknown()),
        }
    }
}
