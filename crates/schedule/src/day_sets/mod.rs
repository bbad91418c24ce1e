//! Days on which a job runs or does not run: dates, weekdays, and spans of real time from
//! calendars.
//!
//! Invariant: a set is sorted and merged. So two sets of the same days are equal and have the same
//! text.

#[cfg(test)]
mod day_set_tests;

use std::fmt;
use std::str::FromStr;

use super::left_out::LeftOut;
use crate::time::civil::{DAY, Date, days_in_month, falling_on, first_named, weekday};
use crate::time::unix_millis::UnixMillis;
use crate::time::zone::Zone;

/// The maximum length in bytes of the text of an entry, such as `2026-12-24..2027-01-01`.
const LONGEST_ENTRY: usize = 100;

const WEEKDAYS: [&str; 7] = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"];
const ALL: u8 = 0b111_1111;

/// The number of the last day that a schedule may name: 2099-12-31. Day 0 is 1970-01-01.
pub(crate) const LAST_DAY: i64 = UnixMillis::END / 1_000 / DAY - 1;

/// A set of days: weekdays, dates and spans of real time.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DaySet {
    /// The weekdays in the set, as a mask. Monday is bit 0.
    weekdays: u8,
    /// The dates in the set, as ranges of day numbers with both ends included.
    dates: Vec<(i64, i64)>,
    /// The spans of real time in the set, in Unix milliseconds, with the end excluded.
    spans: Vec<(i64, i64)>,
}

/// An entry of a list of days.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DayItem {
    /// Weekdays as a mask. Monday is bit 0.
    Weekdays(u8),
    /// A range of dates as day numbers since 1970-01-01, with both ends included.
    Dates(i64, i64),
    /// A span from one instant to another, with the end excluded.
    Span(UnixMillis, UnixMillis),
}

/// The error for a text that is not an entry of a list of days.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "found {found:?}, {problem}wanted a date \"2026-12-24\", dates \"2026-12-24..2027-01-01\" or a weekday \"sat\""
)]
pub struct DaysError {
    /// The refused text, cut if it is long.
    pub found: String,
    problem: &'static str,
}

impl FromStr for DayItem {
    type Err = DaysError;

    fn from_str(text: &str) -> Result<Self, DaysError> {
        let refuse = |problem| {
            let found = text
                .char_indices()
                .nth(60)
                .and_then(|(end, _)| text.get(..end))
                .unwrap_or(text)
                .to_owned();
            DaysError { found, problem }
        };
        if text.len() > LONGEST_ENTRY {
            return Err(refuse("which is longer than 100 bytes, "));
        }
        let (first, last) =
            text.split_once("..").map_or((text, text), |(first, last)| (first.trim(), last.trim()));
        if let (Some(first), Some(last)) = (weekday_named(first), weekday_named(last)) {
            let days = (0..7).map(|step| (first + step) % 7);
            let until = (last + 7 - first) % 7;
            return Ok(Self::Weekdays(days.take(until + 1).fold(0, |bits, day| bits | 1 << day)));
        }
        if let (Some(first), Some(last)) = (day_named(first), day_named(last)) {
            return if first <= last {
                Ok(Self::Dates(first, last))
            } else {
                Err(refuse("whose end is before its start, "))
            };
        }
        let instant =
            |text: &str| text.parse::<jiff::Timestamp>().ok().and_then(UnixMillis::from_timestamp);
        match (instant(first), instant(last)) {
            (Some(first), Some(last)) if first < last => Ok(Self::Span(first, last)),
            (Some(_), Some(_)) => Err(refuse("which is an empty range, ")),
            _ if [first, last].iter().any(|part| looks_like_a_date(part)) => {
                Err(refuse("which is not a date from 1970 to 2099, "))
            }
            _ => Err(refuse("")),
        }
    }
}

