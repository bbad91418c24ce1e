//! The single schedules of a timetable, such as each cron expression, and the search for their next
//! instants.

use crate::calendar::CalendarExpr;
use crate::cron::CronExpr;
use crate::day_sets::local_day;
use crate::recurrence::Recurrence;
use crate::schedule_form::Schedule;
use crate::time::civil::{DAY, Date, days_in_month};
use crate::time::unix_millis::UnixMillis;
use crate::time::zone::Zone;

/// A single schedule of a timetable, such as one cron expression.
#[derive(Debug, Clone)]
pub(super) enum TimetablePart {
    /// A list of instants, sorted, as Unix times in ms.
    Instants(Vec<i64>),
    Beats(PartBeats),
    Cron(CronExpr),
    Calendar(CalendarExpr),
    Rule(Recurrence),
}

/// The anchor of an `every` schedule, a Unix time in ms, and the number of its first instant. The
/// instant with the number k is anchor + k * period.
#[derive(Clone, Copy)]
pub(super) struct PartBeat {
    pub(super) anchor: i64,
    pub(super) first: i64,
}

impl TimetablePart {
    /// Appends the single schedules in `schedule` to `parts`. `beat` has the anchor from which
    /// `every` counts, and the number of its first instant.
    pub(super) fn collect(schedule: &Schedule, beat: PartBeat, parts: &mut Vec<Self>) {
        match schedule {
            Schedule::Manual | Schedule::Delay(_) | Schedule::After(_) => {}
            Schedule::At(at) => parts.push(Self::Instants(vec![at.as_i64()])),
            Schedule::Instants(list) => {
                parts.push(Self::Instants(list.iter().map(|at| at.as_i64()).collect()));
            }
            Schedule::Every(period) => parts.extend(PartBeats::new(*period, beat).map(Self::Beats)),
            Schedule::Cron(list) => parts.extend(list.iter().cloned().map(Self::Cron)),
            Schedule::Calendar(list) => parts.extend(list.iter().cloned().map(Self::Calendar)),
            Schedule::Rules(list) => parts.extend(list.iter().cloned().map(Self::Rule)),
            Schedule::Several(list) => list.iter().for_each(|one| Self::collect(one, beat, parts)),
        }
    }

    /// Returns this schedule without the zone that it names. The result uses the zone given to each
    /// query.
    pub(super) fn without_zone(&self) -> Self {
        match self {
            Self::Calendar(expression) => Self::Calendar(expression.without_zone()),
            part => part.clone(),
        }
    }

    /// Returns the first instant of the schedule that is not before `millis`. Both are Unix times
    /// in ms. Returns `None` if no such instant comes before 2100.
    pub(super) fn first_from(&self, zone: &Zone, millis: i64) -> Option<i64> {
        // Cron expressions, calendar expressions and rules have instants of whole seconds, so this
        // rounds up.
        let second = millis.div_euclid(1_000) + i64::from(millis.rem_euclid(1_000) > 0);
        let found = match self {
            Self::Instants(list) => {
                return list.get(list.partition_point(|at| *at < millis)).copied();
            }
            Self::Beats(beats) => {
                return beats.number(beats.first_number(millis)).map(UnixMillis::as_i64);
            }
            Self::Cron(expr) => expr.first_from(zone, second),
            Self::Calendar(expr) => expr.first_from(zone, second),
            Self::Rule(rule) => rule.first_from(zone, second),
        };
        found.and_then(|second| second.checked_mul(1_000)).filter(|at| *at < UnixMillis::END)
    }
}

/// The minimum and the maximum difference in days between two dates of the same instant. One date
/// is in the zone of the schedule, the other in the zone of the timetable.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Shift {
    pub(super) from: i64,
    pub(super) to: i64,
}

impl TimetablePart {
    /// Returns the zone that the schedule names, if this zone differs from `zone`, else `None`. The
    /// pair of numbers is the first and the last second of a day at which the schedule may occur in
    /// the named zone.
    pub(super) fn elsewhere(&self, zone: &Zone) -> Option<(&Zone, (i64, i64))> {
        let Self::Calendar(expr) = self else { return None };
        let own = expr.zone().filter(|own| own.name() != zone.name())?;
        Some((own, expr.ends_of_day()))
    }

