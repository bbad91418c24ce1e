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
    /// The first second of the next stretch.
    pub(super) end: Option<i64>,
    /// How the stretch began, if that was less than [`CORRECTION`] before the instant asked for.
    pub(super) start: Option<Start>,
}

/// The clock change a stretch begins with.
#[derive(Debug, Clone, Copy)]
pub(super) struct Start {
    /// Its first second.
    pub(super) at: i64,
    /// Seconds the wall clock was ahead of UTC before it.
    pub(super) offset_before: i64,
}

impl Stretch {
    /// The stretch the second `at` lies in.
    pub(super) fn around(rules: &TimeZone, at: i64) -> Self {
        let offset = offset_at(rules, at);
        let end = rules.following(timestamp(at)).next().map(|change| change.timestamp().as_second());
        let start = if offset_at(rules, at - CORRECTION) == offset { None } else { start_of(rules, at) };
        Self { offset, end, start }
    }
}

/// The newest real clock change not after `at`; zone data also lists changes of the abbreviation alone.
fn start_of(rules: &TimeZone, at: i64) -> Option<Start> {
    rules.preceding(timestamp(at + 1)).find_map(|change| {
        let at = change.timestamp().as_second();
        let offset_before = offset_at(rules, at - 1);
        (offset_before != i64::from(change.offset().seconds())).then_some(Start { at, offset_before })
    })
}

fn offset_at(rules: &TimeZone, at: i64) -> i64 {
    i64::from(rules.to_offset(timestamp(at)).seconds())
}

fn timestamp(second: i64) -> Timestamp {
    // In range: the seconds asked about lie within days of 1970 to 2099.
    Timestamp::from_second(second).unwrap_or(Timestamp::UNIX_EPOCH)
}
