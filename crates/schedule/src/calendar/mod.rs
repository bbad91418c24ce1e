//! Calendar expressions: the syntax of systemd's `OnCalendar=` (systemd.time(7), CALENDAR EVENTS),
//! without fractions of seconds.
//!
//! Invariant: a parsed expression has at least one occurrence before 2100. An expression with `*`
//! or an open step (`0/2`) in hour or minute follows real time through clock changes. With any
//! other expression, the times that a gap skips become one occurrence right after the gap. A time
//! that a fold repeats is an occurrence only the first time. The key `dst` of a job changes these
//! rules.

mod calendar_component;
mod calendar_cursor;
mod calendar_plan;
mod calendar_reader;
#[cfg(test)]
mod calendar_tests;

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use super::clock_changes::ClockChanges;
use super::cron::{Wall, first_from};
use crate::time::wording::end_within;
use crate::time::zone::Zone;
pub(crate) use calendar_plan::{CalendarDays, CalendarPlan};

/// The maximum length of an expression, in bytes.
pub const LONGEST_CALENDAR: usize = 1_000;

/// A checked calendar expression, cheap to clone. Two expressions are equal when their texts are
/// equal.
#[derive(Clone)]
pub struct CalendarExpr {
    text: Arc<str>,
    plan: Arc<CalendarPlan>,
    zone: Option<Zone>,
    clock_changes: ClockChanges,
}

/// The reason why a text is not a calendar expression.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("calendar {text:?}: {problem}")]
pub struct CalendarError {
    /// The text of the expression, cut if the text is long.
    pub text: String,
    /// The message: the fault, its position as a character counted from 1, and a valid form.
    pub problem: String,
    /// The byte at which the fault begins, or the length of the text if a part is missing at the
    /// end.
    pub offset: usize,
}

impl CalendarExpr {
    /// Returns the expression as it was written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Returns the parsed plan of the expression.
    pub(crate) fn plan(&self) -> &CalendarPlan {
        &self.plan
    }

    /// Returns the zone that the expression names. `None` if the expression names no zone.
    pub fn zone(&self) -> Option<&Zone> {
        self.zone.as_ref()
    }

    /// Returns this expression with `clock_changes` as its rule for clock changes.
    #[must_use]
    pub fn for_job(&self, clock_changes: ClockChanges) -> Self {
        Self { clock_changes, ..self.clone() }
    }

    /// Returns this expression without the zone that it names.
    #[must_use]
    pub(crate) fn without_zone(&self) -> Self {
        Self { zone: None, ..self.clone() }
    }

    /// Returns a mask of the days of the month on which the expression may have an occurrence, by
    /// the wall clock of its zone. Bit 1 is day 1.
    pub(crate) fn days_of_month(&self, year: i64, month: i64) -> u32 {
        self.plan.days_of_month(year, month)
    }

    /// Returns the first and the last second of a day at which the expression may have an
    /// occurrence. Both are seconds after midnight by the wall clock of the expression's zone.
    pub(crate) fn ends_of_day(&self) -> (i64, i64) {
        self.plan.ends_of_day()
    }

    /// Returns the first occurrence that is not before `from`. Both are Unix times in seconds.
    /// Returns `None` if no occurrence comes before 2100. The expression's own zone is used if it
    /// names one, else `zone`.
    pub(crate) fn first_from(&self, zone: &Zone, from: i64) -> Option<i64> {
        first_from(&*self.plan, self.zone.as_ref().unwrap_or(zone), self.clock_changes, from)
    }
}

impl FromStr for CalendarExpr {
    type Err = CalendarError;

    fn from_str(text: &str) -> Result<Self, CalendarError> {
        let refuse = |offset: usize, problem: String| {
            let shown = match text.char_indices().nth(120) {
                Some((end, _)) => format!("{}...", text.get(..end).unwrap_or_default()),
                None => text.to_owned(),
            };
            CalendarError { text: shown, problem, offset }
        };
        if text.len() > LONGEST_CALENDAR {
            let problem = format!(
                "the expression has {} bytes, wanted at most {LONGEST_CALENDAR}",
                text.len()
            );
            return Err(refuse(end_within(text, LONGEST_CALENDAR), problem));
        }
        let (plan, zone) =
            calendar_reader::read(text).map_err(|fault| refuse(fault.offset, fault.problem))?;
        if plan
            .first_local_from(0)
            .is_none_or(|local| local >= crate::time::unix_millis::UnixMillis::END / 1000)
        {
            return Err(refuse(
                0,
                "the expression has no time before 2100, wanted a day that exists".to_owned(),
            ));
        }
        Ok(Self {
            text: Arc::from(text),
            plan: Arc::new(plan),
            zone,
            clock_changes: ClockChanges::default(),
        })
    }
}

impl PartialEq for CalendarExpr {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for CalendarExpr {}

impl fmt::Debug for CalendarExpr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("CalendarExpr").field(&self.text).finish()
    }
}

impl fmt::Display for CalendarExpr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}
