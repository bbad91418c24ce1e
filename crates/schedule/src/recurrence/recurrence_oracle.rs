//! A slow and plain version of the search in `recurrence_plan`, day by day and second by second,
//! for comparison in tests.

use super::recurrence_rule::{Freq, RecurrenceRule, Until};
use crate::time::civil::{DAY, Date, days_in_month, is_leap, weekday};

/// The maximum number of days and periods examined in a search.
const MOST_STEPS: u32 = 100_000;

/// The last second searched, since 1970 by a wall clock. By then the year 2099 is over in every
/// zone.
const LAST: i64 = 4_102_444_800 + 2 * DAY;

/// The times of day of a period: each of these hours with each of these minutes and seconds.
struct Times<'a> {
    hours: &'a [i64],
    minutes: &'a [i64],
    seconds: &'a [i64],
}

/// Returns the first occurrence that is not before `local`, both in seconds since 1970 by the wall
/// clock. Returns `Err` after `MOST_STEPS` steps.
pub(super) fn first_local_from(rule: &RecurrenceRule, local: i64) -> Result<Option<i64>, ()> {
    rule.first_local_from(local)
}

impl RecurrenceRule {
    fn first_local_from(&self, local: i64) -> Result<Option<i64>, ()> {
        let from = local.max(self.start);
        let mut period = self.period_of(from);
        let behind = (period - self.period_of(self.start)).rem_euclid(self.interval);
        if behind > 0 {
            period += self.interval - behind;
        }
        let mut steps = MOST_STEPS;
        while steps > 0 {
            let begin = self.begin_of(period);
            if begin >= LAST {
                return Ok(None);
            }
            match self.look(period, begin, from, &mut steps) {
                Look::Found(at) => {
                    return match self.until {
                        Some(Until::Local(until)) if at > until => Ok(None),
                        _ => Ok(Some(at)),
                    };
                }
                Look::NotBefore(later) if later > begin => {
                    // Skip to the first period that contains `later`.
                    let behind = self.period_of(later) - period;
                    period += (behind + self.interval - 1).div_euclid(self.interval).max(1)
                        * self.interval;
                }
                Look::NotBefore(_) | Look::Nothing => period += self.interval,
            }
        }
        Err(())
    }
}

enum Look {
    Found(i64),
    Nothing,
    /// The period has no occurrence. No later period has an occurrence before this second.
    NotBefore(i64),
}

impl RecurrenceRule {
    /// Returns the number of the period, such as a week or hour, that contains the second `local`.
    /// `local` is in seconds since 1970-01-01T00:00 of local time.
    fn period_of(&self, local: i64) -> i64 {
        let day = local.div_euclid(DAY);
        match self.freq {
            Freq::Yearly => Date::of(day).year,
            Freq::Monthly => {
                let date = Date::of(day);
                date.year * 12 + date.month - 1
            }
            // Day 0 is a Thursday.
            Freq::Weekly => (day + 3 - self.week_start).div_euclid(7),
            Freq::Daily => day,
            Freq::Hourly => local.div_euclid(3_600),
            Freq::Minutely => local.div_euclid(60),
            Freq::Secondly => local,
        }
    }

    /// Returns the second at which the period with the number `period` begins. Seconds count since
    /// 1970 by the wall clock.
    fn begin_of(&self, period: i64) -> i64 {
        match self.freq {
            Freq::Yearly => Date::new(period, 1, 1).number() * DAY,
            Freq::Monthly => {
                Date::new(period.div_euclid(12), period.rem_euclid(12) + 1, 1).number() * DAY
            }
            Freq::Weekly => (period * 7 - 3 + self.week_start) * DAY,
            Freq::Daily => period * DAY,
            Freq::Hourly => period * 3_600,
            Freq::Minutely => period * 60,
            Freq::Secondly => period,
        }
    }

    /// Returns the first occurrence of the period that is not before the second `from`. `begin` is
    /// the first second of the period.
    fn look(&self, period: i64, begin: i64, from: i64, steps: &mut u32) -> Look {
        let (day, of_day) = (begin.div_euclid(DAY), begin.rem_euclid(DAY));
        let (hour, minute, second) = ([of_day / 3_600], [of_day / 60 % 60], [of_day % 60]);
        if self.freq < Freq::Hourly {
            let times =
                Times { hours: &self.hours, minutes: &self.minutes, seconds: &self.seconds };
            let days = self.days_of(period, day, steps);
            return self.pick(&days, &times, from).map_or(Look::Nothing, Look::Found);
        }
        *steps = steps.saturating_sub(1);
        let is_among = |list: &[i64], value: i64| list.is_empty() || list.contains(&value);
        if !self.matches(day) {
            return Look::NotBefore((day + 1) * DAY);
        }
        if !is_among(&self.hours, hour[0]) {
            return Look::NotBefore(day * DAY + (hour[0] + 1) * 3_600);
        }
        if self.freq >= Freq::Minutely && !is_among(&self.minutes, minute[0]) {
            return Look::NotBefore(begin - second[0] + 60);
        }
        if self.freq == Freq::Secondly && !is_among(&self.seconds, second[0]) {
            return Look::Nothing;
        }
        let minutes = if self.freq >= Freq::Minutely { &minute[..] } else { &self.minutes };
        let seconds = if self.freq == Freq::Secondly { &second[..] } else { &self.seconds };
        let times = Times { hours: &hour, minutes, seconds };
        self.pick(&[day], &times, from).map_or(Look::Nothing, Look::Found)
    }

