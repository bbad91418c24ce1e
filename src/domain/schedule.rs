//! Schedules: the forms `[jobs.X]` and `schedctl add` know. The occurrences each stands for are a [`Timetable`]'s.

use std::time::Duration;

use super::clock_changes::ClockChanges;
use super::cron::period_of;
use super::duration::format_duration;
use super::ids::JobName;
use super::time::UnixMillis;
use super::wording::rfc3339;
use super::zone::Zone;

pub use super::cron::{CronError, CronExpr};
pub use super::timetable::Timetable;

/// When a job runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Schedule {
    /// Never by itself.
    Manual,
    /// Once.
    At(UnixMillis),
    /// At anchor + k * period. 1 s to 10 years, whole milliseconds.
    Every(Duration),
    /// When one of these matches the wall clock of the job's zone. 1 to 32 of them.
    Cron(Vec<CronExpr>),
}

impl Schedule {
    /// In words: the cron expressions, `every 30s`, `at 2026-12-24T09:00:00.000+01:00`, `manual`.
    pub fn text(&self, zone: &Zone) -> String {
        match self {
            Self::Manual => "manual".to_owned(),
            Self::At(at) => format!("at {}", rfc3339(*at, zone)),
            Self::Every(period) => format!("every {}", format_duration(*period)),
            Self::Cron(list) => list.iter().map(CronExpr::as_str).collect::<Vec<_>>().join("; "),
        }
    }

    /// The same with the zone it is read in, where that matters.
    pub fn text_with_zone(&self, zone: &Zone) -> String {
        match self {
            Self::Cron(_) => format!("{} in {}", self.text(zone), zone.name()),
            Self::Manual | Self::At(_) | Self::Every(_) => self.text(zone),
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
            other => other.clone(),
        }
    }

    /// Whether it runs after each boot of a host, too: one of its expressions is `@reboot`.
    pub fn is_at_boot(&self) -> bool {
        matches!(self, Self::Cron(list) if list.iter().any(CronExpr::is_at_boot))
    }

    /// Whether its times depend on the job's name: a cron expression has an `H`.
    pub fn is_drawn(&self) -> bool {
        matches!(self, Self::Cron(list) if list.iter().any(CronExpr::is_drawn))
    }
}
