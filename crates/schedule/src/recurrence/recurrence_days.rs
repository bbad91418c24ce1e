//! The days that match the `BY` parts of a rule, as a bit mask for each month. A walk finds the
//! next matching day.

use super::recurrence_rule::{Freq, RecurrenceRule};
use crate::time::civil::{Date, days_in_month, is_leap, weekday};

/// A mask of days with the same weekday: bits 0, 7, 14, 21 and 28.
const WEEKLY: u64 = 1 | 1 << 7 | 1 << 14 | 1 << 21 | 1 << 28;

/// A set of positions in a month or year, as two bit masks. A position counts from the start, such
/// as 2, or from the end, such as -1.
#[derive(Debug, Clone, Copy)]
struct Counted<const WORDS: usize> {
    from_start: [u64; WORDS],
    from_end: [u64; WORDS],
}

impl<const WORDS: usize> Counted<WORDS> {
    fn of(numbers: &[i64]) -> Option<Self> {
        let mut bits = Self { from_start: [0; WORDS], from_end: [0; WORDS] };
        for number in numbers {
            let at = usize::try_from(number.unsigned_abs()).unwrap_or(0);
            let words = if *number > 0 { &mut bits.from_start } else { &mut bits.from_end };
            if let Some(word) = words.get_mut(at / 64) {
                *word |= 1 << (at % 64);
            }
        }
        (!numbers.is_empty()).then_some(bits)
    }

    /// Returns true if the set contains the position `number` (1 is the first) of a period with
    /// `length` positions. The entry -1 of the set is the last position.
    fn has(&self, number: i64, length: i64) -> bool {
        let bit = |words: &[u64; WORDS], at: i64| {
            let at = usize::try_from(at).unwrap_or(0);
            words.get(at / 64).is_some_and(|word| word >> (at % 64) & 1 == 1)
        };
        bit(&self.from_start, number) || bit(&self.from_end, length + 1 - number)
    }
}

/// The `BY` parts of a rule that select days.
#[derive(Debug)]
pub(super) struct RuleDays {
    /// The months that the rule names. Bit 1 is January; 0 means every month.
    months: u32,
    month_days: Option<Counted<1>>,
    year_days: Option<Counted<6>>,
    weeks: Option<Counted<1>>,
    week_start: i64,
    /// The weekdays that the rule names, as an entry for each weekday, Monday first. The `u64` is 1
    /// if every such weekday matches, as in `MO`. The `Counted` has the numbers before the weekday,
    /// as in `2MO` or `-1MO`. `None` if the rule names no weekday.
    weekdays: Option<[(u64, Counted<1>); 7]>,
    /// True if weekdays are numbered within the year, false if they are numbered within the month.
    counts_in_year: bool,
}

impl RuleDays {
    pub(super) fn of(rule: &RecurrenceRule) -> Self {
        let of_weekday = |day: i64| {
            let numbers: Vec<i64> =
                rule.weekdays.iter().filter(|(_, own)| *own == day).map(|(nth, _)| *nth).collect();
            let numbered: Vec<i64> = numbers.iter().copied().filter(|nth| *nth != 0).collect();
            let none = Counted { from_start: [0], from_end: [0] };
            (u64::from(numbers.contains(&0)), Counted::of(&numbered).unwrap_or(none))
        };
        Self {
            months: rule.months.iter().fold(0, |months, month| months | 1 << month),
            month_days: Counted::of(&rule.month_days),
            year_days: Counted::of(&rule.year_days),
            weeks: Counted::of(&rule.weeks),
            week_start: rule.week_start,
            weekdays: (!rule.weekdays.is_empty()).then(|| [0, 1, 2, 3, 4, 5, 6].map(of_weekday)),
            counts_in_year: rule.freq == Freq::Yearly && rule.months.is_empty(),
        }
    }

    /// Returns a mask of the matching days of the month. Bit 1 is day 1, whose day number is
    /// `first`.
    pub(super) fn of_month(&self, year: i64, month: i64, first: i64) -> u64 {
        if self.months != 0 && self.months >> month & 1 == 0 {
            return 0;
        }
        let length = days_in_month(year, month);
        let mut days = (2_u64 << length) - 2;
        if let Some(counted) = &self.month_days {
            // Bit n from the end is bit length + 1 - n from the start.
            let from_end = counted.from_end[0].reverse_bits() >> (62 - length);
            days &= counted.from_start[0] | from_end;
        }
        if let Some(weekdays) = &self.weekdays
            && !self.counts_in_year
        {
            days &= weekdays_of_month(weekdays, weekday(first), length);
        }
        if self.year_days.is_none()
            && self.weeks.is_none()
            && !(self.counts_in_year && self.weekdays.is_some())
        {
            return days;
        }
        let year_begin = Date::new(year, 1, 1).number();
        let year_length = 365 + i64::from(is_leap(year));
        let weeks = self.weeks.map(|counted| (counted, Weeks::around(year, self.week_start)));
        let is_one = |day: i64| {
            let number = first + day - 1;
            let year_day = number - year_begin + 1;
            self.year_days.is_none_or(|counted| counted.has(year_day, year_length))
                && weeks.as_ref().is_none_or(|(counted, weeks)| weeks.has(number, counted))
                && (!self.counts_in_year
                    || self
                        .weekdays
                        .as_ref()
                        .is_none_or(|all| is_numbered(all, number, year_day, year_length)))
        };
        let mut rest = days;
        while rest != 0 {
            let day = i64::from(rest.trailing_zeros());
            if !is_one(day) {
                days &= !(1 << day);
            }
            rest &= rest - 1;
        }
        days
    }
}

