//! A recurrence rule prepared for the search of its next wall clock time.
//!
//! The search visits groups of times, in order. For a daily, weekly, monthly or yearly rule, a
//! group has the times of a matching day. With `BYSETPOS`, it has the times picked from a week,
//! month or year. For an hourly, minutely or secondly rule, a group has the times of one hour,
//! minute or second.
//!
//! The cost is bounded: the search examines months, days and times of day as bits. No query takes
//! more than [`MOST_STEPS`] steps, each a few nanoseconds.

use super::recurrence_days::{DayWalk, RuleDays};
use super::recurrence_rule::{Freq, RecurrenceRule, Until};
use super::recurrence_times::RuleTimes;
use crate::cron::Wall;
use crate::time::civil::{DAY, Date};

/// The maximum number of steps of a search. The number of days before 2100 plus the number of
/// seconds of a day is lower, so no valid search exceeds this bound.
pub(super) const MOST_STEPS: u32 = 150_000;

/// The number of the last day that is searched, counted from 1970-01-01. By then the year 2099 is
/// over in every zone.
const LAST_DAY: i64 = 4_102_444_800 / DAY + 2;

/// A recurrence rule, prepared for the search of its times.
#[derive(Debug)]
pub(super) struct RecurrencePlan {
    freq: Freq,
    interval: i64,
    pub(super) until: Option<Until>,
    week_start: i64,
    days: RuleDays,
    /// The times of day at which an hour, minute or second of the rule may begin. Used only for an
    /// hourly, minutely or secondly rule.
    begins: RuleTimes,
    /// The times within a matching day, in seconds after midnight. For an hourly, minutely or
    /// secondly rule, the times within one period, in seconds from its start.
    times: RuleTimes,
    /// The positions of `BYSETPOS` in a yearly, monthly or weekly rule, sorted. Empty for other
    /// rules.
    positions: Vec<i64>,
    /// The start of the rule, in seconds since 1970 by the wall clock.
    pub(super) start: i64,
}

/// The error for a rule with `COUNT` whose last occurrence was not found within the allowed steps.
#[derive(Debug)]
pub(super) struct TooFar;

impl Wall for RecurrencePlan {
    fn is_wild(&self) -> bool {
        self.freq >= Freq::Hourly
    }

    fn first_local_from(&self, local: i64) -> Option<i64> {
        let from = local.max(self.start);
        let mut steps = MOST_STEPS;
        let mut found = None;
        self.visit(from, &mut steps, &mut |begin, times| {
            found = times.first_from(from - begin).map(|time| begin + time);
            found.is_some()
        });
        match self.until {
            Some(Until::Local(until)) if found > Some(until) => None,
            _ => found,
        }
    }
}

impl RecurrencePlan {
    pub(super) fn of(rule: &RecurrenceRule) -> Self {
        let mask = |list: &[i64]| list.iter().fold(0_u64, |mask, value| mask | 1 << value);
        let or = |list: &[i64], all: u64| if list.is_empty() { all } else { mask(list) };
        let (hours, minutes) = (or(&rule.hours, (1 << 24) - 1), or(&rule.minutes, (1 << 60) - 1));
        let seconds = or(&rule.seconds, (1 << 60) - 1);
        let (begins, times) = match rule.freq {
            Freq::Hourly => ((hours, 1, 1), (1, minutes, seconds)),
            Freq::Minutely => ((hours, minutes, 1), (1, 1, seconds)),
            Freq::Secondly => ((hours, minutes, seconds), (1, 1, 1)),
            _ => ((1, 1, 1), (hours, minutes, seconds)),
        };
        let clock = |(hours, minutes, seconds)| RuleTimes::Clock { hours, minutes, seconds };
        // In a period of a day or less, `BYSETPOS` always picks the same times, so the pick is made
        // here.
        let (of_days, of_times): (&[i64], &[i64]) =
            if rule.freq < Freq::Daily { (&rule.positions, &[]) } else { (&[], &rule.positions) };
        Self {
            freq: rule.freq,
            interval: rule.interval,
            until: rule.until,
            week_start: rule.week_start,
            days: RuleDays::of(rule),
            begins: clock(begins),
            times: clock(times).at_positions(of_times),
            positions: of_days.to_vec(),
            start: rule.start,
        }
    }

