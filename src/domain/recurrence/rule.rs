//! A parsed rule: its lists of numbers, before they are prepared for the search.

/// The frequency of a rule: the length of its periods.
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
    /// A wall clock second.
    Local(i64),
    /// A second of real time.
    Real(i64),
}

/// A rule. Its lists are sorted, and an empty list restricts nothing.
#[derive(Debug, Clone)]
pub(in crate::domain) struct Rule {
    pub(in crate::domain) freq: Freq,
    pub(in crate::domain) interval: i64,
    pub(in crate::domain) until: Option<Until>,
    /// The total number of occurrences, if the rule names it. `until` is then the last occurrence.
    pub(in crate::domain) count: Option<i64>,
    /// The first day of a week. Monday is 0.
    pub(in crate::domain) week_start: i64,
    pub(in crate::domain) months: Vec<i64>,
    pub(in crate::domain) weeks: Vec<i64>,
    pub(in crate::domain) year_days: Vec<i64>,
    pub(in crate::domain) month_days: Vec<i64>,
    /// Weekdays, each with its number within the month or year. Number 0 means every such weekday.
    pub(in crate::domain) weekdays: Vec<(i64, i64)>,
    pub(in crate::domain) hours: Vec<i64>,
    pub(in crate::domain) minutes: Vec<i64>,
    pub(in crate::domain) seconds: Vec<i64>,
    pub(in crate::domain) positions: Vec<i64>,
    /// The wall clock second from which the rule counts.
    pub(in crate::domain) start: i64,
}
