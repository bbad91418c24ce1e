//! Events in the history of a node that may have kept runs from starting.

use std::time::Duration;

use schedd_schedule::names::QueueName;
use schedd_schedule::time::unix_millis::UnixMillis;
use schedd_schedule::time::wording::span;

/// An event in the history of a node. The times are by the clock of Redis, as the node estimated
/// this clock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeEvent {
    /// The kind of the event, with the details of that kind.
    pub what: NodeEventKind,
    /// The time when the event began.
    pub from: UnixMillis,
    /// The time when the event ended. `None` if the event lasts or has no duration.
    pub to: Option<UnixMillis>,
}

/// The kind of a node event, with the details of that kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NodeEventKind {
    /// The node started.
    Started {
        /// The last heartbeat of a node of this name before the start. `None` if not known.
        seen_before: Option<UnixMillis>,
    },
    /// The node stopped taking runs, because the node was asked to stop.
    Stopped,
    /// Redis did not answer the polls of the node.
    RedisAway,
    /// All slots of the node for a queue were taken.
    SlotsTaken {
        /// The queue whose slots were taken.
        queue: QueueName,
    },
    /// The node found ready runs of a queue, but the queue was paused.
    QueuePaused {
        /// The queue that was paused.
        queue: QueueName,
        /// The user who paused the queue. Empty if not known.
        by: String,
    },
    /// The node found ready runs of a queue, but the queue was at its limit of runs on all nodes.
    QueueFull {
        /// The queue that was at its limit.
        queue: QueueName,
        /// The limit of the queue. 0 if not known.
        limit: u32,
    },
    /// The node found ready runs of a queue, but the rate limit of the queue was used up.
    QueueRated {
        /// The queue whose rate limit was used up.
        queue: QueueName,
        /// The rate limit of the queue, such as `100/1m`. Empty if not known.
        rate: String,
    },
    /// The node took no runs because its keeper was not ready.
    ClaimsSuspended,
    /// The node claimed no runs, because it exceeded one of its own limits.
    AtLimit {
        /// The limit of the node and the measured value, as a clause for a message.
        why: String,
    },
    /// The node started no runs because Redis had lost data and nodes restored records from their
    /// journals.
    Restoring,
    /// The node started no runs because Redis was restarted or replaced and nodes checked its data.
    NewServer,
    /// The node noticed a jump of Redis' clock.
    ClockStepped {
        /// The size of the jump in ms, negative if the clock was set back.
        by_ms: i64,
    },
    /// The node refused its jobs file, because the file was invalid.
    FileRefused {
        /// The reason why the node refused the file.
        why: String,
    },
}

impl NodeEventKind {
    /// The name of [`NodeEventKind::AtLimit`] in Redis and in JSON.
    pub const AT_LIMIT: &'static str = "at_limit";

    /// Returns the queue of the event. Returns `None` if the event does not concern a queue.
    pub fn queue(&self) -> Option<&QueueName> {
        match self {
            Self::SlotsTaken { queue }
            | Self::QueuePaused { queue, .. }
            | Self::QueueFull { queue, .. }
            | Self::QueueRated { queue, .. } => Some(queue),
            _ => None,
        }
    }

    /// Returns the name of the kind in Redis and in JSON.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Started { .. } => "started",
            Self::Stopped => "stopped",
            Self::RedisAway => "redis_away",
            Self::SlotsTaken { .. } => "slots_taken",
            Self::QueuePaused { .. } => "queue_paused",
            Self::QueueFull { .. } => "queue_full",
            Self::QueueRated { .. } => "queue_rated",
            Self::ClaimsSuspended => "claims_suspended",
            Self::AtLimit { .. } => Self::AT_LIMIT,
            Self::Restoring => "restoring",
            Self::NewServer => "new_server",
            Self::ClockStepped { .. } => "clock_stepped",
            Self::FileRefused { .. } => "file_refused",
        }
    }
}

/// Returns the size of a clock jump as text: `forward by 1d`, `back by 1h 5s`. A negative `by_ms`
/// means back.
pub fn step_text(by_ms: i64) -> String {
    // The size of a jump is an estimate, so milliseconds would be misleading.
    let by = Duration::from_secs((by_ms.unsigned_abs() + 500) / 1_000);
    format!("{} by {}", if by_ms < 0 { "back" } else { "forward" }, span(by))
}
