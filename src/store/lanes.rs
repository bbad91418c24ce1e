//! The lanes there are: the plain one of each queue, and those written down when a job first asked for them.
//!
//! Invariant: a lane that is not plain is written down in the script that first makes a job's runs due there, or before one that
//! puts a run back, so no run is due where no node knows to look.

use std::collections::BTreeSet;

use redis::Value;

use super::Store;
use super::error::StoreError;
use super::reply::{number_of, text_of};
use super::scripts::{self, Invocation};
use crate::domain::lane::Lane;
use crate::domain::time::UnixMillis;

/// Lanes that are not plain, at most. Far more than anybody needs: a label for each customer is no label.
const MOST: usize = 10_000;

impl Store {
    /// The lanes written down, none of them plain; those used last, at most 10,000. What is no lane is left out.
    pub async fn read_lanes(&self) -> Result<BTreeSet<Lane>, StoreError> {
        let mut pipeline = redis::pipe();
        pipeline.cmd("ZRANGE").arg(self.keys.lanes()).arg(0).arg(MOST - 1).arg("REV");
        let answer = self.link.query(&mut pipeline).await?;
        let Some(Value::Array(lanes)) = answer.first() else { return Ok(BTreeSet::new()) };
        Ok(lanes.iter().filter_map(|lane| text_of(lane)?.parse().ok()).collect())
    }

    /// Every lane there is but those of hosts: the plain ones of declared queues and those written down. A registry that holds
    /// something else is told where it is looked at itself.
    pub async fn list_lanes(&self) -> Result<BTreeSet<Lane>, StoreError> {
        let mut lanes: BTreeSet<Lane> = match self.read_lanes().await {
            Err(StoreError::WrongType { .. }) => BTreeSet::new(),
            lanes => lanes?,
        };
        lanes.extend(self.read_queues().await?.into_keys().map(Lane::from));
        lanes.insert(Lane::default_lane());
        Ok(lanes)
    }

    /// How many runs stand in each of these lanes; one whose key holds something else has none.
    pub async fn count_scheduled(&self, lanes: &[Lane]) -> Result<Vec<u64>, StoreError> {
        if lanes.is_empty() {
            return Ok(Vec::new());
        }
        let mut pipeline = redis::pipe();
        for lane in lanes {
            pipeline.cmd("ZCARD").arg(self.keys.due(lane));
        }
        let counts = self.link.ask(&mut pipeline).await?.into_iter();
        Ok(counts.map(|count| count.ok().as_ref().and_then(number_of).and_then(|n| u64::try_from(n).ok()).unwrap_or(0)).collect())
    }

    /// Writes down that these lanes are in use. Plain ones need not be.
    pub async fn note_lanes(&self, lanes: impl IntoIterator<Item = &Lane>) -> Result<(), StoreError> {
        let lanes: Vec<&Lane> = lanes.into_iter().filter(|lane| !lane.is_plain()).collect();
        if lanes.is_empty() {
            return Ok(());
        }
        let mut call = Invocation::new(&scripts::NOTE_LANES)
            .key("lanes", self.keys.lanes())
            .key("nudge", self.keys.nudge())
            .arg("now", self.now_arg());
        for lane in lanes {
            call = call.arg("lane", lane.as_str());
        }
        let reply = self.link.invoke(&call).await?;
        if reply.word == "noted" { Ok(()) } else { Err(reply.unknown()) }
    }

    /// Forgets lanes that nobody used since `before` and in which nothing is due; at most 100 a call. How many.
    pub async fn forget_lanes(&self, before: UnixMillis) -> Result<usize, StoreError> {
        let mut pipeline = redis::pipe();
        let range = pipeline.cmd("ZRANGE").arg(self.keys.lanes()).arg("-inf").arg(format!("({}", before.as_i64()));
        range.arg("BYSCORE").arg("LIMIT").arg(0).arg(100);
        let answer = self.link.query(&mut pipeline).await?;
        let Some(Value::Array(old)) = answer.first() else { return Ok(0) };
        let old: Vec<Lane> = old.iter().filter_map(|lane| text_of(lane)?.parse().ok()).collect();
        if old.is_empty() {
            return Ok(0);
        }
        let mut call = Invocation::new(&scripts::FORGET_LANES).key("lanes", self.keys.lanes()).arg("before", before.as_i64());
        for lane in &old {
            call = call.key("due", self.keys.due(lane)).arg("lane", lane.as_str());
        }
        let mut reply = self.link.invoke(&call).await?;
        match reply.word.as_str() {
            "forgotten" => Ok(usize::try_from(reply.number()?).unwrap_or(0)),
            _ => Err(reply.unknown()),
        }
    }
}