    /// Returns a mask of the days of the month that may have a time of the rule. Only days in the
    /// mask `asked` are examined. Bit 1 is day 1. The mask has every day with a time of the rule,
    /// and may have further days.
    pub(super) fn days_of_month(&self, year: i64, month: i64, asked: u32) -> u32 {
        let first = Date::new(year, month, 1).number();
        let named =
            u32::try_from(self.days.of_month(year, month, first)).unwrap_or(u32::MAX) & asked;
        let counts = |day: &i64| {
            let number = first + day - 1;
            if self.freq >= Freq::Hourly {
                self.counting_from(number * DAY / self.unit()) * self.unit() < (number + 1) * DAY
            } else {
                self.counting_from(self.period_of(number)) == self.period_of(number)
            }
        };
        (1..=31)
            .filter(|day| named >> day & 1 == 1)
            .filter(counts)
            .fold(0, |days, day| days | 1 << day)
    }

    /// Calls `see` with each wall clock time of the rule, in order. The walk ends when `see`
    /// returns true or `steps` reaches 0.
    pub(super) fn walk(&self, steps: &mut u32, see: &mut dyn FnMut(i64) -> bool) {
        let last = if let Some(Until::Local(until)) = self.until { until } else { i64::MAX };
        let mut shown = 0_u32;
        let most = *steps;
        self.visit(self.start, steps, &mut |begin, times| {
            let mut index = times.count_before(self.start - begin);
            while let Some(time) = times.nth(index) {
                shown = shown.saturating_add(1);
                if shown >= most || begin + time > last || see(begin + time) {
                    return true;
                }
                index += 1;
            }
            false
        });
        *steps = steps.saturating_sub(shown);
    }

    /// Returns the time of the occurrence with the number `count`, in seconds since 1970 by the
    /// wall clock. Returns `None` if the rule has fewer occurrences. Fails if the occurrence is not
    /// found within `most` steps.
    pub(super) fn last_of(&self, count: i64, most: u32) -> Result<Option<i64>, TooFar> {
        let (mut steps, mut left, mut last) = (most, count, None);
        self.visit(self.start, &mut steps, &mut |begin, times| {
            let before = times.count_before(self.start - begin);
            let there = times.count() - before;
            if left <= there {
                last = times.nth(before + left - 1).map(|time| begin + time);
                return true;
            }
            left -= there;
            false
        });
        if last.is_none() && steps == 0 { Err(TooFar) } else { Ok(last) }
    }

    /// Returns the number of steps that a search from `from` takes if it accepts no time.
    #[cfg(test)]
    pub(super) fn steps_of_none(&self, from: i64) -> u32 {
        let mut steps = MOST_STEPS;
        self.visit(from, &mut steps, &mut |_, times| times.count() == -1);
        MOST_STEPS - steps
    }

    /// Calls `see` with each group of times that does not end before `from`.
    ///
    /// `see` gets a base time and the times of the group, counted in seconds from the base. The
    /// visit ends when `see` returns true, or when `steps` reaches 0.
    fn visit(&self, from: i64, steps: &mut u32, see: &mut dyn FnMut(i64, &RuleTimes) -> bool) {
        if self.times.count() == 0 {
            return;
        }
        if self.freq >= Freq::Hourly {
            self.visit_short(from, steps, see);
        } else if self.positions.is_empty() {
            self.visit_days(from, steps, see);
        } else {
            self.visit_picked(from, steps, see);
        }
    }

