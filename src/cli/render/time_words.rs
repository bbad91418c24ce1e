//! The text forms of instants and durations.

pub(crate) use schedd_core::domain::run::end_words::in_words;
pub(crate) use schedd_schedule::time::wording::{rfc3339, shown, shown_elsewhere, span};

use jiff::tz::AmbiguousOffset;

use schedd_schedule::time::unix_millis::UnixMillis;
use schedd_schedule::time::zone::Zone;

/// The form of an instant in tables: full or brief.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Detail {
    /// The full form `Tue 2026-11-24 02:30:00 CET`, which [`shown`] returns.
    Full,
    /// The brief form `11-23 02:30:00`, or `2027-11-23 02:30:00` in another year. A line beside
    /// the table names the zone. A time that the clock shows twice has its abbreviation too.
    Brief,
}

/// Returns an instant as text for a table, in the given form.
pub(crate) fn shown_in(detail: Detail, at: UnixMillis, zone: &Zone, now: UnixMillis) -> String {
    let local = |at: UnixMillis| at.to_timestamp().to_zoned(zone.rules().clone());
    let local_at = local(at);
    let is_twice = || {
        let ambiguous = zone.rules().to_ambiguous_timestamp(local_at.datetime());
        matches!(ambiguous.offset(), AmbiguousOffset::Fold { .. })
    };
    let date = if local_at.year() == local(now).year() { "%m-%d" } else { "%F" };
    match detail {
        Detail::Full => shown(at, zone),
        Detail::Brief if is_twice() => local_at.strftime(&format!("{date} %T %Z")).to_string(),
        Detail::Brief => local_at.strftime(&format!("{date} %T")).to_string(),
    }
}

/// A formatter of the distance between an instant and now.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Relative {
    /// The time of Redis, which counts as now.
    pub(crate) now: UnixMillis,
}

impl Relative {
    /// Returns the time left until `at`, such as `5m 10s`, or `3s late`.
    pub(crate) fn left(self, at: UnixMillis) -> String {
        if at >= self.now {
            span(at.since(self.now))
        } else {
            format!("{} late", span(self.now.since(at)))
        }
    }

    /// Returns the time passed since `at`, such as `3h 4m ago`.
    pub(crate) fn passed(self, at: UnixMillis) -> String {
        format!("{} ago", span(self.now.since(at)))
    }

    /// Returns the time until or since `at`, such as `in 5m 10s` or `3h 4m ago`.
    pub(crate) fn either(self, at: UnixMillis) -> String {
        if at >= self.now { format!("in {}", span(at.since(self.now))) } else { self.passed(at) }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_stretch_is_reported_in_its_two_largest_units() {
        let texts = [0, 12_000, 350, 310_000, 3_600_000, 183_600_000, 86_405_000]
            .map(|ms| span(Duration::from_millis(ms)));
        assert_eq!(texts, ["0ms", "12s", "350ms", "5m 10s", "1h", "2d 3h", "1d"]);
    }

    #[test]
    fn an_instant_carries_its_zones_offset_and_its_milliseconds() {
        let berlin = Zone::load(&"Europe/Berlin".parse().unwrap()).unwrap();
        let at = UnixMillis::new(1_798_099_200_007).unwrap();
        assert_eq!(rfc3339(at, &berlin), "2026-12-24T09:00:00.007+01:00");
        assert_eq!(rfc3339(at, &Zone::utc()), "2026-12-24T08:00:00.007Z");
        assert_eq!(shown(at, &berlin), "Thu 2026-12-24 09:00:00 CET");
        assert_eq!(shown_in(Detail::Full, at, &berlin, at), shown(at, &berlin));
        assert_eq!(shown_in(Detail::Brief, at, &berlin, at), "12-24 09:00:00");
        let year_before = at.saturating_sub(std::time::Duration::from_secs(365 * 86_400));
        assert_eq!(shown_in(Detail::Brief, at, &berlin, year_before), "2026-12-24 09:00:00");
        let twice = UnixMillis::new(1_824_946_200_000).unwrap();
        assert_eq!(shown_in(Detail::Brief, twice, &berlin, twice), "10-31 02:30:00 CET");
    }

    #[test]
    fn late_and_early_are_reported_apart() {
        let at = |ms| UnixMillis::new(ms).unwrap();
        let now = Relative { now: at(100_000) };
        assert_eq!(
            (now.left(at(160_000)), now.left(at(97_000))),
            ("1m".to_owned(), "3s late".to_owned())
        );
        assert_eq!(
            (now.either(at(160_000)), now.either(at(97_000))),
            ("in 1m".to_owned(), "3s ago".to_owned())
        );
    }
}
