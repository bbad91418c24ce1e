//! The description of an iCalendar rule in English: its frequency, days, times, positions, and its
//! start and end.
//!
//! The description also names the parts that a rule takes from its start.

use jiff::civil::DateTime;
use jiff::tz::TimeZone;

use super::day_words;
use super::field_words::{DAY, DescribedField, HOUR, MINUTE, MONTH, SECOND, WEEKDAY};
use super::number_words::{WEEKDAYS, counted, day_from_end, list, ordinal, place, stretches};
use super::time_of_day;
use crate::recurrence::{Freq, Recurrence, RecurrenceRule, Until};

/// Describes the rule, for example
/// `at 09:00, on the last Friday of the month, starting Monday 2026-01-05`.
pub(super) fn words(recurrence: &Recurrence) -> String {
    let rule = recurrence.rule();
    let mut words = if rule.freq < Freq::Hourly { by_day(rule) } else { by_clock(rule) };
    for more in
        [weeks(rule), day_words::months(&months(rule)), positions(rule)].into_iter().flatten()
    {
        words = format!("{words}, {more}");
    }
    format!("{words}, {}", stretch(rule, recurrence.start()))
}

fn numbers(values: &[i64]) -> Vec<u16> {
    values.iter().filter_map(|value| u16::try_from(*value).ok()).collect()
}

/// Describes a daily, weekly, monthly or yearly rule: its times of day, its interval, and the days
/// in each period.
fn by_day(rule: &RecurrenceRule) -> String {
    let [second, minute, hour] =
        [(&SECOND, &rule.seconds), (&MINUTE, &rule.minutes), (&HOUR, &rule.hours)]
            .map(|(kind, values)| DescribedField::of(kind, numbers(values)));
    let mut words = time_of_day::words(&second, &minute, &hour);
    let days = which_days(rule);
    let nth = u16::try_from(rule.interval).map_or_else(|_| rule.interval.to_string(), ordinal);
    let every = match (rule.freq, rule.interval) {
        (Freq::Daily, 1) if days.is_none() => Some("every day".to_owned()),
        (_, 1) => None,
        (Freq::Daily, days) => Some(format!("every {days} days")),
        (Freq::Weekly, _) => Some(format!("in every {nth} week")),
        (Freq::Monthly, _) => Some(format!("in every {nth} month")),
        _ => Some(format!("in every {nth} year")),
    };
    if let Some(every) = every {
        words = format!("{words} {every}");
    }
    days.map_or_else(|| words.clone(), |days| format!("{words}, {days}"))
}

/// Describes an hourly, minutely or secondly rule: its interval, and the times to which the rule is
/// limited.
fn by_clock(rule: &RecurrenceRule) -> String {
    let unit = match rule.freq {
        Freq::Hourly => "hour",
        Freq::Minutely => "minute",
        _ => "second",
    };
    let mut words = if rule.interval == 1 {
        format!("every {unit}")
    } else {
        format!("every {} {unit}s", rule.interval)
    };
    let (minutes, seconds) = (numbers(&rule.minutes), numbers(&rule.seconds));
    let at_second =
        (rule.freq < Freq::Secondly && seconds != [0]).then(|| counted(&seconds, "second"));
    let at_minute = (rule.freq == Freq::Hourly).then(|| counted(&minutes, "minute"));
    let at: Vec<String> = at_minute.into_iter().chain(at_second).collect();
    if !at.is_empty() {
        words = format!("{words} at {}", at.join(", "));
    }
    let within = [
        (&rule.hours, "hour", true),
        (&rule.minutes, "minute", rule.freq >= Freq::Minutely),
        (&rule.seconds, "second", rule.freq == Freq::Secondly),
    ];
    for (values, unit, _) in
        within.into_iter().filter(|(values, _, is_bound)| *is_bound && !values.is_empty())
    {
        words = format!("{words}, in {}", counted(&numbers(values), unit));
    }
    which_days(rule).map_or_else(|| words.clone(), |days| format!("{words}, {days}"))
}

/// Describes the days that match all parts of the rule. Returns `None` if every day matches.
fn which_days(rule: &RecurrenceRule) -> Option<String> {
    let of_month = day_words::words(&month_days(rule), &weekdays(rule));
    let of_year = year_days(rule);
    match (of_year, of_month) {
        (Some(of_year), Some(of_month)) => {
            let on = if of_month.starts_with("on ") { "" } else { "on " };
            Some(format!("{of_year}, but only {on}{of_month}"))
        }
        (of_year, of_month) => of_year.or(of_month),
    }
}

fn month_days(rule: &RecurrenceRule) -> DescribedField {
    if rule.month_days.is_empty() {
        return DescribedField::whole(&DAY);
    }
    let others = from_end(&rule.month_days).map(|day| day_from_end(day - 1)).collect();
    DescribedField { others, ..DescribedField::of(&DAY, numbers(&rule.month_days)) }
}

/// Returns the negative values as positive numbers counted from the end. The number 1 means the
/// last value and comes first.
fn from_end(values: &[i64]) -> impl Iterator<Item = u16> {
    values
        .iter()
        .rev()
        .filter(|value| **value < 0)
        .filter_map(|value| u16::try_from(value.unsigned_abs()).ok())
}

