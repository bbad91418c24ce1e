//! The behaviour of a job when the clocks of its zone change: the rule `dst = { gap = ..., fold =
//! ... }`. A gap has times that the clock skips, and a fold has times that it shows twice.
//!
//! Without this rule, a job behaves as in Debian's cron(8). A job whose minute or hour field begins
//! with `*` follows real time. Any other job with a time in a gap runs right after the gap. Any
//! other job with a time in a fold runs only the first time.
//!
//! If a gap skips several times of a job, the job runs once, right after the gap. A change of three
//! hours or more is a correction of the clock, not summer time. The rule does not apply to a
//! correction: the new time counts at once.

/// The rule of a job for clock changes. A part that is `None` has a default that depends on the
/// kind of the schedule.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ClockChanges {
    /// The rule for times that the clock skips when it goes forward.
    pub gap: Option<Gap>,
    /// The rule for times that the clock shows twice when it goes back.
    pub fold: Option<Fold>,
}

/// The treatment of the times in a gap, which the clock skips.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gap {
    /// A single run at the first instant after the gap covers all skipped times.
    RunAfter,
    /// The job does not run for the skipped times.
    Skip,
}

/// The choice between the two instants in a fold, at which the clock shows the same time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fold {
    /// The first of the two instants counts.
    First,
    /// The second of the two instants counts.
    Last,
    /// Both instants count.
    Both,
}

impl Gap {
    /// All treatments of skipped times.
    pub const ALL: [Self; 2] = [Self::RunAfter, Self::Skip];

    /// Returns the name of this value in a definition.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::RunAfter => "run-after",
            Self::Skip => "skip",
        }
    }
}

impl Fold {
    /// All choices for times that the clock shows twice.
    pub const ALL: [Self; 3] = [Self::First, Self::Last, Self::Both];

    /// Returns the name of this value in a definition.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::First => "first",
            Self::Last => "last",
            Self::Both => "both",
        }
    }
}

impl ClockChanges {
    /// Returns the rule for a schedule that follows real time. The default is no run after a gap,
    /// and runs in both passes of a fold.
    pub fn of_real_time(self) -> (Gap, Fold) {
        (self.gap.unwrap_or(Gap::Skip), self.fold.unwrap_or(Fold::Both))
    }

    /// Returns the rule for a schedule of fixed times. The default is one run after a gap, and a
    /// run in the first pass of a fold.
    pub fn of_fixed_times(self) -> (Gap, Fold) {
        (self.gap.unwrap_or(Gap::RunAfter), self.fold.unwrap_or(Fold::First))
    }

    /// Returns true if the job sets neither `gap` nor `fold`.
    pub fn is_default(self) -> bool {
        self == Self::default()
    }
}
