//! The compiler of a job's schedule: at most one of `cron`, `every`, `delay`, `at`, `calendar`,
//! `rrule`, `schedules` and the keys of parents. A line of JSON may also have `in`, which counts
//! from now.

use std::time::Duration;

use super::clock_choice::ClockChoice;
use super::compile_parents::{compile_parents, parents_in, refuse_parents_beside};
use crate::config::key::json_sheet::{Sheet, text_or_list};
use crate::config::syntax::problem::{Problems, one_of, quoted};
use crate::config::syntax::reader::{DurationBounds, Spot, TableReader};
use crate::config::syntax::typos::Slips;
use schedd_schedule::schedule_form::{
    CalendarError, CronError, CronExpr, Recurrence, RecurrenceError, Schedule,
};
use schedd_schedule::time::duration::format_duration;
use schedd_schedule::time::unix_millis::UnixMillis;

/// The keys that give a job its schedule.
pub(crate) const SCHEDULE: &[&str] = &[
    "cron",
    "every",
    "delay",
    "at",
    "calendar",
    "rrule",
    "schedules",
    "after",
    "after_any",
    "after_failed",
    "after_finished",
];
/// The key with the date and time from which `rrule` counts.
pub(crate) const DTSTART: &str = "dtstart";
/// The keys of each table in `schedules`.
const ONE_OF_SEVERAL: &[&str] = &["cron", "every", "at", "calendar", "rrule", "dtstart"];

/// The bounds of the period of `every`: from 1 s to 10 years of 365 days.
const EVERY: DurationBounds = DurationBounds::to_days(1, 3_650, "1s to 10 years", "30s");
/// The maximum number of expressions in a list, such as the list of `cron`.
const MOST_EXPRESSIONS: usize = 32;
/// The maximum number of instants in the list of `at`.
const MOST_INSTANTS: usize = 1_000;

/// Compiles the schedule of a job's table. `slips` are the table's unknown keys. Returns `None` if
/// a fault was noted.
///
/// A table without a schedule means a manual job. But if an unknown key may be meant as a schedule,
/// the result is `None`.
pub(crate) fn compile_schedule(
    table: &TableReader<'_>,
    clock: &ClockChoice,
    slips: &Slips,
    problems: &mut Problems,
) -> Option<Schedule> {
    let given: Vec<&str> =
        SCHEDULE.iter().chain(&["in"]).copied().filter(|key| table.get(key).is_some()).collect();
    if refuse_parents_beside(table, SCHEDULE, problems) {
        return None;
    }
    if let [_, second, ..] = given.as_slice()
        && let Some(spot) = table.get(second)
    {
        let found = one_of(&given).replace(" or ", " and ");
        spot.fault(
            problems,
            format!("found {found} together, wanted at most one schedule, or schedules = [{{ ... }}, {{ ... }}]"),
        );
    }
    if let (Some(spot), None) = (table.get("dtstart"), table.get("rrule"))
        && !slips.are_of(&["rrule"])
    {
        spot.fault(problems, "found dtstart without rrule, wanted both keys");
    }
    let mut schedule = (!given.is_empty() || !slips.may_be(SCHEDULE)).then_some(Schedule::Manual);
    match compile_form(table, clock, slips, problems) {
        Form::Silent => {}
        Form::Faulty => schedule = None,
        Form::Read(form) => schedule = Some(form),
    }
    if let Some(spot) = table.get("delay") {
        schedule = spot.duration(&EVERY, problems).map(Schedule::Delay);
    }
    if let Some(named) = parents_in(table) {
        schedule = compile_parents(&named, problems).map(Schedule::After);
    }
    if let Some(spot) = table.get("schedules") {
        schedule = compile_several(&spot, clock, problems);
    }
    schedule
}

/// Compiles the value of `in` in a line of JSON: the time from now to the run, from zero to 10
/// years. `None` means that a fault was noted.
pub(crate) fn compile_in(spot: &Spot<'_>, problems: &mut Problems) -> Option<Duration> {
    spot.duration(&DurationBounds::to_days(0, 3_650, "0s to 10 years", "10m"), problems)
}

/// The schedule that a table gives by `cron`, `every`, `at`, `calendar` or `rrule`.
enum Form {
    /// The table has no key of a schedule.
    Silent,
    /// The table has a schedule with a fault, which was noted.
    Faulty,
    Read(Schedule),
}

