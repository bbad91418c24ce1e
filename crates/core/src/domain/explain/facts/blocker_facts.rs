//! Blockers: obstacles in Redis that keep a ready run from starting now.
//!
//! Nodes write a node event for an obstacle only if the obstacle lasts. A blocker shows the
//! obstacle at once.

use crate::domain::queue::queue_rules::NoRoomReason;
use schedd_schedule::names::RunId;
use schedd_schedule::time::unix_millis::UnixMillis;

/// An obstacle that keeps a ready run from starting now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Blocker {
    /// The queue of the run is paused, full or at its rate limit.
    Queue {
        /// The reason why no run of the queue starts.
        hold: NoRoomReason,
        /// The user who paused the queue, the limit, or the rate limit, depending on `hold`. Empty
        /// if not known.
        detail: String,
        /// The time when the queue was paused, if the queue is paused.
        since: Option<UnixMillis>,
        /// The runs of the queue that nodes execute now.
        running: Executing,
    },
    /// A Redis key of the run's lane has the wrong type.
    WrongType {
        /// The key, its type and the repair, as a clause for a message.
        why: String,
    },
    /// No node that serves the run's lane has a free slot for the queue.
    Slots {
        /// The names of the nodes that serve the run's lane.
        nodes: Vec<String>,
        /// The runs of the queue that execute now.
        running: Executing,
    },
    /// A node that serves the run's lane exceeds a limit of the node.
    NodeLimit {
        /// The name of the node.
        node: String,
        /// The limit and the measured value, as a clause for a message.
        why: String,
        /// The time when the node noticed that it exceeded the limit.
        since: UnixMillis,
    },
    /// No node is running.
    NoNode,
}

/// The runs of a queue that nodes execute now.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Executing {
    /// The first few of the executing runs.
    pub some: Vec<RunId>,
    /// The number of all executing runs.
    pub count: u64,
}

impl Executing {
    /// Returns these runs as text: `run a@1 executes` or `runs a@1, b@2 and 3 more execute`.
    /// Returns `None` if no run executes.
    pub(crate) fn words(&self) -> Option<String> {
        let names: Vec<String> = self.some.iter().map(ToString::to_string).collect();
        let more = self.count.saturating_sub(names.len() as u64);
        Some(match (names.as_slice(), more) {
            ([], 0) => return None,
            ([], 1) => "1 run executes".to_owned(),
            ([], more) => format!("{more} runs execute"),
            ([one], 0) => format!("run {one} executes"),
            ([most @ .., last], 0) => format!("runs {} and {last} execute", most.join(", ")),
            ([one], more) => format!("run {one} and {more} more execute"),
            (all, more) => format!("runs {} and {more} more execute", all.join(", ")),
        })
    }
}