fn weekday_named(text: &str) -> Option<usize> {
    const LONG: [&str; 7] =
        ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"];
    let lower = text.to_ascii_lowercase();
    WEEKDAYS.iter().zip(LONG).position(|(short, long)| lower == **short || lower == long)
}

fn looks_like_a_date(text: &str) -> bool {
    text.len() == 10
        && text.bytes().enumerate().all(|(at, byte)| {
            if matches!(at, 4 | 7) { byte == b'-' } else { byte.is_ascii_digit() }
        })
}

/// Returns the day number of a date such as `2026-12-24`, where 1970-01-01 is day 0. Returns `None`
/// if the text is not a date from 1970 to 2099.
pub(crate) fn day_named(text: &str) -> Option<i64> {
    if !looks_like_a_date(text) {
        return None;
    }
    let number = |from: usize, to: usize| text.get(from..to)?.parse::<i64>().ok();
    let (year, month, day) = (number(0, 4)?, number(5, 7)?, number(8, 10)?);
    let exists = (1970..2100).contains(&year)
        && (1..=12).contains(&month)
        && (1..=days_in_month(year, month)).contains(&day);
    exists.then(|| Date::new(year, month, day).number())
}

impl DaySet {
    /// The maximum number of entries in a set.
    pub const MOST: usize = 5_000;

    /// Creates the set of all days that `items` name.
    pub fn of(items: impl IntoIterator<Item = DayItem>) -> Self {
        let mut days = Self::default();
        for item in items {
            match item {
                DayItem::Weekdays(bits) => days.weekdays |= bits & ALL,
                DayItem::Dates(first, last) => days.dates.push((first, last)),
                DayItem::Span(first, end) => days.spans.push((first.as_i64(), end.as_i64())),
            }
        }
        days.dates = merged(days.dates, 1);
        days.spans = merged(days.spans, 0);
        days
    }

    /// Creates the union of `sets`.
    pub fn of_all(sets: &[Self]) -> Self {
        let joined = |ranges: fn(&Self) -> &Vec<(i64, i64)>, gap| {
            merged(sets.iter().flat_map(ranges).copied().collect(), gap)
        };
        Self {
            weekdays: sets.iter().fold(0, |bits, days| bits | days.weekdays),
            dates: joined(|days| &days.dates, 1),
            spans: joined(|days| &days.spans, 0),
        }
    }

    /// Returns true if the set has no day.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the number of entries in the set. Each weekday, range of dates and span is an entry.
    pub fn len(&self) -> usize {
        self.weekdays.count_ones() as usize + self.dates.len() + self.spans.len()
    }

    /// Returns the entries of the set as texts, such as `sat`. Each text parses back to the same
    /// entry.
    pub fn texts(&self) -> Vec<String> {
        let weekdays = WEEKDAYS
            .iter()
            .enumerate()
            .filter(|(day, _)| self.weekdays >> day & 1 == 1)
            .map(|(_, name)| (*name).to_owned());
        let dates = self.dates.iter().map(|(first, last)| {
            if first == last {
                Shown(*first).to_string()
            } else {
                format!("{}..{}", Shown(*first), Shown(*last))
            }
        });
        let instant = |at: i64| UnixMillis::new(at).unwrap_or(UnixMillis::EPOCH);
        let spans =
            self.spans.iter().map(|(first, end)| format!("{}..{}", instant(*first), instant(*end)));
        weekdays.chain(dates).chain(spans).collect()
    }

    /// Returns a mask of the days of a month that are in the set as weekdays or dates, with day 1
    /// as bit 1. The month has `length` days, and its first day has the day number `first`.
    fn whole_days(&self, first: i64, length: i64) -> u32 {
        let behind = self.dates.partition_point(|(_, last)| *last < first);
        let dates = self.dates.iter().skip(behind).take_while(|(begin, _)| *begin < first + length);
        let days = falling_on(self.weekdays, first, length);
        dates.fold(days, |days, (begin, last)| {
            days | between(begin - first + 1, last - first + 1, length)
        })
    }

