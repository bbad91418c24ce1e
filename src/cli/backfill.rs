//! `backfill`: past occurrences of a job made up for, one after the other.
//!
//! Invariant: what the window, the limit and history let through is planted once, however often it is asked for; the job's
//! schedule is not touched.

#![allow(clippy::doc_markdown, reason = "comments on flags are texts of --help")]

use serde_json::json;

use super::args::Global;
use super::connect::connect;
use super::failure::Failure;
use super::past::parse_past;
use super::render::{Console, rfc3339, shown};
use super::switch::not_defined;
use super::target::{definition_of, find_job, job_name};
use crate::domain::duration::parse_duration;
use crate::domain::ids::{JobName, RunId};
use crate::domain::schedule::Schedule;
use crate::domain::time::UnixMillis;
use crate::domain::zone::Zone;
use crate::engine::backfilling::{self, BackfillPlan, Window};
use crate::store::{BackfillReply, Store};

const EXAMPLES: &str = "\
Examples:
  schedctl backfill report --from '2026-11-01' --to '2026-11-08'
  schedctl backfill report --from 3d --dry-run
  schedctl cancel report --backfill

Each occurrence gets a run of its own, JOB@DUE_MS~backfill, with the occurrence's due time
(SCHEDD_DUE), by the job's schedule and definition as they are now. They run one after the other,
the oldest first; each waits for an open run of the job unless its overlap is allow. Left out are
occurrences known to have succeeded, those still to come or not over, and those made up for before,
however that ended: rerun or retry do those again. Times are read as add --at is, in the job's zone,
but that a time of day or a weekday alone is its last coming; or as a duration: so long ago. --from
counts, --to does not.";

/// Plants runs for the occurrences of a job in a window of time that is past.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct BackfillArgs {
    /// Name of the job
    #[arg(add = super::complete::jobs())]
    job: String,
    /// The beginning of the window
    #[arg(long, value_name = "TIME")]
    from: String,
    /// The end of the window [default: now]
    #[arg(long, value_name = "TIME")]
    to: Option<String>,
    /// At most so many runs, the oldest
    #[arg(long, value_name = "N", default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    max: u32,
    /// Only print the times
    #[arg(long)]
    dry_run: bool,
}

/// Makes up for past occurrences.
pub(super) async fn backfill(global: &Global, args: &BackfillArgs, console: &mut Console) -> Result<u8, Failure> {
    let name = job_name(&args.job)?;
    let store = connect(global, console).await?;
    let record = find_job(&store, &name).await?;
    if !record.is_live() {
        return Err(not_defined(&store, &name).await);
    }
    let definition = definition_of(record)?;
    if definition.spec.schedule == Schedule::Manual {
        return Err(Failure::Invalid(format!(
            "job {name} has no schedule, so nothing of it was missed: schedctl run {name} runs it"
        )));
    }
    if let Schedule::Delay(_) = definition.spec.schedule {
        return Err(Failure::Invalid(format!(
            "job {name} runs so long after the end of each run, so no time of it was missed: schedctl run {name} runs it"
        )));
    }
    if definition.spec.schedule.is_at_boot() && definition.timetable.next_after(UnixMillis::EPOCH).is_none() {
        return Err(Failure::Invalid(format!(
            "job {name} runs at each boot (@reboot) and at no time, so no time of it was missed: schedctl run {name} runs it"
        )));
    }
    let zone = definition.timetable.zone().clone();
    let window = window(args, store.now().await?, &zone)?;
    let most = usize::try_from(args.max).unwrap_or(usize::MAX);
    let plan = backfilling::plan(&store, &definition, window, most).await?;
    let planted = if args.dry_run { 0 } else { plant(&store, &name, &plan.runs).await? };
    tell(args, &name, &plan, planted, &zone, console);
    if plan.runs.is_empty() && plan.cut_at.is_none() {
        let (from, to) = (shown(window.from, &zone), shown(window.to, &zone));
        console.note(&format!("nothing of {name} is to be made up for between {from} and {to}"));
    }
    Ok(0)
}

fn window(args: &BackfillArgs, now: UnixMillis, zone: &Zone) -> Result<Window, Failure> {
    let read = |flag: &str, text: &str| {
        if let Ok(ago) = parse_duration(text) {
            return Ok(now.saturating_sub(ago));
        }
        let at = parse_past(text, now, zone)
            .map_err(|error| Failure::Invalid(format!("{flag}: {error}; or how long ago, as in 24h")))?
            .at;
        if at > now {
            let found = shown(at, zone);
            return Err(Failure::Invalid(format!(
                "{flag}: found {found}, wanted a time that is past: what is to come runs by itself"
            )));
        }
        Ok(at)
    };
    let from = read("--from", &args.from)?;
    let to = args.to.as_deref().map_or(Ok(now), |text| read("--to", text))?;
    if from >= to {
        let (from, to) = (shown(from, zone), shown(to, zone));
        return Err(Failure::Invalid(format!("--from {from} is not before --to {to}: wanted a window of time")));
    }
    Ok(Window { from, to })
}

/// Queues the runs and plants the first; how many were queued.
async fn plant(store: &Store, name: &JobName, runs: &[RunId]) -> Result<u64, Failure> {
    let reply = store.queue_backfill(name, runs).await?;
    if reply != BackfillReply::Unknown {
        backfilling::advance(store, name).await?;
    }
    match reply {
        BackfillReply::Queued(count) => Ok(count),
        BackfillReply::Full(count) => Err(Failure::Conflict(format!(
            "{count} runs of {name} planted, and the others not: 10,000 wait already; backfill again when some have run"
        ))),
        BackfillReply::Unknown => Err(not_defined(store, name).await),
    }
}

fn tell(args: &BackfillArgs, name: &JobName, plan: &BackfillPlan, planted: u64, zone: &Zone, console: &mut Console) {
    let times = plan.runs.iter().map(RunId::due);
    if console.is_json() {
        console.json(&json!({
            "job": name.as_str(),
            "dry_run": args.dry_run,
            "planted": planted,
            "times": times.map(|at| rfc3339(at, zone)).collect::<Vec<_>>(),
            "left_out": {"succeeded": plan.succeeded, "repeated": plan.repeated, "owed": plan.owed},
            "cut_at": plan.cut_at.map(|at| rfc3339(at, zone)),
        }));
    } else if args.dry_run {
        times.for_each(|at| console.line(&format!("{}  {at}", shown(at, zone))));
    } else if !console.is_quiet() {
        let runs = if planted == 1 { "1 run".to_owned() } else { format!("{planted} runs") };
        console.line(&format!("{runs} of {name} planted, one after the other"));
    }
    for (count, why) in [
        (plan.succeeded, "succeeded"),
        (plan.repeated, "made up for before, or waiting to be"),
        (plan.owed, "still to come, or not over"),
    ] {
        if count > 0 {
            console.note(&format!("left out: {count} {why}"));
        }
    }
    if let Some(at) = plan.cut_at {
        console.note(&format!("cut at {} runs: go on with --from {at}, or with a larger --max", plan.runs.len()));
    }
}
