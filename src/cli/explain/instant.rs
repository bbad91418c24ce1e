//! What `--at` means where one looks back: a time of day or a weekday alone is its last coming, not its next.

use std::time::Duration;

use crate::cli::failure::Failure;
use crate::domain::human_time::{Instant, parse_instant};
use crate::domain::time::UnixMillis;
use crate::domain::zone::Zone;

const DAY: Duration = Duration::from_secs(24 * 3600);
const DAYS: [&str; 7] = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"];

/// The instant `text` means.
pub(super) fn asked(text: &str, now: UnixMillis, zone: &Zone) -> Result<Instant, Failure> {
    let bad = |error: crate::domain::human_time::InstantError| Failure::Invalid(format!("--at: {error}"));
    let read = parse_instant(text, now, zone).map_err(bad)?;
    let back = match says_its_day(text) {
        Day::Said => return Ok(read),
        Day::Unsaid => DAY,
        Day::Weekday => DAY * 7,
    };
    if read.at <= now {
        return Ok(read);
    }
    Ok(parse_instant(text, now.saturating_sub(back), zone).ok().filter(|read| read.at <= now).unwrap_or(read))
}

enum Day {
    Said,
    Unsaid,
    Weekday,
}

fn says_its_day(text: &str) -> Day {
    let text = text.trim().to_ascii_lowercase();
    let first = text.split_whitespace().next().unwrap_or_default();
    if DAYS.iter().any(|day| first.starts_with(day)) {
        return Day::Weekday;
    }
    let is_time = first.starts_with(|c: char| c.is_ascii_digit()) && !first.contains('-') || matches!(first, "noon" | "midnight");
    if is_time { Day::Unsaid } else { Day::Said }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_of_day_or_a_weekday_alone_is_the_last_one_and_anything_else_as_elsewhere() {
        let now = UnixMillis::from_timestamp("2026-11-21T12:00:00Z".parse().unwrap()).unwrap();
        let at = |text: &str| asked(text, now, &Zone::utc()).unwrap().at.to_string();
        for (text, wanted) in [
            ("02:30", "2026-11-21T02:30:00.000Z"),
            ("14:30", "2026-11-20T14:30:00.000Z"),
            ("9am", "2026-11-21T09:00:00.000Z"),
            ("fri 17:00", "2026-11-20T17:00:00.000Z"),
            ("2026-11-01 09:00", "2026-11-01T09:00:00.000Z"),
            ("tomorrow 9am", "2026-11-22T09:00:00.000Z"),
            ("in 2h", "2026-11-21T14:00:00.000Z"),
        ] {
            assert_eq!(at(text), wanted, "{text}");
        }
        assert_eq!(asked("sometime", now, &Zone::utc()).unwrap_err().code(), 2);
    }
}
