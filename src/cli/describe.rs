//! `describe`: a schedule in plain words.

use serde_json::json;

use super::args::{Describe, Global};
use super::connect::connect;
use super::failure::Failure;
use super::next::{schedule_of, zone_of};
use super::render::Console;
use super::target::find_job;
use crate::domain::describe::in_words;
use crate::domain::ids::JobName;
use crate::domain::schedule::Schedule;
use crate::domain::zone::Zone;
use crate::engine::Definition;

/// Tells an expression, or when a job runs.
pub(super) async fn describe(global: &Global, args: &Describe, console: &mut Console) -> Result<u8, Failure> {
    let asked = args.tz.as_deref().map(zone_of).transpose()?;
    let (job, schedule, zone) = match args.what.parse::<JobName>() {
        Ok(name) => {
            let store = connect(global, console).await?;
            let definition = Definition::of(find_job(&store, &name).await?)
                .map_err(|why| Failure::Failed(format!("job {name} cannot be worked with: {why}")))?;
            (Some(name), definition.spec.schedule, Some(definition.timetable.zone().clone()))
        }
        Err(_) => (None, schedule_of(&args.what)?, asked.clone()),
    };
    // A moment is shown in the zone asked for; the zone an expression is read in is the job's own.
    let shown_in = asked.or_else(|| zone.clone()).unwrap_or_else(Zone::utc);
    let words = in_words(&schedule, &shown_in);
    let read_in = zone
        .filter(|_| matches!(schedule, Schedule::Cron(_) | Schedule::Calendar(_) | Schedule::Rules(_) | Schedule::Several(_)));
    if console.is_json() {
        console.json(&json!({
            "job": job.as_ref().map(JobName::as_str),
            "schedule": schedule.text(&shown_in),
            "zone": read_in.as_ref().map(|zone| zone.name().as_str()),
            "words": words,
        }));
        return Ok(0);
    }
    for words in words {
        match &read_in {
            Some(zone) => console.line(&format!("{words} ({})", zone.name())),
            None => console.line(&words),
        }
    }
    Ok(0)
}
