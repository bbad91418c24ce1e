//! Gives the ends of runs to the children of their jobs, which makes the runs of children due.
//!
//! Invariant: any number of nodes may give the same end at once, because the script gives each end
//! to a child once. Ends are given in the order in which they were written. So the end of a retried
//! run never comes before the end that was retried.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tracing::{debug, warn};

use crate::engine::node_context::NodeContext;
use crate::engine::waiting_entries::{BATCH, STEP, pause};
use schedd_core::domain::queue::lane::Lane;
use schedd_schedule::names::JobName;
use schedd_store::{ChainEndRecord, ChildReply, StoreError};

/// Gives waiting ends to children, again and again. Never returns.
pub(crate) async fn run(node: Arc<NodeContext>) {
    let wakeup = &node.wakeups.chain_planter;
    loop {
        pause(&node, wakeup, "children in chains do not start", round(&node).await).await;
    }
}

/// Gives all waiting ends where possible. Returns the number of ends that still wait.
async fn round(node: &NodeContext) -> Result<usize, StoreError> {
    let mut left = 0;
    loop {
        let (ends, entries) = node.store.list_chain_ends(left, BATCH).await?;
        left += entries - give(node, &ends).await?;
        if entries < BATCH {
            return Ok(left);
        }
    }
}

/// Gives `ends` to their children. Returns the number of ends that no longer wait.
async fn give(node: &NodeContext, ends: &[ChainEndRecord]) -> Result<usize, StoreError> {
    let names: BTreeSet<&JobName> = ends.iter().map(|end| &end.end.child).collect();
    let names: Vec<JobName> = names.into_iter().cloned().collect();
    let records = if names.is_empty() { Vec::new() } else { node.store.read_jobs(&names).await? };
    let mut lanes: BTreeMap<&JobName, Lane> = BTreeMap::new();
    for (name, record) in names.iter().zip(records) {
        match record {
            // A child that no longer exists needs no lane: the script only removes its ends.
            Ok(record) => {
                let lane = record.map_or_else(Lane::default_lane, |record| record.lane);
                lanes.insert(name, lane);
            }
            Err(error) => leave(node, name, &error.to_string()),
        }
    }
    let chosen: Vec<(&ChainEndRecord, Lane)> =
        ends.iter().filter_map(|end| Some((end, lanes.get(&end.end.child)?.clone()))).collect();
    let mut given = 0;
    for step in chosen.chunks(STEP) {
        for ((end, _), reply) in step.iter().zip(node.store.plant_children(step).await?) {
            match reply {
                Ok(ChildReply::Stale) => {}
                Ok(ChildReply::Full) => leave(
                    node,
                    &end.end.child,
                    "10,000 occurrences of it wait for parents that have not ended",
                ),
                Ok(reply) => {
                    debug!(child = %end.end.child_run(), parent = %end.end.run, ?reply, "A child was given the end of its parent.");
                    given += 1;
                }
                Err(error) if error.is_passing() => return Err(error),
                Err(error) => leave(node, &end.end.child, &error.to_string()),
            }
        }
    }
    Ok(given)
}

fn leave(node: &NodeContext, child: &JobName, why: &str) {
    if node.outage_log.is_new(&format!("chain of {child}")) {
        warn!(job = %child, "This node does not give the ends of parents to the job: {why}.");
    }
}
