//! The source of events for all who follow them. One task reads Redis, and only while somebody
//! follows. So the cost does not depend on the number of followers.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::StreamExt as _;
use serde_json::{Value, json};
use tokio::sync::{broadcast, watch};
use tracing::debug;

use crate::cli::embedded::page_cursor::write_cursor;
use crate::cli::embedded::run_page::run_documents;
use crate::cli::embedded::{CliFailure, IndexEntry, MergedPlaces};
use schedd::engine::GONE_AFTER;
use schedd_schedule::names::{Fence, RunId};
use schedd_schedule::time::unix_millis::UnixMillis;
use schedd_store::{IndexCursor, Store};

/// The time between two reads of Redis.
const PAUSE: Duration = Duration::from_secs(1);
/// The longest time for which a follower waits for the first look.
const LONGEST_START: Duration = Duration::from_secs(2);
/// The number of events that a slow follower may be behind. A slower follower is disconnected.
const MOST_BEHIND: usize = 1_024;
/// The number of ended runs that are read at once.
const RUNS: usize = 1_000;
/// The maximum number of running runs that are compared.
const MOST_RUNNING: usize = 100_000;
/// The time in ms after which the history has all runs that ended in a millisecond.
const SETTLED: f64 = 2.0;

/// An event, as it is sent.
#[derive(Debug, Clone)]
pub(super) struct ApiEvent {
    /// The place of an ended run in the history, from which a follower can go on later. `None` for
    /// an event that is not kept.
    pub(super) place: Option<IndexCursor>,
    pub(super) text: Arc<str>,
}

impl ApiEvent {
    fn new(name: &str, place: Option<IndexCursor>, data: &Value) -> Self {
        let id = place.as_ref().map(|place| format!("id: {}\n", write_cursor("event", place)));
        let text = format!("{}event: {name}\ndata: {data}\n\n", id.unwrap_or_default());
        Self { place, text: text.into() }
    }

    /// Returns the event for an ended run.
    pub(super) fn ended(place: IndexCursor, run: &Value) -> Self {
        Self::new("run_ended", Some(place), run)
    }
}

/// The source of events.
#[derive(Debug)]
pub(in crate::api) struct EventHub {
    sender: broadcast::Sender<ApiEvent>,
    /// True while the task reads Redis.
    is_reading: Arc<Mutex<bool>>,
    /// True after the first look, from which on nothing is missed.
    has_begun: watch::Sender<bool>,
}

impl EventHub {
    pub(in crate::api) fn new() -> Self {
        Self {
            sender: broadcast::Sender::new(MOST_BEHIND),
            is_reading: Arc::default(),
            has_begun: watch::Sender::new(false),
        }
    }

    /// Returns the events from now on. Waits until the task has begun, but not long if Redis does not
    /// answer.
    pub(super) async fn follow(&self, store: &Store) -> broadcast::Receiver<ApiEvent> {
        let receiver = {
            let mut is_reading = self.is_reading.lock().unwrap_or_else(PoisonError::into_inner);
            let receiver = self.sender.subscribe();
            if !*is_reading {
                *is_reading = true;
                self.has_begun.send_replace(false);
                let (sender, has_begun) = (self.sender.clone(), self.has_begun.clone());
                tokio::spawn(read(store.clone(), sender, self.is_reading.clone(), has_begun));
            }
            receiver
        };
        let mut has_begun = self.has_begun.subscribe();
        // An error means that the hub is gone.
        let _ =
            tokio::time::timeout(LONGEST_START, has_begun.wait_for(|has_begun| *has_begun)).await;
        receiver
    }
}

