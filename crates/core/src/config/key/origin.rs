//! The source of a table: a file, a line of JSON, or Redis. It decides which names and paths in the
//! table can be checked.

use std::collections::{BTreeMap, BTreeSet};

use super::file_host::FileHost;
use crate::config::schedule::clock_choice::ClockChoice;
use crate::config::syntax::problem::Problems;
use schedd_schedule::day_sets::DaySet;
use schedd_schedule::names::{GroupName, QueueName};

/// The source of a table: a file, a line of JSON, or Redis.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Origin<'a> {
    /// The table comes from a file. The file must declare the queues and groups that the table
    /// names, and the named directories should exist.
    File {
        /// The host of the files and accounts that the table names.
        host: FileHost<'a>,
        /// The declared queues, and `default`. `None` if a fault keeps the queues from being
        /// known.
        queues: Option<&'a BTreeSet<QueueName>>,
        /// The declared groups. `None` if a fault keeps the groups from being known.
        groups: Option<&'a BTreeSet<GroupName>>,
        /// The declared calendars. A calendar with a fault has no days. The whole map is `None` if
        /// a fault keeps the calendars from being known.
        calendars: Option<&'a BTreeMap<String, Option<DaySet>>>,
    },
    /// The table comes from a line of JSON or from flags. The caller checks the queues and groups.
    Line,
    /// The table comes from a definition stored in Redis.
    Stored,
}

impl Origin<'_> {
    /// Returns true if the table comes from a file about this host, so that files and accounts that
    /// the table names should exist here.
    pub(crate) fn is_file_of_this_host(&self) -> bool {
        matches!(self, Self::File { host, .. } if host.is_here())
    }
}

/// The context in which the values of a table are read.
pub(crate) struct Reading<'a> {
    /// The source of the table.
    pub(crate) origin: Origin<'a>,
    /// The zone of local times in the table.
    pub(crate) clock: ClockChoice,
    /// The problems found so far.
    pub(crate) problems: &'a mut Problems,
}

impl<'a> Reading<'a> {
    /// Creates a reading in which no zone is known yet.
    pub(crate) fn new(origin: Origin<'a>, problems: &'a mut Problems) -> Self {
        Self { origin, clock: ClockChoice::default(), problems }
    }
}
