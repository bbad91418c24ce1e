//! Cron expressions: the crontab(5) language with its common additions (seconds, years, `L`, `W`,
//! `#`, `?`, `H`).
//!
//! Invariant: a parsed expression other than `@reboot` has at least one occurrence before 2100. Its
//! meaning is that of Debian's crontab(5) and cron(8). Only `cron_plan` uses the `cron` crate,
//! because that crate has another dialect.

mod cron_days;
mod cron_error;
mod cron_field;
#[cfg(test)]
mod cron_oracle;
mod cron_piece;
mod cron_plan;
mod cron_reader;
mod cron_search;
mod cron_stretch;
#[cfg(test)]
mod cron_tests;
mod day_letter;
mod drawn_fields;
mod hash_draw;
mod number_set;
mod search_work;
#[cfg(test)]
mod twin_hours;

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use super::clock_changes::ClockChanges;
use crate::time::zone::Zone;
use cron_plan::CronPlan;

pub use cron_error::CronError;
pub(crate) use cron_field::{
    CronField, DAY, Drawn, HOUR, MINUTE, MONTH, SECOND, Values, WEEKDAY, YEAR,
};
pub(crate) use cron_reader::fields_of;
pub use cron_reader::{LONGEST_EXPRESSION, period_of};
pub(crate) use cron_search::{Wall, first_from};
pub(crate) use day_letter::Letter;
#[cfg(test)]
pub(crate) use search_work::steps_of;

/// A checked cron expression, cheap to clone. Two expressions are equal when their texts are
/// equal.
#[derive(Clone)]
pub struct CronExpr {
    text: Arc<str>,
    plan: Arc<CronPlan>,
    clock_changes: ClockChanges,
}

impl CronExpr {
    /// Returns the expression as it was written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Returns this expression for the job `name`: each `H` has its number, and `clock_changes` is
    /// the rule for clock changes.
    #[must_use]
    pub fn for_job(&self, name: &str, clock_changes: ClockChanges) -> Self {
        let text = self.text.clone();
        // The text was parsed before, so it can be parsed again.
        let drawn = self.plan.is_drawn().then(|| cron_reader::plan_drawn_of(&text, name)).flatten();
        let plan = drawn.map_or_else(|| self.plan.clone(), Arc::new);
        Self { text, plan, clock_changes }
    }

    /// Returns true if the expression has an `H`. The occurrences then depend on the job's name.
    pub fn is_drawn(&self) -> bool {
        self.plan.is_drawn()
    }

    /// Returns the text of the expression with the numbers of the job `name` in place of each `H`.
    pub fn text_for(&self, name: &str) -> String {
        if self.is_drawn() {
            drawn_fields::text_drawn_of(&self.text, name)
        } else {
            self.text.to_string()
        }
    }

    /// Returns the day of month and the weekday, as written, if both fields are restricted, else
    /// `None`. A day must then match at least one of the two fields, which surprises many users.
    pub fn either_day(&self) -> Option<(&str, &str)> {
        cron_reader::day_texts(&self.text).filter(|_| self.plan.is_either_day())
    }

    /// Returns true if the expression is `@reboot`. The job then runs once after each boot of a
    /// host, and the expression has no occurrences.
    pub fn is_at_boot(&self) -> bool {
        self.plan.is_at_boot()
    }

    /// Returns true if the minute or hour begins with `*`. The expression then follows real time
    /// through clock changes, unless its job sets another rule.
    pub fn follows_real_time(&self) -> bool {
        self.plan.is_wild()
    }

    /// Returns the first occurrence in `zone` that is not before `from`. Both are Unix times in
    /// seconds. Returns `None` if no occurrence comes before 2100.
    pub(crate) fn first_from(&self, zone: &Zone, from: i64) -> Option<i64> {
        cron_search::first_from(&*self.plan, zone, self.clock_changes, from)
    }

    /// Returns a mask of the days of the month on which the expression may have an occurrence, by
    /// the wall clock. Bit 1 is day 1.
    pub(crate) fn days_of_month(&self, year: i64, month: i64) -> u32 {
        self.plan.days_of_month(year, month)
    }
}

impl FromStr for CronExpr {
    type Err = CronError;

    fn from_str(text: &str) -> Result<Self, CronError> {
        match cron_reader::read(text) {
            Ok(plan) => Ok(Self {
                text: Arc::from(text),
                plan: Arc::new(plan),
                clock_changes: ClockChanges::default(),
            }),
            Err(fault) => Err(CronError::of(text, fault)),
        }
    }
}

impl PartialEq for CronExpr {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for CronExpr {}

impl fmt::Debug for CronExpr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("CronExpr").field(&self.text).finish()
    }
}

impl fmt::Display for CronExpr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}
