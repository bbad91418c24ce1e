//! What `[daemon]` says of the work a node takes: which queues it serves, what it carries, and past which load it takes no more.
//!
//! All of it is taken anew at a reload.

use std::collections::BTreeSet;

use super::compile_lane::compile_labels;
use super::keeping::size;
use super::problem::{Problems, nearest, quoted};
use super::reader::{Spot, Table};
use crate::domain::ids::QueueName;
use crate::domain::serving::Serving;

/// What a node takes.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ServingConfig {
    /// Of which lanes.
    pub serving: Serving,
    /// Up to which load.
    pub flow: FlowLimits,
}

/// Past one of these a node claims nothing more; what runs goes on.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct FlowLimits {
    /// The load average of one minute. More than 0, at most 100,000.
    pub max_load: Option<f64>,
    /// Bytes of memory that are to stay free.
    pub min_free_memory: Option<u64>,
    /// Runs executed at once, of all queues together. 1 to 100,000.
    pub max_running: Option<u32>,
}

/// The most memory one can ask for: 1024 TiB.
const MOST_MEMORY: u64 = 1 << 50;

/// Those keys of `[daemon]`; `declared` are the queues its file declares, none if that cannot be told.
pub(super) fn compile_serving(
    table: &Table<'_>,
    declared: Option<&BTreeSet<QueueName>>,
    problems: &mut Problems,
) -> ServingConfig {
    ServingConfig {
        serving: Serving {
            queues: table.get("queues").and_then(|spot| compile_served(&spot, declared, problems)),
            labels: table.get("labels").and_then(|spot| compile_labels(&spot, problems)).unwrap_or_default(),
        },
        flow: FlowLimits {
            max_load: table.get("max_load").and_then(|spot| spot.positive_number(100_000.0, "8", problems)),
            min_free_memory: table
                .get("min_free_memory")
                .and_then(|spot| size(&spot, MOST_MEMORY, "at most 1048576GiB", problems)),
            max_running: table.get("max_running").and_then(|spot| spot.integer(&(1..=100_000), problems)),
        },
    }
}

fn compile_served(
    spot: &Spot<'_>,
    declared: Option<&BTreeSet<QueueName>>,
    problems: &mut Problems,
) -> Option<BTreeSet<QueueName>> {
    let Some(items) = spot.as_items() else { return spot.wanted(problems, "queues such as [\"default\", \"mail\"]") };
    let mut served = BTreeSet::new();
    let mut is_whole = true;
    for item in items {
        let Some(queue) = item.parsed::<QueueName>("default", problems) else {
            is_whole = false;
            continue;
        };
        if let Some(declared) = declared.filter(|declared| !declared.contains(&queue)) {
            let names = declared.iter().map(QueueName::as_str);
            let hint = nearest(queue.as_str(), names).map_or_else(String::new, |meant| format!("; did you mean {meant:?}?"));
            item.fault(
                problems,
                format!(
                    "queue {} is not declared, wanted one that is (by [queues.{queue}]), or default{hint}",
                    quoted(queue.as_str())
                ),
            );
            is_whole = false;
        }
        served.insert(queue);
    }
    if served.is_empty() && is_whole {
        return spot.wanted(problems, "at least one queue; leave the key out to serve all");
    }
    is_whole.then_some(served)
}
