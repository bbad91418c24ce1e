//! The settings of a queue: its limits, its rate limit, and its share of the slots of a node.

use std::collections::BTreeSet;

use super::backlog::BacklogRules;
use super::rate::Rate;
use schedd_schedule::names::QueueName;

/// The settings of a queue, from `[queues.X]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueSettings {
    /// The maximum number of runs of the queue that a node executes at once. 1 to
    /// [`QueueSettings::MOST_CONCURRENT`].
    pub concurrency: u32,
    /// The maximum number of runs of the queue at once on all nodes together. `None` means no
    /// maximum. 1 to [`QueueSettings::MOST_AT_ONCE`].
    pub limit: Option<u32>,
    /// The rate limit for starts of attempts, on all nodes together. `None` means no rate limit.
    pub rate: Option<Rate>,
    /// The share of the node's slots for the queue while several queues need slots.
    pub share: Share,
    /// True if the queue is paused. Its runs then do not start.
    pub is_paused: bool,
    /// The bounds of a backlog, and the job that reports it.
    pub backlog: BacklogRules,
    /// True if one-shots of the queue are placed on the shards of the namespace. Such a queue has no
    /// limit, no rate limit and no job that reports a backlog.
    pub is_spread: bool,
}

/// The share of a node's slots for a queue while several queues need slots.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Share {
    /// The queue gets slots before all queues that are not strict.
    Strict,
    /// The queue gets slots in proportion to this weight, 1 to [`QueueSettings::MOST_WEIGHT`].
    Weight(u32),
}

impl QueueSettings {
    /// The default value of `concurrency`.
    pub const DEFAULT_CONCURRENCY: u32 = 32;
    /// The maximum value of `concurrency`.
    pub const MOST_CONCURRENT: u32 = 10_000;
    /// The maximum value of `limit`.
    pub const MOST_AT_ONCE: u32 = 1_000_000;
    /// The maximum weight of a queue.
    pub const MOST_WEIGHT: u32 = 1_000;
}

impl Default for QueueSettings {
    fn default() -> Self {
        Self {
            concurrency: Self::DEFAULT_CONCURRENCY,
            limit: None,
            rate: None,
            share: Share::Weight(1),
            is_paused: false,
            backlog: BacklogRules::default(),
            is_spread: false,
        }
    }
}

/// The reason why no run of a queue starts, although runs are ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum NoRoomReason {
    /// The queue is paused.
    Paused,
    /// The queue is at its limit.
    Full,
    /// The rate limit of the queue is used up.
    Rate,
}

impl NoRoomReason {
    /// Returns the reason that a Lua script names with `word`. Returns `None` for an unknown word.
    pub fn parse(word: &str) -> Option<Self> {
        Some(match word {
            "paused" => Self::Paused,
            "full" => Self::Full,
            "rate" => Self::Rate,
            _ => return None,
        })
    }
}

/// A change of the settings of a queue by an operator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueChange {
    /// The settings of the queue after the change.
    pub settings: QueueSettings,
    /// The names of the settings that the operator changes. All other settings stay as they are.
    pub named: BTreeSet<QueueKey>,
}

/// A setting of a queue that an operator can change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum QueueKey {
    /// The setting `concurrency`, with the same value on each node.
    Concurrency,
    /// The setting `concurrency`, with the value that the jobs file of each node sets.
    OwnConcurrency,
    /// The setting `limit`, the maximum number of runs at once on all nodes.
    Limit,
    /// The rate limit of the queue, with its burst.
    Rate,
    /// The share of the queue: its weight, or strict precedence.
    Share,
    /// The bounds of a backlog, and the job that reports it.
    Backlog,
}
/// Returns the message for `queue`, which is not one of the queues in `declared`.
pub fn unknown_queue(queue: &QueueName, declared: &BTreeSet<QueueName>) -> String {
    let default = QueueName::default_queue();
    let others = declared.iter().filter(|name| **name != default).map(QueueName::as_str);
    let names: Vec<&str> = [default.as_str()].into_iter().chain(others).collect();
    let names = names.join(", ");
    format!(
        "queue {queue} is not known, wanted one of {names} (a jobs file declares queues by [queues.{queue}])"
    )
}