fn weekdays(rule: &RecurrenceRule) -> DescribedField {
    if rule.weekdays.is_empty() {
        return DescribedField::whole(&WEEKDAY);
    }
    // In a rule Monday is 0; in cron Sunday is 0.
    let from_sunday = |day: i64| u16::try_from((day + 1).rem_euclid(7)).unwrap_or(0);
    let every = rule.weekdays.iter().filter(|(nth, _)| *nth == 0).map(|(_, day)| from_sunday(*day));
    let numbered = rule.weekdays.iter().filter(|(nth, _)| *nth != 0).map(|(nth, day)| {
        let name = WEEKDAYS.get(usize::from(from_sunday(*day))).copied().unwrap_or_default();
        format!("the {} {name}", place(*nth))
    });
    let of = if rule.freq == Freq::Yearly && rule.months.is_empty() { "year" } else { "month" };
    DescribedField { others: numbered.collect(), of, ..DescribedField::of(&WEEKDAY, every) }
}

fn months(rule: &RecurrenceRule) -> DescribedField {
    if rule.months.is_empty() {
        DescribedField::whole(&MONTH)
    } else {
        DescribedField::of(&MONTH, numbers(&rule.months))
    }
}

/// Describes the days of a year, for example `on days 1 and 100 and the last day of the year`.
fn year_days(rule: &RecurrenceRule) -> Option<String> {
    let values = numbers(&rule.year_days);
    let forward = (!values.is_empty()).then(|| counted(&values, "day"));
    let phrase: Vec<String> = forward
        .into_iter()
        .chain(from_end(&rule.year_days).map(|day| day_from_end(day - 1)))
        .collect();
    (!phrase.is_empty()).then(|| format!("on {} of the year", list(&phrase)))
}

/// Describes the weeks of a year, for example `in weeks 1 to 3 and the last week of the year`.
fn weeks(rule: &RecurrenceRule) -> Option<String> {
    let values = numbers(&rule.weeks);
    let phrase = stretches(&values, u16::to_string);
    let forward = match values.as_slice() {
        [] => None,
        [_] => Some(format!("week {}", list(&phrase))),
        _ => Some(format!("weeks {}", list(&phrase))),
    };
    let back = from_end(&rule.weeks).map(|week| format!("the {} week", place(-i64::from(week))));
    let phrase: Vec<String> = forward.into_iter().chain(back).collect();
    (!phrase.is_empty()).then(|| format!("in {} of the year", list(&phrase)))
}

/// Describes the positions of `BYSETPOS`, for example `only the last of these times in each month`.
fn positions(rule: &RecurrenceRule) -> Option<String> {
    let of_each = |number: &i64| format!("the {}", place(*number));
    let (back, forward): (Vec<i64>, Vec<i64>) =
        rule.positions.iter().partition(|number| **number < 0);
    let phrase: Vec<String> = forward.iter().chain(back.iter().rev()).map(of_each).collect();
    let period = match rule.freq {
        Freq::Yearly => "year",
        Freq::Monthly => "month",
        Freq::Weekly => "week",
        Freq::Daily => "day",
        Freq::Hourly => "hour",
        Freq::Minutely => "minute",
        Freq::Secondly => "second",
    };
    (!phrase.is_empty()).then(|| format!("only {} of these times in each {period}", list(&phrase)))
}

/// Describes the start and the end of a rule. The weekday on which a week begins is added if the
/// occurrences depend on it.
fn stretch(rule: &RecurrenceRule, start: DateTime) -> String {
    let (hour, minute, second) =
        (i64::from(start.hour()), i64::from(start.minute()), i64::from(start.second()));
    let is_its_time = rule.freq < Freq::Hourly
        && rule.hours == [hour]
        && rule.minutes == [minute]
        && rule.seconds == [second];
    let from = if is_its_time { start.strftime("%A %F").to_string() } else { moment(start) };
    let mut words = if rule.interval == 1 {
        format!("starting {from}")
    } else {
        format!("counted from {from}")
    };
    match (rule.until, rule.count) {
        (Some(Until::Local(last)), Some(count)) => {
            let times =
                if count == 1 { "once, on" } else { &format!("{count} times in all, the last on") };
            words = format!("{words}, {times} {}", moment(local(last)));
        }
        (_, Some(count)) => words = format!("{words}, {count} times at most"),
        (Some(Until::Local(last)), None) => {
            words = format!("{words}, until {}", moment(local(last)));
        }
        (Some(Until::Real(last)), None) => {
            words = format!("{words}, until {} UTC", moment(local(last)));
        }
        (None, None) => {}
    }
    let weeks_matter = !rule.weeks.is_empty()
        || rule.freq == Freq::Weekly && (rule.interval > 1 || !rule.positions.is_empty());
    if weeks_matter && rule.week_start != 0 {
        let first = usize::try_from((rule.week_start + 1).rem_euclid(7)).unwrap_or(0);
        words =
            format!("{words}; weeks begin on {}", WEEKDAYS.get(first).copied().unwrap_or_default());
    }
    words
}

fn local(second: i64) -> DateTime {
    jiff::Timestamp::from_second(second).map_or(DateTime::MIN, |at| TimeZone::UTC.to_datetime(at))
}

/// Formats a local time, for example `Monday 2026-01-05 at 09:00`.
fn moment(at: DateTime) -> String {
    at.strftime(if at.second() == 0 { "%A %F at %H:%M" } else { "%A %F at %T" }).to_string()
}