/// Returns a mask of the days of a month that match by their weekday. The month has `length` days
/// and begins with weekday `begin`. Bit 1 is day 1.
fn weekdays_of_month(weekdays: &[(u64, Counted<1>); 7], begin: i64, length: i64) -> u64 {
    let mut days = 0;
    for (day, (every, numbered)) in (0_i64..).zip(weekdays) {
        let first = (day - begin).rem_euclid(7) + 1;
        if *every == 1 {
            days |= WEEKLY << first;
        }
        let count = (length - first) / 7 + 1;
        for number in (1..=count).filter(|number| numbered.has(*number, count)) {
            days |= 1 << (first + 7 * (number - 1));
        }
    }
    days
}

/// Returns true if the rule names the weekday of a day, either as every such weekday (`MO`) or by
/// its number within the year (`2MO`). The day has the day number `number`, and is day `year_day`
/// of its year, counted from 1.
fn is_numbered(
    weekdays: &[(u64, Counted<1>); 7],
    number: i64,
    year_day: i64,
    year_length: i64,
) -> bool {
    let own = usize::try_from(weekday(number)).ok().and_then(|day| weekdays.get(day));
    let (from_start, from_end) = ((year_day - 1) / 7 + 1, (year_length - year_day) / 7 + 1);
    own.is_some_and(|(every, numbered)| {
        *every == 1 || numbered.has(from_start, from_start + from_end - 1)
    })
}

/// The day numbers on which the first weeks of four years begin. The four years are the year before
/// a given year, that year, and the two years after. The first week of a year has at least four
/// days in that year.
struct Weeks([i64; 4]);

impl Weeks {
    fn around(year: i64, week_start: i64) -> Self {
        Self([-1, 0, 1, 2].map(|step| {
            let new_year = Date::new(year + step, 1, 1).number();
            let into_week = (weekday(new_year) - week_start).rem_euclid(7);
            new_year - into_week + if into_week > 3 { 7 } else { 0 }
        }))
    }

    /// Returns true if `counted` has the number of the week that contains the day `number`. The
    /// week counts in the year that has most of its days.
    fn has(&self, number: i64, counted: &Counted<1>) -> bool {
        let mut bounds = self.0.iter().zip(self.0.iter().skip(1));
        let own = bounds.find(|(begin, end)| (**begin..**end).contains(&number));
        own.is_some_and(|(begin, end)| counted.has((number - begin) / 7 + 1, (end - begin) / 7))
    }
}

/// A search for matching days in rising order, which examines each month only once.
pub(super) struct DayWalk<'a> {
    rule: &'a RuleDays,
    year: i64,
    month: i64,
    /// The day number of the first day of the examined month. The field `end` is the day number
    /// after its last day.
    first: i64,
    end: i64,
    days: u64,
}

impl<'a> DayWalk<'a> {
    pub(super) fn new(rule: &'a RuleDays) -> Self {
        Self { rule, year: 0, month: 0, first: 0, end: i64::MIN, days: 0 }
    }

    /// Returns the number of the first matching day that is not before `number` but before `end`,
    /// or `None`. `number` must not decrease from call to call.
    pub(super) fn next_from(&mut self, number: i64, end: i64) -> Option<i64> {
        if number >= self.end {
            let date = Date::of(number);
            self.enter(date.year, date.month);
        }
        loop {
            let from = u32::try_from((number - self.first + 1).max(0)).unwrap_or(63);
            let days = self.days >> from << from;
            if days != 0 {
                return Some(self.first + i64::from(days.trailing_zeros()) - 1)
                    .filter(|found| *found < end);
            }
            if self.end >= end {
                return None;
            }
            if self.month == 12 {
                self.enter(self.year + 1, 1);
            } else {
                self.enter(self.year, self.month + 1);
            }
        }
    }

    fn enter(&mut self, year: i64, month: i64) {
        (self.year, self.month) = (year, month);
        self.first = Date::new(year, month, 1).number();
        self.end = self.first + days_in_month(year, month);
        self.days = self.rule.of_month(year, month, self.first);
    }
}
