//! `backfill`: adds runs for past occurrences of a job. These runs start one after the other.
//!
//! Invariant: each selected occurrence gets one backfill run, however often the command is
//! repeated. The window, the limit and the history select the occurrences. The job's schedule does
//! not change.

#![allow(clippy::doc_markdown, reason = "comments on flags are texts of --help")]

use serde_json::json;

use super::past_time::parse_past;
use crate::cli::confirmation::ask;
use crate::cli::connect::connect;
use crate::cli::failure::CliFailure;
use crate::cli::global::Global;
use crate::cli::jobs::instance_names::{has_instances, instance_names};
use crate::cli::jobs::pause_resume::not_defined;
use crate::cli::jobs::target::{definition_of, find_job, job_name};
use crate::cli::local_zone::local_zone;
use crate::cli::next::root_of;
use crate::cli::render::{Console, rfc3339, shown};
use schedd::engine::planning::backfill_plan;
use schedd::engine::planning::backfill_plan::{BackfillPlan, BackfillWindow};
use schedd_schedule::names::{JobName, RunId};
use schedd_schedule::schedule_form::Schedule;
use schedd_schedule::time::duration::parse_duration;
use schedd_schedule::time::unix_millis::UnixMillis;
use schedd_schedule::time::zone::Zone;
use schedd_store::{BackfillReply, Store};

const EXAMPLES: &str = "\
Examples:
  schedctl backfill report --from '2026-11-01' --to '2026-11-08'
  schedctl backfill report --from 3d --dry-run
  schedctl cancel report --backfill

Each occurrence of the job's current schedule gets a run JOB@DUE_MS~backfill, with the due time of
the occurrence (SCHEDD_DUE) and the current definition of the job. The runs start one after the
other, oldest first. Each run waits for an open run of the job, unless overlap of the job is allow.

An occurrence is not backfilled if it succeeded, is not due yet, has not ended, or was already
backfilled with any result; use rerun or retry instead. The values of --from and --to are times as
for add --at, in the zone of this host, or durations before now. A time of day or a weekday without
a date means the last one before now. The time --from is included, the time --to is not.

If a time is older than the job, schedctl first asks on a terminal for the name of the namespace;
without a terminal, --yes is required.";

/// Adds runs for the past occurrences of a job between two times.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct BackfillArgs {
    /// Name of the job
    #[arg(add = crate::cli::shell::completion::jobs())]
    job: String,
    /// The beginning of the window
    #[arg(long, value_name = "TIME")]
    from: String,
    /// The end of the window [default: now]
    #[arg(long, value_name = "TIME")]
    to: Option<String>,
    /// Add at most N runs, oldest first
    #[arg(long, value_name = "N", default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    max: u32,
    /// Only print the times; add no runs
    #[arg(long)]
    dry_run: bool,
    /// Also run times before the job was added, without asking
    #[arg(long)]
    yes: bool,
}

/// Adds backfill runs, or prints their times for `--dry-run`. Returns the exit code.
pub(crate) async fn backfill(
    global: &Global,
    args: &BackfillArgs,
    console: &mut Console,
) -> Result<u8, CliFailure> {
    let name = job_name(&args.job)?;
    let store = connect(global, console).await?.place_of_job(&name).await?;
    let record = find_job(&store, &name).await?;
    if has_instances(&record) {
        return Err(CliFailure::Invalid(each_node(&store, &name).await?));
    }
    if !record.is_live() {
        return Err(not_defined(&store, &name).await);
    }
    let created = record.created.as_ref().map(|(at, _)| *at);
    let definition = definition_of(record)?;
    if definition.spec.schedule == Schedule::Manual {
        return Err(CliFailure::Invalid(format!(
            "job {name} has no schedule and so no past occurrences: use schedctl run {name}"
        )));
    }
    if let Schedule::After(parents) = &definition.spec.schedule {
        let root = root_of(&store, &name).await?;
        return Err(CliFailure::Invalid(format!(
            "job {name} runs {}, so a backfill of the top of its chain brings its runs too: use schedctl backfill {root}",
            parents.text()
        )));
    }
    if let Schedule::Delay(_) = definition.spec.schedule {
        return Err(CliFailure::Invalid(format!(
            "job {name} runs a delay after the end of each run and so has no past occurrences: use schedctl run {name}"
        )));
    }
    if definition.spec.schedule.is_at_boot()
        && definition.timetable.next_after(UnixMillis::EPOCH).is_none()
    {
        return Err(CliFailure::Invalid(format!(
            "job {name} runs only at each boot (@reboot) and so has no past occurrences: use schedctl run {name}"
        )));
    }
    let zone = definition.timetable.zone().clone();
    let local = local_zone();
    let window = window(args, store.now().await?, &local)?;
    let most = usize::try_from(args.max).unwrap_or(usize::MAX);
    let plan = backfill_plan::plan(&store, &definition, window, most).await?;
    let before = created.map_or(0, |at| plan.runs.iter().filter(|run| run.due() < at).count());
    if let Some(at) = created.filter(|_| before > 0 && !args.dry_run && !args.yes) {
        confirm(store.namespace(), &name, (before, shown(at, &local)), console.can_ask())?;
    }
    let planted = if args.dry_run { 0 } else { plant(&store, &name, &plan.runs).await? };
    report(args, &name, &plan, planted, &zone, console);
    if plan.runs.is_empty() && plan.cut_at.is_none() {
        let (from, to) = (shown(window.from, &local), shown(window.to, &local));
        console.note(&format!("no occurrences of job {name} to backfill between {from} and {to}"));
    }
    Ok(0)
}

