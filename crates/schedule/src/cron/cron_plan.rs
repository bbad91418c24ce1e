//! The plan of a cron expression: its fields as a query to the `cron` crate for the next matching
//! wall clock time.
//!
//! Invariant: the crate gets only explicit numbers, and wall clock times as if they were UTC. So
//! the dialect of the crate, and its rules for clock changes, have no effect on a job.
//!
//! The crate has no syntax for some days (`L`, `15W`, `5#2`). If an expression names such days, the
//! crate yields the times of every day, and [`CronDayRule`] selects the right days.

use std::fmt::Write as _;
use std::str::FromStr as _;

use chrono::{DateTime, Datelike as _, NaiveDate, NaiveTime, Utc};

use super::cron_days::CronDayRule;
use super::cron_field::{CronField, DAY, HOUR, MINUTE, MONTH, SECOND, Values, WEEKDAY, YEAR};
use super::cron_piece::{CronFault, CronPiece};
use super::cron_search::Wall;
use super::day_letter::Month;
use super::hash_draw::Draw;
use super::number_set::Set;
use super::search_work;

const PLAN_FAULT: &str =
    "schedd cannot compute the times of this expression; please report this fault of schedd";

/// A checked cron expression, prepared for the search of its times.
#[derive(Debug, Default)]
pub(super) struct CronPlan {
    /// The schedule of the `cron` crate, or two schedules if both day fields are restricted. A
    /// time matches if at least one schedule matches.
    either: Vec<::cron::Schedule>,
    days: CronDayRule,
    months: Set,
    years: Set,
    wild: bool,
    is_drawn: bool,
    is_at_boot: bool,
}

impl CronPlan {
    /// Returns the plan of `@reboot`, which matches no time.
    pub(super) fn at_boot() -> Self {
        Self { is_at_boot: true, ..Self::default() }
    }

    /// Creates the plan for `values`. The plan may have no occurrence, so the caller checks the
    /// result.
    pub(super) fn of(values: CronFields) -> Result<Self, CronFault> {
        let CronFields { second, minute, hour, day, month, weekday, year } = &values;
        let clock =
            format!("{} {} {}", listed(second, 60, 0), listed(minute, 60, 0), listed(hour, 24, 0));
        let (months, years) = (listed(month, 12, 0), listed(year, 130, YEAR.min));
        // The crate counts weekdays from Sunday = 1.
        let (days, weekdays) = (listed(day, 31, 0), listed(weekday, 7, 1));
        let texts = if [day, weekday].iter().any(|values| !values.letters.is_empty()) {
            vec![format!("{clock} * {months} * {years}")]
        } else if day.starred || weekday.starred {
            vec![format!("{clock} {days} {months} {weekdays} {years}")]
        } else {
            vec![
                format!("{clock} {days} {months} * {years}"),
                format!("{clock} * {months} {weekdays} {years}"),
            ]
        };
        let either = texts
            .iter()
            .map(|text| ::cron::Schedule::from_str(text))
            .collect::<Result<Vec<_>, _>>()
            .map_err(|_| CronFault { offset: 0, problem: PLAN_FAULT.to_owned() })?;
        let wild = minute.starred || hour.starred;
        let is_drawn = [second, minute, hour, day, month, weekday]
            .iter()
            .any(|values| !values.drawn.is_empty());
        let (months, years) = (month.set, year.set);
        let days = CronDayRule { day: values.day, weekday: values.weekday };
        Ok(Self { either, days, months, years, wild, is_drawn, is_at_boot: false })
    }
}

impl Wall for CronPlan {
    /// Returns true if the minute or hour field begins with `*`. The job then follows real time
    /// through clock changes, as in cron(8) of Debian.
    fn is_wild(&self) -> bool {
        self.wild
    }

    fn first_local_from(&self, local: i64) -> Option<i64> {
        let mut from = DateTime::from_timestamp(local, 0)?;
        loop {
            let found = self.first_of_either(from)?;
            if !self.days.has_letters() {
                return Some(found.timestamp());
            }
            // A mask of the matching days from the day of `found` to the end of the month. Bit 0 is
            // the day of `found`.
            let days = self.days.days_around(found.date_naive()) >> found.day();
            let date = match days.trailing_zeros() {
                0 => return Some(found.timestamp()),
                later @ 1..32 => {
                    found.date_naive().checked_add_days(chrono::Days::new(u64::from(later)))?
                }
                _ => self.first_day_after_month_of(found.date_naive())?,
            };
            from = date.and_time(NaiveTime::MIN).and_utc();
        }
    }
}

impl CronPlan {
    /// Returns a mask of the days of the month that match. Bit 1 is day 1.
    pub(super) fn days_of_month(&self, year: i64, month: i64) -> u32 {
        if self.names_month(year, month) { self.days.days_of(Month::of(year, month)) } else { 0 }
    }

    fn names_month(&self, year: i64, month: i64) -> bool {
        let names =
            |set: &Set, number: i64| u16::try_from(number).is_ok_and(|number| set.has(number));
        names(&self.years, year - i64::from(YEAR.min)) && names(&self.months, month)
    }

