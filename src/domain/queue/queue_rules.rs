//! The settings of a queue: its limits, its rate limit, and its share of a node.

use std::collections::BTreeSet;

use super::rate::Rate;

/// The settings of a queue, from `[queues.X]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueSettings {
    /// The maximum number of runs that a node executes at once. 1 to
    /// [`QueueSettings::MOST_CONCURRENT`].
    pub concurrency: u32,
    /// The maximum number of runs at once on all nodes together. 1 to
    /// [`QueueSettings::MOST_AT_ONCE`].
    pub limit: Option<u32>,
    /// The rate limit: how many attempts may start in a period, on all nodes together.
    pub rate: Option<Rate>,
    /// The share of a node that the queue gets while queues compete for it.
    pub share: Share,
    /// True if the queue is paused, so that none of its runs starts.
    pub is_paused: bool,
}

/// The share of a node that a queue gets while queues compete for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Share {
    /// The queue comes before all queues that are not strict.
    Strict,
    /// The queue shares with the other queues by this weight. 1 to [`QueueSettings::MOST_WEIGHT`].
    Weight(u32),
}

impl QueueSettings {
    /// The default concurrency.
    pub const DEFAULT_CONCURRENCY: u32 = 32;
    /// The maximum concurrency.
    pub const MOST_CONCURRENT: u32 = 10_000;
    /// The maximum limit.
    pub const MOST_AT_ONCE: u32 = 1_000_000;
    /// The maximum weight.
    pub const MOST_WEIGHT: u32 = 1_000;
}

impl Default for QueueSettings {
    fn default() -> Self {
        Self { concurrency: Self::DEFAULT_CONCURRENCY, limit: None, rate: None, share: Share::Weight(1), is_paused: false }
    }
}

/// The reason why no run of a queue starts though runs are ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum QueueHold {
    /// The queue is paused.
    Paused,
    /// The queue is at its limit.
    Full,
    /// The rate limit of the queue is used up.
    Rate,
}

impl QueueHold {
    /// Returns the reason that a script names by `word`.
    pub fn parse(word: &str) -> Option<Self> {
        Some(match word {
            "paused" => Self::Paused,
            "full" => Self::Full,
            "rate" => Self::Rate,
            _ => return None,
        })
    }
}

/// A manual change of a queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueChange {
    /// The settings after the change.
    pub settings: QueueSettings,
    /// The settings that the change names. All others stay as they are.
    pub named: BTreeSet<QueueKey>,
}

/// A setting of a queue that can be changed manually.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum QueueKey {
    /// The concurrency, the same on each node.
    Concurrency,
    /// The concurrency, from the file of each node.
    OwnConcurrency,
    /// The limit.
    Limit,
    /// The rate limit with its burst.
    Rate,
    /// The weight, or strict precedence.
    Share,
}