    /// Returns the first time on `days` that is not before `from`, among the times that `BYSETPOS`
    /// selects.
    fn pick(&self, days: &[i64], times: &Times<'_>, from: i64) -> Option<i64> {
        if self.positions.is_empty() {
            let mut days = days.iter().filter(|day| (**day + 1) * DAY > from);
            return days
                .find_map(|day| times.first_from(from - day * DAY).map(|time| day * DAY + time));
        }
        let each = times.count();
        let total = i64::try_from(days.len()).ok()? * each;
        let at = |position: i64| {
            let index = if position > 0 { position - 1 } else { total + position };
            let day = days.get(usize::try_from(index.div_euclid(each.max(1))).ok()?)?;
            Some(day * DAY + times.nth(index.rem_euclid(each.max(1)))?)
        };
        self.positions.iter().filter_map(|position| at(*position)).filter(|at| *at >= from).min()
    }

    /// Returns the numbers of the matching days of a period of a day or more, in order. `first` is
    /// the number of the period's first day.
    fn days_of(&self, period: i64, first: i64, steps: &mut u32) -> Vec<i64> {
        let length = match self.freq {
            Freq::Yearly => 365 + i64::from(is_leap(period)),
            Freq::Monthly => days_in_month(period.div_euclid(12), period.rem_euclid(12) + 1),
            Freq::Weekly => 7,
            _ => 1,
        };
        *steps = steps.saturating_sub(u32::try_from(length).unwrap_or(366));
        (first..first + length).filter(|day| self.matches(*day)).collect()
    }

    fn matches(&self, day: i64) -> bool {
        let date = Date::of(day);
        if !self.months.is_empty() && !self.months.contains(&date.month) {
            return false;
        }
        let month_length = days_in_month(date.year, date.month);
        let counted = |list: &[i64], number: i64, length: i64| {
            list.contains(&number) || list.contains(&(number - length - 1))
        };
        if !self.month_days.is_empty() && !counted(&self.month_days, date.day, month_length) {
            return false;
        }
        let year_length = 365 + i64::from(is_leap(date.year));
        let year_day = day - Date::new(date.year, 1, 1).number() + 1;
        if !self.year_days.is_empty() && !counted(&self.year_days, year_day, year_length) {
            return false;
        }
        if !self.weeks.is_empty() {
            let (week, weeks) = self.week_of(day);
            if !counted(&self.weeks, week, weeks) {
                return false;
            }
        }
        // A weekday is numbered within the month, as in `2MO`. Only a yearly rule without months
        // numbers it within the year.
        let (number, length) = if self.freq == Freq::Yearly && self.months.is_empty() {
            (year_day, year_length)
        } else {
            (date.day, month_length)
        };
        let (from_start, from_end) = ((number - 1) / 7 + 1, -((length - number) / 7 + 1));
        let own = weekday(day);
        self.weekdays.is_empty()
            || self.weekdays.iter().any(|(nth, day)| {
                *day == own && (*nth == 0 || *nth == from_start || *nth == from_end)
            })
    }

    /// Returns the number of the week that contains a day, and the number of weeks in the year of
    /// that week. The first week of a year has at least four days in that year.
    fn week_of(&self, day: i64) -> (i64, i64) {
        let first_week = |year: i64| {
            let new_year = Date::new(year, 1, 1).number();
            let into_week = (weekday(new_year) - self.week_start).rem_euclid(7);
            new_year - into_week + if into_week > 3 { 7 } else { 0 }
        };
        let mut year = Date::of(day).year;
        if day < first_week(year) {
            year -= 1;
        } else if day >= first_week(year + 1) {
            year += 1;
        }
        let begin = first_week(year);
        ((day - begin) / 7 + 1, (first_week(year + 1) - begin) / 7)
    }
}

impl Times<'_> {
    fn count(&self) -> i64 {
        i64::try_from(self.hours.len() * self.minutes.len() * self.seconds.len()).unwrap_or(0)
    }

    fn nth(&self, index: i64) -> Option<i64> {
        let index = usize::try_from(index).ok()?;
        let (seconds, minutes) = (self.seconds.len(), self.minutes.len());
        let hour = self.hours.get(index / (minutes * seconds).max(1))?;
        let minute = self.minutes.get(index / seconds.max(1) % minutes.max(1))?;
        Some(hour * 3_600 + minute * 60 + self.seconds.get(index % seconds.max(1))?)
    }

    /// Returns the first of these times of day that is not before `second`, both in seconds after
    /// midnight. Returns `None` if all are earlier.
    fn first_from(&self, second: i64) -> Option<i64> {
        let from = |list: &[i64], least: i64| {
            list.get(list.partition_point(|value| *value < least)).copied()
        };
        let second = second.max(0);
        let (hour, minute, rest) = (second / 3_600, second / 60 % 60, second % 60);
        let (first_minute, first_second) = (*self.minutes.first()?, *self.seconds.first()?);
        if self.hours.contains(&hour) {
            if self.minutes.contains(&minute)
                && let Some(second) = from(self.seconds, rest)
            {
                return Some(hour * 3_600 + minute * 60 + second);
            }
            if let Some(minute) = from(self.minutes, minute + 1) {
                return Some(hour * 3_600 + minute * 60 + first_second);
            }
        }
        Some(from(self.hours, hour + 1)? * 3_600 + first_minute * 60 + first_second)
    }
}
