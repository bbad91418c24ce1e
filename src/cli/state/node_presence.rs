//! The presence of nodes: a schedd that runs, or a warning that none does.

use crate::cli::render::{Console, Relative};
use schedd::engine::GONE_AFTER;
use schedd_core::domain::queue::lane::Lane;
use schedd_core::domain::queue::lane_serving::{Serving, Unserved};
use schedd_schedule::time::unix_millis::UnixMillis;
use schedd_store::{NodeRecord, Store};

/// Returns true if the node was seen within [`GONE_AFTER`] before `now`, so it counts as running.
pub(crate) fn is_present(node: &NodeRecord, now: UnixMillis) -> bool {
    node.last_seen.is_some_and(|seen| now.since(seen) <= GONE_AFTER)
}

/// Returns the queues and labels that each present node serves.
pub(crate) fn serving(nodes: &[NodeRecord], now: UnixMillis) -> Vec<Serving> {
    nodes.iter().filter(|node| is_present(node, now)).flat_map(NodeRecord::servings).collect()
}

/// Prints a warning if no schedd runs, unless `--quiet` is given. A failed read is ignored, because
/// the verb itself reports an outage of Redis.
pub(crate) async fn warn_if_none_runs(store: &Store, console: &mut Console) {
    if let Ok((now, nodes)) = store.list_nodes().await {
        warn_if_none_of(&nodes, now, store, console);
    }
}

/// Prints a warning if no schedd runs, or if no schedd that runs takes runs of the lane. Prints
/// nothing if `--quiet` is given. A failed read is ignored.
pub(crate) async fn warn_if_none_takes(store: &Store, lane: &Lane, console: &mut Console) {
    let Ok((now, nodes)) = store.list_nodes().await else { return };
    warn_if_none_of(&nodes, now, store, console);
    if let Some(why) = Unserved::of(lane, &serving(&nodes, now)) {
        console.warn(&format!("{why}; runs of the job wait until one does"));
    }
}

/// Prints a warning if none of these nodes, which are listed by their last heartbeat, runs. Prints
/// nothing if `--quiet` is given.
pub(crate) fn warn_if_none_of(
    nodes: &[NodeRecord],
    now: UnixMillis,
    store: &Store,
    console: &mut Console,
) {
    if console.is_quiet() || nodes.iter().any(|node| is_present(node, now)) {
        return;
    }
    let seen = |node: &NodeRecord| {
        let ago = Relative { now }.passed(node.last_seen?);
        Some(format!(" (node {} was last seen {ago})", node.name))
    };
    console.warn(&format!(
        "no schedd is running in namespace {}{}; runs start when a schedd runs",
        store.namespace(),
        nodes.first().and_then(seen).unwrap_or_default()
    ));
}
