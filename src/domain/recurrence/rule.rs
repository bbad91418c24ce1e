//! A rule as it was read: its lists of numbers, before they are made ready for the search.

/// The length of a rule's periods.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Freq {
    Yearly,
    Monthly,
    Weekly,
    Daily,
    Hourly,
    Minutely,
    Secondly,
}

/// The last moment of a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Until {
    /// By the wall clock.
    Local(i64),
    /// In real time.
    Real(i64),
}

/// A rule. Lists are sorted; an empty one restricts nothing.
#[derive(Debug, Clone)]
pub(super) struct Rule {
    pub(super) freq: Freq,
    pub(super) interval: i64,
    pub(super) until: Option<Until>,
    /// The first day of a week, Monday = 0.
    pub(super) week_start: i64,
    pub(super) months: Vec<i64>,
    pub(super) weeks: Vec<i64>,
    pub(super) year_days: Vec<i64>,
    pub(super) month_days: Vec<i64>,
    /// Weekdays, each with its number within the month or year, 0 = every one.
    pub(super) weekdays: Vec<(i64, i64)>,
    pub(super) hours: Vec<i64>,
    pub(super) minutes: Vec<i64>,
    pub(super) seconds: Vec<i64>,
    pub(super) positions: Vec<i64>,
    /// The wall clock second it is counted from.
    pub(super) start: i64,
}
