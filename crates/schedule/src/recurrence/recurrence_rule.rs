//! A parsed recurrence rule, with lists of numbers that are not prepared for the search yet.

/// The frequency of a rule: the length of its periods.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Freq {
    Yearly,
    Monthly,
    Weekly,
    Daily,
    Hourly,
    Minutely,
    Secondly,
}

/// The value of `UNTIL` or, for a rule with `COUNT`, the time of the last occurrence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Until {
    /// The rule ends at this wall clock time, in seconds since 1970 by that clock.
    Local(i64),
    /// The rule ends at this Unix time, in seconds.
    Real(i64),
}

/// The parts of a parsed rule. The lists are sorted, and an empty list restricts nothing.
#[derive(Debug, Clone)]
pub(crate) struct RecurrenceRule {
    pub(crate) freq: Freq,
    pub(crate) interval: i64,
    pub(crate) until: Option<Until>,
    /// The value of `COUNT`, the total number of occurrences. The field `until` is then the time of
    /// the last occurrence.
    pub(crate) count: Option<i64>,
    /// The first day of a week, as a number. Monday is 0.
    pub(crate) week_start: i64,
    pub(crate) months: Vec<i64>,
    pub(crate) weeks: Vec<i64>,
    pub(crate) year_days: Vec<i64>,
    pub(crate) month_days: Vec<i64>,
    /// The weekdays as pairs of a number and a weekday. The number counts within the month or year,
    /// as in `2MO`; 0 means every such weekday. Monday is weekday 0.
    pub(crate) weekdays: Vec<(i64, i64)>,
    pub(crate) hours: Vec<i64>,
    pub(crate) minutes: Vec<i64>,
    pub(crate) seconds: Vec<i64>,
    pub(crate) positions: Vec<i64>,
    /// The start of the rule, in seconds since 1970 by the wall clock.
    pub(crate) start: i64,
}
