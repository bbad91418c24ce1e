//! The modifiers of a job's schedule. Only the table of a job may have `start`, `end`, `max_runs`
//! and `anchor`. Both a job and `[defaults]` may have `jitter`, `splay`, `exclude`, `only_on` and
//! `skip_if_late`.

use std::time::Duration;

use super::clock_choice::ClockChoice;
use super::compile_schedule::SCHEDULE;
use crate::config::key::origin::{Origin, Reading};
use crate::config::syntax::problem::{Problems, nearest, one_of, quoted};
use crate::config::syntax::reader::{DurationBounds, Spot, TableReader};
use schedd_schedule::day_sets::{DayItem, DaySet};
use schedd_schedule::schedule_form::Schedule;
use schedd_schedule::schedule_modifiers::Shape;
use schedd_schedule::time::unix_millis::UnixMillis;
use schedd_schedule::time::zone::Zone;
use schedd_schedule::timetable::Timetable;

const SHIFT: DurationBounds =
    DurationBounds::millis(1, 86_400_000, "more than 0s, up to 1 day", "30s");
/// The bounds of `skip_if_late`.
pub(crate) const LATE: DurationBounds = DurationBounds::to_days(1, 3_650, "1s to 10 years", "10m");

/// The keys that a job with a delay cannot have. Each run of such a job is planned when the
/// previous run ends, so the job has no occurrences to select or shift.
const NOT_WITH_DELAY: [&str; 7] =
    ["anchor", "start", "end", "jitter", "splay", "exclude", "only_on"];

/// Drops from `shape` each modifier of `[defaults]` that does not fit `schedule`. Notes a fault for
/// each modifier in `table` that does not fit. Returns `None` if a fault was noted.
pub(crate) fn fit_shape(
    table: &TableReader<'_>,
    schedule: &Schedule,
    shape: &mut Shape,
    problems: &mut Problems,
) -> Option<()> {
    let mut refuse = |keys: &[&str], why: &str| {
        let found = keys.iter().find_map(|key| Some((key, table.get(key)?)));
        found.is_some_and(|(key, spot)| {
            spot.fault(problems, format!("{key} {why}"));
            true
        })
    };
    if *schedule == Schedule::Manual && table.get("in").is_none() {
        let all = [&NOT_WITH_DELAY[..], &["max_runs", "skip_if_late"]].concat();
        let why = "has no effect without a schedule, wanted one of cron, every, delay, at, calendar, rrule or schedules";
        *shape = Shape::default();
        return (!refuse(&all, why)).then_some(());
    }
    if let Schedule::After(_) = schedule {
        let all = [&NOT_WITH_DELAY[..], &["max_runs", "skip_if_late"]].concat();
        let why = "has no effect on a job with parents, which runs when they have ended: set it on the job at the top of the chain";
        *shape = Shape::default();
        return (!refuse(&all, why)).then_some(());
    }
    if let Schedule::Delay(_) = schedule {
        let why = "cannot be used with delay, because each run is planned when the previous run ends, not for a fixed time: remove this key";
        *shape = Shape {
            max_runs: shape.max_runs,
            skip_if_late: shape.skip_if_late,
            ..Shape::default()
        };
        return (!refuse(&NOT_WITH_DELAY, why)).then_some(());
    }
    (schedule.has_every()
        || !refuse(
            &["anchor"],
            "has no effect without every, which counts from anchor: add every or remove anchor",
        ))
    .then_some(())
}

/// Notes a fault for an `end` before `start`. Returns true if there is such a fault.
pub(crate) fn refuse_end_before_start(
    table: &TableReader<'_>,
    shape: &Shape,
    problems: &mut Problems,
) -> bool {
    if let (Some(from), Some(until), Some(spot)) = (shape.start, shape.end, table.get("end"))
        && from > until
    {
        spot.fault(problems, format!("end {until} is before start {from}, wanted a later end"));
        return true;
    }
    false
}

