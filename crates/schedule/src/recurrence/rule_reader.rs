//! The parser of a recurrence rule, part by part. Every error names the character at which the
//! fault begins.

use super::recurrence_plan::RecurrencePlan;
use super::recurrence_rule::{Freq, RecurrenceRule, Until};
use crate::time::civil::{DAY, Date, weekday};

/// The reason why a rule is refused: the byte where the fault begins, and the problem.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RuleFault {
    pub(super) offset: usize,
    pub(super) problem: String,
}

/// The maximum `COUNT` of a rule. The limit keeps parsing fast, because the parser computes all
/// counted occurrences.
const MOST_COUNTED: i64 = 10_000;
/// The maximum number of steps to find the last occurrence of a rule with `COUNT`. Each examined
/// day and each time is a step.
const MOST_COUNTING_STEPS: u32 = 40_000;
const MOST_INTERVAL: i64 = 1_000_000;

const FREQS: [(&str, Freq); 7] = [
    ("YEARLY", Freq::Yearly),
    ("MONTHLY", Freq::Monthly),
    ("WEEKLY", Freq::Weekly),
    ("DAILY", Freq::Daily),
    ("HOURLY", Freq::Hourly),
    ("MINUTELY", Freq::Minutely),
    ("SECONDLY", Freq::Secondly),
];
const WEEKDAYS: [&str; 7] = ["MO", "TU", "WE", "TH", "FR", "SA", "SU"];
const NAMES: &str = "FREQ, INTERVAL, COUNT, UNTIL, WKST, BYMONTH, BYWEEKNO, BYYEARDAY, BYMONTHDAY, BYDAY, BYHOUR, BYMINUTE, BYSECOND or BYSETPOS";

/// A piece of the text of the rule, and the byte at which this piece begins.
#[derive(Debug, Clone, Copy)]
struct Piece<'a> {
    text: &'a str,
    offset: usize,
    whole: &'a str,
}

impl<'a> Piece<'a> {
    fn fault(self, problem: &str) -> RuleFault {
        let at = self.whole.get(..self.offset).map_or(0, |before| before.chars().count()) + 1;
        let found: String = self.text.chars().take(40).collect();
        RuleFault { offset: self.offset, problem: format!("{found:?} at character {at} {problem}") }
    }

    fn split(self, separator: char) -> impl Iterator<Item = Piece<'a>> {
        let mut offset = self.offset;
        self.text.split(separator).map(move |text| {
            let piece = Piece { text, offset, whole: self.whole };
            offset += text.len() + separator.len_utf8();
            piece
        })
    }

    fn number(self, least: i64, most: i64) -> Result<i64, RuleFault> {
        let digits = self.text.strip_prefix(['+', '-']).unwrap_or(self.text);
        let is_number = !digits.is_empty()
            && digits.len() < 10
            && digits.bytes().all(|byte| byte.is_ascii_digit());
        let number = if is_number { self.text.parse::<i64>().ok() } else { None };
        number.filter(|number| (least..=most).contains(number)).ok_or_else(|| {
            self.fault(&format!("is not valid, wanted a number from {least} to {most}"))
        })
    }

    /// Parses a list of numbers and sorts it. If `least` is negative, negative numbers count from
    /// the end.
    fn numbers(self, least: i64, most: i64) -> Result<Vec<i64>, RuleFault> {
        let number = |piece: Piece<'a>| match piece.number(least, most)? {
            0 if least < 0 => Err(piece.fault("is not valid, wanted a number that is not 0")),
            number => Ok(number),
        };
        let mut numbers = self.split(',').map(number).collect::<Result<Vec<_>, _>>()?;
        numbers.sort_unstable();
        numbers.dedup();
        Ok(numbers)
    }
}

/// Parses the rule `text` and prepares its plan. `start` is in seconds since 1970 by the wall
/// clock.
pub(super) fn read(text: &str, start: i64) -> Result<(RecurrenceRule, RecurrencePlan), RuleFault> {
    let mut rule = read_rule(text, start)?;
    let mut plan = RecurrencePlan::of(&rule);
    if let Some(count) = rule.count {
        let last = plan.last_of(count, MOST_COUNTING_STEPS).map_err(|_| RuleFault {
            offset: 0,
            problem: format!(
                "the rule has COUNT={count}, which takes too long to compute, wanted a smaller COUNT, or UNTIL"
            ),
        })?;
        rule.until = last.map(Until::Local);
        plan.until = rule.until;
    }
    Ok((rule, plan))
}

