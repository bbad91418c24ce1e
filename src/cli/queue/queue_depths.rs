//! The queues and lanes of a namespace, and the numbers of their runs.

use std::collections::{BTreeMap, BTreeSet};

use crate::cli::failure::CliFailure;
use crate::cli::merged_places::MergedPlaces;
use schedd_core::domain::queue::lane::Lane;
use schedd_schedule::names::QueueName;
use schedd_schedule::time::unix_millis::UnixMillis;
use schedd_store::{QueueDepth, Store};

/// Returns the names of all queues, and all lanes, the most urgent lane of a queue first.
pub(super) async fn queues_and_lanes(
    store: &Store,
) -> Result<(Vec<QueueName>, Vec<Lane>), CliFailure> {
    let (queues, mut lanes, host_lanes) =
        tokio::try_join!(store.read_queues(), store.list_lanes(), store.list_host_lanes())?;
    let mut names: BTreeSet<QueueName> = queues.into_keys().collect();
    names.insert(QueueName::default_queue());
    lanes.extend(host_lanes);
    names.extend(lanes.iter().map(|lane| lane.queue().clone()));
    let names: Vec<QueueName> = names.into_iter().collect();
    lanes.extend(names.iter().cloned().map(Lane::from));
    let mut lanes: Vec<Lane> = lanes.into_iter().collect();
    lanes.sort_by(|a, b| {
        a.queue()
            .cmp(b.queue())
            .then_with(|| b.priority().cmp(&a.priority()))
            .then_with(|| a.cmp(b))
    });
    Ok((names, lanes))
}

/// Adds up the numbers of runs in two lanes of one queue. The field `running` already counts the
/// whole queue, so `running` is not added.
pub(super) fn together(one: QueueDepth, other: QueueDepth) -> QueueDepth {
    QueueDepth {
        ready: one.ready + other.ready,
        scheduled: one.scheduled + other.scheduled,
        running: one.running,
        oldest: one.oldest.into_iter().chain(other.oldest).min(),
        next: one.next.into_iter().chain(other.next).min(),
    }
}

/// Adds up the numbers of runs of a queue in the namespace and in a shard.
pub(super) fn with_shard(one: QueueDepth, of_shard: QueueDepth) -> QueueDepth {
    QueueDepth { running: one.running + of_shard.running, ..together(one, of_shard) }
}

/// Returns the time of Redis and the numbers of runs of every queue in all places together, in the
/// order of their names.
pub(crate) async fn queue_depths(
    places: &MergedPlaces,
) -> Result<(UnixMillis, Vec<(QueueName, QueueDepth)>), CliFailure> {
    let mut all = places.each(|store| async move { depths_of(&store).await }).await?;
    let (now, mut queues) = all.remove(0);
    for (queue, depth) in all.into_iter().flat_map(|(_, of_shard)| of_shard) {
        let sum = queues.entry(queue).or_default();
        *sum = with_shard(*sum, depth);
    }
    Ok((now, queues.into_iter().collect()))
}

/// Returns the time of Redis and the numbers of runs of every queue in one place.
async fn depths_of(
    store: &Store,
) -> Result<(UnixMillis, BTreeMap<QueueName, QueueDepth>), CliFailure> {
    let (names, lanes) = queues_and_lanes(store).await?;
    let now = store.now().await?;
    let depths = store.read_depths(&lanes, now).await?;
    let mut queues: BTreeMap<QueueName, QueueDepth> =
        names.into_iter().map(|name| (name, QueueDepth::default())).collect();
    for (lane, depth) in lanes.iter().zip(depths) {
        queues
            .entry(lane.queue().clone())
            .and_modify(|sum| *sum = together(depth, *sum))
            .or_insert(depth);
    }
    Ok((now, queues))
}
