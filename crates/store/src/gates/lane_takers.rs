//! The lanes that live nodes serve, as the nodes report them.
//!
//! Invariant: the answer may be seconds old. A caller must use the answer only where a wrong answer
//! does no harm.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use redis::Value;

use crate::Store;
use crate::nodes::node_records::{names, workers_in};
use crate::server::reply::text_of;
use crate::server::store_error::StoreError;
use schedd_core::domain::explain::GONE_AFTER;
use schedd_core::domain::queue::lane::Lane;
use schedd_core::domain::queue::lane_serving::{Serving, Unserved};

/// The time for which the cache keeps the lanes that nodes serve.
const KNOWN_FOR: Duration = Duration::from_secs(5);

/// A cache of the lanes that live nodes serve. The nodes are read when the cache is first used.
#[derive(Debug, Default)]
pub struct Takers {
    read: Option<(Instant, Vec<Serving>)>,
}

impl Takers {
    /// Returns true if a live node serves `lane`, or if no live node is known.
    pub(crate) async fn take(&mut self, store: &Store, lane: &Lane) -> Result<bool, StoreError> {
        if self.read.as_ref().is_none_or(|(at, _)| at.elapsed() > KNOWN_FOR) {
            self.read = Some((Instant::now(), store.read_serving().await?));
        }
        Ok(self.read.as_ref().is_none_or(|(_, serving)| Unserved::of(lane, serving).is_none()))
    }
}

impl Store {
    /// Returns the queues and labels that each recently seen node serves, at most 1,000 nodes, and
    /// those of the workers that ask these nodes.
    async fn read_serving(&self) -> Result<Vec<Serving>, StoreError> {
        let since = self.now().await?.saturating_sub(GONE_AFTER);
        let mut pipeline = redis::pipe();
        let seen = pipeline.cmd("ZRANGE").arg(self.keys.nodes()).arg("+inf").arg(since.as_i64());
        seen.arg("BYSCORE").arg("REV").arg("LIMIT").arg(0).arg(1_000);
        let answer = self.link.query(&mut pipeline).await?;
        let Some(Value::Array(seen)) = answer.first() else { return Ok(Vec::new()) };
        let mut pipeline = redis::pipe();
        for node in seen.iter().filter_map(text_of).filter_map(|name| name.parse().ok()) {
            pipeline.cmd("HMGET").arg(self.keys.node(&node)).arg(&["queues", "labels", "workers"]);
        }
        let records = self.link.ask(&mut pipeline).await?;
        Ok(records.iter().flat_map(|record| servings(record.as_ref().ok())).collect())
    }
}

/// Returns the queues that a node serves according to its record, all queues if the record names
/// none, and those of the workers that ask the node.
fn servings(record: Option<&Value>) -> Vec<Serving> {
    let Some(Value::Array(fields)) = record else { return vec![Serving::default()] };
    let text = |at: usize| fields.get(at).and_then(text_of).unwrap_or_default();
    let own = Serving {
        queues: Some(names(&text(0))).filter(|queues: &BTreeSet<_>| !queues.is_empty()),
        labels: names(&text(1)),
        handlers: None,
    };
    std::iter::once(own).chain(workers_in(&text(2))).collect()
}
