//! `next`: the next times of a job, of all jobs of a file, or of an expression.

mod chain_times;
mod next_flags;
mod next_rows;
mod planned_times;
mod set_time;

use std::path::Path;

use super::connect::connect;
use super::failure::CliFailure;
use super::global::Global;
use super::jobs::pause_resume::not_defined;
use super::jobs::target::{definition_of, extra_run};
use super::render::{Console, day_rules, one_line, rfc3339, shown};
use crate::cli::local_zone::local_zone;
use schedd::engine::Definition;
use schedd_core::config;
use schedd_core::config::{FilePlace, Rendering, start_of_rule};
use schedd_schedule::clock_changes::ClockChanges;
use schedd_schedule::names::JobName;
use schedd_schedule::schedule_form::{CalendarExpr, Recurrence, Schedule};
use schedd_schedule::time::duration::format_duration;
use schedd_schedule::time::human_time::{Instant, parse_instant};
use schedd_schedule::time::unix_millis::UnixMillis;
use schedd_schedule::time::zone::{Zone, ZoneName};
use schedd_schedule::timetable::Timetable;
use schedd_store::{JobRecord, Store};

pub(crate) use chain_times::root_of;
use chain_times::{OF_ROOT, roots_in};
pub(crate) use next_flags::NextArgs;
use next_rows::{Coming, Style, comings, give_way, report};
use planned_times::Planned;

/// The number of times shown for one job or expression if `-n` is not given.
const COUNT: u32 = 5;
/// The number of times shown for each job of a file if `-n` is not given.
const COUNT_EACH: u32 = 1;

/// The timetables whose times are to be printed, and the current time.
struct Found {
    planned: Vec<Planned>,
    now: UnixMillis,
    /// The remarks about the schedule that are printed below the times.
    rules: Vec<String>,
}

/// Prints the next times of a job, of a file's jobs or of an expression. Returns the exit code.
pub(crate) async fn next(
    global: &Global,
    args: &NextArgs,
    console: &mut Console,
) -> Result<u8, CliFailure> {
    if args.long && !console.is_json() {
        return Err(CliFailure::Invalid(
            "--long requires --json (the table already shows everything)".to_owned(),
        ));
    }
    let zone = args.tz.as_deref().map(zone_of).transpose()?;
    if let (Some(job), Some(time)) = (&args.what, &args.set) {
        return set_time::set(global, job, time, zone, console).await;
    }
    let (found, what) = match (&args.file, &args.what) {
        (Some(file), _) => (of_file(file)?, one_line(&file.display().to_string())),
        (None, Some(what)) => match what.parse::<JobName>() {
            Ok(name) if args.name.is_none() && args.dtstart.is_none() => {
                match of_job(global, &name, console).await {
                    Err(CliFailure::NotFound(_)) if is_calendar(what) => {
                        (of_expression(args, what, zone.clone())?, what.clone())
                    }
                    found => (found?, format!("job {name}")),
                }
            }
            Ok(_) | Err(_) => (of_expression(args, what, zone.clone())?, what.clone()),
        },
        (None, None) => {
            return Err(CliFailure::Invalid(
                "no job, expression or file is given, wanted JOB, EXPR or --file FILE".to_owned(),
            ));
        }
    };
    let local = zone.clone().unwrap_or_else(local_zone);
    let said = args.from.as_deref().map(|text| {
        parse_instant(text, found.now, &local)
            .map_err(|error| CliFailure::at_time("--from", text, &error))
    });
    let said = said.transpose()?;
    let from = said.as_ref().map_or(found.now, |said| said.at);
    let count = args.count.unwrap_or(if args.file.is_some() { COUNT_EACH } else { COUNT });
    let mut times: Vec<Coming<'_>> = Vec::new();
    let mut over: Vec<&str> = Vec::new();
    for planned in &found.planned {
        let before = times.len();
        for time in comings(planned, zone.as_ref(), from).take(count as usize) {
            give_way(times.len()).await;
            times.push(time);
        }
        if times.len() == before {
            over.extend(planned.job.as_ref().map(JobName::as_str));
        }
    }
    if times.is_empty() {
        return Err(CliFailure::Invalid(format!(
            "{what} has no time after {} and before 2100",
            shown(from, &local)
        )));
    }
    if let Some(Instant { at, note }) = said.filter(|_| !console.is_json()) {
        console.note(&format!("times after {} ({})", rfc3339(at, &local), local.name()));
        if let Some(note) = note {
            console.note(&note);
        }
    }
    times.sort_by(|left, right| left.at.cmp(&right.at).then_with(|| left.job.cmp(&right.job)));
    if args.file.is_none() {
        times.truncate(count as usize);
    }
    report(
        &times,
        &local,
        found.now,
        if args.file.is_some() { Style::OfJobs } else { Style::OfOne },
        args.long,
        console,
    )
    .await;
    if !console.is_json() {
        found.rules.iter().for_each(|rule| console.note(rule));
        if !over.is_empty() && args.file.is_some() {
            console.note(&format!("jobs without a future time: {}", over.join(", ")));
        }
    }
    Ok(0)
}

