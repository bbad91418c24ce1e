//! Schedules: the forms `[jobs.X]` and `schedctl add` know. The occurrences each stands for are a [`Timetable`]'s.

use std::time::Duration;

use super::clock_changes::ClockChanges;
use super::cron::period_of;
use super::duration::format_duration;
use super::ids::JobName;
use super::time::UnixMillis;
use super::wording::rfc3339;
use super::zone::Zone;

pub use super::calendar::{CalendarError, CalendarExpr};
pub use super::cron::{CronError, CronExpr};
pub use super::recurrence::{Recurrence, RecurrenceError};
pub use super::timetable::{LeftOut, Timetable};

/// When a job runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Schedule {
    /// Never by itself.
    Manual,
    /// Once.
    At(UnixMillis),
    /// At each of these, in order: 2 to 1,000, or among several schedules one.
    Instants(Vec<UnixMillis>),
    /// At anchor + k * period. 1 s to 10 years, whole milliseconds.
    Every(Duration),
    /// So long after the end of the run before it; the first so long after the job is applied. 1 s to 10 years.
    Delay(Duration),
    /// When one of these matches the wall clock of the job's zone. 1 to 32 of them.
    Cron(Vec<CronExpr>),
    /// When one of these matches the wall clock, as systemd's `OnCalendar=`. 1 to 32 of them.
    Calendar(Vec<CalendarExpr>),
    /// As one of these iCalendar rules says. 1 to 32 of them.
    Rules(Vec<Recurrence>),
    /// When any of these comes: 2 to 32, none of them manual, a delay, one instant alone, or several again.
    Several(Vec<Schedule>),
}

impl Schedule {
    /// An instant up to `now` from which a period counts as it does from `anchor`, which is later: the occurrences stay where they are.
    pub fn anchor_before(&self, anchor: UnixMillis, now: UnixMillis) -> UnixMillis {
        let ahead = anchor.since(now).as_millis();
        let Some(period) = self.common_period().filter(|period| *period > 0) else { return now.floor_to_second() };
        let back = ahead.div_ceil(period).saturating_mul(period);
        let back = u64::try_from(back)
            .ok()
            .map(Duration::from_millis)
            .filter(|back| back.as_millis() < anchor.as_i64().unsigned_abs().into());
        back.map_or_else(|| now.floor_to_second(), |back| anchor.saturating_sub(back))
    }

    /// The time after which all periods it counts come together again, in ms; none without any, or if that takes too long to matter.
    fn common_period(&self) -> Option<u128> {
        match self {
            Self::Every(period) => Some(period.as_millis()),
            Self::Several(all) => all.iter().filter_map(Self::common_period).try_fold(1, |common: u128, period| {
                let (mut a, mut b) = (common, period);
                while b > 0 {
                    (a, b) = (b, a % b);
                }
                common.checked_div(a)?.checked_mul(period)
            }),
            _ => None,
        }
    }

    /// In words: the cron expressions, `every 30s`, `at 2026-12-24T09:00:00.000+01:00`, `manual`.
    pub fn text(&self, zone: &Zone) -> String {
        match self {
            Self::Manual => "manual".to_owned(),
            Self::At(at) => format!("at {}", rfc3339(*at, zone)),
            Self::Every(period) => format!("every {}", format_duration(*period)),
            Self::Delay(delay) => format!("{} after each run", format_duration(*delay)),
            Self::Cron(list) => joined(list.iter().map(CronExpr::as_str), "; "),
            Self::Instants(list) => {
                let shown: Vec<String> = list.iter().take(3).map(|at| rfc3339(*at, zone)).collect();
                let rest =
                    if list.len() > shown.len() { format!(" and {} more", list.len() - shown.len()) } else { String::new() };
                format!("at {}{rest}", shown.join(", "))
            }
            Self::Calendar(list) => format!("calendar {}", joined(list.iter().map(CalendarExpr::as_str), "; ")),
            Self::Rules(list) => {
                let start = list.first().map(|rule| format!(" from {}", rule.start())).unwrap_or_default();
                format!("rrule {}{start}", joined(list.iter().map(Recurrence::as_str), " and "))
            }
            Self::Several(list) => list.iter().map(|one| one.text(zone)).collect::<Vec<_>>().join("; "),
        }
    }

    /// The same with the zone it is read in, where that matters.
    pub fn text_with_zone(&self, zone: &Zone) -> String {
        if self.is_on_the_wall() { format!("{} in {}", self.text(zone), zone.name()) } else { self.text(zone) }
    }

    /// Whether a part of it is read on the wall clock of the job's zone.
    fn is_on_the_wall(&self) -> bool {
        match self {
            Self::Manual | Self::At(_) | Self::Instants(_) | Self::Every(_) | Self::Delay(_) => false,
            Self::Cron(_) | Self::Rules(_) => true,
            Self::Calendar(list) => list.iter().any(|expr| expr.zone().is_none()),
            Self::Several(list) => list.iter().any(Self::is_on_the_wall),
        }
    }

    /// Whether zone data decides when it comes.
    pub fn goes_by_clocks(&self) -> bool {
        match self {
            Self::Manual | Self::At(_) | Self::Instants(_) | Self::Every(_) | Self::Delay(_) => false,
            Self::Cron(_) | Self::Calendar(_) | Self::Rules(_) => true,
            Self::Several(list) => list.iter().any(Self::goes_by_clocks),
        }
    }

    /// Whether a part of it counts a period from the job's first apply, or from its anchor.
    pub fn has_every(&self) -> bool {
        match self {
            Self::Every(_) => true,
            Self::Several(list) => list.iter().any(Self::has_every),
            _ => false,
        }
    }

    /// What a single `cron` says: an expression, or `@every` and a period, which is `every`.
    pub fn of_cron(text: &str) -> Result<Self, CronError> {
        match period_of(text) {
            Some(period) => period.map(Self::Every),
            None => text.parse().map(|expr| Self::Cron(vec![expr])),
        }
    }

    /// The schedule as the job `name` has it: its own numbers for `H`, its rule for clock changes.
    #[must_use]
    pub fn for_job(&self, name: &JobName, clock_changes: ClockChanges) -> Self {
        match self {
            Self::Cron(list) => Self::Cron(list.iter().map(|expr| expr.for_job(name.as_str(), clock_changes)).collect()),
            Self::Calendar(list) => Self::Calendar(list.iter().map(|expr| expr.for_job(clock_changes)).collect()),
            Self::Rules(list) => Self::Rules(list.iter().map(|rule| rule.for_job(clock_changes)).collect()),
            Self::Several(list) => Self::Several(list.iter().map(|one| one.for_job(name, clock_changes)).collect()),
            Self::Manual | Self::At(_) | Self::Instants(_) | Self::Every(_) | Self::Delay(_) => self.clone(),
        }
    }

    /// Whether it runs after each boot of a host, too: one of its expressions is `@reboot`.
    pub fn is_at_boot(&self) -> bool {
        self.has_cron(CronExpr::is_at_boot)
    }

    /// Whether its times depend on the job's name: a cron expression has an `H`.
    pub fn is_drawn(&self) -> bool {
        self.has_cron(CronExpr::is_drawn)
    }

    /// What stands beside `every` among several schedules; none if it is not several.
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
