//! A blocker: it keeps a ready run from starting at the moment of the question, as Redis shows it.
//!
//! Nodes note an obstacle only after it has lasted a while. Blockers answer before that.

use crate::domain::name::names::RunId;
use crate::domain::queue::queue_rules::QueueHold;
use crate::domain::time::unix_millis::UnixMillis;

/// Something that keeps a ready run from starting now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Blocker {
    /// Its queue is paused, full or at its rate limit.
    Queue {
        /// Which of the three.
        hold: QueueHold,
        /// Who paused the queue, its limit or its rate; empty if not known.
        detail: String,
        /// When the queue was paused, if it is.
        since: Option<UnixMillis>,
        /// The runs that execute in the queue.
        running: Executing,
    },
    /// A key of its lane has the wrong type.
    WrongType {
        /// The key, its type, and how to mend it.
        why: String,
    },
    /// Each node that may take the run already executes the most runs allowed for its queue.
    Slots {
        /// The nodes.
        nodes: Vec<String>,
        /// The runs that execute in the queue.
        running: Executing,
    },
    /// A node that takes it is past a limit of its own.
    NodeLimit {
        /// The node.
        node: String,
        /// The limit, with the value found.
        why: String,
        /// When the node noticed.
        since: UnixMillis,
    },
    /// No node runs.
    NoNode,
}

/// Runs that execute.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Executing {
    /// The first few.
    pub some: Vec<RunId>,
    /// How many there are.
    pub count: u64,
}

impl Executing {
    /// `a@1 executes`, `a@1, b@2 and 3 more execute`; none if nothing executes.
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