    /// Returns true if the expression has an `H`. The occurrences then depend on the name of the
    /// job.
    pub(super) fn is_drawn(&self) -> bool {
        self.is_drawn
    }

    /// Returns true if neither day field begins with `*` or is `?`. A day must then match at least
    /// one of the two fields.
    pub(super) fn is_either_day(&self) -> bool {
        self.days.is_either()
    }

    /// Returns true if the expression is `@reboot`.
    pub(super) fn is_at_boot(&self) -> bool {
        self.is_at_boot
    }

    /// Returns the first matching day in a month after the month of `date`. Returns `None` if no
    /// such day comes before 2100.
    ///
    /// Months with the same first weekday and length have the same matching days. So the search
    /// examines each of these 28 kinds of month at most once. The `cron` crate would be slow for
    /// days that never come, such as a day 1 that is also a last Friday.
    fn first_day_after_month_of(&self, date: NaiveDate) -> Option<NaiveDate> {
        let next = i64::from(date.year()) * 12 + i64::from(date.month());
        let mut empty = 0_u32;
        for at in next..=i64::from(YEAR.max) * 12 + 11 {
            let (year, month) = (at.div_euclid(12), at.rem_euclid(12) + 1);
            if !self.names_month(year, month) {
                continue;
            }
            let kind = Month::of(year, month);
            if empty & kind.bit() != 0 {
                continue;
            }
            let days = self.days.days_of(kind);
            if days != 0 {
                return NaiveDate::from_ymd_opt(
                    year.try_into().ok()?,
                    month.try_into().ok()?,
                    days.trailing_zeros(),
                );
            }
            empty |= kind.bit();
        }
        None
    }

    fn first_of_either(&self, from: DateTime<Utc>) -> Option<DateTime<Utc>> {
        search_work::step();
        let before = from.checked_sub_signed(chrono::TimeDelta::seconds(1))?;
        self.either.iter().filter_map(|schedule| schedule.after(&before).next()).min()
    }
}

/// The values of each field of a cron expression.
pub(crate) struct CronFields {
    pub(crate) second: Values,
    pub(crate) minute: Values,
    pub(crate) hour: Values,
    pub(crate) day: Values,
    pub(crate) month: Values,
    pub(crate) weekday: Values,
    pub(crate) year: Values,
}

impl CronFields {
    /// Returns the rules of each field of an expression with `count` fields, in order. An
    /// expression of five fields begins with the minute, else with the second.
    pub(super) fn rules(count: usize) -> impl Iterator<Item = &'static CronField> {
        [&SECOND, &MINUTE, &HOUR, &DAY, &MONTH, &WEEKDAY, &YEAR]
            .into_iter()
            .skip(usize::from(count < 6))
    }

    /// Parses the values of five fields, of six fields (leading seconds) or of seven fields
    /// (trailing years).
    pub(super) fn read(fields: &[CronPiece<'_>], draw: Draw<'_>) -> Result<Self, CronFault> {
        let (second, rest) = match fields {
            [second, rest @ ..] if matches!(rest.len(), 5 | 6) => {
                (SECOND.read(*second, draw)?, rest)
            }
            _ => {
                let mut set = Set::default();
                set.insert(0);
                (Values { set, ..Values::default() }, fields)
            }
        };
        let &[minute, hour, day, month, weekday, ref years @ ..] = rest else {
            return Err(wrong_count(fields));
        };
        if years.len() > 1 {
            return Err(wrong_count(fields));
        }
        Ok(Self {
            second,
            minute: MINUTE.read(minute, draw)?,
            hour: HOUR.read(hour, draw)?,
            day: DAY.read(day, draw)?,
            month: MONTH.read(month, draw)?,
            weekday: WEEKDAY.read(weekday, draw)?,
            year: years.first().map_or_else(|| Ok(YEAR.whole()), |year| YEAR.read(*year, draw))?,
        })
    }
}

fn wrong_count(fields: &[CronPiece<'_>]) -> CronFault {
    let end = |piece: &CronPiece<'_>| piece.offset + piece.text.len();
    let offset = fields.get(7).map_or_else(|| fields.last().map_or(0, end), |extra| extra.offset);
    let (count, field_or_fields) =
        (fields.len(), if fields.len() == 1 { "field" } else { "fields" });
    let at = offset + 1;
    let place = if count > 7 {
        format!("the first extra field is at character {at}")
    } else {
        format!("the expression ends before character {at}")
    };
    let problem = format!(
        "the expression has {count} {field_or_fields} ({place}), wanted 5 (minute, hour, day of month, month, weekday), 6 with leading seconds or 7 with trailing years"
    );
    CronFault { offset, problem }
}

/// Formats the values, each plus `base`, as a list for the `cron` crate. Returns `*` if all
/// `count` values are set.
fn listed(values: &Values, count: u32, base: u16) -> String {
    if values.set.len() == count {
        return "*".to_owned();
    }
    let mut text = String::new();
    for value in values.set.iter() {
        let comma = if text.is_empty() { "" } else { "," };
        // Writing to a String cannot fail.
        let _ = write!(text, "{comma}{}", value + base);
    }
    text
}
