//! Finds the blockers of a ready run: the present state of its queue, and the nodes that serve its
//! lane.

use std::collections::BTreeMap;

use schedd_core::domain::explain::{Blocker, Executing};
use schedd_core::domain::queue::lane::Lane;
use schedd_core::domain::queue::lane_serving::{Serving, Unserved};
use schedd_core::domain::queue::queue_rules::NoRoomReason;
use schedd_schedule::names::RunId;
use schedd_schedule::time::unix_millis::UnixMillis;
use schedd_store::{LaneAsk, LanePoll, NodeRecord, QueueRecord, Store, StoreError};

/// The most executing runs that are read to find nodes without a free slot.
const READ: usize = 500;
/// The most executing runs that an explanation names.
const NAMED: usize = 3;

/// The state of a lane and of the queue of the lane.
pub(super) struct QueueState {
    pub(super) lane: Lane,
    poll: Option<LanePoll>,
    record: Option<QueueRecord>,
    /// The executing runs of the queue, at most `READ`, and the number of all its executing runs.
    executing: (Vec<RunId>, u64),
}

impl QueueState {
    /// Reads the state of `lane` and of its queue in one round trip to Redis.
    pub(super) async fn read(store: &Store, lane: &Lane) -> Result<Self, StoreError> {
        let lanes = [LaneAsk::new(lane.clone(), 1)];
        let (poll, mut records, executing) = tokio::try_join!(
            store.list_due(&lanes),
            store.read_queue_settings(std::slice::from_ref(lane.queue())),
            store.list_running(lane.queue(), READ)
        )?;
        let (poll, record) = (poll.lanes.into_iter().next(), records.pop());
        Ok(Self { lane: lane.clone(), poll, record, executing })
    }

    /// Returns the reason why no run of the queue starts now. Returns `None` if runs start.
    pub(super) fn no_room(&self) -> Option<NoRoomReason> {
        match &self.poll {
            Some(LanePoll::Due { no_room, .. }) => *no_room,
            _ => None,
        }
    }

    /// Returns the blockers of ready runs in the lane. `nodes` are the running nodes.
    pub(super) async fn blockers(
        &self,
        store: &Store,
        nodes: &[NodeRecord],
    ) -> Result<Vec<Blocker>, StoreError> {
        if nodes.is_empty() {
            return Ok(vec![Blocker::NoNode]);
        }
        match &self.poll {
            Some(LanePoll::Due { .. }) => {}
            Some(LanePoll::WrongType(error)) => {
                return Ok(vec![Blocker::WrongType { why: error.to_string() }]);
            }
            _ => return Ok(Vec::new()),
        }
        let Some(record) = &self.record else { return Ok(Vec::new()) };
        let (ids, count) = &self.executing;
        let running = Executing { some: ids.iter().take(NAMED).cloned().collect(), count: *count };
        if let Some(hold) = self.no_room() {
            let (detail, since) = detail(record, hold);
            return Ok(vec![Blocker::Queue { hold, detail, since, running }]);
        }
        let mut by_node: BTreeMap<String, u32> = BTreeMap::new();
        for run in store.read_runs(ids).await?.into_iter().flatten().flatten() {
            *by_node.entry(run.node.unwrap_or_default()).or_default() += 1;
        }
        let (mut found, mut full) = (Vec::new(), Vec::new());
        for node in nodes.iter().filter(|node| node.serving.takes(&self.lane)) {
            if let Some((why, since)) = node.at_limit.clone() {
                found.push(Blocker::NodeLimit { node: node.name.clone(), why, since });
            } else if by_node
                .get(&node.name)
                .is_some_and(|taken| *taken >= record.settings.concurrency)
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

    /// Returns the pause of the queue, which will block the next run of a job. Returns no blocker
    /// if the queue is not paused.
    pub(super) fn pause(&self) -> Vec<Blocker> {
        let described = |record: &QueueRecord| {
            let (detail, since) = detail(record, NoRoomReason::Paused);
            let running = Executing::default();
            Blocker::Queue { hold: NoRoomReason::Paused, detail, since, running }
        };
        let paused = self.record.iter().filter(|record| record.paused.is_some());
        paused.map(described).collect()
    }
}

/// Returns a phrase for the reason why a ready run in `lane` does not start. Returns `None` if a
/// node may claim the run at any moment.
pub(super) async fn hindrance(
    store: &Store,
    lane: &Lane,
    nodes: &[NodeRecord],
) -> Result<Option<String>, StoreError> {
    let serving: Vec<Serving> = nodes.iter().flat_map(NodeRecord::servings).collect();
    if let Some(why) = Unserved::of(lane, &serving) {
        return Ok(Some(why.to_string()));
    }
    let queue = lane.queue();
    let state = QueueState::read(store, lane).await?;
    Ok(state.blockers(store, nodes).await?.into_iter().next().map(|blocker| match blocker {
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
