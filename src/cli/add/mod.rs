//! `add`: one job given by flags, or many jobs given by lines.
//!
//! Invariant: everything that can be checked without Redis is checked before the first request. So
//! invalid input gets the same answer with and without Redis.

mod add_flags;
mod add_warnings;
mod added_job;
mod clock_skew;
mod flags;
mod from_flags;
mod instant;
mod key_conflict;
mod line_adder;
mod line_reader;
mod name_conflict;
mod progress_bar;
mod stdin_lines;
mod stored_doubts;

use serde_json::json;

pub(crate) use add_flags::AddArgs;
use add_warnings::{Host, timeless};
use added_job::{AddResult, is_dropped, pending, request};
pub(crate) use clock_skew::own_now;
pub(crate) use flags::key_flag::ProcessorsError;
use instant::{bounds_of, instants_of};
use key_conflict::key_taken;
use schedd::adding::{AddPools, DRAWS, draw_name};
pub(crate) use stdin_lines::{JobLines, ResultForm, add_from};

use super::connect::connect;
use super::failure::CliFailure;
use super::global::Global;
use super::next::zone_of;
use super::render::{Console, rfc3339, shown, zone_of_job};
use super::runs::run_verb::{WaitingForRun, wait_for};
use super::state::node_presence::warn_if_none_takes;
use crate::cli::local_zone::local_zone;
use schedd::engine::planning::planting::{Applied, PlantingError};
use schedd_core::config::NamedJob;
use schedd_schedule::names::{JobName, RunId};
use schedd_schedule::schedule_form::Schedule;
use schedd_schedule::time::unix_millis::UnixMillis;
use schedd_schedule::time::zone::Zone;
use schedd_store::{Existing, JobRecord, Rev, Store};

/// Adds one job given by flags, or the jobs on standard input. Returns the exit code.
pub(crate) async fn add(
    global: &Global,
    args: &AddArgs,
    console: &mut Console,
) -> Result<u8, CliFailure> {
    let host_zone = local_zone();
    if args.stdin {
        return stdin_lines::add_lines(global, args, host_zone, console).await;
    }
    if !console.is_local() {
        args.refuse_files()?;
    }
    let zone = args.keys.text("tz").map(zone_of).transpose()?.unwrap_or_else(|| host_zone.clone());
    // This check uses the clock of this host, so that invalid input is refused without Redis.
    let draft: Vec<UnixMillis> =
        instants_of(args, clock_skew::own_now(), &zone)?.iter().map(|instant| instant.at).collect();
    let bounds = bounds_of(args, clock_skew::own_now(), &zone)?;
    let draft = from_flags::job_of_flags(args, &draft, &bounds, &host_zone)?;
    if args.wait && has_no_time(&draft) {
        return Err(CliFailure::Invalid(
            "--wait: found no time, so no run is planned; wanted a time such as --in 0s".to_owned(),
        ));
    }
    let waiting = WaitingForRun::prepare(args.wait, args.wait_timeout.as_deref())?;

    let store = connect(global, console).await?;
    let seen = seen_of(&store, args).await?;
    let (now, skew) = clock_skew::ask_time(&store).await?;
    if let Some(skew) = skew.filter(|_| instant::depends_on_a_clock(args)) {
        console.warn(&skew);
    }
    let instants = instants_of(args, now, &zone)?;
    instant::refuse_past(args, &instants, now, &zone)?;
    let bounds = bounds_of(args, now, &zone)?;
    let at: Vec<UnixMillis> = instants.iter().map(|instant| instant.at).collect();
    let job = from_flags::job_of_flags(args, &at, &bounds, &host_zone)?;
    let owed = instant::report_instants(args, &instants, &job, now, &zone, console)?;
    instant::report_bounds(&bounds, now, &zone, console);
    let pools = AddPools::read(&store).await?;
    if let Some(problem) = pools.unknown_to(&job) {
        return Err(CliFailure::Invalid(from_flags::flag_message(args, &problem)));
    }
    for doubt in Host::default().lacks(&job, console).iter().chain(&job.warnings) {
        console.warn(&from_flags::flag_message(args, doubt));
    }
    let others: Vec<JobName> = job.spec.not_while.iter().cloned().collect();
    for other in add_warnings::strangers(&store, &others).await? {
        console.warn(&format!("--not-while: {}", add_warnings::stranger_words(&other)));
    }
    let (place, mut added) = apply(&pools, args, &job, seen, &host_zone).await?;
    match owed {
        Some(at) if added.2 == Some(at) => instant::report_due(at, now, &zone, console),
        Some(at) => console.warn(&format!(
            "job {} does not run for {at}: the job already ran for that time, or already existed and was not changed",
            added.0
        )),
        None => {}
    }
    if let Some(since) = paused_since(&place, &added).await? {
        let (name, since) = (&added.0, shown(since, &host_zone));
        console.warn(&format!(
            "job {name} has been paused since {since} and starts no runs until schedctl resume {name}"
        ));
        // A paused job may not run at its due time, so no due time is reported.
        added.2 = None;
    }
    if let Some(doubt) = timeless(&job, &added) {
        console.warn(&doubt);
    }
    let (name, result, next_due) = added;
    if let Some(due) =
        next_due.filter(|_| job.start_in.is_some() && matches!(result, "created" | "updated"))
    {
        instant::report_due(due, now, &zone, console);
    }
    if result == "created" && job.spec.schedule == Schedule::Manual && has_no_time(&job) {
        console.note(&format!(
            "no time given: job {name} runs only by schedctl run {name}; now: --in 0s"
        ));
    }
    warn_if_none_takes(&store, &job.spec.lane_in(job.spec.queue.clone()), console).await;
    // Only the instances of a job on each node have runs.
    let own_due = next_due.filter(|_| !job.spec.is_on_each_node());
    let run = own_due.map(|due| RunId::regular(name.clone(), due));
    if waiting.is_asked() {
        let run = run.ok_or_else(|| nothing_to_wait_for(&name, result))?;
        return wait_for(&place, &[run], &[name.to_string()], waiting, console).await;
    }
    if console.is_json() {
        let next_due = match next_due {
            Some(at) => Some(rfc3339(at, &zone_of_job(&place, &name).await)),
            None => None,
        };
        console.json(&json!({
            "name": name.as_str(),
            "next_due": next_due,
            "run_id": run.map(|run| run.to_string()),
            "result": result,
        }));
    } else {
        console.line(name.as_str());
    }
    Ok(0)
}

