//! A list of future times, as a table or as JSON.

use std::time::Duration;

use serde_json::{Value, json};

use super::planned_times::Planned;
use crate::cli::render::{
    Cell, Console, JsonArray, Relative, Table, rfc3339, shown, shown_elsewhere,
};
use schedd_schedule::clock_notes::clock_notes;
use schedd_schedule::names::JobName;
use schedd_schedule::time::unix_millis::UnixMillis;
use schedd_schedule::time::zone::Zone;
use schedd_schedule::timetable::Timetable;

/// The number of rows that are formatted and written together.
const PAGE: usize = 500;

/// One future time of a timetable, as a row of the output.
pub(super) struct Coming<'p> {
    pub(super) at: UnixMillis,
    pub(super) job: Option<&'p JobName>,
    planned: &'p Planned,
    /// The previous time of the timetable, or the start of the search.
    after: UnixMillis,
    /// The zone of the time in JSON.
    zone: &'p Zone,
}

/// The form of the rows: times of one timetable, or times of several jobs with the job name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Style {
    OfOne,
    OfJobs,
}

/// Returns the times of `planned` after `from`. In JSON, the times are in `zone`, or else in the
/// zone of the timetable.
pub(super) fn comings<'p>(
    planned: &'p Planned,
    zone: Option<&'p Zone>,
    from: UnixMillis,
) -> impl Iterator<Item = Coming<'p>> {
    let table = &planned.timetable;
    let zone = zone.unwrap_or_else(|| table.zone());
    let following = move |after: UnixMillis| table.next_after(after).map(|at| (after, at));
    std::iter::successors(following(from), move |(_, at)| following(*at))
        .map(move |(after, at)| Coming { at, job: planned.job.as_ref(), planned, after, zone })
}

impl Coming<'_> {
    /// Returns the time in the zone of the timetable. Returns `None` if the timetable has no times
    /// on a clock, or if the clock of `local` shows the same time.
    fn elsewhere(&self, local: &Zone) -> Option<String> {
        let table = &self.planned.timetable;
        let tables = table.by_wall_clocks();
        let zone = tables.first()?.zone();
        shown_elsewhere(self.at, local, zone)
    }

    /// Returns the notes on the time for a reader with the clock of `local`.
    fn notes(&self, local: &Zone) -> Vec<String> {
        // A note describes a clock change in the job's own zone, which may differ from `local`.
        let mut notes = clock_notes(&self.planned.timetable, self.after, self.at, local);
        let is_one_of = |table: &Timetable| {
            table.next_after(self.at.saturating_sub(Duration::from_millis(1))) == Some(self.at)
        };
        let is_known = self.planned.but_of.as_ref().is_some_and(is_one_of);
        notes.extend(self.planned.remark.filter(|_| !is_known).map(str::to_owned));
        notes
    }

    fn long(&self, now: UnixMillis) -> Value {
        json!({
            "job": self.job.map(JobName::as_str),
            "due": rfc3339(self.at, self.zone),
            "local": shown(self.at, self.zone),
            "utc": self.at.to_string(),
            "relative_s": (self.at.as_i64() - now.as_i64()).div_euclid(1000),
            "tz": self.zone.name().as_str(),
            "notes": self.notes(self.zone),
        })
    }

    fn short(&self, style: Style) -> Value {
        let due = rfc3339(self.at, self.zone);
        match style {
            Style::OfOne => due.into(),
            Style::OfJobs => json!({"job": self.job.map(JobName::as_str), "due": due}),
        }
    }
}

/// Lets other tasks go on, after each hundredth time. A schedd that prints many times for a request
/// would otherwise renew no leases.
pub(super) async fn give_way(done: usize) {
    if done % 100 == 99 {
        tokio::task::yield_now().await;
    }
}

/// Prints the times as a table in the zone `local`, or as JSON. `is_long` adds all fields to the
/// JSON. The second column has the times in the zones of the schedules, if another clock decides
/// one of them, and otherwise the times in UTC.
pub(super) async fn report(
    times: &[Coming<'_>],
    local: &Zone,
    now: UnixMillis,
    style: Style,
    is_long: bool,
    console: &mut Console,
) {
    if console.is_json() {
        let mut array = JsonArray::default();
        for (at, time) in times.iter().enumerate() {
            give_way(at).await;
            array.push(console, &if is_long { time.long(now) } else { time.short(style) });
        }
        return array.end(console);
    }
    let when = Relative { now };
    let mut elsewhere: Vec<Option<String>> = Vec::new();
    for (at, time) in times.iter().enumerate() {
        give_way(at).await;
        elsewhere.push(time.elsewhere(local));
    }
    let second = if elsewhere.iter().any(Option::is_some) { "BY ITS CLOCK" } else { "UTC" };
    let common = |(time, elsewhere): &(&Coming<'_>, &Option<String>)| {
        let second = match second {
            "UTC" => Cell::new(time.at.to_string()),
            _ => Cell::maybe(elsewhere.as_deref()),
        };
        let left = Cell::new(when.either(time.at));
        (Cell::new(shown(time.at, local)), second, left, Cell::new(time.notes(local).join("; ")))
    };
    let rows: Vec<(&Coming<'_>, &Option<String>)> = times.iter().zip(&elsewhere).collect();
    match style {
        Style::OfOne => {
            let mut table = Table::new(["LOCAL", second, "WHEN", "NOTES"]);
            for page in rows.chunks(PAGE) {
                tokio::task::yield_now().await;
                let row = |time| {
                    let (local, second, left, notes) = common(time);
                    [local, second, left, notes]
                };
                table.page(&page.iter().map(row).collect::<Vec<_>>(), console);
            }
        }
        Style::OfJobs => {
            let mut table = Table::new(["LOCAL", second, "WHEN", "JOB", "NOTES"]);
            for page in rows.chunks(PAGE) {
                tokio::task::yield_now().await;
                let row = |time: &(&Coming<'_>, &Option<String>)| {
                    let (local, second, left, notes) = common(time);
                    [local, second, left, Cell::maybe(time.0.job.map(JobName::as_str)), notes]
                };
                table.page(&page.iter().map(row).collect::<Vec<_>>(), console);
            }
        }
    }
}
