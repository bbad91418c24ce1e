//! Days whose number differs from month to month: `L`, `LW`, `15W`, `5#2`, `5L`.
//!
//! Invariant: each of these signs selects at most one day of a month, never a day of the month
//! before or after.

use crate::time::civil::{Date, days_in_month, weekday};

/// A letter of a day field: a day named by its place in the month. Weekdays count from Sunday = 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Letter {
    /// The letters `L` and `L-3`: the day that is `before` days before the last day of the month.
    Last { before: u8 },
    /// The letters `LW`: the last day of the month from Monday to Friday.
    LastWorking,
    /// The letter of `15W`: the day from Monday to Friday nearest to `day` in the same month. A
    /// month without `day` has no such day.
    Nearest { day: u8 },
    /// The sign of `5#2`: the second Friday of the month.
    Nth { weekday: u8, nth: u8 },
    /// The letter of `5L`: the last Friday of the month.
    LastOf { weekday: u8 },
}

/// The properties of a month that decide which day a letter selects: its first weekday and its
/// length.
#[derive(Debug, Clone, Copy)]
pub(super) struct Month {
    /// The weekday of the first day of the month, counted from Sunday = 0.
    pub(super) first: u8,
    pub(super) length: u8,
}

pub(super) const SUNDAY: u8 = 0;
const SATURDAY: u8 = 6;

impl Month {
    /// Returns the first weekday and the length of the month `month` of `year`.
    pub(super) fn of(year: i64, month: i64) -> Self {
        let narrow = |number: i64| u8::try_from(number).unwrap_or(0);
        let first = (weekday(Date::new(year, month, 1).number()) + 1) % 7;
        Self { first: narrow(first), length: narrow(days_in_month(year, month)) }
    }

    /// Returns a mask with a single bit for the kind of this month. Months with the same first
    /// weekday and length are of the same kind, so there are 28 kinds.
    pub(super) fn bit(self) -> u32 {
        1 << (u32::from(self.first) * 4 + u32::from(self.length).saturating_sub(28)).min(31)
    }

    /// Returns the weekday of a day of the month, counted from Sunday = 0.
    pub(super) fn weekday(self, day: u8) -> u8 {
        (self.first + day - 1) % 7
    }
}

impl Letter {
    /// Returns the day of the month that this letter selects, or `None` if the month has no such
    /// day.
    pub(super) fn day_in(self, month: Month) -> Option<u8> {
        let last = month.length;
        let day = match self {
            Self::Last { before } => last.checked_sub(before)?,
            Self::LastWorking => match month.weekday(last) {
                SATURDAY => last - 1,
                SUNDAY => last - 2,
                _ => last,
            },
            Self::Nearest { day } if day > last => return None,
            Self::Nearest { day } => match month.weekday(day) {
                SATURDAY if day == 1 => 3,
                SATURDAY => day - 1,
                SUNDAY if day == last => day - 2,
                SUNDAY => day + 1,
                _ => day,
            },
            Self::Nth { weekday, nth } => 1 + (weekday + 7 - month.first) % 7 + 7 * (nth - 1),
            Self::LastOf { weekday } => last - (month.weekday(last) + 7 - weekday) % 7,
        };
        (1..=last).contains(&day).then_some(day)
    }
}
