//! The parser of the day of an instant: `today`, `next fri`, `24 dec 2026`, `2026-12-24`.
//!
//! Invariant: a date of numbers alone is read only as year-month-day. Any other order means
//! different dates in different countries. Such a date is refused with the dates that may be
//! meant.

use jiff::civil::{Date, Weekday};

use super::clock_time::decimal;
use super::time_vocabulary::{TimeFault, TimeWord};

/// The day of an instant, as the words of the text name it.
#[derive(Clone, Copy)]
pub(super) enum NamedDay {
    /// The text names no day. The next instant at which the clock shows the time of day counts.
    Unsaid,
    Exactly(Date),
    /// This date, or the date a week later if the time of day on this date is past.
    Weekly(Date),
    /// This month and day, in the first year in which that date exists and is still to come.
    Yearly(i8, i8),
}

const MONTHS: [&str; 12] = [
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
];

/// Parses the day at the start of `words`. Returns it with the number of its words. Returns `None`
/// if the first words name no day.
pub(super) fn take(
    words: &[TimeWord<'_>],
    today: Date,
) -> Result<Option<(NamedDay, usize)>, TimeFault> {
    let Some(first) = words.first() else { return Ok(None) };
    let found = match first.text.trim_end_matches(',') {
        "today" => (NamedDay::Exactly(today), 1),
        "tomorrow" => (NamedDay::Exactly(next_day(today)), 1),
        "yesterday" => (NamedDay::Exactly(today.yesterday().unwrap_or(today)), 1),
        "next" => {
            let Some(second) = words.get(1) else {
                return Err(first.fault(format!(
                    "{} is not followed by a weekday, wanted a weekday as in \"next fri 17:00\"",
                    first.shown()
                )));
            };
            let Some(weekday) = weekday(second.text) else {
                return Err(second.fault(format!(
                    "{} after \"next\" is not a weekday, wanted a weekday as in \"next fri 17:00\"",
                    second.shown()
                )));
            };
            (NamedDay::Weekly(first_on_or_after(next_day(today), weekday)), 2)
        }
        text => match weekday(text) {
            Some(weekday) => match take_date(words.get(1..).unwrap_or_default(), today)? {
                Some((day, used)) => (of_weekday(day, weekday, *first)?, used + 1),
                None => (NamedDay::Weekly(first_on_or_after(today, weekday)), 1),
            },
            None => return take_date(words, today),
        },
    };
    Ok(Some(found))
}

/// Parses a date at the start of the words: `2026-12-24`, `dec 24` or `24 dec 2026`.
fn take_date(words: &[TimeWord<'_>], today: Date) -> Result<Option<(NamedDay, usize)>, TimeFault> {
    let Some(first) = words.first() else { return Ok(None) };
    if let Some((month, day)) = month_and_day(first.text) {
        return if yearly(month, day, today.year()).is_some() {
            Ok(Some((NamedDay::Yearly(month, day), 1)))
        } else {
            Err(first.fault(format!(
                "{} is not a month and a day that exists, wanted a date such as \"2026-12-24\"",
                first.shown()
            )))
        };
    }
    if begins_with_a_date(first.text) {
        return date(*first).map(|date| Some((NamedDay::Exactly(date), 1)));
    }
    refuse_other_orders(*first)?;
    let second = words.get(1);
    let (month, day, day_word) = match (month(first.text), second.and_then(|word| month(word.text)))
    {
        (Some(month), _) => {
            let Some(day) = second else {
                return Err(first.fault(format!(
                    "{} is not followed by a day, wanted a day as in \"dec 24\"",
                    first.shown()
                )));
            };
            (month, day_number(*day)?, *day)
        }
        (None, Some(month)) => match day_number(*first) {
            Ok(day) => (month, day, *first),
            // Here the first word is not a day, but a time of day.
            Err(_) => return Ok(None),
        },
        (None, None) => return Ok(None),
    };
    let year = words
        .get(2)
        .map(|word| word.text.trim_end_matches(','))
        .filter(|text| text.len() == 4)
        .and_then(decimal);
    let exists = |year: i16| Date::new(year, month, day).ok();
    let refuse = |what: String| {
        day_word.fault(format!("{what} is not a date from 1970 to 2099, wanted a day that exists"))
    };
    match year {
        Some(year) => {
            let date = exists(year).filter(|_| (1970..=2099).contains(&year));
            let date = date.ok_or_else(|| refuse(format!("{day} {} {year}", short(month))))?;
            Ok(Some((NamedDay::Exactly(date), 3)))
        }
        None if (0..8).any(|ahead| exists(today.year() + ahead).is_some()) => {
            Ok(Some((NamedDay::Yearly(month, day), 2)))
        }
        None => Err(refuse(format!("{day} {}", short(month)))),
    }
}

/// Parses the number of a day in a month: `24`, `24th` or `24.`.
fn day_number(word: TimeWord<'_>) -> Result<i8, TimeFault> {
    let text = word.text.trim_end_matches([',', '.']);
    let digits = ["st", "nd", "rd", "th"]
        .iter()
        .find_map(|ending| text.strip_suffix(ending))
        .unwrap_or(text);
    let day = decimal(digits).filter(|_| digits.len() <= 2).and_then(|day| i8::try_from(day).ok());
    day.ok_or_else(|| {
        word.fault(format!("{} is not a day of a month, wanted 1 to 31", word.shown()))
    })
}

/// Returns `day` if it falls on `weekday`, else a fault at `word`.
fn of_weekday(day: NamedDay, weekday: Weekday, word: TimeWord<'_>) -> Result<NamedDay, TimeFault> {
    match day {
        NamedDay::Exactly(date) if date.weekday() != weekday => Err(word.fault(format!(
            "{} is not the weekday of {date}, wanted {:?} or no weekday",
            word.shown(),
            date.weekday()
        ))),
        NamedDay::Yearly(month, day) => {
            let month = short(month);
            Err(word.fault(format!(
                "{} is a weekday before a date without a year, \
                 wanted a year as in \"{day} {month} 2030\"",
                word.shown()
            )))
        }
        day => Ok(day),
    }
}

/// Returns true if the text is a month and a day without a year, such as `12-24`.
pub(super) fn is_month_and_day(text: &str) -> bool {
    month_and_day(text).is_some()
}

fn month_and_day(text: &str) -> Option<(i8, i8)> {
    let (month, day) = text.split_once('-').filter(|(month, day)| month.len() + day.len() == 4)?;
    let number = |part: &str| {
        decimal(part).filter(|_| part.len() == 2).and_then(|value| i8::try_from(value).ok())
    };
    Some((number(month)?, number(day)?))
}

/// Returns true if the text is meant as a date. Such a text begins with digits and a hyphen, or
/// with 8 digits and a `t`.
pub(super) fn begins_with_a_date(text: &str) -> bool {
    let after = text.trim_start_matches(|c: char| c.is_ascii_digit());
    after.len() < text.len() && after.starts_with('-')
        || text.len() - after.len() == 8 && after.starts_with('t')
}

/// Returns true if the text is meant as a date of numbers, in any order of year, month and day.
pub(super) fn is_numeric(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_digit())
        && text.contains(['-', '/', '.'])
        && !text.contains(':')
        || begins_with_a_date(text)
}

/// Parses `2026-12-24`, or the basic form `20261224`.
pub(super) fn date(word: TimeWord<'_>) -> Result<Date, TimeFault> {
    refuse_other_orders(word)?;
    let refuse = || {
        word.fault(format!(
            "{} is not a date from 1970 to 2099, wanted a date such as \"2026-12-24\"",
            word.shown()
        ))
    };
    let is_basic = word.text.len() == 8 && word.text.bytes().all(|b| b.is_ascii_digit());
    let part = |from: usize, to: usize| word.text.get(from..to).unwrap_or_default();
    let parts: Vec<&str> = if is_basic {
        vec![part(0, 4), part(4, 6), part(6, 8)]
    } else {
        word.text.split('-').collect()
    };
    let [year, month, day] = parts.as_slice() else { return Err(refuse()) };
    let number =
        |text: &str, digits: usize| if text.len() == digits { decimal(text) } else { None };
    let (Some(year), Some(month), Some(day)) = (number(year, 4), number(month, 2), number(day, 2))
    else {
        return Err(refuse());
    };
    let (Ok(month), Ok(day)) = (i8::try_from(month), i8::try_from(day)) else {
        return Err(refuse());
    };
    Date::new(year, month, day).ok().filter(|_| (1970..=2099).contains(&year)).ok_or_else(refuse)
}

/// Returns a fault for a date such as `02/03/2026`. The fault names every date that the text may
/// mean.
fn refuse_other_orders(word: TimeWord<'_>) -> Result<(), TimeFault> {
    let Some(sign) = word.text.chars().find(|c| matches!(c, '/' | '.' | '-')) else {
        return Ok(());
    };
    let parts: Vec<&str> = word.text.trim_end_matches(',').split(sign).collect();
    if parts.iter().any(|part| part.is_empty() || decimal(part).is_none()) {
        return Ok(());
    }
    let value = |text: &str| decimal(text).and_then(|value| i8::try_from(value).ok()).unwrap_or(0);
    let in_full = |year: &str, month: i8, day: i8| {
        let date = Date::new(decimal(year)?, month, day)
            .ok()
            .filter(|date| (1970..=2099).contains(&date.year()))?;
        Some(format!("{:?}", date.to_string()))
    };
    let without_year = |month: i8, day: i8| {
        // The year 2000 is a leap year, so it has every day that a date may name.
        Date::new(2000, month, day).ok().map(|_| format!("\"{day} {}\"", short(month)))
    };
    let readings = match *parts.as_slice() {
        [_, _] if sign != '/' => return Ok(()),
        [year, _, _] if year.len() == 4 && sign == '-' => return Ok(()),
        [year, month, day] if year.len() == 4 => vec![in_full(year, value(month), value(day))],
        [one, other, year] if year.len() == 4 => {
            vec![in_full(year, value(other), value(one)), in_full(year, value(one), value(other))]
        }
        [one, other] => {
            vec![without_year(value(other), value(one)), without_year(value(one), value(other))]
        }
        _ => Vec::new(),
    };
    let mut readings: Vec<String> = readings.into_iter().flatten().collect();
    readings.dedup();
    let wanted = if readings.is_empty() {
        "a date as in \"2026-12-24\"".to_owned()
    } else {
        readings.join(" or ")
    };
    Err(word
        .fault(format!("{} has an unclear order of day and month, wanted {wanted}", word.shown())))
}

/// Returns the weekday with this name, of three letters or in full. Returns `None` for any other
/// text.
fn weekday(text: &str) -> Option<Weekday> {
    const DAYS: [(&str, Weekday); 7] = [
        ("monday", Weekday::Monday),
        ("tuesday", Weekday::Tuesday),
        ("wednesday", Weekday::Wednesday),
        ("thursday", Weekday::Thursday),
        ("friday", Weekday::Friday),
        ("saturday", Weekday::Saturday),
        ("sunday", Weekday::Sunday),
    ];
    DAYS.iter().find(|(name, _)| *name == text || name.get(..3) == Some(text)).map(|(_, day)| *day)
}

/// Returns the month with this name, of three letters or in full. January is 1. Returns `None` for
/// any other text.
fn month(text: &str) -> Option<i8> {
    let text = text.trim_end_matches(',');
    let place = MONTHS.iter().position(|name| *name == text || name.get(..3) == Some(text))?;
    i8::try_from(place + 1).ok()
}

fn short(month: i8) -> &'static str {
    let name = usize::try_from(month).ok().and_then(|month| MONTHS.get(month.checked_sub(1)?));
    name.and_then(|name| name.get(..3)).unwrap_or_default()
}

pub(super) fn next_day(date: Date) -> Date {
    date.tomorrow().unwrap_or(date)
}

/// Returns the first date that falls on `weekday` and is not before `date`.
fn first_on_or_after(date: Date, weekday: Weekday) -> Date {
    if date.weekday() == weekday { date } else { date.nth_weekday(1, weekday).unwrap_or(date) }
}

/// Returns the first date with this month and day in `year` or later. Only 29 February may need a
/// later year. Returns `None` if no year has such a day.
pub(super) fn yearly(month: i8, day: i8, year: i16) -> Option<Date> {
    (0..=8).find_map(|ahead| Date::new(year.checked_add(ahead)?, month, day).ok())
}
