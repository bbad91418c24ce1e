//! Recurrence rules of iCalendar (RFC 5545, section 3.3.10): a start on a wall clock and the text
//! of an `RRULE`.
//!
//! Invariant: a parsed rule has at least one occurrence before 2100. No query takes more than
//! [`recurrence_plan::MOST_STEPS`] steps.
//!
//! A rule that repeats hourly or more often follows real time through clock changes. With any other
//! rule, the times that a gap skips become one occurrence right after the gap. A time that a fold
//! repeats is an occurrence only the first time. The key `dst` of a job changes this behaviour.
//!
//! The start is an occurrence only if the rule matches the start.

mod recurrence_days;
#[cfg(test)]
mod recurrence_oracle;
mod recurrence_plan;
mod recurrence_rule;
#[cfg(test)]
mod recurrence_tests;
mod recurrence_times;
mod rule_reader;

use std::fmt;
use std::sync::Arc;

use super::clock_changes::ClockChanges;
use super::cron::{Wall, first_from};
use crate::time::unix_millis::UnixMillis;
use crate::time::wording::end_within;
use crate::time::zone::Zone;
use recurrence_plan::RecurrencePlan;
pub(crate) use recurrence_rule::{Freq, RecurrenceRule, Until};

/// The maximum number of seconds by which a wall clock is ahead of UTC.
const LONGEST_OFFSET: i64 = 26 * 3_600;

/// The maximum length of a rule, in bytes.
pub const LONGEST_RULE: usize = 1_000;

/// A checked recurrence rule, cheap to clone. Two rules are equal when their texts and starts are
/// equal.
#[derive(Clone)]
pub struct Recurrence {
    text: Arc<str>,
    rule: Arc<RecurrenceRule>,
    plan: Arc<RecurrencePlan>,
    clock_changes: ClockChanges,
}

/// The reason why a text is not a recurrence rule.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("rrule {text:?}: {problem}")]
pub struct RecurrenceError {
    /// The text of the rule, cut if the text is long.
    pub text: String,
    /// The message: the fault, its position as a character counted from 1, and a valid form.
    pub problem: String,
    /// The byte at which the fault begins, or the length of the text if a part is missing at the
    /// end.
    pub offset: usize,
}

impl Recurrence {
    /// Parses the rule `text`, which counts from `start` on the wall clock.
    pub fn new(text: &str, start: jiff::civil::DateTime) -> Result<Self, RecurrenceError> {
        let refuse = |offset: usize, problem: String| {
            let shown = match text.char_indices().nth(120) {
                Some((end, _)) => format!("{}...", text.get(..end).unwrap_or_default()),
                None => text.to_owned(),
            };
            RecurrenceError { text: shown, problem, offset }
        };
        if text.len() > LONGEST_RULE {
            let problem =
                format!("the rule has {} bytes, wanted at most {LONGEST_RULE}", text.len());
            return Err(refuse(end_within(text, LONGEST_RULE), problem));
        }
        let (rule, plan) = rule_reader::read(text, rule_reader::local_second(start))
            .map_err(|fault| refuse(fault.offset, fault.problem))?;
        let is_over = |local: i64| matches!(plan.until, Some(Until::Real(until)) if local - LONGEST_OFFSET > until);
        if plan
            .first_local_from(plan.start)
            .is_none_or(|local| local >= UnixMillis::END / 1000 || is_over(local))
        {
            let problem = match plan.until {
                Some(_) => "the rule has no time before its UNTIL, wanted a later UNTIL",
                None => "the rule has no time before 2100, wanted a day that exists",
            };
            return Err(refuse(0, problem.to_owned()));
        }
        Ok(Self {
            text: Arc::from(text),
            rule: Arc::new(rule),
            plan: Arc::new(plan),
            clock_changes: ClockChanges::default(),
        })
    }

    /// Returns the text of the `RRULE` as it was written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Returns the parsed rule.
    pub(crate) fn rule(&self) -> &RecurrenceRule {
        &self.rule
    }

    /// Returns the start of the rule, as the wall clock shows it.
    pub fn start(&self) -> jiff::civil::DateTime {
        // The value is in range, because it was converted from a `DateTime`.
        jiff::Timestamp::from_second(self.plan.start)
            .map_or(jiff::civil::DateTime::MIN, |at| jiff::tz::TimeZone::UTC.to_datetime(at))
    }

    /// Returns this recurrence with `clock_changes` as its rule for clock changes.
    #[must_use]
    pub fn for_job(&self, clock_changes: ClockChanges) -> Self {
        Self { clock_changes, ..self.clone() }
    }

    /// Returns true if the rule is hourly or more frequent. The rule then follows real time through
    /// clock changes, unless its job sets another rule.
    pub(crate) fn follows_real_time(&self) -> bool {
        self.plan.is_wild()
    }

    /// Returns the first occurrence in `zone` that is not before `from`. Both are Unix times in
    /// seconds. Returns `None` if no occurrence comes before 2100.
    pub(crate) fn first_from(&self, zone: &Zone, from: i64) -> Option<i64> {
        let found = first_from(&*self.plan, zone, self.clock_changes, from)?;
        match self.plan.until {
            Some(Until::Real(until)) if found > until => None,
            _ => Some(found),
        }
    }

    /// Returns a mask of the days of the month on which the rule may have an occurrence, by the
    /// wall clock. Only days in the mask `asked` are examined. Bit 1 is day 1.
    pub(crate) fn days_of_month(&self, year: i64, month: i64, asked: u32) -> u32 {
        self.plan.days_of_month(year, month, asked)
    }

    /// Returns the first wall clock time of the rule that is not before `local`, or `None`. Both
    /// are seconds since 1970 by the wall clock of `zone`. The zone serves to compare the result
    /// with an `UNTIL` in UTC.
    pub fn first_local_from(&self, zone: &Zone, local: i64) -> Option<i64> {
        self.plan.first_local_from(local).filter(|found| self.is_before_its_end(zone, *found))
    }

    /// Calls `see` with each wall clock time of the rule in `zone`, in order. A time is in seconds
    /// since 1970 by that clock. The walk ends when `see` returns true or `steps` reaches 0. Each
    /// examined day and each time is a step.
    pub fn walk_local(&self, zone: &Zone, steps: &mut u32, see: &mut dyn FnMut(i64) -> bool) {
        self.plan.walk(steps, &mut |local| !self.is_before_its_end(zone, local) || see(local));
    }

    /// Returns false if the rule has an `UNTIL` in UTC that lies before the wall clock time
    /// `local`. Returns true otherwise.
    fn is_before_its_end(&self, zone: &Zone, local: i64) -> bool {
        let Some(Until::Real(until)) = self.plan.until else { return true };
        let shown = jiff::Timestamp::from_second(local)
            .map(|shown| jiff::tz::TimeZone::UTC.to_datetime(shown));
        let at = shown.and_then(|shown| zone.rules().to_ambiguous_timestamp(shown).compatible());
        at.is_ok_and(|at| at.as_second() <= until)
    }
}

impl PartialEq for Recurrence {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text && self.plan.start == other.plan.start
    }
}

impl Eq for Recurrence {}

impl fmt::Debug for Recurrence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Recurrence").field(&self.text).field(&self.plan.start).finish()
    }
}
