//! Durations as users write them: the only parser and the only formatter, for files, flags and
//! relative times.
//!
//! jiff prints durations here, but does not parse them. The parser of jiff refuses `1.5d`,
//! `1.5h30m` and `P1.5D`, but accepts `5m ago`, `01:30:00`, `1mo` and `5us`. Its errors do not name
//! the wanted units.
//!
//! Invariant: a parsed duration is a whole number of milliseconds and at most [`LONGEST`]. Its text
//! from [`format_duration`] parses back to the same duration.

use std::time::Duration;

use jiff::fmt::friendly::{Designator, Spacing, SpanPrinter};
use jiff::{Span, SpanRound};

/// The maximum duration: 100 years of 365.25 days.
pub const LONGEST: Duration = Duration::from_secs(36_525 * 86_400);

/// The maximum length of a text, in bytes.
const LONGEST_TEXT: usize = 100;
const FORMS: &str = "wanted numbers with the units w d h m s ms, as in \"90s\" or \"2h30m\"";
const ISO_FORMS: &str = "wanted an ISO 8601 duration of weeks, days, hours, minutes and seconds, as in \"PT1H30M\" or \"P1D\"";
const NANOS_PER_MILLI: u128 = 1_000_000;

/// The error for a text that is not a duration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("duration {found:?} {problem}")]
pub struct DurationError {
    /// The refused text, cut if it is long.
    pub found: String,
    /// The message: the fault, and a valid form.
    pub problem: String,
}

const WEEK: u128 = 604_800_000;
const DAY: u128 = 86_400_000;
const HOUR: u128 = 3_600_000;
const MINUTE: u128 = 60_000;
const SECOND: u128 = 1_000;

/// The units of a duration, the largest first. Each has its length in milliseconds and its names.
const UNITS: [(u128, &[&str]); 6] = [
    (WEEK, &["w", "week", "weeks"]),
    (DAY, &["d", "day", "days"]),
    (HOUR, &["h", "hr", "hrs", "hour", "hours"]),
    (MINUTE, &["m", "min", "mins", "minute", "minutes"]),
    (SECOND, &["s", "sec", "secs", "second", "seconds"]),
    (1, &["ms", "milli", "millis", "millisecond", "milliseconds"]),
];

/// Parses a duration: `90s`, `250ms`, `2h30m`, `1h 30m`, `1.5h`, `1d`, `1w`, `10 minutes`, or
/// `PT1H30M` (ISO 8601).
///
/// A day always has 24 hours and a week 7 days, even when clocks change. The error names the found
/// text and a valid form.
pub fn parse_duration(text: &str) -> Result<Duration, DurationError> {
    let refuse = |problem: String| DurationError { found: cut(text), problem };
    let body = text.trim();
    if body.is_empty() {
        return Err(refuse(format!("is empty, {FORMS}")));
    }
    if body.len() > LONGEST_TEXT {
        return Err(refuse(format!("is {} bytes long, wanted at most {LONGEST_TEXT}", body.len())));
    }
    if body.starts_with(['-', '\u{2212}']) {
        return Err(refuse("is negative, wanted 0s or more".to_owned()));
    }
    if body.bytes().all(|b| b.is_ascii_digit()) {
        return Err(refuse(format!("has no unit, write \"{}s\"", cut(body))));
    }
    let nanos = match body.strip_prefix(['P', 'p']) {
        Some(rest) => iso_nanos(&rest.to_ascii_uppercase()),
        None => unit_nanos(body),
    };
    let nanos = nanos.map_err(refuse)?;
    if nanos > LONGEST.as_nanos() {
        return Err(refuse("is too long, wanted at most 100 years".to_owned()));
    }
    if nanos % NANOS_PER_MILLI != 0 {
        return Err(refuse("has fractions of a millisecond, wanted whole milliseconds".to_owned()));
    }
    u64::try_from(nanos / NANOS_PER_MILLI)
        .map(Duration::from_millis)
        .map_err(|_| refuse("is too long, wanted at most 100 years".to_owned()))
}

