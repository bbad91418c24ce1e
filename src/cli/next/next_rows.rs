//! A list of future times, as a table or as JSON.

use std::time::Duration;

use serde_json::{Value, json};

use super::planned_times::Planned;
use crate::cli::render::{Cell, Console, JsonArray, Relative, Table, rfc3339, shown};
use crate::domain::name::names::JobName;
use crate::domain::schedule::clock_notes::clock_notes;
use crate::domain::schedule::timetable::Timetable;
use crate::domain::time::unix_millis::UnixMillis;
use crate::domain::time::zone::Zone;

/// The number of rows that are formatted and written together.
const PAGE: usize = 500;

/// One future time of a timetable, as a row of the output.
pub(super) struct Coming<'p> {
    pub(super) at: UnixMillis,
    pub(super) job: Option<&'p JobName>,
    planned: &'p Planned,
    /// The previous time of the timetable, or the start of the search.
    after: UnixMillis,
    /// The zone in which the time is shown.
    zone: &'p Zone,
}

/// The form of the rows: times of one timetable, or times of several jobs with the job name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Style {
    OfOne,
    OfJobs,
}

/// Returns the times of `planned` after `from`. The times are shown in `zone`, or else in the zone
/// of the timetable.
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
    fn notes(&self) -> Vec<String> {
        // A note describes a clock change in the job's own zone, which may differ from the zone of
        // the table.
        let mut notes = clock_notes(&self.planned.timetable, self.after, self.at, self.zone);
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
            "zone": self.zone.name().as_str(),
            "notes": self.notes(),
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

/// Prints the times as a table or as JSON. `is_long` adds all fields to the JSON.
pub(super) fn report(
    times: &[Coming<'_>],
    now: UnixMillis,
    style: Style,
    is_long: bool,
    console: &mut Console,
) {
    if console.is_json() {
        let mut array = JsonArray::default();
        for time in times {
            array.push(console, &if is_long { time.long(now) } else { time.short(style) });
        }
        return array.end(console);
    }
    let when = Relative { now };
    let common = |time: &Coming<'_>| {
        let left = Cell::new(when.either(time.at));
        (
            Cell::new(shown(time.at, time.zone)),
            Cell::new(time.at.to_string()),
            left,
            Cell::new(time.notes().join("; ")),
        )
    };
    match style {
        Style::OfOne => {
            let mut table = Table::new(["LOCAL", "UTC", "WHEN", "NOTES"]);
            for page in times.chunks(PAGE) {
                let row = |time| {
                    let (local, utc, left, notes) = common(time);
                    [local, utc, left, notes]
                };
                table.page(&page.iter().map(row).collect::<Vec<_>>(), console);
            }
        }
        Style::OfJobs => {
            let mut table = Table::new(["LOCAL", "UTC", "WHEN", "JOB", "NOTES"]);
            for page in times.chunks(PAGE) {
                let row = |time: &Coming<'_>| {
                    let (local, utc, left, notes) = common(time);
                    [local, utc, left, Cell::maybe(time.job.map(JobName::as_str)), notes]
                };
                table.page(&page.iter().map(row).collect::<Vec<_>>(), console);
            }
        }
    }
}
