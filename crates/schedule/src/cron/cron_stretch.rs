//! A stretch of real time between two clock changes of a zone, and the clock change at its start.
//!
//! Invariant: within a stretch, wall clock = real time + `offset`. So dates are computed by
//! addition alone.

use jiff::Timestamp;
use jiff::tz::TimeZone;

/// The maximum distance of a wall clock from UTC, in seconds. A clock change also moves the clock
/// by at most this many seconds.
pub(super) const LONGEST_OFFSET: i64 = 26 * 3600;

/// The size, in seconds, from which a clock change is a correction and not summer time. After a
/// correction, "the new time is used immediately" (cron(8) of Debian).
pub(super) const CORRECTION: i64 = 3 * 3600;

/// A stretch of time without a clock change in a zone.
#[derive(Debug, Clone, Copy)]
pub(super) struct CronStretch {
    /// The seconds by which the wall clock is ahead of UTC.
    pub(super) offset: i64,
    /// The change that ends the stretch. It may affect only the abbreviation of the zone's name,
    /// and not the clock. `None` if no change follows.
    pub(super) end: Option<ClockStretchChange>,
    /// The clock change at the start of the stretch. `None` if the change was [`CORRECTION`]
    /// seconds or more before the instant passed to [`CronStretch::around`].
    pub(super) start: Option<ClockStretchChange>,
}

/// A change of the clock or the abbreviation of a zone.
#[derive(Debug, Clone, Copy)]
pub(super) struct ClockStretchChange {
    /// The first second after the change.
    pub(super) at: i64,
    /// The time that the wall clock would have shown at `at` without the change.
    pub(super) clock_before: i64,
    /// The time that the wall clock shows at `at`.
    pub(super) clock_after: i64,
}

impl ClockStretchChange {
    fn new(at: i64, offset_before: i64, offset_after: i64) -> Self {
        Self { at, clock_before: at + offset_before, clock_after: at + offset_after }
    }

    /// Returns true if the change is summer time or a similar change, and not a correction of the
    /// clock.
    pub(super) fn is_seasonal(&self) -> bool {
        (self.clock_after - self.clock_before).abs() < CORRECTION
    }
}

impl CronStretch {
    /// Returns the stretch that contains the instant `at`, a Unix time in seconds.
    pub(super) fn around(rules: &TimeZone, at: i64) -> Self {
        let offset = offset_at(rules, at);
        let end = rules.following(timestamp(at)).next().map(|change| {
            ClockStretchChange::new(
                change.timestamp().as_second(),
                offset,
                i64::from(change.offset().seconds()),
            )
        });
        let start =
            if offset_at(rules, at - CORRECTION) == offset { None } else { start_of(rules, at) };
        Self { offset, end, start }
    }
}

/// Returns the latest change of the zone's offset at or before `at`. Changes of the abbreviation
/// alone are skipped. Returns `None` if there is no such change.
fn start_of(rules: &TimeZone, at: i64) -> Option<ClockStretchChange> {
    rules.preceding(timestamp(at + 1)).find_map(|change| {
        let at = change.timestamp().as_second();
        let (before, after) = (offset_at(rules, at - 1), i64::from(change.offset().seconds()));
        (before != after).then(|| ClockStretchChange::new(at, before, after))
    })
}

fn offset_at(rules: &TimeZone, at: i64) -> i64 {
    i64::from(rules.to_offset(timestamp(at)).seconds())
}

fn timestamp(second: i64) -> Timestamp {
    // The second is in range, because all callers stay within a few days of 1970 to 2099.
    Timestamp::from_second(second).unwrap_or(Timestamp::UNIX_EPOCH)
}
