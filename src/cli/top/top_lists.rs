//! The data that `top` has read: four lists of rows, and counts for the head of the screen.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::cli::render::Colour;
use schedd_schedule::names::{JobName, QueueName, RunId};

/// One of the four lists on the screen of `top`.
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

    /// Returns the list with the number `digit` on the screen, or `None` for any other character.
    pub(super) fn numbered(digit: char) -> Option<Self> {
        Self::ALL.into_iter().find(|pane| char::from_digit(*pane as u32 + 1, 10) == Some(digit))
    }

    /// Returns the list `by` places after this list. After the last list comes the first.
    pub(super) fn moved(self, by: usize) -> Self {
        Self::ALL[(self as usize + by) % Self::ALL.len()]
    }

    /// Returns the columns of the list, each with its rank. If space is short, the column of the
    /// highest rank is left out first. The last column always stays.
    pub(super) fn columns(self) -> &'static [(&'static str, u8)] {
        match self {
            Self::Due => &[("IN", 1), ("DUE", 4), ("STATE", 2), ("QUEUE", 3), ("JOB", 0)],
            Self::Running => {
                &[("FOR", 1), ("NODE", 2), ("ATTEMPT", 4), ("PLACE AT", 3), ("RUN", 0)]
            }
            Self::Recent => &[("ENDED", 2), ("STATE", 1), ("TOOK", 4), ("RUN", 0), ("REASON", 3)],
            Self::Queues => &[
                ("STATE", 1),
                ("READY", 2),
                ("OLDEST", 4),
                ("RUNNING", 3),
                ("LIMIT", 5),
                ("NODES", 6),
                ("QUEUE", 0),
            ],
        }
    }

    /// Returns the index of the column that shows the state, if the list has such a column.
    pub(super) fn state_column(self) -> Option<usize> {
        self.columns().iter().position(|(title, _)| *title == "STATE")
    }
}

/// The object that a row shows: a job, a run or a queue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum TopSubject {
    Job(JobName),
    Run(RunId),
    Queue(QueueName),
}

impl TopSubject {
    /// Returns the name or id of the object.
    pub(super) fn text(&self) -> String {
        match self {
            Self::Job(name) => name.as_str().to_owned(),
            Self::Run(run) => run.to_string(),
            Self::Queue(name) => name.as_str().to_owned(),
        }
    }

    /// Returns the job itself, or the job of the run; `None` for a queue.
    pub(super) fn job(&self) -> Option<&JobName> {
        match self {
            Self::Job(name) => Some(name),
            Self::Run(run) => Some(run.job()),
            Self::Queue(_) => None,
        }
    }
}

/// A row of a list.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Row {
    pub(super) subject: TopSubject,
    /// The run that the key `c` cancels if this row is selected. `None` if there is no such run.
    pub(super) run: Option<RunId>,
    /// The text of each cell in the row, without control characters.
    pub(super) cells: Vec<String>,
    pub(super) colour: Colour,
}

/// The first rows of a list, as read from Redis.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct TopList {
    pub(super) rows: Vec<Row>,
    /// The number of all entries in the list, of which `rows` has the first.
    pub(super) total: u64,
}

/// The counts in the head of the screen.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct Head {
    pub(super) nodes: usize,
    pub(super) gone_nodes: usize,
    pub(super) nodes_at_limit: usize,
    pub(super) jobs: u64,
    pub(super) running: u64,
    pub(super) scheduled: u64,
    pub(super) waiting: u64,
    /// The total number of ended runs for each final state.
    pub(super) ended: Vec<(String, u64)>,
    /// The time for which the longest-waiting run has been ready for a node. `None` if no run
    /// waits, or if the longest wait is less than a second.
    pub(super) lag: Option<Duration>,
    /// The memory that Redis uses, in bytes; `None` if not known.
    pub(super) memory: Option<u64>,
}

/// The details of one object, as lines without control characters.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct TopDetail {
    pub(super) subject: TopSubject,
    pub(super) lines: Vec<String>,
}

/// The data that one read has returned. In JSON it is the answer of `top --data`.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct TopData {
    /// The time of the read, in the zone of the user.
    pub(super) time: String,
    pub(super) head: Head,
    pub(super) lists: [TopList; 4],
    /// The details of the object that the request named.
    pub(super) detail: Option<TopDetail>,
}