/// Returns the message for a job on each node, which names the instances to backfill.
async fn each_node(store: &Store, name: &JobName) -> Result<String, CliFailure> {
    let names = instance_names(store, name).await?;
    let names: Vec<&str> = names.iter().map(JobName::as_str).collect();
    Ok(format!(
        "job {name} runs on each node, and a backfill is for one node: wanted one of {}",
        names.join(", ")
    ))
}

/// Fails unless the user agrees to run the job for `before` times at which the job did not exist:
/// it was added at `added`.
fn confirm(
    namespace: &str,
    name: &JobName,
    (before, added): (usize, String),
    can_ask: bool,
) -> Result<(), CliFailure> {
    let runs = runs_of(name, u64::try_from(before).unwrap_or(u64::MAX));
    let what = format!("{runs} for times before the job was added ({added})");
    if can_ask {
        return ask(namespace, &what, "added");
    }
    Err(CliFailure::Invalid(format!(
        "found {what}, wanted --yes to run them, a later --from, or --dry-run to list them"
    )))
}

fn runs_of(name: &JobName, count: u64) -> String {
    format!("{count} {} of job {name}", if count == 1 { "run" } else { "runs" })
}

fn window(args: &BackfillArgs, now: UnixMillis, zone: &Zone) -> Result<BackfillWindow, CliFailure> {
    let read = |flag: &str, text: &str| {
        if let Ok(ago) = parse_duration(text) {
            return Ok(now.saturating_sub(ago));
        }
        let at = parse_past(text, now, zone)
            .map_err(|error| {
                CliFailure::Invalid(format!(
                    "{flag}: {error}; or write a duration before now, such as 24h"
                ))
            })?
            .at;
        if at > now {
            let found = shown(at, zone);
            return Err(CliFailure::Invalid(format!(
                "{flag}: found {found}, wanted a past time: future occurrences run by themselves"
            )));
        }
        Ok(at)
    };
    let from = read("--from", &args.from)?;
    let to = args.to.as_deref().map_or(Ok(now), |text| read("--to", text))?;
    if from >= to {
        let (from, to) = (shown(from, zone), shown(to, zone));
        return Err(CliFailure::Invalid(format!(
            "--from {from} is not before --to {to}: wanted an earlier --from"
        )));
    }
    Ok(BackfillWindow { from, to })
}

/// Adds the runs to the job's list of waiting backfill runs, and the first waiting run to the due
/// set unless a backfill run of the job is planned or open. Returns the number of added runs.
async fn plant(store: &Store, name: &JobName, runs: &[RunId]) -> Result<u64, CliFailure> {
    let reply = store.queue_backfill(name, runs).await?;
    if reply != BackfillReply::Unknown {
        backfill_plan::advance(store, name).await?;
    }
    match reply {
        BackfillReply::Queued(count) => Ok(count),
        BackfillReply::Full(count) => Err(CliFailure::Conflict(format!(
            "{count} runs of job {name} were added, the remaining runs were not, because 10,000 backfill runs are waiting; repeat the command when some of them have ended"
        ))),
        BackfillReply::Unknown => Err(not_defined(store, name).await),
    }
}

fn report(
    args: &BackfillArgs,
    name: &JobName,
    plan: &BackfillPlan,
    planted: u64,
    zone: &Zone,
    console: &mut Console,
) {
    let times = plan.runs.iter().map(RunId::due);
    if console.is_json() {
        console.json(&json!({
            "job": name.as_str(),
            "dry_run": args.dry_run,
            "added": planted,
            "times": times.map(|at| rfc3339(at, zone)).collect::<Vec<_>>(),
            "not_backfilled": {"succeeded": plan.succeeded, "already_backfilled": plan.repeated, "open": plan.owed},
            "continue_from": plan.cut_at.map(|at| rfc3339(at, zone)),
        }));
    } else if args.dry_run {
        let local = local_zone();
        times.for_each(|at| console.line(&format!("{}  {at}", shown(at, &local))));
    } else if !console.is_quiet() {
        let order = match planted {
            0 | 1 => "",
            _ => "; backfill runs start one after the other",
        };
        console.line(&format!("{} added{order}", runs_of(name, planted)));
    }
    for (count, why) in [
        (plan.succeeded, "they succeeded"),
        (plan.repeated, "they are already backfilled, or wait for their backfill run"),
        (plan.owed, "they are not due yet, or have not ended"),
    ] {
        if count > 0 {
            console.note(&format!("occurrences not backfilled, because {why}: {count}"));
        }
    }
    if let Some(at) = plan.cut_at {
        console.note(&format!(
            "stopped at {} runs: continue with --from {at}, or with a larger --max",
            plan.runs.len()
        ));
    }
}