/// Returns the shortest compound of units that parses back to `duration`: `2h30m`, `1d`, `250ms`,
/// or `0s` for zero.
///
/// Weeks appear only if no other unit is needed (`2w`, but `30d`). A part below a millisecond is
/// cut off.
pub fn format_duration(duration: Duration) -> String {
    const PRINTER: SpanPrinter =
        SpanPrinter::new().designator(Designator::Compact).spacing(Spacing::None);
    let millis = duration.as_millis();
    if millis > 0 && millis.is_multiple_of(WEEK) {
        return format!("{}w", millis / WEEK);
    }
    let span = i64::try_from(millis).ok().and_then(|millis| {
        let days = SpanRound::new().largest(jiff::Unit::Day).days_are_24_hours();
        Span::new().try_milliseconds(millis).ok()?.round(days).ok()
    });
    // A span of jiff has at most 19,998 years. A longer duration is printed in days.
    span.map_or_else(|| format!("{}d", millis / DAY), |span| PRINTER.span_to_string(&span))
}

/// Parses numbers with units, such as `2h30m`, to nanoseconds. Large units come first, and each
/// unit appears at most once.
fn unit_nanos(mut rest: &str) -> Result<u128, String> {
    let mut total: u128 = 0;
    let mut last = None;
    while !rest.is_empty() {
        let (number, after) = split_while(rest, |c| c.is_ascii_digit() || c == '.');
        if number.is_empty() {
            return Err(format!("has {:?} in the place of a number, {FORMS}", cut(rest)));
        }
        let (word, after) = split_while(after.trim_start(), char::is_alphabetic);
        if word.is_empty() {
            return Err(format!("has no unit after the number {}, {FORMS}", cut(number)));
        }
        let unit = UNITS.iter().find(|(_, words)| words.contains(&word));
        let (millis, _) =
            *unit.ok_or_else(|| format!("has the unknown unit {:?}, {FORMS}", cut(word)))?;
        if last.is_some_and(|before| before <= millis) {
            return Err(format!(
                "has the unit {word:?} out of order, wanted each unit once, with larger units first"
            ));
        }
        last = Some(millis);
        total = total.saturating_add(nanos_of(number, millis)?);
        rest = after.trim_start();
    }
    Ok(total)
}

/// Parses the text after the `P` of an ISO 8601 duration, in upper case, to nanoseconds.
fn iso_nanos(text: &str) -> Result<u128, String> {
    let (days, time) = match text.split_once('T') {
        Some((_, "")) => return Err(format!("has nothing after the T, {ISO_FORMS}")),
        Some((days, time)) => (days, time),
        None if text.is_empty() => return Err(format!("has nothing after the P, {ISO_FORMS}")),
        None => (text, ""),
    };
    if days.contains(['Y', 'M']) {
        return Err(format!("has years or months, which have no fixed length, {ISO_FORMS}"));
    }
    let total = iso_part(days, &[("W", WEEK), ("D", DAY)])?;
    let time = iso_part(time, &[("H", HOUR), ("M", MINUTE), ("S", SECOND)])?;
    Ok(total.saturating_add(time))
}

fn iso_part(mut rest: &str, letters: &[(&str, u128)]) -> Result<u128, String> {
    let mut total: u128 = 0;
    let mut letters = letters.iter();
    while !rest.is_empty() {
        let (number, after) = split_while(rest, |c| c.is_ascii_digit() || c == '.');
        let found = letters
            .find_map(|(letter, unit)| after.strip_prefix(letter).map(|after| (*unit, after)));
        let (Some((unit, after)), false) = (found, number.is_empty()) else {
            return Err(format!(
                "has {:?} in the place of a number with a unit, {ISO_FORMS}",
                cut(rest)
            ));
        };
        total = total.saturating_add(nanos_of(number, unit)?);
        rest = after;
    }
    Ok(total)
}

/// Returns the exact number of nanoseconds in `number` units, each `millis` milliseconds long. A
/// result that is too large becomes `u128::MAX`, which the caller refuses.
fn nanos_of(number: &str, millis: u128) -> Result<u128, String> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    let digits = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    if !digits(whole) || !digits(fraction) {
        return Err(format!("has the number {:?}, wanted digits as in \"1.5\"", cut(number)));
    }
    let fraction = fraction.trim_end_matches('0');
    if fraction.len() > 9 {
        return Err(format!("has the number {:?}, wanted at most 9 decimals", cut(number)));
    }
    let size = millis * NANOS_PER_MILLI;
    let whole = whole.parse::<u128>().unwrap_or(u128::MAX).saturating_mul(size);
    let scale = (0..fraction.len()).fold(1_u128, |scale, _| scale * 10);
    let part = fraction.parse::<u128>().unwrap_or(0) * size;
    if !part.is_multiple_of(scale) {
        return Err("has fractions of a millisecond, wanted whole milliseconds".to_owned());
    }
    Ok(whole.saturating_add(part / scale))
}

