//! Where a schedule and the days it is let run on may meet: a walk over months instead of a try at each occurrence.
//!
//! Invariant: no day on which an occurrence counts is left out. Days on which none counts may be named, so each is tried.

use super::Timetable;
use crate::domain::civil::{DAY, Date, first_named};
use crate::domain::days::{Filter, LAST_DAY, local_day, midnights};
use crate::domain::time::UnixMillis;
use crate::domain::zone::Zone;

/// The search of the days a timetable's schedules and its days have in common.
pub(super) struct Meeting<'a> {
    table: &'a Timetable,
    filter: &'a Filter,
    /// The local days that begin in a gap of the clock: what falls into it on the day before runs on them.
    entered_by_gaps: Vec<i64>,
}

impl<'a> Meeting<'a> {
    pub(super) fn new(table: &'a Timetable, filter: &'a Filter) -> Self {
        Self { table, filter, entered_by_gaps: entered_by_gaps(&table.zone) }
    }

    /// An instant at or after `millis` before which nothing counts; none if nothing counts from there on.
    pub(super) fn from(&self, millis: i64) -> Option<i64> {
        let zone = &self.table.zone;
        // Where the clock is set back over midnight, the day before comes once more.
        let day = first_named(local_day(zone, millis) - 1, LAST_DAY + 2, |year, month| self.days_of_month(year, month))?;
        Some(midnights(zone, day).first().map_or(millis, |midnight| millis.max(*midnight)))
    }

    fn days_of_month(&self, year: i64, month: i64) -> u32 {
        let allowed = self.filter.days_of_month(year, month);
        if allowed == 0 {
            return 0;
        }
        let first = Date::new(year, month, 1).number();
        let entered = self.entered_by_gaps.iter().map(|day| day - first + 1).filter(|day| (1..=31).contains(day));
        let entered = entered.fold(0, |days, day| days | 1 << day);
        self.table.parts.iter().fold(entered, |days, part| days | part.days_of_month(&self.table.zone, year, month)) & allowed
    }
}

fn entered_by_gaps(zone: &Zone) -> Vec<i64> {
    let mut before = zone.rules().to_offset(jiff::Timestamp::UNIX_EPOCH);
    let mut days = Vec::new();
    for change in zone.rules().following(jiff::Timestamp::UNIX_EPOCH) {
        let (second, after) = (change.timestamp().as_second(), change.offset());
        if second >= UnixMillis::END / 1_000 {
            break;
        }
        let day = |offset: jiff::tz::Offset| (second + i64::from(offset.seconds())).div_euclid(DAY);
        if day(after) > day(before) {
            days.push(day(after));
        }
        before = after;
    }
    days
}

#[cfg(test)]
mod tests;