    /// Calls `see` with the times of each matching day. Only days in a period that `INTERVAL`
    /// selects are visited.
    fn visit_days(&self, from: i64, steps: &mut u32, see: &mut dyn FnMut(i64, &RuleTimes) -> bool) {
        let mut walk = DayWalk::new(&self.days);
        let mut day = from.div_euclid(DAY);
        while let Some(found) = walk.next_from(day, LAST_DAY) {
            let Some(left) = steps.checked_sub(1) else { return };
            *steps = left;
            let period = self.period_of(found);
            let counting = self.counting_from(period);
            if counting > period {
                day = self.begin_of(counting);
                continue;
            }
            if see(found * DAY, &self.times) {
                return;
            }
            day = found + 1;
        }
    }

    /// Calls `see` with the times that `BYSETPOS` picks from each week, month or year that
    /// `INTERVAL` selects.
    fn visit_picked(
        &self,
        from: i64,
        steps: &mut u32,
        see: &mut dyn FnMut(i64, &RuleTimes) -> bool,
    ) {
        let mut walk = DayWalk::new(&self.days);
        let mut period = self.counting_from(self.period_of(from.div_euclid(DAY)));
        let each = self.times.count();
        let mut days = Vec::new();
        while let Some(first) = walk.next_from(self.begin_of(period), LAST_DAY) {
            let own = self.counting_from(self.period_of(first));
            if own > period {
                let Some(left) = steps.checked_sub(1) else { return };
                (*steps, period) = (left, own);
                continue;
            }
            let end = self.begin_of(period + 1).min(LAST_DAY);
            days.clear();
            days.push(first);
            while let Some(next) = days.last().and_then(|day| walk.next_from(day + 1, end)) {
                days.push(next);
            }
            *steps = steps.saturating_sub(u32::try_from(days.len()).unwrap_or(u32::MAX));
            if *steps == 0 || see(0, &self.picked(&days, each)) {
                return;
            }
            period += self.interval;
        }
    }

    /// Returns the times that `BYSETPOS` picks from the times of `days`. Each day has `each` times.
    fn picked(&self, days: &[i64], each: i64) -> RuleTimes {
        let total = i64::try_from(days.len()).unwrap_or(0) * each;
        let (low, high) = (
            self.positions.partition_point(|position| *position < -total),
            self.positions.partition_point(|position| *position <= total),
        );
        let at = |position: &i64| {
            let index = if *position > 0 { position - 1 } else { total + position };
            let day = days.get(usize::try_from(index / each).ok()?)?;
            Some(day * DAY + self.times.nth(index % each)?)
        };
        let mut picked: Vec<i64> =
            self.positions.get(low..high).unwrap_or_default().iter().filter_map(at).collect();
        picked.sort_unstable();
        picked.dedup();
        RuleTimes::List(picked)
    }

    /// Calls `see` with the times of each hour, minute or second that `INTERVAL` selects on a
    /// matching day.
    fn visit_short(
        &self,
        from: i64,
        steps: &mut u32,
        see: &mut dyn FnMut(i64, &RuleTimes) -> bool,
    ) {
        let mut walk = DayWalk::new(&self.days);
        let unit = self.unit();
        let mut begin = self.counting_from(from.div_euclid(unit)) * unit;
        let mut barren = Barren::new(self.interval * unit);
        while let Some(day) = walk.next_from(begin.div_euclid(DAY), LAST_DAY) {
            let Some(left) = steps.checked_sub(1).filter(|_| !barren.is_all()) else { return };
            *steps = left;
            let is_first = begin >= day * DAY && begin - self.interval * unit < day * DAY;
            let first = if is_first { begin } else { self.counting_from(day * DAY / unit) * unit };
            begin = begin.max(first);
            let residue = first - day * DAY;
            if begin >= (day + 1) * DAY {
                continue;
            }
            if barren.has(residue) {
                begin = self.counting_from((day + 1) * DAY / unit) * unit;
                continue;
            }
            let (is_whole, mut is_barren) = (begin == first, true);
            while let Some(next) = self.begins.first_from(begin - day * DAY) {
                let Some(left) = steps.checked_sub(1) else { return };
                *steps = left;
                let wanted = day * DAY + next;
                if wanted > begin {
                    let next = begin + self.interval * unit;
                    begin = if wanted <= next {
                        next
                    } else {
                        self.counting_from(wanted / unit) * unit
                    };
                } else {
                    is_barren = false;
                    if see(begin, &self.times) {
                        return;
                    }
                    begin += self.interval * unit;
                }
                if begin >= (day + 1) * DAY {
                    break;
                }
            }
            if is_whole && is_barren {
                barren.insert(residue);
            }
            if begin < (day + 1) * DAY {
                begin = self.counting_from((day + 1) * DAY / unit) * unit;
            }
        }
    }

