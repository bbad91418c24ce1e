//! The parser of a time of day, and of an offset from UTC after that time.

use jiff::civil::Time;
use jiff::tz::Offset;

use super::time_vocabulary::{TimeFault, TimeWord};

/// Parses the time of day in `word`. Returns it with the number of words of `after` that belong to
/// the time: 1 for `9 am`, else 0.
pub(super) fn of_words(
    word: TimeWord<'_>,
    after: &[TimeWord<'_>],
) -> Result<(Time, usize), TimeFault> {
    match word.text {
        "noon" => return Ok((Time::constant(12, 0, 0, 0), 0)),
        "midnight" => return Ok((Time::midnight(), 0)),
        _ => {}
    }
    if let Some(half) = Half::of_end(word.text) {
        return half_day(word, word.part(0, word.text.len() - 2), half).map(|time| (time, 0));
    }
    if let Some(next) = after.first()
        && let Some(half) = Half::of_end(next.text).filter(|_| next.text.len() == 2)
    {
        return half_day(word, word, half).map(|time| (time, 1));
    }
    if !word.text.is_empty() && word.text.bytes().all(|b| b.is_ascii_digit()) {
        return Err(word.fault(format!(
            "{} is not a time of day, {}",
            word.shown(),
            meant_by(word.text)
        )));
    }
    digital(word).map(|time| (time, 0))
}

/// Returns a hint for a text of digits alone, such as `0900`: how to write the time or date that
/// may be meant.
fn meant_by(digits: &str) -> String {
    match (digits.len(), decimal(digits), digits.split_at_checked(2)) {
        (1 | 2, Some(0..=12), _) => format!("write \"{digits}:00\" or \"{digits}am\""),
        (1 | 2, Some(13..=23), _) => format!("write \"{digits}:00\""),
        (4, Some(0..=2359), Some((hour, minute))) => format!("write \"{hour}:{minute}\""),
        (8, ..) => format!(
            "write \"{}-{}-{}\" for a date or \"@{digits}\" for seconds since 1970",
            digits.get(..4).unwrap_or_default(),
            digits.get(4..6).unwrap_or_default(),
            digits.get(6..).unwrap_or_default(),
        ),
        (5.., ..) => format!("write \"@{digits}\" for seconds since 1970"),
        _ => "wanted a time of day such as \"09:00\" or \"9am\"".to_owned(),
    }
}

/// Parses a time of day with colons: `09:00`, `9:00:30` or `09:00:30.5`.
pub(super) fn digital(word: TimeWord<'_>) -> Result<Time, TimeFault> {
    if !word.text.starts_with(|c: char| c.is_ascii_digit()) || !word.text.contains(':') {
        return Err(word.unknown());
    }
    let refuse =
        || word.fault(format!("{} is not a time of day, wanted 00:00 to 23:59:59", word.shown()));
    let (clock, fraction) = word
        .text
        .split_once('.')
        .map_or((word.text, None), |(clock, fraction)| (clock, Some(fraction)));
    let parts: Vec<&str> = clock.split(':').collect();
    let (hour, minute, second) = match parts.as_slice() {
        [hour, minute] if fraction.is_none() => (hour, minute, &"00"),
        [hour, minute, second] => (hour, minute, second),
        _ => return Err(refuse()),
    };
    let number = |text: &str, shortest: usize| {
        let value = decimal(text).filter(|_| (shortest..=2).contains(&text.len()))?;
        i8::try_from(value).ok()
    };
    let (Some(hour), Some(minute), Some(second)) =
        (number(hour, 1), number(minute, 2), number(second, 2))
    else {
        return Err(refuse());
    };
    let nanos = fraction.map_or(Some(0), nanoseconds).ok_or_else(refuse)?;
    Time::new(hour, minute, second, nanos).map_err(|_| refuse())
}

/// Parses a time of day without colons: `0900` or `090030`.
pub(super) fn basic(word: TimeWord<'_>) -> Result<Time, TimeFault> {
    let refuse = || {
        word.fault(format!(
            "{} is not a time of day, wanted HHMM or HHMMSS such as 0930",
            word.shown()
        ))
    };
    let part = |from: usize| {
        word.text.get(from..from + 2).and_then(decimal).and_then(|part| i8::try_from(part).ok())
    };
    let second = match word.text.len() {
        4 => Some(0),
        6 => part(4),
        _ => None,
    };
    let (Some(hour), Some(minute), Some(second)) = (part(0), part(2), second) else {
        return Err(refuse());
    };
    Time::new(hour, minute, second, 0).map_err(|_| refuse())
}

/// Returns the nanoseconds that the digits after a decimal point mean. Digits past the ninth are
/// dropped. Returns `None` if `digits` is empty or has another character than a digit.
fn nanoseconds(digits: &str) -> Option<i32> {
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    digits.bytes().chain(std::iter::repeat(b'0')).take(9).try_fold(0, |value: i32, digit| {
        value.checked_mul(10)?.checked_add(i32::from(digit - b'0'))
    })
}

/// A half of the day: before or after noon.
#[derive(Clone, Copy)]
enum Half {
    Am,
    Pm,
}

impl Half {
    fn of_end(text: &str) -> Option<Self> {
        match text {
            _ if text.ends_with("am") => Some(Self::Am),
            _ if text.ends_with("pm") => Some(Self::Pm),
            _ => None,
        }
    }
}

/// Parses `9`, `9:30` or `9:30:15` as a time before or after noon. 12am is midnight, 12pm is noon.
/// `shown` is the word that a fault names.
fn half_day(shown: TimeWord<'_>, word: TimeWord<'_>, half: Half) -> Result<Time, TimeFault> {
    if !word.text.starts_with(|c: char| c.is_ascii_digit()) {
        return Err(shown.unknown());
    }
    let refuse =
        || shown.fault(format!("{} is not a time of day, wanted 12am to 11:59pm", shown.shown()));
    let time = match decimal(word.text).map(i8::try_from) {
        Some(Ok(hour)) => Time::new(hour, 0, 0, 0).map_err(|_| refuse())?,
        _ => digital(word).map_err(|_| refuse())?,
    };
    let hour = match (time.hour(), half) {
        (12, Half::Am) => 0,
        (12, Half::Pm) => 12,
        (hour @ 1..=11, Half::Am) => hour,
        (hour @ 1..=11, Half::Pm) => hour + 12,
        _ => return Err(refuse()),
    };
    time.with().hour(hour).build().map_err(|_| refuse())
}

/// Splits a clock time from the zone text after it, such as `z` or `+01:00`. The second result is
/// `None` if there is no zone text.
pub(super) fn split_zone(word: TimeWord<'_>) -> (TimeWord<'_>, Option<TimeWord<'_>>) {
    match word.text.find(['z', '+', '-']) {
        Some(place) => (word.part(0, place), Some(word.part(place, word.text.len()))),
        None => (word, None),
    }
}

/// Parses an offset from UTC: `z`, `+01:00`, `-0330` or `+01`.
pub(super) fn zone_offset(word: TimeWord<'_>) -> Result<Offset, TimeFault> {
    let refuse = || {
        word.fault(format!(
            "{} is not an offset from UTC, wanted Z or an offset such as \"+01:00\"",
            word.shown()
        ))
    };
    if word.text == "z" {
        return Ok(Offset::UTC);
    }
    let (sign, digits) = match (word.text.strip_prefix('+'), word.text.strip_prefix('-')) {
        (Some(digits), _) => (1, digits),
        (_, Some(digits)) => (-1, digits),
        _ => return Err(refuse()),
    };
    let digits = if digits.len() == 2 { format!("{digits}00") } else { digits.to_owned() };
    let (hours, minutes) =
        digits.split_once(':').or_else(|| digits.split_at_checked(2)).ok_or_else(refuse)?;
    let part = |text: &str, max: i16| {
        decimal(text).filter(|value| text.len() == 2 && *value <= max).map(i32::from)
    };
    let (Some(hours), Some(minutes)) = (part(hours, 23), part(minutes, 59)) else {
        return Err(refuse());
    };
    Offset::from_seconds(sign * (hours * 3600 + minutes * 60)).map_err(|_| refuse())
}

/// Parses a number that consists only of ASCII digits. Returns `None` for any other text, and for a
/// number that is too large.
pub(super) fn decimal(text: &str) -> Option<i16> {
    if !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit()) {
        text.parse().ok()
    } else {
        None
    }
}