    /// Returns a mask of the days of the month on which the schedule may occur by the clock of
    /// `zone`. Only days in the mask `asked` are examined. Bit 1 is day 1.
    ///
    /// The mask has every day with an occurrence, and may have further days. Times that a gap of
    /// the clock moves to the next day are left out.
    pub(super) fn days_of_month(
        &self,
        zone: &Zone,
        shift: Shift,
        (year, month): (i64, i64),
        asked: u32,
    ) -> u32 {
        match self {
            Self::Cron(expr) => expr.days_of_month(year, month),
            Self::Rule(rule) => rule.days_of_month(year, month, asked),
            Self::Calendar(expr) => {
                shifted(shift, (year, month), |year, month| expr.days_of_month(year, month))
            }
            Self::Beats(beats) if beats.period <= DAY * 1_000 => u32::MAX,
            Self::Beats(_) | Self::Instants(_) => {
                let first = Date::new(year, month, 1).number();
                let length = days_in_month(year, month);
                // Two wall clocks differ by less than two days.
                let within = ((first - 2) * DAY * 1_000, (first + length + 2) * DAY * 1_000);
                let mut days = 0;
                let mut from = within.0;
                while let Some(at) = self.first_from(zone, from).filter(|at| *at < within.1) {
                    let day = local_day(zone, at) - first + 1;
                    days |= if (1..=length).contains(&day) { 1 << day } else { 0 };
                    from = at + 1;
                }
                days
            }
        }
    }
}

/// The bit of day 1 of a month in the wide mask of `shifted`. That mask also covers the months
/// before and after the month.
const FIRST: i64 = 40;

/// Returns a mask of the days of a month, after the days of `of_month` are moved by `shift`.
/// `of_month` gets a year and a month and returns a mask. Bit 1 is day 1.
fn shifted(shift: Shift, (year, month): (i64, i64), of_month: impl Fn(i64, i64) -> u32) -> u32 {
    if (shift.from, shift.to) == (0, 0) {
        return of_month(year, month);
    }
    let before = if month == 1 { (year - 1, 12) } else { (year, month - 1) };
    let behind = if month == 12 { (year + 1, 1) } else { (year, month + 1) };
    let (length_before, length) = (days_in_month(before.0, before.1), days_in_month(year, month));
    let wide = |days: u32, first: i64| u128::from(days >> 1) << first;
    let days = wide(of_month(before.0, before.1), FIRST - length_before)
        | wide(of_month(year, month), FIRST)
        | wide(of_month(behind.0, behind.1), FIRST + length);
    let all = (shift.from..=shift.to).fold(0, |all, by| all | days >> (FIRST - by));
    u32::try_from(all & ((1 << length) - 1)).unwrap_or(u32::MAX) << 1
}

/// The instants of an `every` schedule, as Unix times in ms. The instant with the number k is
/// anchor + k * period, for each k that is not below `first`.
#[derive(Debug, Clone)]
pub(super) struct PartBeats {
    anchor: i64,
    period: i64,
    first: i64,
}

impl PartBeats {
    fn new(period: std::time::Duration, beat: PartBeat) -> Option<Self> {
        // A period longer than the years 1970 to 2099 has no instant. A period below a millisecond
        // counts as a millisecond.
        let period = i64::try_from(period.as_millis())
            .ok()
            .filter(|period| *period < UnixMillis::END)?
            .max(1);
        Some(Self { anchor: beat.anchor, period, first: beat.first })
    }

    /// Returns the instant anchor + `k` * period, or `None` if this instant is outside 1970 to
    /// 2099.
    pub(super) fn number(&self, k: i64) -> Option<UnixMillis> {
        k.checked_mul(self.period)?.checked_add(self.anchor).and_then(UnixMillis::new)
    }

    /// Returns the number of the first instant that is not before `millis`.
    fn first_number(&self, millis: i64) -> i64 {
        let distance = millis - self.anchor;
        (distance.div_euclid(self.period) + i64::from(distance.rem_euclid(self.period) > 0))
            .max(self.first)
    }

    /// Returns the numbers of the first and the last instant from `first` to `until`, both in Unix
    /// ms and included. The last number is below the first if there is no such instant.
    pub(super) fn numbers_in(&self, first: i64, until: i64) -> (i64, i64) {
        (self.first_number(first), (until - self.anchor).div_euclid(self.period))
    }
}