    /// Returns the number of the first period that `INTERVAL` selects and that is not before
    /// `period`.
    fn counting_from(&self, period: i64) -> i64 {
        let first = if self.freq >= Freq::Hourly {
            self.start.div_euclid(self.unit())
        } else {
            self.period_of(self.start.div_euclid(DAY))
        };
        let behind = (period - first).rem_euclid(self.interval);
        if behind == 0 { period } else { period + self.interval - behind }
    }

    /// Returns the length of an hourly, minutely or secondly period, in seconds.
    fn unit(&self) -> i64 {
        match self.freq {
            Freq::Hourly => 3_600,
            Freq::Minutely => 60,
            _ => 1,
        }
    }

    /// Returns the number of the period that contains the day `day`. For rules with periods of a
    /// day or more.
    fn period_of(&self, day: i64) -> i64 {
        match self.freq {
            Freq::Yearly => Date::of(day).year,
            Freq::Monthly => {
                let date = Date::of(day);
                date.year * 12 + date.month - 1
            }
            // Day 0 is a Thursday.
            Freq::Weekly => (day + 3 - self.week_start).div_euclid(7),
            _ => day,
        }
    }

    /// Returns the number of the first day of the period `period`. For rules with periods of a day
    /// or more.
    fn begin_of(&self, period: i64) -> i64 {
        match self.freq {
            Freq::Yearly => Date::new(period, 1, 1).number(),
            Freq::Monthly => {
                Date::new(period.div_euclid(12), period.rem_euclid(12) + 1, 1).number()
            }
            Freq::Weekly => period * 7 - 3 + self.week_start,
            _ => period,
        }
    }
}

/// The offsets at which a search of a whole day found no time. An offset is the number of seconds
/// from the start of the day to its first period. Days with equal offsets are alike, so each offset
/// is searched once. If the set has all possible offsets, the rule never occurs.
struct Barren {
    seen: Vec<u64>,
    left: i64,
}

impl Barren {
    /// Creates an empty set, for periods that begin every `interval` seconds.
    fn new(interval: i64) -> Self {
        let (mut common, mut rest) = (interval, DAY);
        while rest != 0 {
            (common, rest) = (rest, common % rest);
        }
        Self { seen: Vec::new(), left: interval.min(DAY) / common }
    }

    fn is_all(&self) -> bool {
        self.left == 0
    }

    fn has(&self, begin: i64) -> bool {
        let at = usize::try_from(begin).unwrap_or(usize::MAX);
        self.seen.get(at / 64).is_some_and(|word| word >> (at % 64) & 1 == 1)
    }

    /// Adds an offset that the set does not have yet. Each call lowers the number of offsets left,
    /// so the caller must not add an offset twice.
    fn insert(&mut self, begin: i64) {
        if self.seen.is_empty() {
            self.seen = vec![0; 1_350];
        }
        let at = usize::try_from(begin).unwrap_or(usize::MAX);
        if let Some(word) = self.seen.get_mut(at / 64) {
            *word |= 1 << (at % 64);
            self.left -= 1;
        }
    }
}