fn split_while(text: &str, belongs: impl Fn(char) -> bool) -> (&str, &str) {
    let end = text.find(|c| !belongs(c)).unwrap_or(text.len());
    text.split_at(end)
}

/// Cuts `text` to a length that fits in a one-line message.
fn cut(text: &str) -> String {
    match text.char_indices().nth(60) {
        Some((end, _)) => format!("{}...", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn millis(text: &str) -> u64 {
        u64::try_from(parse_duration(text).unwrap().as_millis()).unwrap()
    }

    fn refusal(text: &str) -> String {
        parse_duration(text).unwrap_err().to_string()
    }

    #[test]
    fn every_form_people_write_is_read() {
        for (text, wanted) in [
            ("90s", 90_000),
            ("250ms", 250),
            ("2h30m", 9_000_000),
            ("1h 30m", 5_400_000),
            (" 1d ", 86_400_000),
            ("1w", 604_800_000),
            ("1.5h", 5_400_000),
            ("0.25s", 250),
            ("10 minutes", 600_000),
            ("1 hour 5 mins", 3_900_000),
            ("0s", 0),
            ("PT1H30M", 5_400_000),
            ("pt0.5s", 500),
            ("P1D", 86_400_000),
            ("P1W", 604_800_000),
            ("P1DT12H", 129_600_000),
            ("36525d", 3_155_760_000_000),
        ] {
            assert_eq!(millis(text), wanted, "{text}");
        }
    }

    #[test]
    fn a_refusal_says_what_was_found_and_wanted() {
        assert_eq!(refusal("30"), "duration \"30\" has no unit, write \"30s\"");
        assert_eq!(refusal("-5m"), "duration \"-5m\" is negative, wanted 0s or more");
        assert_eq!(
            refusal("999999999999w"),
            "duration \"999999999999w\" is too long, wanted at most 100 years"
        );
        assert!(
            refusal("5 fortnights").contains(
                "unknown unit \"fortnights\", wanted numbers with the units w d h m s ms"
            )
        );
        assert!(refusal("").contains("is empty"));
        assert!(refusal("1h30").contains("no unit after the number 30"));
        assert!(refusal("30m2h").contains("\"h\" out of order"));
        assert!(refusal("1h1h").contains("out of order"));
        assert!(refusal("0.0005s").contains("fractions of a millisecond"));
        assert!(refusal("P1M").contains("no fixed length"));
        for text in [
            "P",
            "PT",
            "PT1X",
            "PTH",
            "P1H",
            "PT1M1H",
            "1.h",
            ".5h",
            "1.2.3s",
            "h",
            "1h,5m",
            "+5m",
            "99999h99999999999999999w",
        ] {
            assert!(!refusal(text).contains('\n'), "{text}");
        }
    }

    #[test]
    fn durations_print_in_the_form_people_write() {
        for text in
            ["0s", "250ms", "1s500ms", "1m30s", "2h30m", "1d", "1d12h", "30d", "1w", "2w", "3650d"]
        {
            assert_eq!(format_duration(parse_duration(text).unwrap()), text);
        }
        assert_eq!(format_duration(Duration::from_secs(7200)), "2h");
        assert_eq!(format_duration(Duration::from_micros(1_999)), "1ms");
    }

    #[test]
    fn no_text_panics_however_a_good_one_is_damaged() {
        const GOOD: [&str; 8] =
            ["90s", "2h30m", "1w2d3h4m5s6ms", "1.5h", "10 minutes", "PT2H30M", "P1DT12H", "P1W"];
        crate::mutation::mutants_of(&GOOD, 40_000, |text, _| match parse_duration(text) {
            Ok(duration) => {
                assert!(duration <= LONGEST, "{text:?}");
                assert_eq!(parse_duration(&format_duration(duration)), Ok(duration), "{text:?}");
            }
            Err(error) => assert!(!error.to_string().contains('\n'), "{text:?}"),
        });
    }

    proptest! {
        #[test]
        fn what_is_printed_reads_back(millis in 0..=3_155_760_000_000_u64) {
            let duration = Duration::from_millis(millis);
            prop_assert_eq!(parse_duration(&format_duration(duration)), Ok(duration));
        }

        #[test]
        fn no_text_panics(text in "[-0-9.PTWDHMSwdhms µ]{0,40}|\\PC{0,20}") {
            if let Err(error) = parse_duration(&text) {
                prop_assert!(!error.to_string().contains('\n'));
            }
        }
    }
}