/// Returns the time zone `name`, which is the value of `--tz`.
pub(crate) fn zone_of(name: &str) -> Result<Zone, CliFailure> {
    let loaded = name.parse::<ZoneName>().and_then(|name| Zone::load(&name));
    loaded.map_err(|error| CliFailure::Invalid(format!("--tz: {error}")))
}

/// Parses the job name that is the value of `--name`. The job need not exist.
pub(crate) fn job_named(text: &str) -> Result<JobName, CliFailure> {
    text.parse().map_err(|error| CliFailure::Invalid(format!("--name: {error}")))
}

/// Parses a cron, `OnCalendar` or iCalendar expression. With `dtstart` the expression is an
/// iCalendar rule that starts at that local time.
pub(crate) fn schedule_of(text: &str, dtstart: Option<&str>) -> Result<Schedule, CliFailure> {
    if let Some(dtstart) = dtstart {
        let from = start_of_rule(dtstart).ok_or_else(|| {
            let wanted = "a local date and time such as 2026-01-05T09:00";
            CliFailure::Invalid(format!("--dtstart {dtstart:?} is not understood, wanted {wanted}"))
        })?;
        let rule = Recurrence::new(text, from);
        let rule = rule.map_err(|error| CliFailure::Pointed {
            line: error.to_string(),
            text: text.to_owned(),
            offset: error.offset,
        });
        return Ok(Schedule::Rules(vec![rule?]));
    }
    if text.get(..5).is_some_and(|head| head.eq_ignore_ascii_case("freq=")) {
        let wanted = "wanted --dtstart, such as --dtstart 2026-01-05T09:00";
        return Err(CliFailure::Invalid(format!("an iCalendar rule needs a start time: {wanted}")));
    }
    let refused = match Schedule::of_cron(text) {
        Ok(schedule) => return Ok(schedule),
        Err(error) => error,
    };
    // A text that is not a cron expression may be an `OnCalendar` expression. If the text is
    // neither, the error of the more similar form is returned.
    match text.parse::<CalendarExpr>() {
        Ok(expression) => Ok(Schedule::Calendar(vec![expression])),
        Err(error) if looks_like_a_calendar(text) => Err(CliFailure::Pointed {
            line: error.to_string(),
            text: text.to_owned(),
            offset: error.offset,
        }),
        Err(_) => Err(CliFailure::Pointed {
            line: refused.to_string(),
            text: text.to_owned(),
            offset: refused.offset,
        }),
    }
}

/// Returns true if the text, which could also be a job name, is an `OnCalendar` word such as
/// `quarterly`.
pub(crate) fn is_calendar(text: &str) -> bool {
    text.parse::<CalendarExpr>().is_ok()
}

