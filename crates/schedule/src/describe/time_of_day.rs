//! The description of the second, minute and hour fields in English.

use super::field_words::DescribedField;
use super::number_words::{counted, list, runs, step_of};

/// The maximum number of times of day that a description lists individually.
const TIMES: usize = 6;
/// The maximum number of ranges of hours that a description lists. More ranges are described in
/// another way.
const WINDOWS: usize = 3;

/// Describes the times of day, for example `at 02:30`, `every 15 minutes from 09:00 to 17:59`, or
/// `at minute 30 of every hour`.
pub(super) fn words(
    second: &DescribedField,
    minute: &DescribedField,
    hour: &DescribedField,
) -> String {
    let fixed = second.fixed().zip(minute.fixed()).zip(hour.fixed());
    let short = fixed.and_then(|((seconds, minutes), hours)| {
        one_by_one(&seconds, &minutes, &hours)
            .or_else(|| beat(&seconds, &minutes).map(|beat| throughout(beat, hour, &hours)))
            .or_else(|| hourly(&seconds, &minutes, &hours))
    });
    short.unwrap_or_else(|| at_large(second, minute, hour))
}

/// Formats a time as `02:30`, with seconds if they are not 0.
fn clock(hour: u16, minute: u16, second: u16) -> String {
    if second == 0 {
        format!("{hour:02}:{minute:02}")
    } else {
        format!("{hour:02}:{minute:02}:{second:02}")
    }
}

/// Lists each time of day, for example `at 02:30, 14:30 and 20:30`. Returns `None` if there are
/// several seconds or more than [`TIMES`] times.
fn one_by_one(seconds: &[u16], minutes: &[u16], hours: &[u16]) -> Option<String> {
    let &[second] = seconds else { return None };
    if minutes.len() * hours.len() > TIMES {
        return None;
    }
    let times: Vec<String> = hours
        .iter()
        .flat_map(|hour| minutes.iter().map(|minute| clock(*hour, *minute, second)))
        .collect();
    Some(format!("at {}", list(&times)))
}

/// Describes evenly spaced seconds or minutes of an hour, for example `every 15 minutes`. Returns
/// `None` if the spacing is uneven.
fn beat(seconds: &[u16], minutes: &[u16]) -> Option<String> {
    let even = |values: &[u16], unit: &str| match step_of(values)? {
        1 if values.len() == 60 => Some(format!("every {unit}")),
        step if step > 1
            && values.first() == Some(&0)
            && values.len() * usize::from(step) == 60 =>
        {
            Some(format!("every {step} {unit}s"))
        }
        _ => None,
    };
    if seconds == [0] {
        even(minutes, "minute")
    } else {
        even(seconds, "second").filter(|_| minutes.len() == 60)
    }
}

/// Adds the ranges of hours to `beat`, a description such as `every 15 minutes`.
fn throughout(beat: String, hour: &DescribedField, hours: &[u16]) -> String {
    if hour.is_whole() {
        return beat;
    }
    let windows = runs(hours);
    if windows.len() > WINDOWS {
        return format!("{beat} of {}", counted(hours, "hour"));
    }
    let phrase: Vec<String> =
        windows.iter().map(|(first, last)| format!("from {first:02}:00 to {last:02}:59")).collect();
    format!("{beat} {}", list(&phrase))
}

/// Describes a time that comes once an hour in several hours: `every 2 hours from 00:30 to 22:30`.
/// Returns `None` for other times, and for a time in every hour.
fn hourly(seconds: &[u16], minutes: &[u16], hours: &[u16]) -> Option<String> {
    let (&[second], &[minute]) = (seconds, minutes) else { return None };
    let step = step_of(hours).filter(|_| hours.len() < 24)?;
    let (first, last) =
        (clock(*hours.first()?, minute, second), clock(*hours.last()?, minute, second));
    let hours = if step == 1 { "every hour".to_owned() } else { format!("every {step} hours") };
    Some(format!("{hours} from {first} to {last}"))
}

/// Describes times for which no shorter form fits: `at second 15 of minutes 0, 7 and 13 of hours 9
/// to 17`.
fn at_large(second: &DescribedField, minute: &DescribedField, hour: &DescribedField) -> String {
    let (minutes, hours) = (phrase(minute), phrase(hour));
    let words = match second.fixed().as_deref() {
        Some([0]) => format!("{minutes} of {hours}"),
        _ if minute.is_whole() && hour.is_whole() => format!("{} of every minute", phrase(second)),
        _ => format!("{seconds} of {minutes} of {hours}", seconds = phrase(second)),
    };
    if words.starts_with("every ") { words } else { format!("at {words}") }
}

fn phrase(field: &DescribedField) -> String {
    if field.is_whole() {
        return format!("every {}", field.kind.unit);
    }
    let values: Vec<u16> = field.values.iter().copied().collect();
    let mut parts =
        if values.is_empty() { Vec::new() } else { vec![counted(&values, field.kind.unit)] };
    parts.extend(field.others.iter().cloned());
    list(&parts)
}
