//! The times of a crontab line, found minute by minute as cron(8) does it.
//!
//! This code shares nothing with the schedules of schedd, because `--compare` proves those with it.
//! The rules are those of Debian's cron(8): a clock change of three hours or more is a correction,
//! and a smaller one is a change to or from summer time.

use jiff::Timestamp;
use jiff::civil::{Date, DateTime};

use super::crontab_line::CrontabEntry;
use schedd_schedule::time::unix_millis::UnixMillis;
use schedd_schedule::time::zone::Zone;

/// The smallest clock change, in minutes, that is a correction of the clock.
const CORRECTION: i64 = 180;

/// The times of a crontab line, as sets of bits.
#[derive(Debug, Clone)]
pub(super) struct CrontabTimes {
    /// The values of the minute, the hour, the day of month, the month and the weekday. Sunday is 0.
    bits: [u64; 5],
    /// True if a day must match only one of the day fields.
    is_either_day: bool,
    /// True if the minute or the hour begins with `*`. The line then follows real time.
    is_wild: bool,
}

/// A minute of real time, and the time that a clock in the zone shows then.
struct Minute {
    number: i64,
    shown: DateTime,
}

impl CrontabTimes {
    /// Returns the times of a line. `drawn` returns the value that was drawn for the item with this
    /// index in the field with this index.
    pub(super) fn of(entry: &CrontabEntry, drawn: impl Fn(usize, usize) -> u8) -> Option<Self> {
        let fields = entry.fields.as_ref()?;
        let mut bits = [0; 5];
        for (place, field) in fields.iter().enumerate() {
            for (at, item) in field.items.iter().enumerate() {
                let first = if item.is_drawn { drawn(place, at) } else { 0 };
                bits[place] |= item.bits(first);
            }
        }
        // 7 is Sunday as well.
        bits[4] |= bits[4] >> 7;
        let starred = |place: usize| fields[place].is_starred;
        Some(Self {
            bits,
            is_either_day: !starred(2) && !starred(4),
            is_wild: starred(0) || starred(1),
        })
    }

    /// Returns the next `count` times after `from`, fewer if the year 2100 comes first.
    pub(super) fn after(&self, from: UnixMillis, zone: &Zone, count: usize) -> Vec<UnixMillis> {
        let minute = |number: i64| {
            let at = Timestamp::from_second(number * 60).unwrap_or(Timestamp::MAX);
            Minute { number, shown: zone.rules().to_datetime(at) }
        };
        let mut found = Vec::new();
        let mut before = minute(from.as_i64().div_euclid(60_000));
        while found.len() < count {
            let now = minute(before.number + 1);
            let Some(at) = UnixMillis::new(now.number * 60_000) else { break };
            if let Some(idle) = self.idle_from(now.shown) {
                before = minute(now.number + idle - 1);
                continue;
            }
            if self.starts(&before, &now, minute) {
                found.push(at);
            }
            before = now;
        }
        found
    }

    /// Returns a number of minutes of real time in which the line cannot start, whatever the clock
    /// does. Returns `None` if it may start at `shown`.
    fn idle_from(&self, shown: DateTime) -> Option<i64> {
        let day = shown.date();
        let days = [day.yesterday(), Ok(day), day.tomorrow()];
        if !days.into_iter().flatten().any(|day| self.has_day(day)) {
            return Some(20 * 60);
        }
        // A clock change below three hours cannot lead out of these hours within an hour.
        let hours = (-3..=4).map(|hours| (i64::from(shown.hour()) + hours).rem_euclid(24));
        let is_idle = hours.into_iter().all(|hour| self.bits[1] & (1 << hour) == 0);
        is_idle.then_some(60)
    }

    /// Returns true if cron starts the line at `now`, the minute after `before`.
    fn starts(&self, before: &Minute, now: &Minute, minute: impl Fn(i64) -> Minute) -> bool {
        let step = minutes_between(before.shown, now.shown);
        let is_correction = (step - 1).abs() >= CORRECTION;
        let skipped = |back: i64| now.shown.checked_sub(jiff::Span::new().minutes(back));
        if !self.is_wild && !is_correction {
            // When the clock was set forward, cron runs a line without wildcards for the skipped minutes.
            if (1..step).filter_map(|back| skipped(back).ok()).any(|shown| self.is_due(shown)) {
                return true;
            }
        }
        self.is_due(now.shown) && (self.is_wild || !was_shown_before(now, minute))
    }

