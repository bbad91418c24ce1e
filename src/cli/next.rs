//! `next`: the times at which a job, or a cron expression nobody has added yet, comes.

use std::time::Duration;

use serde_json::Value;

use super::args::{Global, Next};
use super::connect::connect;
use super::failure::Failure;
use super::render::{Console, Relative, day_rules, rfc3339, shown};
use super::target::find_job;
use crate::domain::duration::format_duration;
use crate::domain::human_time::parse_instant;
use crate::domain::ids::JobName;
use crate::domain::schedule::{CronExpr, Schedule, Timetable};
use crate::domain::time::UnixMillis;
use crate::domain::zone::{Zone, ZoneName};
use crate::engine::Definition;

/// A timetable, the zone its times are shown in, the time now, and what is to be said of it.
type Found = (Timetable, Zone, UnixMillis, Vec<String>);

/// Prints the next times.
pub(super) async fn next(global: &Global, args: &Next, console: &mut Console) -> Result<u8, Failure> {
    let zone = args.tz.as_deref().map(zone_of).transpose()?;
    let (timetable, zone, now, rules) = match args.what.parse::<JobName>() {
        Ok(name) => of_job(global, &name, zone, console).await?,
        Err(_) => of_expression(&args.what, zone)?,
    };
    let from = match &args.from {
        Some(text) => parse_instant(text, now, &zone).map_err(|error| Failure::Invalid(format!("--from: {error}")))?.at,
        None => now,
    };
    let count = usize::try_from(args.count).unwrap_or(usize::MAX);
    let times = std::iter::successors(timetable.next_after(from), |at| timetable.next_after(*at)).take(count);
    let times: Vec<UnixMillis> = times.collect();
    if times.is_empty() {
        let what = &args.what;
        return Err(Failure::Invalid(format!("{what} has no time after {} and before 2100", shown(from, &zone))));
    }
    if console.is_json() {
        console.json(&Value::Array(times.iter().map(|at| rfc3339(*at, &zone).into()).collect()));
    } else {
        let when = Relative { now };
        let local: Vec<String> = times.iter().map(|at| shown(*at, &zone)).collect();
        let width = local.iter().map(String::len).max().unwrap_or(0);
        for (at, local) in times.into_iter().zip(local) {
            console.line(&format!("{local:<width$}  {at}  {}", when.either(at)));
        }
        for rule in rules {
            console.note(&rule);
        }
    }
    Ok(0)
}

/// The zone of that name.
pub(super) fn zone_of(name: &str) -> Result<Zone, Failure> {
    let loaded = name.parse::<ZoneName>().and_then(|name| Zone::load(&name));
    loaded.map_err(|error| Failure::Invalid(format!("--tz: {error}")))
}

fn of_expression(text: &str, zone: Option<Zone>) -> Result<Found, Failure> {
    let expression: CronExpr =
        text.parse().map_err(|error: crate::domain::schedule::CronError| Failure::Invalid(error.to_string()))?;
    let zone = zone.unwrap_or_else(Zone::of_host);
    let now = UnixMillis::from_timestamp(jiff::Timestamp::now())
        .ok_or_else(|| Failure::Failed("the clock of this host is before 1970 or after 2099".to_owned()))?;
    let schedule = Schedule::Cron(vec![expression]);
    let rules = day_rules(&schedule);
    Ok((Timetable::new(schedule, zone.clone(), now), zone, now, rules))
}

async fn of_job(global: &Global, name: &JobName, zone: Option<Zone>, console: &mut Console) -> Result<Found, Failure> {
    let store = connect(global, console).await?;
    let record = find_job(&store, name).await?;
    let now = store.now().await?;
    let definition = Definition::of(record).map_err(|why| Failure::Failed(format!("job {name} cannot be worked with: {why}")))?;
    if definition.spec.schedule == Schedule::Manual {
        return Err(Failure::Invalid(format!("job {name} has no schedule: it runs only when asked, by schedctl run {name}")));
    }
    let zone = zone.unwrap_or_else(|| definition.timetable.zone().clone());
    if let Schedule::Delay(delay) = definition.spec.schedule {
        return of_delay(&definition, delay, zone, now);
    }
    let rules = day_rules(&definition.spec.schedule);
    let timetable = match definition.runs_left() {
        Some(left) => definition.timetable.ending_after(now, left),
        None => definition.timetable,
    };
    Ok((timetable, zone, now, rules))
}

/// Of a job with a delay only the planted run is known.
fn of_delay(definition: &Definition, delay: Duration, zone: Zone, now: UnixMillis) -> Result<Found, Failure> {
    let (name, delay) = (&definition.record.name, format_duration(delay));
    let Some(pending) = &definition.record.pending else {
        return Err(Failure::Invalid(format!(
            "job {name} runs {delay} after the end of a run, which is not known before it ends"
        )));
    };
    let planted = Timetable::new(Schedule::At(pending.due()), zone.clone(), now);
    Ok((planted, zone, now, vec![format!("the run after it comes {delay} after its end")]))
}
