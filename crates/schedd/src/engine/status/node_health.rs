//! The health of a node: its events, heartbeats, suspensions and problems, and the steps of Redis'
//! clock.

use std::time::Duration;

use super::applied_file::AppliedFile;
use super::config_problems::ConfigProblems;
use super::event_notes::Notes;
use super::loop_watchdog::LoopProgress;
use super::redis_clock::RedisClock;
use super::suspend_detector::SuspendDetector;
use schedd_schedule::time::unix_millis::UnixMillis;

/// The health of a node as the node itself knows it.
pub(crate) struct NodeHealth {
    /// The events of the node, until they are written to Redis.
    pub(crate) notes: Notes,
    /// The detector of steps of Redis' clock.
    pub(crate) redis_clock: RedisClock,
    /// The detector of suspensions of the node.
    pub(crate) suspends: SuspendDetector,
    /// The heartbeats of the loops that the node depends on.
    pub(crate) progress: LoopProgress,
    /// The problems of the node's configuration.
    pub(crate) problems: ConfigProblems,
    /// The jobs file that the node applied last.
    pub(crate) applied_file: AppliedFile,
}

impl NodeHealth {
    /// Returns the health of a node that starts at `now` by Redis' clock. `lease` is the node's
    /// lease time.
    pub(crate) fn new(now: UnixMillis, lease: Duration) -> Self {
        Self {
            notes: Notes::new(now),
            redis_clock: RedisClock::default(),
            suspends: SuspendDetector::new(lease),
            progress: LoopProgress::default(),
            problems: ConfigProblems::default(),
            applied_file: AppliedFile::default(),
        }
    }
}
