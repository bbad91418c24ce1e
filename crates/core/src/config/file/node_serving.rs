//! The keys of `[daemon]` about the runs that a node takes: its queues, its labels, and its load
//! limits.
//!
//! A reload reads all of these keys again.

use std::collections::BTreeSet;

use super::kept_amounts::size;
use crate::config::job::compile_lane::compile_labels;
use crate::config::syntax::problem::{Problems, nearest, quoted};
use crate::config::syntax::reader::{Spot, TableReader};
use crate::domain::queue::lane_serving::Serving;
use schedd_schedule::names::QueueName;

/// The settings that decide which runs a node takes.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ServingConfig {
    /// The queues and labels that the node serves.
    pub serving: Serving,
    /// The load limits up to which the node takes runs.
    pub flow: FlowLimits,
}

/// The load limits of a node. A node beyond any of these limits claims no more runs, but its
/// running attempts continue. A limit of `None` is not checked.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct FlowLimits {
    /// The maximum load average of one minute. More than 0, at most 100,000.
    pub max_load: Option<f64>,
    /// The minimum free memory, in bytes.
    pub min_free_memory: Option<u64>,
    /// The maximum number of runs executed at once, of all queues together. 1 to 100,000.
    pub max_running: Option<u32>,
}

/// The maximum value of `min_free_memory`: 1024 TiB.
const MOST_MEMORY: u64 = 1 << 50;

/// Compiles the keys of `[daemon]` about the runs that the node takes. `declared` has the queues
/// that the file declares. It is `None` if a fault keeps the queues from being known.
pub(crate) fn compile_serving(
    table: &TableReader<'_>,
    declared: Option<&BTreeSet<QueueName>>,
    problems: &mut Problems,
) -> ServingConfig {
    ServingConfig {
        serving: Serving {
            queues: table.get("queues").and_then(|spot| compile_served(&spot, declared, problems)),
            labels: table
                .get("labels")
                .and_then(|spot| compile_labels(&spot, problems))
                .unwrap_or_default(),
            handlers: None,
        },
        flow: FlowLimits {
            max_load: table
                .get("max_load")
                .and_then(|spot| spot.positive_number(100_000.0, "8", problems)),
            min_free_memory: table
                .get("min_free_memory")
                .and_then(|spot| size(&spot, MOST_MEMORY, "at most 1048576GiB", problems)),
            max_running: table
                .get("max_running")
                .and_then(|spot| spot.integer(&(1..=100_000), problems)),
        },
    }
}

fn compile_served(
    spot: &Spot<'_>,
    declared: Option<&BTreeSet<QueueName>>,
    problems: &mut Problems,
) -> Option<BTreeSet<QueueName>> {
    let Some(items) = spot.as_items() else {
        return spot.wanted(problems, "a list of queues such as [\"default\", \"mail\"]");
    };
    let mut served = BTreeSet::new();
    let mut is_whole = true;
    for item in items {
        let Some(queue) = item.parsed::<QueueName>("default", problems) else {
            is_whole = false;
            continue;
        };
        if let Some(declared) = declared.filter(|declared| !declared.contains(&queue)) {
            let names = declared.iter().map(QueueName::as_str);
            let hint = nearest(queue.as_str(), names)
                .map_or_else(String::new, |meant| format!("; did you mean {meant:?}?"));
            item.fault(
                problems,
                format!(
                    "queue {} is not declared: add [queues.{queue}] or name a declared queue{hint}",
                    quoted(queue.as_str())
                ),
            );
            is_whole = false;
        }
        served.insert(queue);
    }
    if served.is_empty() && is_whole {
        spot.fault(
            problems,
            "found an empty list, wanted at least one queue; remove the key to serve all queues",
        );
        return None;
    }
    is_whole.then_some(served)
}
