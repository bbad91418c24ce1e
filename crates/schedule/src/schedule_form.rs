//! Schedules in the forms that `[jobs.X]` and `schedctl add` accept. A
//! [`Timetable`](super::timetable::Timetable) computes the occurrences of a schedule.

use std::time::Duration;

use super::chain::parents::Parents;
use super::clock_changes::ClockChanges;
use super::cron::period_of;
use crate::names::JobName;
use crate::time::duration::format_duration;
use crate::time::unix_millis::UnixMillis;
use crate::time::wording::rfc3339;
use crate::time::zone::Zone;

pub use super::calendar::{CalendarError, CalendarExpr};
pub use super::cron::{CronError, CronExpr};
pub use super::recurrence::{Recurrence, RecurrenceError};

/// The schedule of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Schedule {
    /// The job has no schedule and runs only by request.
    Manual,
    /// The job runs once, at this instant.
    At(UnixMillis),
    /// The job runs at each of these 2 to 1,000 instants, which are sorted. As a part of `Several`,
    /// a list may have a single instant.
    Instants(Vec<UnixMillis>),
    /// The job runs at the anchor plus each multiple of this period. The period is 1 s to 10 years,
    /// in whole milliseconds.
    Every(Duration),
    /// The job runs after this delay, counted from the end of its previous run or from its first
    /// apply. The delay is 1 s to 10 years.
    Delay(Duration),
    /// The job runs when these other jobs have ended, once for each occurrence of the root.
    After(Parents),
    /// The job runs when any of these 1 to 32 cron expressions matches the wall clock of its zone.
    Cron(Vec<CronExpr>),
    /// The job runs when any of these 1 to 32 calendar expressions matches the wall clock, as with
    /// systemd's `OnCalendar=`.
    Calendar(Vec<CalendarExpr>),
    /// The job runs at the times of these 1 to 32 iCalendar rules.
    Rules(Vec<Recurrence>),
    /// The job runs when any of these 2 to 32 schedules has an occurrence. No part is `Manual`,
    /// `At`, `Delay`, `After` or `Several`.
    Several(Vec<Schedule>),
}

impl Schedule {
    /// Returns an anchor at or before `now` from which `every` has the same occurrences as from
    /// `anchor`. The caller ensures that `anchor` is later than `now`.
    pub fn anchor_before(&self, anchor: UnixMillis, now: UnixMillis) -> UnixMillis {
        let ahead = anchor.since(now).as_millis();
        let Some(period) = self.common_period().filter(|period| *period > 0) else {
            return now.floor_to_second();
        };
        let back = ahead.div_ceil(period).saturating_mul(period);
        let back = u64::try_from(back)
            .ok()
            .map(Duration::from_millis)
            .filter(|back| back.as_millis() < anchor.as_i64().unsigned_abs().into());
        back.map_or_else(|| now.floor_to_second(), |back| anchor.saturating_sub(back))
    }

    /// Returns the least common multiple of all `every` periods, in ms. The result is 1 for a
    /// `Several` without `every`. Returns `None` for any other schedule without `every`, or if the
    /// result is too large for a `u128`.
    fn common_period(&self) -> Option<u128> {
        match self {
            Self::Every(period) => Some(period.as_millis()),
            Self::Several(all) => {
                all.iter().filter_map(Self::common_period).try_fold(1, |common: u128, period| {
                    let (mut a, mut b) = (common, period);
                    while b > 0 {
                        (a, b) = (b, a % b);
                    }
                    common.checked_div(a)?.checked_mul(period)
                })
            }
            _ => None,
        }
    }

    /// Returns the schedule as a short text, such as `30 2 * * *`, `every 30s`, `at
    /// 2026-12-24T09:00:00.000+01:00` or `manual`.
    pub fn text(&self, zone: &Zone) -> String {
        match self {
            Self::Manual => "manual".to_owned(),
            Self::At(at) => format!("at {}", rfc3339(*at, zone)),
            Self::Every(period) => format!("every {}", format_duration(*period)),
            Self::Delay(delay) => format!("{} after each run", format_duration(*delay)),
            Self::After(parents) => parents.text(),
            Self::Cron(list) => joined(list.iter().map(CronExpr::as_str), "; "),
            Self::Instants(list) => {
                let shown: Vec<String> = list.iter().take(3).map(|at| rfc3339(*at, zone)).collect();
                let rest = if list.len() > shown.len() {
                    format!(" and {} more", list.len() - shown.len())
                } else {
                    String::new()
                };
                format!("at {}{rest}", shown.join(", "))
            }
            Self::Calendar(list) => {
                format!("calendar {}", joined(list.iter().map(CalendarExpr::as_str), "; "))
            }
            Self::Rules(list) => {
                let start =
                    list.first().map(|rule| format!(" from {}", rule.start())).unwrap_or_default();
                format!("rrule {}{start}", joined(list.iter().map(Recurrence::as_str), " and "))
            }
            Self::Several(list) => {
                list.iter().map(|one| one.text(zone)).collect::<Vec<_>>().join("; ")
            }
        }
    }