    fn is_due(&self, shown: DateTime) -> bool {
        let has = |place: usize, value: i8| self.bits[place] & (1 << value) != 0;
        has(0, shown.minute()) && has(1, shown.hour()) && self.has_day(shown.date())
    }

    fn has_day(&self, date: Date) -> bool {
        let has = |place: usize, value: i8| self.bits[place] & (1 << value) != 0;
        let by_day = has(2, date.day());
        let by_weekday = has(4, date.weekday().to_sunday_zero_offset());
        let is_day = if self.is_either_day { by_day || by_weekday } else { by_day && by_weekday };
        has(3, date.month()) && is_day
    }
}

/// Returns true if the clock showed the time of `now` before and was then set back. Lines of fixed
/// times have run then.
fn was_shown_before(now: &Minute, minute: impl Fn(i64) -> Minute) -> bool {
    (1..CORRECTION).any(|back| {
        let earlier = minute(now.number - back).shown;
        let set_back = minutes_between(now.shown, earlier) + back;
        earlier >= now.shown && set_back < CORRECTION
    })
}

fn minutes_between(from: DateTime, to: DateTime) -> i64 {
    to.duration_since(from).as_mins()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::import::crontab_line::{CrontabLine, UserColumn, read_line};

    fn times(line: &str, zone: &str, from: &str, count: usize) -> Vec<String> {
        let CrontabLine::Entry(entry) = read_line(&format!("{line} x"), UserColumn::Absent) else {
            panic!("{line} is no line with a command");
        };
        let zone = Zone::named(zone).unwrap();
        let from = UnixMillis::from_timestamp(from.parse().unwrap()).unwrap();
        let times = CrontabTimes::of(&entry, |_, _| 0).unwrap();
        let found = times.after(from, &zone, count);
        found.iter().map(|at| at.to_timestamp().to_string()).collect()
    }

    #[test]
    fn times_follow_the_rules_of_crontab_and_of_clock_changes() {
        let berlin = "Europe/Berlin";
        for (line, zone, from, wanted) in [
            // Either day, and both days if one begins with a star.
            (
                "0 0 13 * 5",
                "UTC",
                "2026-03-01T00:00:00Z",
                &["2026-03-06T00:00:00Z", "2026-03-13T00:00:00Z", "2026-03-20T00:00:00Z"][..],
            ),
            (
                "0 0 13 2 5",
                "UTC",
                "2026-02-20T00:00:00Z",
                &["2026-02-27T00:00:00Z", "2027-02-05T00:00:00Z"],
            ),
            (
                "0 0 */2 * 7",
                "UTC",
                "2026-03-01T00:00:00Z",
                &["2026-03-15T00:00:00Z", "2026-03-29T00:00:00Z"],
            ),
            (
                "59 23 31 12 *",
                "UTC",
                "2026-01-01T00:00:00Z",
                &["2026-12-31T23:59:00Z", "2027-12-31T23:59:00Z"],
            ),
            ("0 0 29 2 *", "UTC", "2096-01-01T00:00:00Z", &["2096-02-29T00:00:00Z"]),
            // A gap: a fixed time runs right after it, a line with a star not at all.
            (
                "30 2 * * *",
                berlin,
                "2027-03-27T12:00:00Z",
                &["2027-03-28T01:00:00Z", "2027-03-29T00:30:00Z"],
            ),
            ("*/30 2 * * *", berlin, "2027-03-27T12:00:00Z", &["2027-03-29T00:00:00Z"]),
            // A fold: a fixed time runs the first time, a line with a star both times.
            (
                "30 2 * * *",
                berlin,
                "2026-10-24T12:00:00Z",
                &["2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z"],
            ),
            (
                "30 * * * *",
                berlin,
                "2026-10-25T00:00:00Z",
                &["2026-10-25T00:30:00Z", "2026-10-25T01:30:00Z"],
            ),
        ] {
            let count = wanted.len() + usize::from(wanted.len() == 1 && zone == "UTC");
            assert_eq!(times(line, zone, from, count), wanted, "{line}");
        }
    }
}