    /// Returns a mask of the days of a month that a span of the set may touch, in any zone. Bit 1
    /// is day 1. The month has `length` days, and its first day has the day number `first`.
    fn days_near_spans(&self, first: i64, length: i64) -> u32 {
        let day = |millis: i64| millis.div_euclid(DAY * 1_000) - first + 1;
        let behind = self.spans.partition_point(|(_, end)| day(*end) + 2 < 1);
        let spans =
            self.spans.iter().skip(behind).take_while(|(begin, _)| day(*begin) - 2 <= length);
        spans.fold(0, |days, (begin, end)| days | between(day(*begin) - 2, day(*end) + 2, length))
    }

    /// Returns true if the local day with the number `day` is in the set as a weekday or a date.
    fn has_day(&self, day: i64) -> bool {
        self.weekdays >> weekday(day) & 1 == 1 || holds(&self.dates, day, 0).is_some()
    }
}

/// Returns a mask of the days `from` to `until`, both included, within a month of `length` days.
/// Bit 1 is day 1.
fn between(from: i64, until: i64, length: i64) -> u32 {
    let (from, until) = (from.max(1), until.min(length));
    if from > until { 0 } else { (u32::MAX >> (31 - (until - from))) << from }
}

struct Shown(i64);

impl fmt::Display for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Date { year, month, day } = Date::of(self.0);
        write!(f, "{year:04}-{month:02}-{day:02}")
    }
}

/// Sorts `ranges` and joins the ranges that touch or overlap. Two ranges touch if the second starts
/// at most `gap` after the end of the first.
fn merged(mut ranges: Vec<(i64, i64)>, gap: i64) -> Vec<(i64, i64)> {
    ranges.sort_unstable();
    let mut joined: Vec<(i64, i64)> = Vec::with_capacity(ranges.len());
    for (first, last) in ranges {
        match joined.last_mut() {
            Some(before) if first <= before.1 + gap => before.1 = before.1.max(last),
            _ => joined.push((first, last)),
        }
    }
    joined
}

/// Returns the range that contains `at`, or `None`. The end of a range is included if `open` is 0,
/// and excluded if `open` is 1.
fn holds(ranges: &[(i64, i64)], at: i64, open: i64) -> Option<(i64, i64)> {
    let behind = ranges.partition_point(|(first, _)| *first <= at);
    let range = ranges.get(behind.checked_sub(1)?)?;
    (at <= range.1 - open).then_some(*range)
}

/// The filter of `only_on` and `exclude`, which decides if an instant can be an occurrence.
#[derive(Debug, Clone)]
pub(crate) struct Filter {
    only_on: Option<DaySet>,
    exclude: DaySet,
}

impl Filter {
    /// Returns a filter, or `None` if `only_on` and `exclude` allow every instant.
    pub(crate) fn new(only_on: Option<DaySet>, exclude: DaySet) -> Option<Self> {
        (only_on.is_some() || !exclude.is_empty()).then_some(Self { only_on, exclude })
    }

    /// Returns the first instant that is not before `millis` and that the filter allows. Both are
    /// Unix times in ms. Returns `None` if no such instant comes before 2100.
    pub(crate) fn first_allowed(&self, zone: &Zone, millis: i64) -> Option<i64> {
        if self.allows(zone, millis) {
            return Some(millis);
        }
        let mut at = millis;
        loop {
            at = self.boundary_after(zone, at)?;
            if self.allows(zone, at) {
                return Some(at);
            }
        }
    }

    fn allows(&self, zone: &Zone, millis: i64) -> bool {
        self.left_out_by(zone, millis).is_none()
    }

