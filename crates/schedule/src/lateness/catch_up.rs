//! The rule for missed occurrences of a job.

use std::time::Duration;

/// The rule for missed occurrences.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CatchUp {
    /// The rule that chooses which missed occurrences run.
    pub mode: CatchUpMode,
    /// The age from which a missed occurrence is skipped in every mode. `None` means no maximum. At
    /// least 1 s.
    pub max_age: Option<Duration>,
    /// The maximum number of missed occurrences that run with [`CatchUpMode::All`]. The newest
    /// occurrences run. 1 to 100,000.
    pub max_count: u32,
    /// The time over which the missed runs are spread. `None` starts all missed runs at once. More
    /// than 0, at most a day.
    pub spread: Option<Duration>,
}

/// The rule that chooses which missed occurrences run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CatchUpMode {
    /// No missed occurrence runs.
    Skip,
    /// The newest missed occurrence runs.
    Latest,
    /// Each missed occurrence runs, the oldest first.
    All,
}

impl Default for CatchUp {
    fn default() -> Self {
        Self { mode: CatchUpMode::Latest, max_age: None, max_count: 1_000, spread: None }
    }
}