fn compile_form(
    table: &TableReader<'_>,
    clock: &ClockChoice,
    slips: &Slips,
    problems: &mut Problems,
) -> Form {
    const CALENDAR: &str = "Mon..Fri 09:00";
    let mut form = Form::Silent;
    let mut say = |read: Option<Schedule>| form = read.map_or(Form::Faulty, Form::Read);
    if let Some(spot) = table.get("cron") {
        say(compile_crons(&spot, problems));
    }
    if let Some(spot) = table.get("every") {
        say(spot.duration(&EVERY, problems).map(Schedule::Every));
    }
    if let Some(spot) = table.get("at") {
        say(compile_at(&spot, clock, problems));
    }
    if let Some(spot) = table.get("calendar") {
        let read = |item: &Spot<'_>, problems: &mut Problems| {
            let parsed = item.text(CALENDAR, problems)?.parse();
            parsed
                .map_err(|error: CalendarError| {
                    item.fault_at(problems, error.offset, error.to_string());
                })
                .ok()
        };
        say(compile_list(&spot, problems, CALENDAR, read).map(Schedule::Calendar));
    }
    if let Some(spot) = table.get("rrule") {
        say(compile_rules(&spot, table, slips, problems).map(Schedule::Rules));
    }
    form
}

/// Compiles the expressions of `cron`. An `@every` in the list becomes a separate schedule. `None`
/// means that a fault was noted.
fn compile_crons(spot: &Spot<'_>, problems: &mut Problems) -> Option<Schedule> {
    const EXAMPLE: &str = "30 2 * * *";
    let read = |item: &Spot<'_>, problems: &mut Problems| {
        let read = Schedule::of_cron(item.text(EXAMPLE, problems)?);
        read.map_err(|error: CronError| item.fault_at(problems, error.offset, error.to_string()))
            .ok()
    };
    let mut expressions: Vec<CronExpr> = Vec::new();
    let mut schedules = Vec::new();
    for one in compile_list(spot, problems, EXAMPLE, read)? {
        match one {
            Schedule::Cron(list) => expressions.extend(list),
            other => schedules.push(other),
        }
    }
    if schedules.is_empty() {
        return Some(Schedule::Cron(expressions));
    }
    if !expressions.is_empty() {
        schedules.push(Schedule::Cron(expressions));
    }
    if schedules.len() > 1 { Some(Schedule::Several(schedules)) } else { schedules.pop() }
}

/// Compiles a single expression, or a list of expressions, each by `read`. `example` appears in
/// messages.
fn compile_list<T>(
    spot: &Spot<'_>,
    problems: &mut Problems,
    example: &str,
    mut read: impl FnMut(&Spot<'_>, &mut Problems) -> Option<T>,
) -> Option<Vec<T>> {
    let Some(items) = spot.as_items() else {
        if spot.as_text().is_none() {
            return spot.wanted(
                problems,
                format_args!("an expression such as {example:?}, or a list of expressions"),
            );
        }
        return Some(vec![read(spot, problems)?]);
    };
    let items: Vec<Spot<'_>> = items.collect();
    if items.is_empty() || items.len() > MOST_EXPRESSIONS {
        spot.fault(
            problems,
            format!("found {} expressions, wanted 1 to {MOST_EXPRESSIONS}", items.len()),
        );
        return None;
    }
    let read: Vec<Option<T>> = items.iter().map(|item| read(item, problems)).collect();
    read.into_iter().collect()
}

fn compile_at(spot: &Spot<'_>, clock: &ClockChoice, problems: &mut Problems) -> Option<Schedule> {
    let Some(items) = spot.as_items() else {
        return clock.instant(spot, problems).map(Schedule::At);
    };
    let items: Vec<Spot<'_>> = items.collect();
    if items.is_empty() || items.len() > MOST_INSTANTS {
        spot.fault(problems, format!("found {} times, wanted 1 to {MOST_INSTANTS}", items.len()));
        return None;
    }
    let read: Vec<Option<UnixMillis>> =
        items.iter().map(|item| clock.instant(item, problems)).collect();
    let mut instants: Vec<UnixMillis> = read.into_iter().collect::<Option<_>>()?;
    instants.sort_unstable();
    instants.dedup();
    Some(if let [one] = instants[..] { Schedule::At(one) } else { Schedule::Instants(instants) })
}

/// Parses the value of `dtstart`: a local date and time from 1970 to 2099. Returns `None` for any
/// other text.
pub fn start_of_rule(text: &str) -> Option<jiff::civil::DateTime> {
    let within = |at: &jiff::civil::DateTime| (1970..2100).contains(&at.year());
    text.parse::<jiff::civil::DateTime>()
        .ok()
        .filter(within)
        .filter(|_| !text.ends_with(['Z', 'z']))
}

fn compile_rules(
    spot: &Spot<'_>,
    table: &TableReader<'_>,
    slips: &Slips,
    problems: &mut Problems,
) -> Option<Vec<Recurrence>> {
    const EXAMPLE: &str = "FREQ=WEEKLY;BYDAY=MO";
    let Some(start) = table.get("dtstart") else {
        if slips.are_of(&["dtstart"]) {
            return None;
        }
        spot.fault(
            problems,
            "found rrule without dtstart, the time from which the rule counts: add dtstart = \"2026-01-05T09:00\"",
        );
        return None;
    };
    let wanted = "a date and time by the wall clock, such as \"2026-01-05T09:00\"";
    let Some(text) = start.as_text_or_date() else { return start.wanted(problems, wanted) };
    let Some(from) = start_of_rule(text) else {
        start.fault(problems, format!("found {}, wanted {wanted}", quoted(text)));
        return None;
    };
    let read = |item: &Spot<'_>, problems: &mut Problems| {
        let rule = Recurrence::new(item.text(EXAMPLE, problems)?, from);
        rule.map_err(|error: RecurrenceError| {
            item.fault_at(problems, error.offset, error.to_string());
        })
        .ok()
    };
    compile_list(spot, problems, EXAMPLE, read)
}

