//! A stretch of real time during which a zone's clock runs evenly, and how the clock was set at its start.
//!
//! Invariant: within a stretch wall clock = real time + `offset`, so dates are computed by addition alone.

use jiff::Timestamp;
use jiff::tz::TimeZone;

/// The longest lead or lag of a wall clock on UTC, in seconds; also bounds any one clock change.
pub(super) const LONGEST_OFFSET: i64 = 26 * 3600;

/// Clock changes of at least this many seconds are corrections, not summer time: "the new time is used immediately"
/// (cron(8) of Debian).
pub(super) const CORRECTION: i64 = 3 * 3600;

/// Part of a zone's time line without a clock change, seen from an instant in it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Stretch {
    /// Seconds the wall clock is ahead of UTC.
    pub(super) offset: i64,
    /// The clock change it ends with, or one of the abbreviation alone.
    pub(super) end: Option<Change>,
    /// The clock change it began with, if that was less than [`CORRECTION`] before the instant asked for.
    pub(super) start: Option<Change>,
}

/// A clock change.
#[derive(Debug, Clone, Copy)]
pub(super) struct Change {
    /// The first second after it.
    pub(super) at: i64,
    /// What the wall clock would have shown then.
    pub(super) clock_before: i64,
    /// What it shows.
    pub(super) clock_after: i64,
}

impl Change {
    fn new(at: i64, offset_before: i64, offset_after: i64) -> Self {
        Self { at, clock_before: at + offset_before, clock_after: at + offset_after }
    }

    /// Whether it is summer time and its like, and no correction of the clock.
    pub(super) fn is_seasonal(&self) -> bool {
        (self.clock_after - self.clock_before).abs() < CORRECTION
    }
}

impl Stretch {
    /// The stretch the second `at` lies in.
    pub(super) fn around(rules: &TimeZone, at: i64) -> Self {
        let offset = offset_at(rules, at);
        let end = rules
            .following(timestamp(at))
            .next()
            .map(|change| Change::new(change.timestamp().as_second(), offset, i64::from(change.offset().seconds())));
        let start = if offset_at(rules, at - CORRECTION) == offset { None } else { start_of(rules, at) };
        Self { offset, end, start }
    }
}

/// The newest real clock change not after `at`; zone data also lists changes of the abbreviation alone.
fn start_of(rules: &TimeZone, at: i64) -> Option<Change> {
    rules.preceding(timestamp(at + 1)).find_map(|change| {
        let at = change.timestamp().as_second();
        let (before, after) = (offset_at(rules, at - 1), i64::from(change.offset().seconds()));
        (before != after).then(|| Change::new(at, before, after))
    })
}

fn offset_at(rules: &TimeZone, at: i64) -> i64 {
    i64::from(rules.to_offset(timestamp(at)).seconds())
}

fn timestamp(second: i64) -> Timestamp {
    // In range: the seconds asked about lie within days of 1970 to 2099.
    Timestamp::from_second(second).unwrap_or(Timestamp::UNIX_EPOCH)
}
