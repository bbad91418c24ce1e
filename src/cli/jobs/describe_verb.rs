//! `describe`: a schedule in plain words.

use serde_json::json;

use super::target::{definition_of, find_job};
use crate::cli::connect::connect;
use crate::cli::failure::CliFailure;
use crate::cli::global::Global;
use crate::cli::next::{is_calendar, job_named, schedule_of, zone_of};
use crate::cli::render::Console;
use schedd_schedule::describe::{PhraseOf, in_words, shape_in_words};
use schedd_schedule::names::JobName;
use schedd_schedule::schedule_modifiers::Shape;
use schedd_schedule::time::zone::Zone;

const DESCRIBE_EXAMPLES: &str = "\
Examples:
  schedctl describe '*/15 9-17 * * mon-fri'
  schedctl describe '0 0 1 * 1' --tz Europe/Berlin
  schedctl describe 'Mon..Fri *-*~1 09:00'
  schedctl describe 'FREQ=MONTHLY;BYDAY=-1FR' --dtstart 2026-01-05T09:00
  schedctl describe 'H H * * *' --name backup
  schedctl describe backup

An argument that is not a valid job name is read as a cron expression, or else as an OnCalendar
expression; no Redis is needed. For a job, a line is printed for each of its schedules, and for each
rule that modifies the schedules.";

#[allow(clippy::doc_markdown, reason = "comments on flags are texts of --help")]
/// Describes in words when a job runs or what a cron expression means.
#[derive(Debug, clap::Args)]
#[command(after_help = DESCRIBE_EXAMPLES)]
pub(crate) struct DescribeArgs {
    /// Name of a job, or a cron expression in quotes
    #[arg(value_name = "JOB|EXPR", add = crate::cli::shell::completion::jobs())]
    what: String,
    /// Zone of the expression; for a job, only the zone in which its fixed times (at, start, end)
    /// are shown
    #[arg(long, value_name = "ZONE", add = crate::cli::shell::completion::zones())]
    tz: Option<String>,
    /// Read the expression as an iCalendar rule that starts at this local time: 2026-01-05T09:00
    #[arg(long, value_name = "LOCAL TIME")]
    dtstart: Option<String>,
    /// Name of the job that has the expression; H in the expression is derived from this name
    #[arg(long, value_name = "JOB")]
    name: Option<String>,
}

/// Prints in words when a job runs or what an expression means. Returns the exit code.
pub(crate) async fn describe(
    global: &Global,
    args: &DescribeArgs,
    console: &mut Console,
) -> Result<u8, CliFailure> {
    let asked = args.tz.as_deref().map(zone_of).transpose()?;
    let (job, schedule, shape, zone) = match args.what.parse::<JobName>() {
        Ok(name) if args.name.is_none() && args.dtstart.is_none() => {
            let store = connect(global, console).await?.place_of_job(&name).await?;
            match find_job(&store, &name).await {
                Err(CliFailure::NotFound(_)) if is_calendar(&args.what) => {
                    (None, schedule_of(&args.what, None)?, Shape::default(), asked.clone())
                }
                found => {
                    let definition = definition_of(found?)?;
                    let zone = definition.timetable.zone().clone();
                    (Some(name), definition.spec.schedule, definition.spec.shape, Some(zone))
                }
            }
        }
        _ => {
            let name = args.name.as_deref().map(job_named).transpose()?;
            (
                name,
                schedule_of(&args.what, args.dtstart.as_deref())?,
                Shape::default(),
                asked.clone(),
            )
        }
    };
    // A single time is shown in the zone of `--tz`. An expression is read in the job's own zone.
    let shown_in = asked.or_else(|| zone.clone()).unwrap_or_else(Zone::utc);
    let phrases =
        in_words(&schedule, PhraseOf { zone: &shown_in, job: job.as_ref(), anchor: shape.anchor });
    let shape = shape_in_words(&shape, &shown_in);
    let read_in = zone.filter(|_| phrases.iter().any(|phrase| phrase.is_on_the_wall));
    if console.is_json() {
        console.json(&json!({
            "job": job.as_ref().map(JobName::as_str),
            "schedule": schedule.text(&shown_in),
            "tz": read_in.as_ref().map(|zone| zone.name().as_str()),
            "words": phrases.iter().map(|phrase| phrase.words.as_str()).collect::<Vec<_>>(),
            "modifiers": shape,
        }));
        return Ok(0);
    }
    for phrase in phrases {
        match &read_in {
            Some(zone) if phrase.is_on_the_wall => {
                console.line(&format!("{} ({})", phrase.words, zone.name()));
            }
            _ => console.line(&phrase.words),
        }
    }
    for line in &shape {
        console.line(line);
    }
    Ok(0)
}