/// Returns true if the text has fewer fields than a cron expression and contains characters, such
/// as `..`, that only an `OnCalendar` date or time has.
fn looks_like_a_calendar(text: &str) -> bool {
    let has_signs = [":", "..", "*-", "*~"].iter().any(|sign| text.contains(sign));
    has_signs && !text.starts_with('@') && text.split_ascii_whitespace().count() < 5
}

/// Returns the failure for a schedule that is only `@reboot` and so has no future times.
fn only_at_boot(what: &str) -> CliFailure {
    CliFailure::Invalid(format!(
        "{what} has no next times, because it runs once on each host after each boot"
    ))
}

/// Returns the time by this host's clock, which is used by verbs that do not need Redis.
pub(crate) fn own_now() -> Result<UnixMillis, CliFailure> {
    UnixMillis::from_timestamp(jiff::Timestamp::now()).ok_or_else(|| {
        CliFailure::Failed("the clock of this host is before 1970 or after 2099".to_owned())
    })
}

fn of_expression(args: &NextArgs, text: &str, zone: Option<Zone>) -> Result<Found, CliFailure> {
    let mut schedule = schedule_of(text, args.dtstart.as_deref())?;
    if schedule.is_at_boot() {
        return Err(only_at_boot(text));
    }
    let now = own_now()?;
    let mut rules = day_rules(&schedule);
    if let Some(name) = &args.name {
        schedule = schedule.for_job(&job_named(name)?, ClockChanges::default());
    } else if schedule.is_drawn() {
        rules.push(
            "H in an expression depends on the name of the job; these are the times of a job without a name (--name shows the times of a named job)".to_owned(),
        );
    }
    let own = match &schedule {
        Schedule::Calendar(list) => list.first().and_then(CalendarExpr::zone).cloned(),
        _ => None,
    };
    let timetable = Timetable::new(schedule, zone.or(own).unwrap_or_else(local_zone), now);
    Ok(Found {
        planned: vec![Planned { job: None, timetable, remark: None, but_of: None }],
        now,
        rules,
    })
}

async fn of_job(
    global: &Global,
    name: &JobName,
    console: &mut Console,
) -> Result<Found, CliFailure> {
    let store = connect(global, console).await?.place_of_job(name).await?;
    let record = live_job(&store, name).await?;
    let mut paused = record.paused_at.map(|_| name.clone());
    let now = store.now().await?;
    let extra = extra_run(&store, &record).await?;
    let mut definition = definition_of(record)?;
    let parents = definition.spec.schedule.parents().cloned();
    if parents.is_some() {
        let root = root_of(&store, name).await?;
        let record = live_job(&store, &root).await?;
        paused = paused.or_else(|| record.paused_at.map(|_| root));
        definition = definition_of(record)?;
    }
    let mut rules = day_rules(&definition.spec.schedule);
    rules.extend(parents.iter().map(|parents| {
        let root = &definition.record.name;
        format!("{name} runs {}; these are the times of {root}", parents.text())
    }));
    rules.extend(paused.map(|job| {
        format!("job {job} is paused: its schedule starts no run until schedctl resume {job}")
    }));
    let extra = extra.map(|run| Planned {
        job: Some(name.clone()),
        timetable: Timetable::new(
            Schedule::At(run.due()),
            definition.timetable.zone().clone(),
            now,
        ),
        remark: Some("set by a run or a user, beside the schedule"),
        but_of: None,
    });
    let mut planned = by_schedule(name, definition, now);
    if let Ok(planned) = &mut planned
        && parents.is_some()
    {
        planned.remark = Some(OF_ROOT);
    }
    let planned = match (planned, extra) {
        (Err(_), Some(extra)) => vec![extra],
        (planned, extra) => std::iter::once(planned?).chain(extra).collect(),
    };
    Ok(Found { planned, now, rules })
}

