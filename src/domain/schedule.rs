//! Schedules: the forms `[jobs.X]` and `schedctl add` know. The occurrences each stands for are a [`Timetable`]'s.

use std::time::Duration;

use super::time::UnixMillis;

pub use super::calendar::{CalendarError, CalendarExpr};
pub use super::cron::{CronError, CronExpr};
pub use super::recurrence::{Recurrence, RecurrenceError};
pub use super::timetable::Timetable;

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