/// Notes a fault if the modifiers of a schedule leave no occurrence at all.
pub(crate) fn refuse_nothing_left(
    table: &TableReader<'_>,
    schedule: &Schedule,
    shape: &Shape,
    clock: &ClockChoice,
    problems: &mut Problems,
) {
    let is_cut = shape.start.is_some()
        || shape.end.is_some()
        || shape.only_on.is_some()
        || !shape.exclude.is_empty();
    // A schedule of runs at boot has no times, and the times of `H` depend on the job's name.
    // Neither can be checked here.
    let is_open = schedule.is_at_boot() || schedule.is_drawn();
    if !is_cut
        || is_open
        || matches!(schedule, Schedule::Manual | Schedule::Delay(_) | Schedule::After(_))
    {
        return;
    }
    let zone = clock.zone().cloned().unwrap_or_else(Zone::utc);
    let anchor = shape.start.unwrap_or(UnixMillis::EPOCH);
    if Timetable::shaped(schedule.clone(), shape, zone, anchor).first().is_some() {
        return;
    }
    let cuts = ["only_on", "exclude", "end", "start"];
    let spot = cuts
        .iter()
        .find_map(|key| table.get(key))
        .or_else(|| SCHEDULE.iter().find_map(|key| table.get(key)));
    let message = "start, end, only_on and exclude leave the schedule no time before 2100, wanted at least one time";
    match spot {
        Some(spot) => spot.fault(problems, message),
        None => problems.fault(&table.path, table.span.clone(), message),
    }
}

/// Compiles the value of `jitter` or `splay`. `"0s"` removes the value of `[defaults]`. `None`
/// means that a fault was noted.
pub(crate) fn shift(spot: &Spot<'_>, problems: &mut Problems) -> Option<Duration> {
    if spot.as_text() == Some("0s") {
        return Some(Duration::ZERO);
    }
    spot.duration(&SHIFT, problems)
}

/// Compiles `only_on`. An empty list removes the value of `[defaults]`. Calendars without a day are
/// refused, because the job would never run. `None` means that a fault was noted.
pub(crate) fn compile_only_on(spot: &Spot<'_>, reading: &mut Reading<'_>) -> Option<DaySet> {
    let days = compile_days(spot, reading)?;
    let is_silent = spot.as_items().is_some_and(|mut items| items.next().is_none());
    if days.is_empty() && !is_silent {
        spot.fault(
            reading.problems,
            "found only calendars without a day, wanted at least one day, or [] for every day",
        );
        return None;
    }
    Some(days)
}

/// Compiles the days of `exclude` or `only_on`. `None` means that a fault was noted.
pub(crate) fn compile_days(spot: &Spot<'_>, reading: &mut Reading<'_>) -> Option<DaySet> {
    let Reading { origin, problems, .. } = reading;
    let items: Vec<Spot<'_>> = match spot.as_items() {
        Some(items) => items.collect(),
        None => vec![spot.clone()],
    };
    let faults_before = problems.faults.len();
    let mut sets = Vec::new();
    for item in &items {
        // An unquoted date is accepted too.
        let Some(text) = item.as_text_or_date() else {
            return item.wanted(
                problems,
                "a date such as \"2026-12-24\", a weekday, or \"calendar:NAME\"",
            );
        };
        match text.strip_prefix("calendar:") {
            // `None` means a calendar with a fault, which was noted before.
            Some(name) => sets.push(calendar_named(name, item, *origin, problems)?),
            None => match text.parse::<DayItem>() {
                Ok(day) => sets.push(DaySet::of([day])),
                Err(error) => item.fault(problems, format!("{error}, or \"calendar:NAME\"")),
            },
        }
    }
    if problems.faults.len() > faults_before {
        return None;
    }
    let days = DaySet::of_all(&sets);
    if days.len() > DaySet::MOST {
        spot.fault(
            problems,
            format!("found {} days and spans, wanted at most {}", days.len(), DaySet::MOST),
        );
        return None;
    }
    Some(days)
}

fn calendar_named(
    name: &str,
    spot: &Spot<'_>,
    origin: Origin<'_>,
    problems: &mut Problems,
) -> Option<DaySet> {
    let Origin::File { calendars, .. } = origin else {
        spot.fault(
            problems,
            format!(
                "calendar {} is not known, because only a jobs file has [calendars.NAME]; wanted dates",
                quoted(name)
            ),
        );
        return None;
    };
    // A faulty section `[calendars]` was noted as a fault before.
    let calendars = calendars?;
    if let Some(days) = calendars.get(name) {
        // A calendar with a fault is declared, with `None` as its days.
        return days.clone();
    }
    let names: Vec<&str> = calendars.keys().map(String::as_str).collect();
    let hint = match nearest(name, names.iter().copied()) {
        Some(meant) => format!("did you mean {meant:?}?"),
        None if names.is_empty() => {
            "and no other calendar is declared: add a table [calendars.NAME]".to_owned()
        }
        None => format!("wanted {}", one_of(&names)),
    };
    spot.fault(
        problems,
        format!("calendar {} is not declared by [calendars.NAME], {hint}", quoted(name)),
    );
    None
}
