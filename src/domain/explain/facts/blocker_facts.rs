//! A blocker: an obstacle that, as Redis shows, keeps a ready run from starting at the time of the
//! question.
//!
//! Nodes record an obstacle only after a while. Blockers show an obstacle before that.

use crate::domain::name::names::RunId;
use crate::domain::queue::queue_rules::NoRoomReason;
use crate::domain::time::unix_millis::UnixMillis;

/// An obstacle that keeps a ready run from starting now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Blocker {
    /// The queue of the run is paused, full or at its rate limit.
    Queue {
        /// The reason why no run of the queue starts.
        hold: NoRoomReason,
        /// The person who paused the queue, the limit, or the rate. Empty if not known.
        detail: String,
        /// The time when the queue was paused, if the queue is paused.
        since: Option<UnixMillis>,
        /// The runs of the queue that execute now.
        running: Executing,
    },
    /// A Redis key of the run's lane has the wrong type.
    WrongType {
        /// A text that names the key and its type, and says how to mend the key.
        why: String,
    },
    /// Each node that may take the run already executes as many runs of the queue as it may.
    Slots {
        /// The names of these nodes.
        nodes: Vec<String>,
        /// The runs of the queue that execute now.
        running: Executing,
    },
    /// A node that may take the run is past a limit of the node.
    NodeLimit {
        /// The name of the node.
        node: String,
        /// The limit that the node is past, with the value found.
        why: String,
        /// The time when the node noticed that it was past the limit.
        since: UnixMillis,
    },
    /// No node is running.
    NoNode,
}

/// The runs that execute now.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Executing {
    /// The first few of the executing runs.
    pub some: Vec<RunId>,
    /// The number of all executing runs.
    pub count: u64,
}

impl Executing {
    /// Returns `a@1 executes` or `a@1, b@2 and 3 more execute`, and `None` if no run executes.
    pub(crate) fn words(&self) -> Option<String> {
        let names: Vec<String> = self.some.iter().map(ToString::to_string).collect();
        let more = self.count.saturating_sub(names.len() as u64);
        Some(match (names.as_slice(), more) {
            ([], 0) => return None,
            ([], more) => format!("{more} runs execute"),
            ([one], 0) => format!("{one} executes"),
            ([most @ .., last], 0) => format!("{} and {last} execute", most.join(", ")),
            (all, more) => format!("{} and {more} more execute", all.join(", ")),
        })
    }
}