/// Returns true if a job of this definition plans no run of its own.
fn has_no_time(job: &NamedJob) -> bool {
    matches!(job.spec.schedule, Schedule::Manual | Schedule::After(_)) && job.start_in.is_none()
}

/// Returns the failure of `--wait` for a job without a planned run.
fn nothing_to_wait_for(name: &JobName, result: &str) -> CliFailure {
    let done = match result {
        "exists" => "already existed",
        "unchanged" => "existed unchanged",
        done => done,
    };
    CliFailure::Conflict(format!(
        "--wait: job {name} {done}, but has no planned run to wait for; see schedctl history {name}"
    ))
}

/// Returns the place and the revision of the job that `--replace` changes, or `None` if no such job is
/// found. The add fails if somebody else changes the job after this read.
async fn seen_of(store: &Store, args: &AddArgs) -> Result<Option<(Store, Rev)>, CliFailure> {
    let name = args.keys.text("name").filter(|_| args.replace);
    let Some(name) = name.and_then(|name| name.parse().ok()) else { return Ok(None) };
    // A place that does not answer may have nothing to do with the job. The add asks again.
    let Ok(place) = store.place_of_job(&name).await else { return Ok(None) };
    let job = place.read_job(&name).await?.filter(JobRecord::is_live);
    Ok(job.map(|job| (place, job.rev)))
}

/// Writes one job, given by flags, to its place. Returns the place too.
async fn apply(
    pools: &AddPools,
    args: &AddArgs,
    job: &NamedJob,
    seen: Option<(Store, Rev)>,
    host_zone: &Zone,
) -> Result<(Store, AddResult), CliFailure> {
    for _ in 0..DRAWS {
        let is_drawn = job.name.is_none();
        let name = match &job.name {
            Some(name) => name.clone(),
            None => draw_name().map_err(|error| CliFailure::Failed(error.to_string()))?,
        };
        let existing = if args.replace && !is_drawn { Existing::Edit } else { Existing::Refuse };
        let mut request = request(name.clone(), job, existing);
        if let Some((place, rev)) = &seen
            && pools.place_of(&request).await?.namespace() == place.namespace()
        {
            request.seen = Some(rev.clone());
        }
        let answer = pools.apply(host_zone, std::slice::from_ref(&request)).await?.pop();
        let contended = || CliFailure::from(PlantingError::Contended(name.clone()));
        let (store, applied) = answer.ok_or_else(contended)?;
        let store = &store;
        let added = match applied? {
            Applied::Created(next) => Ok((name, "created", next)),
            Applied::Updated(Some(next)) => Ok((name, "updated", Some(next))),
            Applied::Updated(None) => pending(store, name, "updated").await,
            Applied::Unchanged => pending(store, name, "unchanged").await,
            Applied::Moved(first, next) => Ok((first, "updated", next)),
            Applied::Taken(first) if args.if_absent || is_dropped(job) => {
                pending(store, first, "exists").await
            }
            Applied::Taken(first) => Err(key_taken(store, &first, job).await),
            Applied::Exists | Applied::OtherKind(_) if is_drawn => continue,
            Applied::Exists | Applied::OtherKind(_) if args.if_absent => {
                pending(store, name, "exists").await
            }
            Applied::Exists | Applied::OtherKind(_) => {
                Err(name_conflict::name_taken(store, &name, job).await)
            }
            Applied::Newer(now) => {
                Err(CliFailure::Conflict(name_conflict::changed_meanwhile(&name, &now)))
            }
            Applied::Past(at) => Err(CliFailure::Invalid(format!(
                "job {name}: time {at} is past, wanted a future time"
            ))),
            Applied::Done(at) => Err(CliFailure::Conflict(name_conflict::done_already(&name, at))),
        };
        return added.map(|added| (store.clone(), added));
    }
    Err(CliFailure::Conflict("no free random name was found; give a name with --name".to_owned()))
}

/// Returns the time since which the job is paused. Returns `None` if the job is not paused, or the
/// add did not change an existing job.
async fn paused_since(
    store: &Store,
    (name, result, _): &AddResult,
) -> Result<Option<UnixMillis>, CliFailure> {
    Ok(if *result == "updated" {
        store.read_job(name).await?.and_then(|job| job.paused_at)
    } else {
        None
    })
}
