//! The data that `top` has read: four lists of rows, and counts for the head of the screen.

use std::time::Duration;

use crate::cli::render::Colour;
use crate::domain::name::names::{JobName, QueueName, RunId};
use crate::domain::time::unix_millis::UnixMillis;

/// One of the four lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pane {
    Due,
    Running,
    Recent,
    Queues,
}

impl Pane {
    /// The lists in the order of the screen.
    pub(super) const ALL: [Self; 4] = [Self::Due, Self::Running, Self::Recent, Self::Queues];

    /// Returns the name of the list.
    pub(super) fn title(self) -> &'static str {
        match self {
            Self::Due => "Due",
            Self::Running => "Running",
            Self::Recent => "Recent",
            Self::Queues => "Queues",
        }
    }

    /// Returns the list that this digit names on the screen.
    pub(super) fn numbered(digit: char) -> Option<Self> {
        Self::ALL.into_iter().find(|pane| char::from_digit(*pane as u32 + 1, 10) == Some(digit))
    }

    /// Returns the list `by` places behind this one, from the last back to the first.
    pub(super) fn moved(self, by: usize) -> Self {
        Self::ALL[(self as usize + by) % Self::ALL.len()]
    }
}

/// The object that a row shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum TopSubject {
    Job(JobName),
    Run(RunId),
    Queue(QueueName),
}

impl TopSubject {
    /// Returns the name or id.
    pub(super) fn text(&self) -> String {
        match self {
            Self::Job(name) => name.as_str().to_owned(),
            Self::Run(run) => run.to_string(),
            Self::Queue(name) => name.as_str().to_owned(),
        }
    }

    /// Returns the job, or the job of the run.
    pub(super) fn job(&self) -> Option<&JobName> {
        match self {
            Self::Job(name) => Some(name),
            Self::Run(run) => Some(run.job()),
            Self::Queue(_) => None,
        }
    }
}

/// A line of a list.
#[derive(Debug, Clone)]
pub(super) struct Row {
    pub(super) subject: TopSubject,
    /// The run that can be cancelled in this row.
    pub(super) run: Option<RunId>,
    /// One cell a column, without control characters.
    pub(super) cells: Vec<String>,
    pub(super) colour: Colour,
}

/// The rows of a list as read from Redis.
#[derive(Debug, Clone, Default)]
pub(super) struct TopList {
    pub(super) rows: Vec<Row>,
    /// The number of all entries, of which `rows` has the first.
    pub(super) total: u64,
}

/// The counts in the head of the screen.
#[derive(Debug, Clone, Default)]
pub(super) struct Head {
    pub(super) nodes: usize,
    pub(super) gone_nodes: usize,
    pub(super) held_nodes: usize,
    pub(super) jobs: u64,
    pub(super) running: u64,
    pub(super) scheduled: u64,
    pub(super) waiting: u64,
    /// Totals of ended runs for each final state.
    pub(super) ended: Vec<(&'static str, u64)>,
    /// How long the longest-waiting run has been ready for a node.
    pub(super) lag: Option<Duration>,
    /// Bytes of memory that Redis uses.
    pub(super) memory: Option<u64>,
}

/// The data of one read.
#[derive(Debug, Clone)]
pub(super) struct TopData {
    pub(super) now: UnixMillis,
    pub(super) head: Head,
    pub(super) lists: [TopList; 4],
}
