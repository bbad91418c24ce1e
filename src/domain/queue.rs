//! What holds for a queue: how much of it runs at once and how fast, and its share of a node.

use std::collections::BTreeSet;

use super::rate::Rate;

/// The settings of one queue, as `[queues.X]` names them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueSettings {
    /// How many runs of it a node executes at once. 1 to [`QueueSettings::MOST_CONCURRENT`].
    pub concurrency: u32,
    /// How many of it run at once on all nodes together. 1 to [`QueueSettings::MOST_AT_ONCE`].
    pub limit: Option<u32>,
    /// How many attempts of it begin in a time, on all nodes together.
    pub rate: Option<Rate>,
    /// What part of a node it gets while queues compete for the node.
    pub share: Share,
    /// Whether nothing of it starts.
    pub is_paused: bool,
}

/// What part of a node a queue gets while queues compete for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Share {
    /// Before all that are not strict.
    Strict,
    /// By this weight among the others. 1 to [`QueueSettings::MOST_WEIGHT`].
    Weight(u32),
}

impl QueueSettings {
    /// The concurrency where nobody says one.
    pub const DEFAULT_CONCURRENCY: u32 = 32;
    /// The most runs of a queue a node executes at once.
    pub const MOST_CONCURRENT: u32 = 10_000;
    /// The largest limit.
    pub const MOST_AT_ONCE: u32 = 1_000_000;
    /// The largest weight.
    pub const MOST_WEIGHT: u32 = 1_000;
}

impl Default for QueueSettings {
    fn default() -> Self {
        Self { concurrency: Self::DEFAULT_CONCURRENCY, limit: None, rate: None, share: Share::Weight(1), is_paused: false }
    }
}

/// Why nothing of a queue begins though runs are ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum QueueHold {
    /// It is paused.
    Paused,
    /// As many of it run as may.
    Full,
    /// As many of it began as may for now.
    Rate,
}

impl QueueHold {
    /// The hold a word of the scripts names.
    pub fn parse(word: &str) -> Option<Self> {
        Some(match word {
            "paused" => Self::Paused,
            "full" => Self::Full,
            "rate" => Self::Rate,
            _ => return None,
        })
    }
}

/// A change of a queue by hand.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueChange {
    /// What holds after it.
    pub settings: QueueSettings,
    /// What it is about; the rest is left as it stands.
    pub named: BTreeSet<QueueKey>,
}

/// What of a queue can be changed by hand.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum QueueKey {
    /// The concurrency, the same on each node.
    Concurrency,
    /// The concurrency, which is left to each node's file.
    OwnConcurrency,
    /// The limit.
    Limit,
    /// The rate with its burst.
    Rate,
    /// Weight or strict.
    Share,
}
