//! The parsing of times in the past. A time of day, a weekday or a date without a year means the
//! last such time, not the next.

use std::time::Duration;

use schedd_schedule::time::human_time::{Instant, InstantError, after_gap, parse_instant};
use schedd_schedule::time::unix_millis::UnixMillis;
use schedd_schedule::time::zone::Zone;

const DAY: Duration = Duration::from_secs(24 * 3600);
const MONTHS: [&str; 12] =
    ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const DAYS: [&str; 7] = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"];

/// Parses `text` as an instant in the past, before `now`. Local times are in `zone`.
pub(crate) fn parse_past(
    text: &str,
    now: UnixMillis,
    zone: &Zone,
) -> Result<Instant, InstantError> {
    let read = parse_instant(text, now, zone)?;
    let back = match says_its_day(text) {
        Day::Said => return Ok(read),
        Day::Unsaid => DAY,
        Day::Weekday => DAY * 7,
        Day::Date => DAY * 365,
    };
    if read.at <= now {
        return Ok(read);
    }
    let earlier = parse_instant(text, now.saturating_sub(back), zone)?;
    Ok(if earlier.at <= now { earlier } else { read })
}

/// Parses `text` as [`parse_past`] does. A local time that the clock of `zone` skips means the first
/// instant after the gap. The note then says so.
pub(crate) fn parse_past_or_skipped(
    text: &str,
    now: UnixMillis,
    zone: &Zone,
) -> Result<Instant, InstantError> {
    parse_past(text, now, zone).or_else(|error| {
        let wall = zone.wall(now).and_then(|now| parse_past(text, now, &Zone::utc()).ok());
        let skipped = wall.and_then(|wall| after_gap(wall.at, zone));
        let note = Some(error.problem.clone());
        skipped.map(|at| Instant { at, note }).ok_or(error)
    })
}

enum Day {
    Said,
    Unsaid,
    Weekday,
    /// A date without a year: a month and a day.
    Date,
}

fn says_its_day(text: &str) -> Day {
    let text = text.trim().to_ascii_lowercase();
    let first = text.split_whitespace().next().unwrap_or_default();
    let names_month =
        text.split_whitespace().any(|word| MONTHS.iter().any(|month| word.starts_with(month)));
    if names_month {
        let says_year = text.split(|c: char| !c.is_ascii_digit()).any(|digits| digits.len() == 4);
        return if says_year { Day::Said } else { Day::Date };
    }
    let names_date = |word: &str| word.contains('-') && word.len() == "2026-12-24".len();
    if DAYS.iter().any(|day| first.starts_with(day)) {
        let is_full = text.split_whitespace().nth(1).is_some_and(names_date);
        return if is_full { Day::Said } else { Day::Weekday };
    }
    if first.contains('-') && first.len() == "12-24".len() {
        return Day::Date;
    }
    let is_time = first.starts_with(|c: char| c.is_ascii_digit()) && !first.contains('-')
        || matches!(first, "noon" | "midnight");
    if is_time { Day::Unsaid } else { Day::Said }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_weekday_or_yearless_date_means_the_last_and_others_parse_as_usual() {
        let now = UnixMillis::from_timestamp("2026-11-21T12:00:00Z".parse().unwrap()).unwrap();
        let at = |text: &str| parse_past(text, now, &Zone::utc()).unwrap().at.to_string();
        for (text, wanted) in [
            ("02:30", "2026-11-21T02:30:00.000Z"),
            ("14:30", "2026-11-20T14:30:00.000Z"),
            ("9am", "2026-11-21T09:00:00.000Z"),
            ("fri 17:00", "2026-11-20T17:00:00.000Z"),
            ("24 dec", "2025-12-24T00:00:00.000Z"),
            ("oct 3 9am", "2026-10-03T09:00:00.000Z"),
            ("24 dec 2026", "2026-12-24T00:00:00.000Z"),
            ("2026-11-01 09:00", "2026-11-01T09:00:00.000Z"),
            ("tomorrow 9am", "2026-11-22T09:00:00.000Z"),
            ("in 2h", "2026-11-21T14:00:00.000Z"),
            ("11-20 02:30:00", "2026-11-20T02:30:00.000Z"),
            ("12-24 02:30:00", "2025-12-24T02:30:00.000Z"),
            ("Tue 2026-11-24 02:30:00 UTC", "2026-11-24T02:30:00.000Z"),
            ("14:30 UTC", "2026-11-20T14:30:00.000Z"),
        ] {
            assert_eq!(at(text), wanted, "{text}");
        }
        assert!(parse_past("sometime", now, &Zone::utc()).is_err());
    }

    #[test]
    fn a_time_that_the_clock_skips_means_the_end_of_the_gap_and_says_so() {
        let berlin = Zone::load(&"Europe/Berlin".parse().unwrap()).unwrap();
        let now = UnixMillis::from_timestamp("2027-03-28T12:00:00Z".parse().unwrap()).unwrap();
        for text in ["02:30", "2027-03-28 02:00", "sun 02:59"] {
            let found = parse_past_or_skipped(text, now, &berlin).unwrap();
            assert_eq!(found.at.to_string(), "2027-03-28T01:00:00.000Z", "{text}");
            assert!(found.note.unwrap().contains("does not exist in Europe/Berlin"), "{text}");
        }
        let found = parse_past_or_skipped("03:00", now, &berlin).unwrap();
        assert_eq!((found.at.to_string().as_str(), found.note), ("2027-03-28T01:00:00.000Z", None));
        assert!(parse_past_or_skipped("25:00", now, &berlin).is_err());
    }
}
