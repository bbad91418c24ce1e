//! The fields of an expression as a question to the `cron` crate: which wall clock time matches next.
//!
//! Invariant: the crate sees explicit numbers in its own counting and no zone (a wall clock time is passed as if it were
//! UTC), so neither its dialect nor its handling of clock changes can reach a job.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::str::FromStr as _;

use chrono::DateTime;

use super::field::{DAY, Fault, HOUR, MINUTE, MONTH, Piece, SECOND, Values, WEEKDAY, YEAR};
use super::search::Wall;

/// A read expression.
#[derive(Debug)]
pub(super) struct Plan {
    /// One, or two of which either may match (both day fields restricted).
    either: Vec<::cron::Schedule>,
    wild: bool,
}

impl Plan {
    /// Reads five fields, six (leading seconds) or seven (trailing years).
    pub(super) fn read(fields: &[Piece<'_>]) -> Result<Self, Fault> {
        let (second, rest) = match fields {
            [second, rest @ ..] if matches!(rest.len(), 5 | 6) => (SECOND.read(*second)?, rest),
            _ => (Values { set: BTreeSet::from([0]), starred: false }, fields),
        };
        let &[minute, hour, day, month, weekday, ref years @ ..] = rest else { return Err(wrong_count(fields)) };
        if years.len() > 1 {
            return Err(wrong_count(fields));
        }
        let minute = MINUTE.read(minute)?;
        let hour = HOUR.read(hour)?;
        let day = DAY.read(day)?;
        let month = MONTH.read(month)?;
        let weekday = WEEKDAY.read(weekday)?;
        let year = years.first().map_or_else(|| Ok(YEAR.whole()), |year| YEAR.read(*year))?;

        let clock = format!("{} {} {}", listed(&second, 60), listed(&minute, 60), listed(&hour, 24));
        let (months, years) = (listed(&month, 12), listed(&year, 130));
        let (days, weekdays) = (listed(&day, 31), quartz_weekdays(&weekday));
        let texts = if day.starred || weekday.starred {
            vec![format!("{clock} {days} {months} {weekdays} {years}")]
        } else {
            vec![format!("{clock} {days} {months} * {years}"), format!("{clock} * {months} {weekdays} {years}")]
        };
        let offset = fields.first().map_or(0, |piece| piece.offset);
        let either = texts
            .iter()
            .map(|text| ::cron::Schedule::from_str(text))
            .collect::<Result<Vec<_>, _>>()
            .map_err(|_| Fault { offset, problem: "cannot be planned".to_owned() })?;
        let plan = Self { either, wild: minute.starred || hour.starred };
        if plan.first_local_from(0).is_none() {
            return Err(Fault { offset, problem: "never comes before 2100, wanted a day that exists".to_owned() });
        }
        Ok(plan)
    }
}

impl Wall for Plan {
    /// Its minute or hour field begins with `*` (cron(8) of Debian).
    fn is_wild(&self) -> bool {
        self.wild
    }

    fn first_local_from(&self, local: i64) -> Option<i64> {
        let before = DateTime::from_timestamp(local.checked_sub(1)?, 0)?;
        self.either.iter().filter_map(|schedule| schedule.after(&before).next()).map(|at| at.timestamp()).min()
    }
}

fn wrong_count(fields: &[Piece<'_>]) -> Fault {
    let end = |piece: &Piece<'_>| piece.offset + piece.text.len();
    let offset = fields.get(7).map_or_else(|| fields.last().map_or(0, end), |extra| extra.offset);
    let (count, noun) = (fields.len(), if fields.len() == 1 { "field" } else { "fields" });
    let problem = format!(
        "{count} {noun} found, wanted 5 (minute, hour, day of month, month, weekday), 6 with leading seconds or 7 with trailing years"
    );
    Fault { offset, problem }
}

/// The values as the crate's list; `*` when it is all `count` of them.
fn listed(values: &Values, count: usize) -> String {
    if values.set.len() == count { "*".to_owned() } else { numbers(values.set.iter().copied()) }
}

/// The crate counts weekdays from Sunday = 1.
fn quartz_weekdays(values: &Values) -> String {
    if values.set.len() == 7 { "*".to_owned() } else { numbers(values.set.iter().map(|day| day + 1)) }
}

fn numbers(values: impl Iterator<Item = u16>) -> String {
    let mut text = String::new();
    for value in values {
        let comma = if text.is_empty() { "" } else { "," };
        // Writing to a String cannot fail.
        let _ = write!(text, "{comma}{value}");
    }
    text
}
