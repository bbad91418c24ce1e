//! A parsed calendar expression as sets of numbers, and the search for the next matching wall clock
//! time.

use std::collections::BTreeSet;

use crate::cron::Wall;
use crate::time::civil::{DAY, Date, days_in_month, falling_on, weekday};

/// The last year that is searched. Occurrences end with the year 2099 in UTC, when the wall clocks
/// of some zones already show 2100.
const LAST_YEAR: i64 = 2100;

/// The numbers that a calendar expression matches. Bit n of a mask means the number n.
#[derive(Debug)]
pub(crate) struct CalendarPlan {
    /// The years that match. `None` means every year.
    pub(crate) years: Option<BTreeSet<i64>>,
    pub(crate) months: u64,
    pub(crate) days: CalendarDays,
    /// The weekdays that match. Monday is bit 0.
    pub(crate) weekdays: u8,
    pub(crate) hours: u64,
    pub(crate) minutes: u64,
    pub(crate) seconds: u64,
    pub(crate) is_wild: bool,
}

/// Days of a month as a mask.
#[derive(Debug, Clone, Copy)]
pub(crate) enum CalendarDays {
    /// The days counted from the first day of the month: bit 1 is the first day.
    FromStart(u32),
    /// The days counted from the last day of the month: bit 1 is the last day.
    FromEnd(u32),
}

impl Wall for CalendarPlan {
    fn is_wild(&self) -> bool {
        self.is_wild
    }

    fn first_local_from(&self, local: i64) -> Option<i64> {
        let number = local.div_euclid(DAY);
        if self.matches(number)
            && let Some(second) = self.second_from(local.rem_euclid(DAY))
        {
            return Some(number * DAY + second);
        }
        let number = self.day_from(number + 1)?;
        Some(number * DAY + self.second_from(0)?)
    }
}

impl CalendarPlan {
    /// Returns a mask of the days of the month that match. Bit 1 is day 1.
    pub(super) fn days_of_month(&self, year: i64, month: i64) -> u32 {
        if self.years.as_ref().is_some_and(|years| !years.contains(&year))
            || self.months >> month & 1 == 0
        {
            return 0;
        }
        let first = Date::new(year, month, 1).number();
        self.days.of_month(year, month)
            & falling_on(self.weekdays, first, days_in_month(year, month))
    }

    /// Returns the first and the last matching second of a matching day, in seconds after midnight.
    pub(super) fn ends_of_day(&self) -> (i64, i64) {
        let ends = |mask: u64| {
            (i64::from(mask.trailing_zeros()), i64::from(63 - mask.leading_zeros().min(63)))
        };
        let (hours, minutes, seconds) = (ends(self.hours), ends(self.minutes), ends(self.seconds));
        let second = |hour: i64, minute: i64, second: i64| hour * 3_600 + minute * 60 + second;
        (second(hours.0, minutes.0, seconds.0), second(hours.1, minutes.1, seconds.1))
    }

    fn matches(&self, number: i64) -> bool {
        let Date { year, month, day } = Date::of(number);
        self.years.as_ref().is_none_or(|years| years.contains(&year))
            && self.months >> month & 1 == 1
            && self.days.of_month(year, month) >> day & 1 == 1
            && self.weekdays >> weekday(number) & 1 == 1
    }

    /// Returns the number of the first matching day that is not before day `number`. Returns `None`
    /// if no such day comes before 2101. Day 0 is 1970-01-01.
    fn day_from(&self, number: i64) -> Option<i64> {
        let begin = Date::of(number);
        let (mut year, mut month) = (begin.year, begin.month);
        while year <= LAST_YEAR {
            if let Some(years) = &self.years
                && !years.contains(&year)
            {
                (year, month) = (*years.range(year..).next()?, 1);
                continue;
            }
            if self.months >> month & 1 == 1 {
                let first = Date::new(year, month, 1).number();
                let mut days = self.days.of_month(year, month);
                if year == begin.year && month == begin.month {
                    days = days >> begin.day << begin.day;
                }
                while days != 0 {
                    let day = i64::from(days.trailing_zeros());
                    if self.weekdays >> weekday(first + day - 1) & 1 == 1 {
                        return Some(first + day - 1);
                    }
                    days &= days - 1;
                }
            }
            (year, month) = if month == 12 { (year + 1, 1) } else { (year, month + 1) };
        }
        None
    }

    /// Returns the first matching time of a day that is not before `second`, or `None`. Both times
    /// are in seconds after midnight.
    fn second_from(&self, second: i64) -> Option<i64> {
        let (hour, minute, second) = (second / 3_600, second / 60 % 60, second % 60);
        let at = |hour: i64, minute: i64, second: i64| Some(hour * 3_600 + minute * 60 + second);
        if self.hours >> hour & 1 == 1 {
            if self.minutes >> minute & 1 == 1
                && let Some(second) = from(self.seconds, second)
            {
                return at(hour, minute, second);
            }
            if let Some(minute) = from(self.minutes, minute + 1) {
                return at(hour, minute, from(self.seconds, 0)?);
            }
        }
        at(from(self.hours, hour + 1)?, from(self.minutes, 0)?, from(self.seconds, 0)?)
    }
}

impl CalendarDays {
    /// Returns a mask of these days in the given month. Bit 1 is day 1.
    fn of_month(self, year: i64, month: i64) -> u32 {
        let length = days_in_month(year, month);
        match self {
            Self::FromStart(mask) => mask & (u32::MAX >> (31 - length)) & !1,
            Self::FromEnd(mask) => (1..=length)
                .filter(|day| mask >> (length - day + 1) & 1 == 1)
                .fold(0, |days, day| days | 1 << day),
        }
    }
}

/// Returns the number of the lowest set bit in `mask` that is at least `least`, or `None`.
fn from(mask: u64, least: i64) -> Option<i64> {
    let rest = if least > 63 { 0 } else { mask >> least << least };
    (rest != 0).then(|| i64::from(rest.trailing_zeros()))
}
