//! The modifiers of a job's schedule. `start`, `end`, `max_runs` and `anchor` belong to the job.
//! `jitter`, `splay`, `exclude`, `only_on` and `skip_if_late` may also be in `[defaults]`.

use std::time::Duration;

use super::compile_schedule::ClockChoice;
use crate::config::job::policies::Origin;
use crate::config::syntax::problem::{Problems, nearest, one_of, quoted};
use crate::config::syntax::reader::{DurationBounds, Spot, TableReader};
use crate::domain::schedule::day_sets::{DayItem, DaySet};
use crate::domain::schedule::schedule_form::Schedule;
use crate::domain::schedule::schedule_modifiers::Shape;
use crate::domain::schedule::timetable::Timetable;
use crate::domain::time::unix_millis::UnixMillis;
use crate::domain::time::zone::Zone;

const SHIFT: DurationBounds = DurationBounds::millis(1, 86_400_000, "more than 0s, up to 1 day", "30s");
const LATE: DurationBounds = DurationBounds::to_days(1, 3_650, "1s to 10 years", "10m");

/// The keys that a job with a delay cannot have. Each run of such a job is planned when the
/// previous run ends, so no calendar applies.
const NOT_WITH_DELAY: [&str; 7] = ["anchor", "start", "end", "jitter", "splay", "exclude", "only_on"];

/// The modifiers that a table names. A modifier that the table does not name is empty.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Shaping {
    jitter: Option<Duration>,
    splay: Option<Duration>,
    exclude: Option<DaySet>,
    only_on: Option<DaySet>,
    skip_if_late: Option<Duration>,
}

impl Shaping {
    /// Returns these modifiers. Each missing modifier is taken from `below`.
    pub(crate) fn over(self, below: &Self) -> Self {
        Self {
            jitter: self.jitter.or(below.jitter),
            splay: self.splay.or(below.splay),
            exclude: self.exclude.or_else(|| below.exclude.clone()),
            only_on: self.only_on.or_else(|| below.only_on.clone()),
            skip_if_late: self.skip_if_late.or(below.skip_if_late),
        }
    }
}

/// Compiles the modifiers of `table` that `[defaults]` may have too.
pub(crate) fn compile_shaping(table: &TableReader<'_>, origin: Origin<'_>, problems: &mut Problems) -> Shaping {
    Shaping {
        jitter: table.get("jitter").and_then(|spot| shift(&spot, problems)),
        splay: table.get("splay").and_then(|spot| shift(&spot, problems)),
        exclude: table.get("exclude").and_then(|spot| compile_days(&spot, origin, problems)),
        only_on: table.get("only_on").and_then(|spot| compile_only_on(&spot, origin, problems)),
        skip_if_late: table.get("skip_if_late").and_then(|spot| spot.duration(&LATE, problems)),
    }
}

/// Compiles the shape of a job: the keys that only the job's own table may have, together with
/// `shaping`. Notes keys that do not fit `schedule`, which is `None` if the schedule has a fault.
pub(crate) fn compile_shape(
    table: &TableReader<'_>,
    schedule: Option<&Schedule>,
    shaping: &Shaping,
    clock: &ClockChoice,
    problems: &mut Problems,
) -> Option<Shape> {
    let given = |key: &&str| table.get(key).is_some();
    let refuse = |keys: &[&str], why: &str, problems: &mut Problems| {
        let key = keys.iter().find(|key| given(key))?;
        let spot = table.get(key)?;
        spot.fault(problems, format!("{key} {why}"));
        Some(())
    };
    let instant = |key: &str, problems: &mut Problems| match table.get(key) {
        Some(spot) => clock.instant(&spot, problems).map(Some),
        None => Some(None),
    };
    let (anchor, start) = (instant("anchor", problems), instant("start", problems));
    let end = instant("end", problems);
    let max_runs = match table.get("max_runs") {
        Some(spot) => spot.integer(&(1..=1_000_000), problems).map(Some),
        None => Some(None),
    };
    if let (Some(Some(from)), Some(Some(until))) = (start, end)
        && from > until
    {
        refuse(&["end"], &format!("{until} is before start {from}, wanted it after"), problems);
        return None;
    }
    let schedule = schedule?;
    if *schedule == Schedule::Manual && table.get("in").is_none() {
        let all = [&NOT_WITH_DELAY[..], &["max_runs", "skip_if_late"]].concat();
        let why = "shapes a schedule and there is none, wanted one of cron, every, delay, at, calendar, rrule or schedules";
        return if refuse(&all, why, problems).is_some() { None } else { Some(Shape::default()) };
    }
    if table.get("anchor").is_some()
        && !schedule.has_every()
        && !matches!(schedule, Schedule::Delay(_))
        && refuse(&["anchor"], "is what every counts from, wanted every with it", problems).is_some()
    {
        return None;
    }
    if let Schedule::Delay(_) = schedule {
        let why = "cannot be used with delay: each run comes a delay after the end of the run before, not at a fixed time";
        if refuse(&NOT_WITH_DELAY, why, problems).is_some() {
            return None;
        }
        return Some(Shape { max_runs: max_runs?, skip_if_late: shaping.skip_if_late, ..Shape::default() });
    }
    Some(Shape {
        anchor: anchor?,
        start: start?,
        end: end?,
        max_runs: max_runs?,
        jitter: shaping.jitter.unwrap_or_default(),
        splay: shaping.splay.unwrap_or_default(),
        exclude: shaping.exclude.clone().unwrap_or_default(),
        only_on: shaping.only_on.clone().filter(|days| !days.is_empty()),
        skip_if_late: shaping.skip_if_late,
    })
}

