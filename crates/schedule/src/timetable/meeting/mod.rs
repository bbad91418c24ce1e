//! The search for the next day on which a schedule has a time and `only_on` and `exclude` allow an
//! occurrence. The search walks over months instead of checking each occurrence.
//!
//! Invariant: no day on which an occurrence counts is missed. The search may return a day on which
//! no occurrence counts, so the caller checks each day.

#[cfg(test)]
mod meeting_tests;

use super::timetable_part::{Shift, TimetablePart};
use crate::day_sets::{Filter, LAST_DAY, local_day, midnights};
use crate::time::civil::{DAY, Date, first_named};
use crate::time::unix_millis::UnixMillis;
use crate::time::zone::Zone;

/// The search for days that a schedule of a timetable names and that its `only_on` and `exclude`
/// allow.
pub(super) struct Meeting<'a> {
    zone: &'a Zone,
    parts: &'a [TimetablePart],
    filter: &'a Filter,
    /// For each schedule, the possible differences in days between two dates of the same instant.
    /// One date is in the schedule's own zone, the other in the zone of the timetable.
    shifts: Vec<Shift>,
    /// The numbers of the local days that begin with a gap of the clock. If the gap skips a time of
    /// the previous day, the run of that time is due on such a day.
    entered_by_gaps: Vec<i64>,
}

impl<'a> Meeting<'a> {
    /// Creates the search for days that any of `parts` names and that `filter` allows.
    pub(super) fn new(zone: &'a Zone, parts: &'a [TimetablePart], filter: &'a Filter) -> Self {
        let clock = Clock::of(zone);
        let shift = |part: &TimetablePart| {
            part.elsewhere(zone).map(|(own, ends)| clock.shift_from(&Clock::of(own), ends))
        };
        let shifts = parts.iter().map(|part| shift(part).unwrap_or_default()).collect();
        Self { zone, parts, filter, shifts, entered_by_gaps: clock.entered_by_gaps }
    }

    /// Returns an instant from which the search for occurrences may go on. It is not before
    /// `millis`, and no occurrence lies between the two. Returns `None` if no occurrence follows
    /// `millis`.
    pub(super) fn from(&self, millis: i64) -> Option<i64> {
        let zone = self.zone;
        // If the clock is set back over midnight, the day before comes a second time. So the search
        // begins a day earlier.
        let day = first_named(local_day(zone, millis) - 1, LAST_DAY + 2, |year, month| {
            self.days_of_month(year, month)
        })?;
        Some(midnights(zone, day).first().map_or(millis, |midnight| millis.max(*midnight)))
    }

    fn days_of_month(&self, year: i64, month: i64) -> u32 {
        let allowed = self.filter.days_of_month(year, month);
        if allowed == 0 {
            return 0;
        }
        let first = Date::new(year, month, 1).number();
        let entered = self
            .entered_by_gaps
            .iter()
            .map(|day| day - first + 1)
            .filter(|day| (1..=31).contains(day));
        let entered = entered.fold(0, |days, day| days | 1 << day);
        let parts = self.parts.iter().zip(&self.shifts);
        let named = |(part, shift): (&TimetablePart, &Shift)| {
            part.days_of_month(self.zone, *shift, (year, month), allowed)
        };
        parts.fold(entered, |days, part| days | named(part)) & allowed
    }
}

/// The offsets and the gaps of a wall clock since 1970.
struct Clock {
    /// The minimum and the maximum number of seconds by which the clock is ahead of UTC.
    offsets: (i64, i64),
    entered_by_gaps: Vec<i64>,
}

impl Clock {
    fn of(zone: &Zone) -> Self {
        let mut before = i64::from(zone.rules().to_offset(jiff::Timestamp::UNIX_EPOCH).seconds());
        let mut clock = Self { offsets: (before, before), entered_by_gaps: Vec::new() };
        for change in zone.rules().following(jiff::Timestamp::UNIX_EPOCH) {
            let (second, after) =
                (change.timestamp().as_second(), i64::from(change.offset().seconds()));
            if second >= UnixMillis::END / 1_000 {
                break;
            }
            let day = (second + after).div_euclid(DAY);
            if day > (second + before).div_euclid(DAY) {
                clock.entered_by_gaps.push(day);
            }
            clock.offsets = (clock.offsets.0.min(after), clock.offsets.1.max(after));
            before = after;
        }
        clock
    }

    /// Returns the difference in days between a date on the clock `own` and the date of the same
    /// instant on this clock. Only times between the seconds `first` and `last` of a day are
    /// considered.
    fn shift_from(&self, own: &Self, (first, last): (i64, i64)) -> Shift {
        /// The longest gap of a clock, in seconds. If a gap skips a time, its run is due right
        /// after the gap. So the run is later than its time by at most this many seconds.
        const LONGEST_GAP: i64 = 3 * 3_600;
        let from = first + self.offsets.0 - own.offsets.1;
        let to = last + LONGEST_GAP + self.offsets.1 - own.offsets.0;
        Shift { from: from.div_euclid(DAY), to: to.div_euclid(DAY) }
    }
}
