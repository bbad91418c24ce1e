//! When a job runs: at most one of `cron`, `every` and `at` (and `in` for a line, whose moment is now).

use std::time::Duration;

use super::instant::instant;
use super::keys;
use super::policies::Policies;
use super::problem::{Problems, one_of};
use super::reader::{DurationBounds, Spot, Table};
use crate::domain::schedule::{CronError, CronExpr, Schedule};
use crate::domain::zone::Zone;

/// 10 years of 365 days.
const EVERY: DurationBounds = DurationBounds::to_days(1, 3_650, "1s to 10 years", "30s");
/// How many expressions one job may have.
const MOST_CRONS: usize = 32;

/// The schedule of a job's table; manual if it names none. `host` is the zone of a job that names none: without it a
/// local time is refused.
pub(super) fn compile_schedule(
    table: &Table<'_>,
    policies: &Policies,
    host: Option<&Zone>,
    problems: &mut Problems,
) -> Option<Schedule> {
    let given: Vec<&str> = keys::SCHEDULE.iter().chain(&["in"]).copied().filter(|key| table.get(key).is_some()).collect();
    if let [_, second, ..] = given.as_slice()
        && let Some(spot) = table.get(second)
    {
        spot.fault(problems, format!("found {} together, wanted at most one schedule", one_of(&given).replace(" or ", " and ")));
    }
    let mut schedule = Some(Schedule::Manual);
    if let Some(spot) = table.get("cron") {
        schedule = compile_cron(&spot, problems);
    }
    if let Some(spot) = table.get("every") {
        schedule = spot.duration(&EVERY, problems).map(Schedule::Every);
    }
    if let Some(spot) = table.get("at") {
        schedule = compile_at(&spot, policies, host, problems);
    }
    schedule
}

/// How long from now, for a line; from none to 10 years.
pub(super) fn compile_in(spot: &Spot<'_>, problems: &mut Problems) -> Option<Duration> {
    spot.duration(&DurationBounds::to_days(0, 3_650, "0s to 10 years", "10m"), problems)
}

fn compile_cron(spot: &Spot<'_>, problems: &mut Problems) -> Option<Schedule> {
    let Some(items) = spot.as_items() else {
        let Some(text) = spot.as_text() else {
            return spot.wanted(problems, "a cron expression such as \"30 2 * * *\", or a list of them");
        };
        return Schedule::of_cron(text).map_err(|error| spot.fault_at(problems, error.offset, error.to_string())).ok();
    };
    let items: Vec<Spot<'_>> = items.collect();
    if items.is_empty() || items.len() > MOST_CRONS {
        spot.fault(problems, format!("found {} expressions, wanted 1 to {MOST_CRONS}", items.len()));
        return None;
    }
    let mut read = |item: &Spot<'_>| {
        let parsed = item.text("30 2 * * *", problems)?.parse();
        parsed.map_err(|error: CronError| item.fault_at(problems, error.offset, error.to_string())).ok()
    };
    let parsed: Vec<Option<CronExpr>> = items.iter().map(&mut read).collect();
    parsed.into_iter().collect::<Option<_>>().map(Schedule::Cron)
}

fn compile_at(spot: &Spot<'_>, policies: &Policies, host: Option<&Zone>, problems: &mut Problems) -> Option<Schedule> {
    let Some(text) = spot.as_text_or_date() else {
        return spot.wanted(problems, "a date and time such as \"2026-12-24T09:00:00+01:00\"");
    };
    let own = policies.tz.as_ref().and_then(|name| Zone::load(name).ok());
    match instant(text, own.as_ref().or(host)) {
        Ok(at) => Some(Schedule::At(at)),
        Err(message) => {
            spot.fault(problems, message);
            None
        }
    }
}
