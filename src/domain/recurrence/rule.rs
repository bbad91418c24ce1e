//! A rule as it was read: its lists of numbers, before they are made ready for the search.

/// The length of a rule's periods.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::domain) enum Freq {
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
pub(in crate::domain) enum Until {
    /// By the wall clock.
    Local(i64),
    /// In real time.
    Real(i64),
}

/// A rule. Lists are sorted; an empty one restricts nothing.
#[derive(Debug, Clone)]
pub(in crate::domain) struct Rule {
    pub(in crate::domain) freq: Freq,
    pub(in crate::domain) interval: i64,
    pub(in crate::domain) until: Option<Until>,
    /// How often it comes in all, if it says so; `until` is then the last of them.
    pub(in crate::domain) count: Option<i64>,
    /// The first day of a week, Monday = 0.
    pub(in crate::domain) week_start: i64,
    pub(in crate::domain) months: Vec<i64>,
    pub(in crate::domain) weeks: Vec<i64>,
    pub(in crate::domain) year_days: Vec<i64>,
    pub(in crate::domain) month_days: Vec<i64>,
    /// Weekdays, each with its number within the month or year, 0 = every one.
    pub(in crate::domain) weekdays: Vec<(i64, i64)>,
    pub(in crate::domain) hours: Vec<i64>,
    pub(in crate::domain) minutes: Vec<i64>,
    pub(in crate::domain) seconds: Vec<i64>,
    pub(in crate::domain) positions: Vec<i64>,
    /// The wall clock second it is counted from.
    pub(in crate::domain) start: i64,
}
