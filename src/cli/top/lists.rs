//! What `top` has read: four lists of rows, and the whole in numbers.

use std::time::Duration;

use crate::cli::render::Colour;
use crate::domain::ids::{JobName, QueueName, RunId};
use crate::domain::time::UnixMillis;

/// One of the four lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pane {
    Due,
    Running,
    Recent,
    Queues,
}

impl Pane {
    /// In the order of the screen.
    pub(super) const ALL: [Self; 4] = [Self::Due, Self::Running, Self::Recent, Self::Queues];

    /// Its name.
    pub(super) fn title(self) -> &'static str {
        match self {
            Self::Due => "Due",
            Self::Running => "Running",
            Self::Recent => "Recent",
            Self::Queues => "Queues",
        }
    }

    /// The one that this digit names on the screen.
    pub(super) fn numbered(digit: char) -> Option<Self> {
        Self::ALL.into_iter().find(|pane| char::from_digit(*pane as u32 + 1, 10) == Some(digit))
    }

    /// The one so many behind it.
    pub(super) fn moved(self, by: usize) -> Self {
        Self::ALL[(self as usize + by) % Self::ALL.len()]
    }
}

/// What a row is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Subject {
    Job(JobName),
    Run(RunId),
    Queue(QueueName),
}

impl Subject {
    /// Its name or id.
    pub(super) fn text(&self) -> String {
        match self {
            Self::Job(name) => name.as_str().to_owned(),
            Self::Run(run) => run.to_string(),
            Self::Queue(name) => name.as_str().to_owned(),
        }
    }

    /// The job it is, or is a run of.
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
    pub(super) subject: Subject,
    /// The run that may be cancelled here.
    pub(super) run: Option<RunId>,
    /// A cell a column, harmless on any terminal.
    pub(super) cells: Vec<String>,
    pub(super) colour: Colour,
}

/// A list as Redis had it.
#[derive(Debug, Clone, Default)]
pub(super) struct List {
    pub(super) rows: Vec<Row>,
    /// How many there are, of which these are the first.
    pub(super) total: u64,
}

/// The whole in numbers.
#[derive(Debug, Clone, Default)]
pub(super) struct Head {
    pub(super) nodes: usize,
    pub(super) gone_nodes: usize,
    pub(super) held_nodes: usize,
    pub(super) jobs: u64,
    pub(super) running: u64,
    pub(super) scheduled: u64,
    pub(super) waiting: u64,
    /// How the runs ended that did, since the beginning.
    pub(super) ended: Vec<(&'static str, u64)>,
    /// For how long the run has been ready that waits longest for a node.
    pub(super) lag: Option<Duration>,
    /// Bytes of memory Redis uses.
    pub(super) memory: Option<u64>,
}

/// All that was read in one go.
#[derive(Debug, Clone)]
pub(super) struct Data {
    pub(super) now: UnixMillis,
    pub(super) head: Head,
    pub(super) lists: [List; 4],
}