/// Parses the rule `text`. Parts that `text` does not name are taken from `start`, in seconds since
/// 1970 by the wall clock.
pub(super) fn read_rule(text: &str, start: i64) -> Result<RecurrenceRule, RuleFault> {
    let prefix =
        if text.get(..6).is_some_and(|start| start.eq_ignore_ascii_case("RRULE:")) { 6 } else { 0 };
    let body = Piece { text: text.get(prefix..).unwrap_or_default(), offset: prefix, whole: text };
    if body.text.is_empty() {
        return Err(RuleFault {
            offset: text.len(),
            problem: "the rule is empty, wanted a rule such as \"FREQ=WEEKLY;BYDAY=MO,WE\""
                .to_owned(),
        });
    }
    let mut seen: Vec<String> = Vec::new();
    let mut freq = None;
    let mut rule = RecurrenceRule {
        freq: Freq::Daily,
        interval: 1,
        until: None,
        count: None,
        week_start: 0,
        months: Vec::new(),
        weeks: Vec::new(),
        year_days: Vec::new(),
        month_days: Vec::new(),
        weekdays: Vec::new(),
        hours: Vec::new(),
        minutes: Vec::new(),
        seconds: Vec::new(),
        positions: Vec::new(),
        start,
    };
    let mut day_part = None;
    for part in body.split(';') {
        let Some((name, value)) = part.text.split_once('=') else {
            return Err(part.fault("has no =, wanted NAME=VALUE such as FREQ=DAILY"));
        };
        let value = Piece { text: value, offset: part.offset + name.len() + 1, whole: text };
        let name = name.to_ascii_uppercase();
        if seen.contains(&name) {
            return Err(part.fault("is given twice, wanted each part once"));
        }
        match name.as_str() {
            "FREQ" => {
                let known = FREQS.iter().find(|(word, _)| value.text.eq_ignore_ascii_case(word));
                let known = known.ok_or_else(|| {
                    value.fault("is not a frequency, wanted YEARLY, MONTHLY, WEEKLY, DAILY, HOURLY, MINUTELY or SECONDLY")
                })?;
                freq = Some(known.1);
            }
            "INTERVAL" => rule.interval = value.number(1, MOST_INTERVAL)?,
            "COUNT" => rule.count = Some(value.number(1, MOST_COUNTED)?),
            "UNTIL" => rule.until = Some(until(value)?),
            "WKST" => rule.week_start = day_named(value)?,
            "BYMONTH" => rule.months = value.numbers(1, 12)?,
            "BYWEEKNO" => {
                (rule.weeks, day_part) = (value.numbers(-53, 53)?, day_part.or(Some(part)));
            }
            "BYYEARDAY" => rule.year_days = value.numbers(-366, 366)?,
            "BYMONTHDAY" => rule.month_days = value.numbers(-31, 31)?,
            "BYDAY" => {
                for item in value.split(',') {
                    let split = item.text.char_indices().rev().nth(1).map_or(0, |(at, _)| at);
                    let (number, name) = (
                        item.text.get(..split).unwrap_or_default(),
                        item.text.get(split..).unwrap_or_default(),
                    );
                    let day =
                        day_named(Piece { text: name, offset: item.offset + split, whole: text })?;
                    let nth = match number {
                        "" => 0,
                        number => Piece { text: number, ..item }
                            .numbers(-53, 53)?
                            .first()
                            .copied()
                            .unwrap_or(0),
                    };
                    if nth != 0 {
                        day_part = Some(item);
                    }
                    rule.weekdays.push((nth, day));
                }
            }
            "BYHOUR" => rule.hours = value.numbers(0, 23)?,
            "BYMINUTE" => rule.minutes = value.numbers(0, 59)?,
            "BYSECOND" => rule.seconds = value.numbers(0, 59)?,
            "BYSETPOS" => rule.positions = value.numbers(-366, 366)?,
            _ => return Err(part.fault(&format!("is not a part of a rule, wanted {NAMES}"))),
        }
        seen.push(name);
    }
    let Some(freq) = freq else {
        return Err(body.fault("has no frequency, wanted a FREQ part such as FREQ=DAILY"));
    };
    rule.freq = freq;
    if seen.iter().any(|name| name == "COUNT") && rule.until.is_some() {
        return Err(body.fault("has both COUNT and UNTIL, wanted only one of the two"));
    }
    refuse_misfits(&rule, body, day_part)?;
    fill_in(&mut rule);
    Ok(rule)
}

