//! Finds the blockers of a ready run: the present state of its queue, and the nodes that serve its
//! lane.

use std::collections::BTreeMap;

use crate::domain::explain::{Blocker, Executing};
use crate::domain::name::names::QueueName;
use crate::domain::queue::lane::Lane;
use crate::domain::queue::lane_serving::{Serving, Unserved};
use crate::domain::queue::queue_rules::NoRoomReason;
use crate::domain::time::unix_millis::UnixMillis;
use crate::store::{LaneAsk, LanePoll, NodeRecord, QueueRecord, Store, StoreError};

/// The most executing runs that are read to find nodes without a free slot.
const READ: usize = 500;
/// The most executing runs that an explanation names.
const NAMED: usize = 3;

/// Returns the blockers of ready runs in `lane`. `nodes` are the running nodes.
pub(super) async fn blockers(
    store: &Store,
    lane: &Lane,
    nodes: &[NodeRecord],
) -> Result<Vec<Blocker>, StoreError> {
    if nodes.is_empty() {
        return Ok(vec![Blocker::NoNode]);
    }
    let queue = lane.queue();
    let poll = store.list_due(&[LaneAsk::new(lane.clone(), 1)]).await?;
    let no_room = match poll.lanes.into_iter().next() {
        Some(LanePoll::Due { no_room, .. }) => no_room,
        Some(LanePoll::WrongType(error)) => {
            return Ok(vec![Blocker::WrongType { why: error.to_string() }]);
        }
        _ => return Ok(Vec::new()),
    };
    let Some(record) = store.read_queue_settings(std::slice::from_ref(queue)).await?.pop() else {
        return Ok(Vec::new());
    };
    let (ids, count) = store.list_running(queue, READ).await?;
    let running = Executing { some: ids.iter().take(NAMED).cloned().collect(), count };
    if let Some(hold) = no_room {
        let (detail, since) = detail(&record, hold);
        return Ok(vec![Blocker::Queue { hold, detail, since, running }]);
    }
    let mut by_node: BTreeMap<String, u32> = BTreeMap::new();
    for run in store.read_runs(&ids).await?.into_iter().flatten().flatten() {
        *by_node.entry(run.node.unwrap_or_default()).or_default() += 1;
    }
    let (mut found, mut full) = (Vec::new(), Vec::new());
    for node in nodes.iter().filter(|node| node.serving.takes(lane)) {
        if let Some((why, since)) = node.at_limit.clone() {
            found.push(Blocker::NodeLimit { node: node.name.clone(), why, since });
        } else if by_node.get(&node.name).is_some_and(|taken| *taken >= record.settings.concurrency)
        {
            full.push(node.name.clone());
        } else {
            // A node with a free slot may claim the run at any moment, so no blocker exists.
            return Ok(Vec::new());
        }
    }
    if !full.is_empty() {
        found.push(Blocker::Slots { nodes: full, running });
    }
    Ok(found)
}

/// Returns a phrase for the reason why a ready run in `lane` does not start. Returns `None` if a
/// node may claim the run at any moment.
pub(super) async fn hindrance(
    store: &Store,
    lane: &Lane,
    nodes: &[NodeRecord],
) -> Result<Option<String>, StoreError> {
    let serving: Vec<Serving> = nodes.iter().map(|node| node.serving.clone()).collect();
    if let Some(why) = Unserved::of(lane, &serving) {
        return Ok(Some(why.to_string()));
    }
    let queue = lane.queue();
    Ok(blockers(store, lane, nodes).await?.into_iter().next().map(|blocker| match blocker {
        Blocker::Queue { hold: NoRoomReason::Paused, detail, .. } if detail.is_empty() => {
            format!("queue {queue} is paused")
        }
        Blocker::Queue { hold: NoRoomReason::Paused, detail, .. } => {
            format!("queue {queue} is paused by {detail}")
        }
        Blocker::Queue { hold: NoRoomReason::Full, .. } => format!("queue {queue} is full"),
        Blocker::Queue { hold: NoRoomReason::Rate, .. } => {
            format!("queue {queue} is at its rate limit")
        }
        Blocker::WrongType { why } => why,
        Blocker::Slots { .. } => "no node that serves the queue has a free slot".to_owned(),
        Blocker::NodeLimit { node, why, .. } => format!("node {node} claims no runs: {why}"),
        Blocker::NoNode => "no node is running".to_owned(),
    }))
}

/// Returns the pause of `queue`, which will block the next run of a job. Returns no blocker if the
/// queue is not paused.
pub(super) async fn pause(store: &Store, queue: &QueueName) -> Result<Vec<Blocker>, StoreError> {
    let record = store.read_queue_settings(std::slice::from_ref(queue)).await?.pop();
    let described = |record: QueueRecord| {
        let (detail, since) = detail(&record, NoRoomReason::Paused);
        Blocker::Queue { hold: NoRoomReason::Paused, detail, since, running: Executing::default() }
    };
    Ok(record.filter(|record| record.paused.is_some()).map(described).into_iter().collect())
}

fn detail(record: &QueueRecord, hold: NoRoomReason) -> (String, Option<UnixMillis>) {
    let paused = record.paused.as_ref();
    match hold {
        NoRoomReason::Paused => {
            (paused.map_or_else(String::new, |(_, by)| by.clone()), paused.map(|(at, _)| *at))
        }
        NoRoomReason::Full => {
            (record.settings.limit.map_or_else(String::new, |limit| limit.to_string()), None)
        }
        NoRoomReason::Rate => {
            (record.settings.rate.map_or_else(String::new, |rate| rate.to_string()), None)
        }
    }
}