fn compile_several(
    spot: &Spot<'_>,
    clock: &ClockChoice,
    problems: &mut Problems,
) -> Option<Schedule> {
    const WANTED: &str =
        "a list of tables such as [{ cron = \"0 9 * * *\" }, { calendar = \"Sat 12:00\" }]";
    let Some(items) = spot.as_items() else { return spot.wanted(problems, WANTED) };
    let items: Vec<Spot<'_>> = items.collect();
    if items.len() < 2 || items.len() > MOST_EXPRESSIONS {
        spot.fault(
            problems,
            format!("the number of schedules is {}, wanted 2 to {MOST_EXPRESSIONS}", items.len()),
        );
        return None;
    }
    let (mut schedules, mut are_read) = (Vec::new(), true);
    for item in &items {
        let Some(table) = item.table(WANTED, problems) else {
            are_read = false;
            continue;
        };
        let slips = table.refuse_other_keys(&[ONE_OF_SEVERAL], &[], problems);
        let given = ONE_OF_SEVERAL
            .iter()
            .filter(|key| **key != "dtstart" && table.get(key).is_some())
            .count();
        if given > 1 || (given == 0 && !slips.may_be(ONE_OF_SEVERAL)) {
            item.fault(problems, format!("found {given} schedules in one table, wanted one: cron, every, at, calendar or rrule"));
        }
        match compile_form(&table, clock, &slips, problems) {
            Form::Read(Schedule::At(at)) => schedules.push(Schedule::Instants(vec![at])),
            Form::Read(Schedule::Several(list)) => schedules.extend(list),
            Form::Read(other) => schedules.push(other),
            Form::Silent | Form::Faulty => are_read = false,
        }
    }
    are_read.then_some(Schedule::Several(schedules))
}

/// Writes the keys of a schedule into `out`.
pub(crate) fn write_schedule(schedule: &Schedule, out: &mut Sheet) {
    match schedule {
        Schedule::Manual => {}
        Schedule::At(at) => out.put("at", at.to_string()),
        Schedule::Instants(list) => {
            out.put("at", text_or_list(list.iter().map(ToString::to_string)));
        }
        Schedule::Every(period) => out.put("every", format_duration(*period)),
        Schedule::Delay(delay) => out.put("delay", format_duration(*delay)),
        Schedule::After(parents) => {
            out.put(parents.rule.key(), text_or_list(parents.jobs.iter().map(ToString::to_string)));
        }
        Schedule::Cron(list) => out.put("cron", text_or_list(list.iter().map(ToString::to_string))),
        Schedule::Calendar(list) => {
            out.put("calendar", text_or_list(list.iter().map(ToString::to_string)));
        }
        Schedule::Rules(list) => {
            out.put("rrule", text_or_list(list.iter().map(|rule| rule.as_str().to_owned())));
            if let Some(rule) = list.first() {
                out.put(DTSTART, rule.start().to_string());
            }
        }
        Schedule::Several(list) => {
            let table = |schedule: &Schedule| {
                let mut out = Sheet::default();
                write_schedule(schedule, &mut out);
                out.value()
            };
            out.put("schedules", list.iter().map(table).collect::<Vec<_>>());
        }
    }
}