/// Notes a fault if the modifiers of a schedule leave no occurrence at all.
pub(crate) fn refuse_nothing_left(
    table: &TableReader<'_>,
    schedule: &Schedule,
    shape: &Shape,
    clock: &ClockChoice,
    problems: &mut Problems,
) {
    let is_cut = shape.start.is_some() || shape.end.is_some() || shape.only_on.is_some() || !shape.exclude.is_empty();
    // A run at boot has no time of its own. The times of `H` depend on the job's name.
    let is_open = schedule.is_at_boot() || schedule.is_drawn();
    if !is_cut || is_open || matches!(schedule, Schedule::Manual | Schedule::Delay(_)) {
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
        .or_else(|| crate::config::syntax::known_keys::SCHEDULE.iter().find_map(|key| table.get(key)));
    let message =
        "leaves the schedule no time before 2100, wanted one at least: what start, end, only_on and exclude leave never comes";
    match spot {
        Some(spot) => spot.fault(problems, message),
        None => problems.fault(&table.path, table.span.clone(), message),
    }
}

/// Compiles a jitter or splay. `"0s"` removes the value of `[defaults]`.
fn shift(spot: &Spot<'_>, problems: &mut Problems) -> Option<Duration> {
    if spot.as_text() == Some("0s") {
        return Some(Duration::ZERO);
    }
    spot.duration(&SHIFT, problems)
}

/// Compiles `only_on`. An empty list removes the value of `[defaults]`. Calendars without a day
/// are refused, because such calendars would leave the job no time at all.
fn compile_only_on(spot: &Spot<'_>, origin: Origin<'_>, problems: &mut Problems) -> Option<DaySet> {
    let days = compile_days(spot, origin, problems)?;
    let is_silent = spot.as_items().is_some_and(|mut items| items.next().is_none());
    if days.is_empty() && !is_silent {
        spot.fault(problems, "names calendars that hold no day, wanted at least one day to run on, or [] for every day");
        return None;
    }
    Some(days)
}

fn compile_days(spot: &Spot<'_>, origin: Origin<'_>, problems: &mut Problems) -> Option<DaySet> {
    let items: Vec<Spot<'_>> = match spot.as_items() {
        Some(items) => items.collect(),
        None => vec![spot.clone()],
    };
    let faults_before = problems.faults.len();
    let mut sets = Vec::new();
    for item in &items {
        // An unquoted date is accepted too.
        let Some(text) = item.as_text_or_date() else {
            return item.wanted(problems, "a date such as \"2026-12-24\", a weekday, or \"calendar:NAME\"");
        };
        match text.strip_prefix("calendar:") {
            // A calendar with a fault inside has no known days.
            Some(name) => sets.push(calendar_named(name, item, origin, problems)?),
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
        spot.fault(problems, format!("found {} days and spans, wanted at most {}", days.len(), DaySet::MOST));
        return None;
    }
    Some(days)
}

fn calendar_named(name: &str, spot: &Spot<'_>, origin: Origin<'_>, problems: &mut Problems) -> Option<DaySet> {
    let Origin::File { calendars, .. } = origin else {
        spot.fault(
            problems,
            format!("calendar {} is not known here: [calendars.NAME] stands in a jobs file; wanted dates", quoted(name)),
        );
        return None;
    };
    // If the section itself has a fault, no calendar is known.
    let calendars = calendars?;
    if let Some(days) = calendars.get(name) {
        // A calendar with a fault inside is declared all the same, with `None` as its days.
        return days.clone();
    }
    let names: Vec<&str> = calendars.keys().map(String::as_str).collect();
    let hint = match nearest(name, names.iter().copied()) {
        Some(meant) => format!("did you mean {meant:?}?"),
        None if names.is_empty() => "and none is".to_owned(),
        None => format!("wanted {}", one_of(&names)),
    };
    spot.fault(problems, format!("calendar {} is not declared by [calendars.NAME], {hint}", quoted(name)));
    None
}