/// Reads Redis until nobody follows.
async fn read(
    store: Store,
    sender: broadcast::Sender<ApiEvent>,
    is_reading: Arc<Mutex<bool>>,
    has_begun: watch::Sender<bool>,
) {
    let mut reader = Reader { sender, ended: None, running: BTreeMap::new(), nodes: None };
    // The changes of jobs, and the number of places that they are from.
    let mut changes = None;
    loop {
        match MergedPlaces::of(&store).await {
            Ok(places) => {
                let count = places.stores().len();
                if changes.as_ref().is_none_or(|(of, _)| *of != count) {
                    changes = places.job_changes().await.ok().map(|changes| (count, changes));
                }
                if let Err(error) = reader.look(&places).await {
                    debug!("The events cannot be read: {}.", error.lines().join("; "));
                }
            }
            Err(error) => debug!("The events cannot be read: {}.", error.lines().join("; ")),
        }
        has_begun.send_replace(true);
        let pause = tokio::time::sleep(PAUSE);
        tokio::pin!(pause);
        loop {
            let change = async {
                match &mut changes {
                    Some((_, changes)) => changes.next().await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = &mut pause => break,
                change = change => {
                    let Some(text) = change else {
                        changes = None;
                        break;
                    };
                    reader.job_changed(&text);
                }
            }
        }
        {
            let mut is_reading = is_reading.lock().unwrap_or_else(PoisonError::into_inner);
            if reader.sender.receiver_count() == 0 {
                *is_reading = false;
                return;
            }
        }
    }
}

/// The state of the namespace at the last look.
struct Reader {
    sender: broadcast::Sender<ApiEvent>,
    ended: Option<IndexCursor>,
    /// The running runs of each shard, and of the namespace itself (`None`).
    running: BTreeMap<Option<u32>, BTreeSet<(RunId, Fence)>>,
    nodes: Option<BTreeMap<String, bool>>,
}

impl Reader {
    fn send(&self, event: ApiEvent) {
        // Without a follower the event is not needed.
        let _ = self.sender.send(event);
    }

    fn job_changed(&self, text: &str) {
        let Some((job, entry)) = text.split_once(' ') else { return };
        let Ok(mut entry) = serde_json::from_str::<Value>(entry) else { return };
        let at = entry["at"].as_i64().and_then(UnixMillis::new);
        entry["at"] = json!(at.map(|at| at.to_string()));
        entry["job"] = json!(job);
        self.send(ApiEvent::new("job_changed", None, &entry));
    }

    async fn look(&mut self, places: &MergedPlaces) -> Result<(), CliFailure> {
        self.look_at_running(places).await?;
        self.look_at_nodes(places.home()).await?;
        let settled = settled_until(places).await?;
        while self.look_at_ended(places, settled).await? {}
        Ok(())
    }

    async fn look_at_running(&mut self, places: &MergedPlaces) -> Result<(), CliFailure> {
        let mut running = vec![BTreeSet::new(); places.stores().len()];
        for (place, lease) in places.list_leases(MOST_RUNNING).await? {
            running[place].insert((lease.run, lease.fence));
        }
        let mut new = Vec::new();
        for (place, (store, running)) in places.stores().iter().zip(running).enumerate() {
            if let Some(before) = self.running.get(&store.shard_number()) {
                new.extend(running.difference(before).map(|(run, _)| (place, run.clone())));
            }
            self.running.insert(store.shard_number(), running);
        }
        for run in run_documents(places, places.read_runs(new).await?).await? {
            self.send(ApiEvent::new("run_started", None, &run));
        }
        Ok(())
    }

    /// Sends the runs that ended before `settled`. A run that ended later waits for the next look.
    /// Returns true if more runs wait.
    async fn look_at_ended(
        &mut self,
        places: &MergedPlaces,
        settled: f64,
    ) -> Result<bool, CliFailure> {
        let from = match &self.ended {
            Some(ended) => ended.clone(),
            None => IndexCursor { score: settled, member: String::new() },
        };
        let mut entries = places.ended_after(&from, RUNS).await?;
        entries.retain(|(place, _)| place.score < settled);
        let has_more = entries.len() == RUNS;
        self.ended = Some(entries.last().map_or(from, |(place, _)| place.clone()));
        for (at, run) in ended_runs(places, entries).await? {
            self.send(ApiEvent::ended(at, &run));
        }
        Ok(has_more)
    }

    /// Sends the nodes that came and went.
    async fn look_at_nodes(&mut self, home: &Store) -> Result<(), CliFailure> {
        let (now, nodes) = home.list_nodes().await?;
        let is_there = |seen: Option<_>| seen.is_some_and(|seen| now.since(seen) < GONE_AFTER);
        let present: BTreeMap<String, bool> = nodes
            .into_iter()
            .map(|node| (node.name, is_there(node.last_seen) && node.state != "stopped"))
            .collect();
        if let Some(before) = &self.nodes {
            let nodes: BTreeSet<&String> = before.keys().chain(present.keys()).collect();
            for node in nodes {
                // The record of a node that stopped is removed.
                let [was_there, is_there] =
                    [before, &present].map(|nodes| nodes.get(node).copied().unwrap_or(false));
                if was_there != is_there {
                    let name = if is_there { "node_came" } else { "node_went" };
                    self.send(ApiEvent::new(
                        name,
                        None,
                        &json!({"node": node, "at": now.to_string()}),
                    ));
                }
            }
        }
        self.nodes = Some(present);
        Ok(())
    }
}

/// Returns the score below which the history of each place gets no more runs. Another run with a lower
/// id may still end in the same millisecond.
pub(super) async fn settled_until(places: &MergedPlaces) -> Result<f64, CliFailure> {
    // The history of each place has the times of its own Redis.
    let times = places.each(|store| async move { store.now().await }).await?;
    Ok(IndexCursor::below(times.into_iter().min()).score - SETTLED)
}

/// Returns the documents of ended runs with their places in the history, without runs whose records
/// are gone.
pub(super) async fn ended_runs(
    places: &MergedPlaces,
    entries: Vec<IndexEntry<RunId>>,
) -> Result<Vec<(IndexCursor, Value)>, CliFailure> {
    let (cursors, ids): (HashMap<_, _>, Vec<_>) = entries
        .into_iter()
        .filter_map(|(at, (place, id))| Some((((place, id.clone()?), at), (place, id?))))
        .unzip();
    let records = places.read_runs(ids).await?;
    let kept: Vec<_> = records
        .iter()
        .filter_map(|(place, run)| cursors.get(&(*place, run.run.clone())).cloned())
        .collect();
    Ok(kept.into_iter().zip(run_documents(places, records).await?).collect())
}
