//! Dates of the Gregorian calendar as day numbers. A day number counts the days since 1970-01-01 on
//! a wall clock.
//!
//! Invariant: this is pure arithmetic without zones, and exact for all years that a schedule may
//! name.

/// The seconds of a day on a wall clock.
pub(crate) const DAY: i64 = 86_400;

/// A date of the Gregorian calendar.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Date {
    pub(crate) year: i64,
    /// The month of the date, from 1 to 12.
    pub(crate) month: i64,
    /// The day of the month, from 1 to 31.
    pub(crate) day: i64,
}

impl Date {
    pub(crate) fn new(year: i64, month: i64, day: i64) -> Self {
        Self { year, month, day }
    }

    /// Returns the date of a day number.
    pub(crate) fn of(number: i64) -> Self {
        // Years begin on 1 March here, which makes a leap day the last day of its year.
        let shifted = number + 719_468;
        let era = shifted.div_euclid(146_097);
        let of_era = shifted.rem_euclid(146_097);
        let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
        let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let from_march = (5 * of_year + 2) / 153;
        let day = of_year - (153 * from_march + 2) / 5 + 1;
        let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
        Self { year: year_of_era + era * 400 + i64::from(month <= 2), month, day }
    }

    /// Returns the day number of this date.
    pub(crate) fn number(self) -> i64 {
        let year = if self.month <= 2 { self.year - 1 } else { self.year };
        let era = year.div_euclid(400);
        let year_of_era = year.rem_euclid(400);
        let from_march = (self.month + 9) % 12;
        let of_year = (153 * from_march + 2) / 5 + self.day - 1;
        let of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + of_year;
        era * 146_097 + of_era - 719_468
    }
}

/// Returns the weekday of a day number. Monday is 0.
pub(crate) fn weekday(number: i64) -> i64 {
    (number + 3).rem_euclid(7)
}

/// Returns a mask of the days of a month that fall on `weekdays`, a mask with Monday as bit 0. Bit
/// 1 of the result is day 1. The month has `length` days, and its first day has the day number
/// `first`.
pub(crate) fn falling_on(weekdays: u8, first: i64, length: i64) -> u32 {
    let begin = weekday(first);
    (1..=length)
        .filter(|day| weekdays >> ((begin + day - 1) % 7) & 1 == 1)
        .fold(0, |days, day| days | 1 << day)
}

/// Returns the number of the first day that `of_month` selects and that is not before the day
/// number `day`. Returns `None` if that day is after `last`. `of_month` gets a year and a month and
/// returns a mask with day 1 as bit 1.
pub(crate) fn first_named(day: i64, last: i64, of_month: impl Fn(i64, i64) -> u32) -> Option<i64> {
    let begin = Date::of(day);
    let (mut year, mut month, mut from) = (begin.year, begin.month, begin.day);
    loop {
        let first = Date::new(year, month, 1).number();
        if first > last {
            return None;
        }
        let days = of_month(year, month) >> from << from;
        if days != 0 {
            return Some(first + i64::from(days.trailing_zeros()) - 1)
                .filter(|found| *found <= last);
        }
        (year, month) = if month == 12 { (year + 1, 1) } else { (year, month + 1) };
        from = 1;
    }
}

/// Returns the number of days in a month.
pub(crate) fn days_in_month(year: i64, month: i64) -> i64 {
    match month {
        4 | 6 | 9 | 11 => 30,
        2 if is_leap(year) => 29,
        2 => 28,
        _ => 31,
    }
}

/// Returns true if the year has a 29 February (a leap year).
pub(crate) fn is_leap(year: i64) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_day_of_two_centuries_has_its_number_and_weekday() {
        let mut date = jiff::civil::date(1960, 1, 1);
        let first = Date::new(1960, 1, 1).number();
        for number in first..first + 60_000 {
            let (year, month, day) =
                (i64::from(date.year()), i64::from(date.month()), i64::from(date.day()));
            assert_eq!(Date::of(number), Date::new(year, month, day));
            assert_eq!(Date::new(year, month, day).number(), number);
            assert_eq!(weekday(number), i64::from(date.weekday().to_monday_zero_offset()));
            assert_eq!(days_in_month(year, month), i64::from(date.days_in_month()));
            date = date.tomorrow().unwrap();
        }
        assert_eq!(Date::new(1970, 1, 1).number(), 0);
    }
}