    /// Returns the short text of the schedule. The name of `zone` is added if the schedule follows
    /// the wall clock of that zone.
    pub fn text_with_zone(&self, zone: &Zone) -> String {
        if self.is_on_the_wall() {
            format!("{} in {}", self.text(zone), zone.name())
        } else {
            self.text(zone)
        }
    }

    /// Returns true if a part of the schedule follows the wall clock of the job's zone.
    fn is_on_the_wall(&self) -> bool {
        match self {
            Self::Manual
            | Self::At(_)
            | Self::Instants(_)
            | Self::Every(_)
            | Self::Delay(_)
            | Self::After(_) => false,
            Self::Cron(_) | Self::Rules(_) => true,
            Self::Calendar(list) => list.iter().any(|expr| expr.zone().is_none()),
            Self::Several(list) => list.iter().any(Self::is_on_the_wall),
        }
    }

    /// Returns true if the occurrences depend on time zone data.
    pub fn goes_by_clocks(&self) -> bool {
        match self {
            Self::Manual
            | Self::At(_)
            | Self::Instants(_)
            | Self::Every(_)
            | Self::Delay(_)
            | Self::After(_) => false,
            Self::Cron(_) | Self::Calendar(_) | Self::Rules(_) => true,
            Self::Several(list) => list.iter().any(Self::goes_by_clocks),
        }
    }

    /// Returns true if every expression of the schedule follows real time through clock changes,
    /// unless its job sets another rule.
    pub fn follows_real_time(&self) -> bool {
        match self {
            Self::Cron(list) => list.iter().all(CronExpr::follows_real_time),
            Self::Calendar(list) => list.iter().all(|expr| expr.plan().is_wild),
            Self::Rules(list) => list.iter().all(Recurrence::follows_real_time),
            Self::Several(list) => list.iter().all(Self::follows_real_time),
            Self::Manual
            | Self::At(_)
            | Self::Instants(_)
            | Self::Every(_)
            | Self::Delay(_)
            | Self::After(_) => true,
        }
    }

    /// Returns true if a part of the schedule is `every`, which counts a period from the anchor or
    /// from the job's first apply.
    pub fn has_every(&self) -> bool {
        match self {
            Self::Every(_) => true,
            Self::Several(list) => list.iter().any(Self::has_every),
            _ => false,
        }
    }

    /// Parses the value of a `cron` key: a cron expression, or `@every` with a period, which is the
    /// same as the key `every`.
    pub fn of_cron(text: &str) -> Result<Self, CronError> {
        match period_of(text) {
            Some(period) => period.map(Self::Every),
            None => text.parse().map(|expr| Self::Cron(vec![expr])),
        }
    }

    /// Returns this schedule for the job `name`: each `H` has its number, and `clock_changes` is
    /// the rule for clock changes. All instances of a job have the same numbers.
    #[must_use]
    pub fn for_job(&self, name: &JobName, clock_changes: ClockChanges) -> Self {
        match self {
            Self::Cron(list) => Self::Cron(
                list.iter()
                    .map(|expr| expr.for_job(name.defined().as_str(), clock_changes))
                    .collect(),
            ),
            Self::Calendar(list) => {
                Self::Calendar(list.iter().map(|expr| expr.for_job(clock_changes)).collect())
            }
            Self::Rules(list) => {
                Self::Rules(list.iter().map(|rule| rule.for_job(clock_changes)).collect())
            }
            Self::Several(list) => {
                Self::Several(list.iter().map(|one| one.for_job(name, clock_changes)).collect())
            }
            Self::Manual
            | Self::At(_)
            | Self::Instants(_)
            | Self::Every(_)
            | Self::Delay(_)
            | Self::After(_) => self.clone(),
        }
    }

    /// Returns the parents of the job, or `None` if the job is not a child in a chain.
    pub fn parents(&self) -> Option<&Parents> {
        match self {
            Self::After(parents) => Some(parents),
            _ => None,
        }
    }

    /// Returns true if an expression of the schedule is `@reboot`. The job then runs after each
    /// boot of a host.
    pub fn is_at_boot(&self) -> bool {
        self.has_cron(CronExpr::is_at_boot)
    }

    /// Returns true if a cron expression of the schedule has an `H`. The occurrences then depend
    /// on the name of the job.
    pub fn is_drawn(&self) -> bool {
        self.has_cron(CronExpr::is_drawn)
    }

    /// Returns this schedule without its `every` parts. Returns `None` if this schedule is not
    /// `Several`.
    pub fn without_every(&self) -> Option<Self> {
        let Self::Several(list) = self else { return None };
        Some(Self::Several(list.iter().filter(|one| !one.has_every()).cloned().collect()))
    }

    fn has_cron(&self, is_such: fn(&CronExpr) -> bool) -> bool {
        match self {
            Self::Cron(list) => list.iter().any(is_such),
            Self::Several(list) => list.iter().any(|one| one.has_cron(is_such)),
            _ => false,
        }
    }
}

fn joined<'a>(texts: impl Iterator<Item = &'a str>, between: &str) -> String {
    texts.collect::<Vec<_>>().join(between)
}
