//! What befell a node that may have kept runs from starting.

use std::time::Duration;

use super::ids::QueueName;
use super::time::UnixMillis;
use super::wording::span;

/// Something that befell a node, by Redis' clock as far as the node knew it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeEvent {
    /// What.
    pub what: Befell,
    /// When it began.
    pub from: UnixMillis,
    /// When it was over; none if it lasts, or takes no time.
    pub to: Option<UnixMillis>,
}

/// What may befall a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Befell {
    /// It started.
    Started {
        /// When a node of this name was last seen before.
        seen_before: Option<UnixMillis>,
    },
    /// It stopped taking runs, because it was told to.
    Stopped,
    /// Its polls were not answered by Redis.
    RedisAway,
    /// All its slots of a queue were taken.
    SlotsTaken {
        /// The queue.
        queue: QueueName,
    },
    /// It found runs of a queue ready, and the queue paused.
    QueuePaused {
        /// The queue.
        queue: QueueName,
        /// By whom, if that is known.
        by: String,
    },
    /// It found runs of a queue ready, and as many running on all nodes as may.
    QueueFull {
        /// The queue.
        queue: QueueName,
        /// How many may; 0 if that is not known.
        limit: u32,
    },
    /// It found runs of a queue ready, and as many begun as its rate lets.
    QueueRated {
        /// The queue.
        queue: QueueName,
        /// The rate, if that is known.
        rate: String,
    },
    /// It took no runs because its keeper was not ready.
    ClaimsHeld,
    /// It took no runs, or no more, because it was past a limit of its own.
    Held {
        /// Which, with what was found.
        why: String,
    },
    /// It found nothing ripe because data of Redis was lost and settled.
    Settling,
    /// It found nothing ripe because Redis was restarted or another server took its place, and nodes were given time to look at it.
    NewServer,
    /// It saw Redis' clock jump.
    ClockStepped {
        /// By how many ms; below zero it was set back.
        by_ms: i64,
    },
    /// It did not take its jobs file as it was.
    FileRefused {
        /// Why.
        why: String,
    },
}

impl Befell {
    /// The word for [`Befell::Held`].
    pub const HELD: &'static str = "held";

    /// The queue it is about, if it is about one.
    pub fn queue(&self) -> Option<&QueueName> {
        match self {
            Self::SlotsTaken { queue }
            | Self::QueuePaused { queue, .. }
            | Self::QueueFull { queue, .. }
            | Self::QueueRated { queue, .. } => Some(queue),
            _ => None,
        }
    }

    /// The word for it in Redis and in JSON.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Started { .. } => "started",
            Self::Stopped => "stopped",
            Self::RedisAway => "redis_away",
            Self::SlotsTaken { .. } => "slots_taken",
            Self::QueuePaused { .. } => "queue_paused",
            Self::QueueFull { .. } => "queue_full",
            Self::QueueRated { .. } => "queue_rated",
            Self::ClaimsHeld => "claims_held",
            Self::Held { .. } => Self::HELD,
            Self::Settling => "settling",
            Self::NewServer => "new_server",
            Self::ClockStepped { .. } => "clock_stepped",
            Self::FileRefused { .. } => "file_refused",
        }
    }
}

/// In words: `forward by 1d`, `back by 1h 5s`.
pub fn step_text(by_ms: i64) -> String {
    // Which of the milliseconds were the step's is not known.
    let by = Duration::from_secs((by_ms.unsigned_abs() + 500) / 1_000);
    format!("{} by {}", if by_ms < 0 { "back" } else { "forward" }, span(by))
}
