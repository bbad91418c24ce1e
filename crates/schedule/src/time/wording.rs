//! English texts for instants and durations, for use in sentences.

use std::time::Duration;

use super::unix_millis::UnixMillis;
use super::zone::Zone;

/// Returns the byte of the last character boundary in `text` that is not after byte `most`. A text
/// that is too long is cut there.
pub fn end_within(text: &str, most: usize) -> usize {
    (0..=most).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0)
}

/// Returns true if a terminal may act on the character instead of showing it. These are control
/// characters, and characters that change the direction of writing.
pub fn steers(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
}

/// Formats an instant as RFC 3339 with milliseconds and the offset of the zone, or `Z` for UTC. The
/// zone data has several names for UTC, such as `Etc/UTC`; all have the same abbreviation.
pub fn rfc3339(at: UnixMillis, zone: &Zone) -> String {
    if zone.rules().to_offset_info(at.to_timestamp()).abbreviation() == "UTC" {
        return at.to_string();
    }
    at.to_timestamp().to_zoned(zone.rules().clone()).strftime("%FT%T%.3f%:z").to_string()
}

/// Formats an instant for readers, to the second: `Mon 2026-11-23 02:30:00 CET`.
pub fn shown(at: UnixMillis, zone: &Zone) -> String {
    at.to_timestamp().to_zoned(zone.rules().clone()).strftime("%a %F %T %Z").to_string()
}

/// Formats an instant for readers, with milliseconds if it is not a whole second:
/// `Mon 2026-11-23 02:30:00.250 CET`.
pub fn shown_exactly(at: UnixMillis, zone: &Zone) -> String {
    if at.floor_to_second() == at {
        return shown(at, zone);
    }
    at.to_timestamp().to_zoned(zone.rules().clone()).strftime("%a %F %T%.3f %Z").to_string()
}

/// Formats the time that the clock of `zone` shows at `at`, for readers with the clock of `local`:
/// `02:30:00 CET in Europe/Berlin`. Returns `None` if both clocks show the same time. The date is
/// added if it differs too.
pub fn shown_elsewhere(at: UnixMillis, local: &Zone, zone: &Zone) -> Option<String> {
    let [here, there] = [local, zone].map(|zone| at.to_timestamp().to_zoned(zone.rules().clone()));
    let form = if here.date() == there.date() { "%T %Z" } else { "%a %F %T %Z" };
    (here.datetime() != there.datetime())
        .then(|| format!("{} in {}", there.strftime(form), zone.name()))
}

/// Formats an instant for a description, for example `Thursday 2026-12-24 at 09:00:00 CET`.
pub fn moment(at: UnixMillis, zone: &Zone) -> String {
    at.to_timestamp().to_zoned(zone.rules().clone()).strftime("%A %F at %T %Z").to_string()
}

/// Formats a duration in its two largest units: `2d 3h`, `5m 10s`, `12s`, `350ms`.
pub fn span(length: Duration) -> String {
    const UNITS: [(u64, &str); 4] = [(86_400, "d"), (3_600, "h"), (60, "m"), (1, "s")];
    if length < Duration::from_secs(1) {
        return format!("{}ms", length.as_millis());
    }
    let mut left = length.as_secs();
    let mut parts = Vec::new();
    for (unit, letter) in UNITS {
        let count = left / unit;
        left %= unit;
        if count > 0 {
            parts.push(format!("{count}{letter}"));
        } else if !parts.is_empty() {
            break;
        }
        if parts.len() == 2 {
            break;
        }
    }
    parts.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_shown_by_another_clock_only_if_that_clock_differs() {
        let zone = |name: &str| Zone::load(&name.parse().unwrap()).unwrap();
        let at = UnixMillis::new(1_795_404_600_000).unwrap();
        let elsewhere = |local: &str, other: &str| shown_elsewhere(at, &zone(local), &zone(other));
        assert_eq!(shown(at, &Zone::utc()), "Mon 2026-11-23 03:30:00 UTC");
        assert_eq!(
            elsewhere("UTC", "Europe/Berlin").as_deref(),
            Some("04:30:00 CET in Europe/Berlin")
        );
        assert_eq!(
            elsewhere("UTC", "America/New_York").as_deref(),
            Some("Sun 2026-11-22 22:30:00 EST in America/New_York")
        );
        assert_eq!(elsewhere("Europe/Paris", "Europe/Berlin"), None);
    }

    #[test]
    fn a_time_in_utc_ends_with_z_whatever_the_zone_data_calls_utc() {
        let at = UnixMillis::new(1_795_404_600_000).unwrap();
        for (name, wanted) in [
            ("UTC", "2026-11-23T03:30:00.000Z"),
            ("Etc/UTC", "2026-11-23T03:30:00.000Z"),
            ("Etc/Zulu", "2026-11-23T03:30:00.000Z"),
            ("Europe/London", "2026-11-23T03:30:00.000+00:00"),
            ("Europe/Berlin", "2026-11-23T04:30:00.000+01:00"),
        ] {
            let zone = Zone::load(&name.parse().unwrap()).unwrap();
            assert_eq!(rfc3339(at, &zone), wanted, "{name}");
        }
    }
}
