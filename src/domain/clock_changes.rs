//! What a job does when the clocks of its zone change: the rule of `dst = { gap = ..., fold = ... }`.
//!
//! Nothing named means Debian's cron(8): a job whose minute or hour begins with `*` follows real time, any other runs once
//! right after a gap and once in a fold. Of several times inside one gap there is one run, right after it. A change of three
//! hours or more is a correction of the clock, not summer time, and no rule is asked about it: the new time counts at once.

/// A job's rule for clock changes; what it does not name is as the kind of its schedule says.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ClockChanges {
    /// When the clock goes forward over a time.
    pub gap: Option<Gap>,
    /// When the clock goes back and shows a time twice.
    pub fold: Option<Fold>,
}

/// What becomes of times that are left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gap {
    /// One run at the first instant after the gap, for all of them.
    RunAfter,
    /// None.
    Skip,
}

/// At which of its two showings a time that comes twice counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fold {
    /// The first.
    First,
    /// The second.
    Last,
    /// Each.
    Both,
}

impl Gap {
    /// Each of them.
    pub const ALL: [Self; 2] = [Self::RunAfter, Self::Skip];

    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::RunAfter => "run-after",
            Self::Skip => "skip",
        }
    }
}

impl Fold {
    /// Each of them.
    pub const ALL: [Self; 3] = [Self::First, Self::Last, Self::Both];

    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::First => "first",
            Self::Last => "last",
            Self::Both => "both",
        }
    }
}

impl ClockChanges {
    /// The rule of a schedule that follows real time unless told otherwise.
    pub fn of_real_time(self) -> (Gap, Fold) {
        (self.gap.unwrap_or(Gap::Skip), self.fold.unwrap_or(Fold::Both))
    }

    /// The rule of a schedule of fixed times.
    pub fn of_fixed_times(self) -> (Gap, Fold) {
        (self.gap.unwrap_or(Gap::RunAfter), self.fold.unwrap_or(Fold::First))
    }

    /// Whether it names nothing.
    pub fn is_default(self) -> bool {
        self == Self::default()
    }
}