/// Reads the record of a job. Fails if the job is over.
async fn live_job(store: &Store, name: &JobName) -> Result<JobRecord, CliFailure> {
    match store.read_job(name).await?.filter(JobRecord::is_live) {
        Some(job) => Ok(job),
        None => Err(not_defined(store, name).await),
    }
}

/// Returns the times of a job by its schedule. Fails if the schedule gives no time.
fn by_schedule(
    name: &JobName,
    definition: Definition,
    now: UnixMillis,
) -> Result<Planned, CliFailure> {
    if definition.spec.schedule == Schedule::Manual {
        let root = &definition.record.name;
        return Err(CliFailure::Invalid(format!(
            "job {root} has no schedule, so it runs only by schedctl run {root}"
        )));
    }
    if definition.spec.schedule.is_at_boot() && definition.timetable.first().is_none() {
        return Err(only_at_boot(&format!("job {name}")));
    }
    let (timetable, remark) = match (&definition.spec.schedule, definition.runs_left()) {
        (Schedule::Delay(delay), _) => {
            let Some(pending) = &definition.record.pending else {
                let delay = format_duration(*delay);
                return Err(CliFailure::Invalid(format!(
                    "job {name} runs {delay} after the end of its open run, whose end is not known yet"
                )));
            };
            let planted = Schedule::At(pending.due());
            (
                Timetable::new(planted, definition.timetable.zone().clone(), now),
                Some("the next time is counted from the end of this run"),
            )
        }
        (_, Some(left)) => (definition.timetable.ending_after(now, left), None),
        (_, None) => (definition.timetable, None),
    };
    Ok(Planned { job: Some(name.clone()), timetable, remark, but_of: None })
}

/// Returns the timetables of a file's jobs as if the file were applied now.
fn of_file(file: &Path) -> Result<Found, CliFailure> {
    let now = own_now()?;
    let host_zone = local_zone();
    let config = config::read_file(&FilePlace::named(file), &host_zone).map_err(|error| {
        CliFailure::Config(error.rendered(Rendering::Lines).lines().map(str::to_owned).collect())
    })?;
    let mut planned = Vec::new();
    let roots = roots_in(&config.jobs);
    for name in config.jobs.keys() {
        // A child has the times of the job at the top of its chain.
        let root = roots.get(name).unwrap_or(name);
        let Some(job) = config.jobs.get(root) else { continue };
        let spec = job.spec().map_err(|error| CliFailure::Failed(error.to_string()))?;
        let zone = spec
            .tz
            .as_ref()
            .map(Zone::load)
            .transpose()
            .map_err(|error| CliFailure::Failed(error.to_string()))?;
        let zone = zone.unwrap_or_else(|| host_zone.clone());
        let remark = match &spec.schedule {
            Schedule::Delay(_) => {
                Some("counted from now; the next time is counted from the end of this run")
            }
            _ if spec.shape.anchor.is_some() => None,
            schedule if schedule.has_every() => Some(
                "counted from now, because the time of the job's first apply is not known here",
            ),
            _ => None,
        };
        let schedule = match spec.schedule {
            Schedule::Delay(delay) => Schedule::At(now.saturating_add(delay)),
            schedule => schedule.for_job(root, spec.dst),
        };
        let remark = if root == name { remark } else { Some(OF_ROOT) };
        let but_of = schedule.without_every().filter(|_| remark.is_some());
        let but_of = but_of.map(|others| Timetable::shaped(others, &spec.shape, zone.clone(), now));
        let timetable = Timetable::shaped(schedule, &spec.shape, zone, now);
        let timetable = match spec.shape.max_runs {
            Some(most) => timetable.ending_after(now, most),
            None => timetable,
        };
        planned.push(Planned { job: Some(name.clone()), timetable, remark, but_of });
    }
    Ok(Found { planned, now, rules: Vec::new() })
}