/// Returns a fault for a combination of parts that RFC 5545 forbids.
fn refuse_misfits(
    rule: &RecurrenceRule,
    body: Piece<'_>,
    day_part: Option<Piece<'_>>,
) -> Result<(), RuleFault> {
    let is_numbered = rule.weekdays.iter().any(|(nth, _)| *nth != 0);
    let at = day_part.unwrap_or(body);
    if is_numbered && (rule.freq > Freq::Monthly || !rule.weeks.is_empty()) {
        return Err(at.fault(
            "has a numbered weekday, wanted FREQ=MONTHLY, or FREQ=YEARLY without BYWEEKNO",
        ));
    }
    if !rule.weeks.is_empty() && rule.freq != Freq::Yearly {
        return Err(at.fault("has BYWEEKNO, wanted FREQ=YEARLY"));
    }
    if !rule.year_days.is_empty() && matches!(rule.freq, Freq::Monthly | Freq::Weekly | Freq::Daily)
    {
        return Err(body.fault("has BYYEARDAY, wanted a FREQ other than MONTHLY, WEEKLY and DAILY"));
    }
    if !rule.month_days.is_empty() && rule.freq == Freq::Weekly {
        return Err(body.fault("has BYMONTHDAY, wanted a FREQ other than WEEKLY"));
    }
    let is_restricted = [
        &rule.months,
        &rule.weeks,
        &rule.year_days,
        &rule.month_days,
        &rule.hours,
        &rule.minutes,
        &rule.seconds,
    ]
    .iter()
    .any(|list| !list.is_empty())
        || !rule.weekdays.is_empty();
    if !rule.positions.is_empty() && !is_restricted {
        return Err(
            body.fault("has BYSETPOS without another BY part, wanted a BY part beside BYSETPOS")
        );
    }
    Ok(())
}

/// Sets the days and times that the rule does not name to the day and time of its start.
fn fill_in(rule: &mut RecurrenceRule) {
    let (number, second) = (rule.start.div_euclid(DAY), rule.start.rem_euclid(DAY));
    let date = Date::of(number);
    let names_days = !rule.weeks.is_empty()
        || !rule.year_days.is_empty()
        || !rule.month_days.is_empty()
        || !rule.weekdays.is_empty();
    if !names_days {
        match rule.freq {
            Freq::Yearly => {
                if rule.months.is_empty() {
                    rule.months = vec![date.month];
                }
                rule.month_days = vec![date.day];
            }
            Freq::Monthly => rule.month_days = vec![date.day],
            Freq::Weekly => rule.weekdays = vec![(0, weekday(number))],
            _ => {}
        }
    }
    let or = |list: &mut Vec<i64>, is_needed: bool, value: i64| {
        if list.is_empty() && is_needed {
            *list = vec![value];
        }
    };
    or(&mut rule.hours, rule.freq < Freq::Hourly, second / 3_600);
    or(&mut rule.minutes, rule.freq < Freq::Minutely, second / 60 % 60);
    or(&mut rule.seconds, rule.freq < Freq::Secondly, second % 60);
}

fn day_named(piece: Piece<'_>) -> Result<i64, RuleFault> {
    let day = WEEKDAYS.iter().position(|name| piece.text.eq_ignore_ascii_case(name));
    day.and_then(|day| i64::try_from(day).ok())
        .ok_or_else(|| piece.fault("is not a weekday, wanted MO, TU, WE, TH, FR, SA or SU"))
}

/// Parses the value of `UNTIL`, such as `20261231T235959Z`. Without `Z` the time counts by the
/// wall clock. A date alone means that this day is the last day.
fn until(piece: Piece<'_>) -> Result<Until, RuleFault> {
    let refuse =
        || piece.fault("is not a date or time, wanted a text such as 20261231T235959Z or 20261231");
    let text = piece.text;
    let (moment, is_utc) =
        text.strip_suffix(['Z', 'z']).map_or((text, false), |moment| (moment, true));
    let all_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let part = |from: usize, to: usize| {
        moment
            .get(from..to)
            .filter(|part| all_digits(part))
            .and_then(|part| part.parse::<i8>().ok())
    };
    let year =
        moment.get(..4).filter(|part| all_digits(part)).and_then(|part| part.parse::<i16>().ok());
    let date = year
        .zip(part(4, 6))
        .zip(part(6, 8))
        .and_then(|((year, month), day)| jiff::civil::Date::new(year, month, day).ok());
    let date = date.ok_or_else(refuse)?;
    if moment.len() == 8 && !is_utc {
        return Ok(Until::Local(local_second(date.at(23, 59, 59, 0))));
    }
    let has_mark = moment.len() == 15 && matches!(moment.as_bytes().get(8), Some(b'T' | b't'));
    let clock = part(9, 11).zip(part(11, 13)).zip(part(13, 15)).filter(|_| has_mark);
    let clock = clock
        .and_then(|((hour, minute), second)| jiff::civil::Time::new(hour, minute, second, 0).ok());
    let second = local_second(date.to_datetime(clock.ok_or_else(refuse)?));
    Ok(if is_utc { Until::Real(second) } else { Until::Local(second) })
}

/// Converts a wall clock time to seconds since 1970 by the wall clock.
pub(super) fn local_second(at: jiff::civil::DateTime) -> i64 {
    at.to_zoned(jiff::tz::TimeZone::UTC).map_or(0, |at| at.timestamp().as_second())
}