    /// Returns the key, `only_on` or `exclude`, that excludes the instant `millis`. Returns `None`
    /// if the filter allows the instant.
    pub(crate) fn left_out_by(&self, zone: &Zone, millis: i64) -> Option<LeftOut> {
        let day = local_day(zone, millis);
        let has = |days: &DaySet| days.has_day(day) || holds(&days.spans, millis, 1).is_some();
        if has(&self.exclude) {
            return Some(LeftOut::Exclude);
        }
        (!self.only_on.as_ref().is_none_or(has)).then_some(LeftOut::OnlyOn)
    }

    /// Returns the next instant after `millis` at which the filter may begin to allow instants.
    /// This is a local midnight, the end of an excluded span, or the start of a span in `only_on`.
    /// Returns `None` if no such instant comes before 2100.
    fn boundary_after(&self, zone: &Zone, millis: i64) -> Option<i64> {
        let end_of_excluded = holds(&self.exclude.spans, millis, 1).map(|(_, end)| end);
        let spans = self.only_on.as_ref().map_or(&[][..], |days| &days.spans);
        let begin_of_wanted = spans
            .get(spans.partition_point(|(first, _)| *first <= millis))
            .map(|(first, _)| *first);
        let day_from = |day: i64| {
            first_named(day, LAST_DAY + 2, |year, month| self.days_of_month(year, month))
        };
        // If the clock goes back over midnight, the day of `millis` begins a second time.
        let midnight =
            std::iter::successors(day_from(local_day(zone, millis)), |day| day_from(day + 1))
                .find_map(|day| midnights(zone, day).into_iter().find(|at| *at > millis));
        [end_of_excluded, begin_of_wanted, midnight]
            .into_iter()
            .flatten()
            .min()
            .filter(|at| *at < UnixMillis::END)
    }

    /// Returns a mask of the local days of a month on which the filter may allow an instant. Bit 1
    /// is day 1. The mask has every day with an allowed instant, and may have further days.
    pub(crate) fn days_of_month(&self, year: i64, month: i64) -> u32 {
        let (first, length) = (Date::new(year, month, 1).number(), days_in_month(year, month));
        let all = between(1, length, length);
        let wanted = self.only_on.as_ref().map_or(all, |days| {
            days.whole_days(first, length) | days.days_near_spans(first, length)
        });
        wanted & !self.exclude.whole_days(first, length)
    }
}

/// Returns the day number of the local day that contains the instant `millis`.
pub(crate) fn local_day(zone: &Zone, millis: i64) -> i64 {
    let second = millis.div_euclid(1_000);
    let at = jiff::Timestamp::from_second(second).unwrap_or(jiff::Timestamp::UNIX_EPOCH);
    (second + i64::from(zone.rules().to_offset(at).seconds())).div_euclid(DAY)
}

/// Returns the instants at which the local day with the number `day` begins, the earlier first.
/// There are two instants if the clock goes back over midnight.
pub(crate) fn midnights(zone: &Zone, day: i64) -> Vec<i64> {
    let date = Date::of(day);
    let part = |number: i64| i8::try_from(number).unwrap_or(1);
    let Ok(date) = jiff::civil::Date::new(
        i16::try_from(date.year).unwrap_or(i16::MAX),
        part(date.month),
        part(date.day),
    ) else {
        return Vec::new();
    };
    let ambiguous = zone.rules().to_ambiguous_timestamp(date.at(0, 0, 0, 0));
    let is_gap = matches!(ambiguous.offset(), jiff::tz::AmbiguousOffset::Gap { .. });
    if is_gap {
        // If midnight is in a gap, the day begins with the first instant after the gap.
        let before = ambiguous.earlier().ok();
        let change = before.and_then(|before| zone.rules().following(before).next());
        return change.map(|change| change.timestamp().as_millisecond()).into_iter().collect();
    }
    let mut found: Vec<i64> = [ambiguous.earlier(), ambiguous.later()]
        .into_iter()
        .flatten()
        .map(jiff::Timestamp::as_millisecond)
        .collect();
    found.dedup();
    found
}
