//! `cancel`: stops runs and removes jobs. If one target cannot be cancelled, the command goes on
//! with the next target. The exit code is the worst of all targets.

#![allow(clippy::doc_markdown, reason = "comments on flags are texts of --help")]

use std::fmt::Write as _;

use super::open_runs::open_runs;
use crate::cli::connect::connect;
use crate::cli::failure::CliFailure;
use crate::cli::global::Global;
use crate::cli::jobs::run_name::TargetName;
use crate::cli::jobs::target::{Target, declared_in, is_applied, no_such_job, no_such_run};
use crate::cli::local_zone::local_zone;
use crate::cli::render::{Console, Outcomes, shown};
use crate::cli::shell::completion;
use schedd::engine::planning::job_operations;
use schedd_core::domain::job::notice::NoticeKind;
use schedd_core::domain::run::run_state::RunState;
use schedd_schedule::names::{JobName, RunId};
use schedd_schedule::time::unix_millis::UnixMillis;
use schedd_store::{CancelReply, JobRecord, RemoveReply, SourceKind, StopRunning, Store};

/// The end of a message about an open run of a removed job: the run continues and may be retried.
const RETRIES: &str =
    ", and is retried if it fails, unless a job with another definition is added under this name";
/// The reason that history shows for a cancelled run.
const REASON: &str = "cancelled";

const CANCEL_EXAMPLES: &str = "\
Examples:
  schedctl cancel job-4f9k2m1xq0
  schedctl cancel backup --stop
  schedctl cancel backup --run
  schedctl cancel backup@next
  schedctl cancel backup --backfill

A cancelled run ends, and its job continues. A job is removed together with its planned run. A
running run of a one-shot is stopped too. A running run of a recurring job is stopped only with
--stop. With --run, the running runs of a job are stopped and the job stays; a file may declare the
job. To remove a job declared in a file, edit the file. schedctl show --help says how to name a run.";

/// Cancels runs (JOB@...), or removes jobs added with schedctl add.
#[derive(Debug, clap::Args)]
#[command(after_help = CANCEL_EXAMPLES)]
pub(crate) struct CancelArgs {
    /// Names of jobs, or ids or names of runs, such as backup@last
    #[arg(required = true, value_name = "JOB|RUN", add = completion::jobs_and_runs())]
    targets: Vec<String>,
    /// Also stop the running run of a recurring job
    #[arg(long)]
    stop: bool,
    /// For each JOB, stop only the runs that are running; the job stays
    #[arg(long, conflicts_with = "stop")]
    run: bool,
    /// For each JOB, cancel only the backfill runs that have not ended
    #[arg(long, conflicts_with_all = ["stop", "run"])]
    backfill: bool,
}

/// The outcome of the command for one target.
struct Done {
    result: &'static str,
    sentence: String,
}

/// Cancels the named jobs and runs. Returns the worst exit code of all targets.
pub(crate) async fn cancel(
    global: &Global,
    args: &CancelArgs,
    console: &mut Console,
) -> Result<u8, CliFailure> {
    let names: Vec<TargetName> =
        args.targets.iter().map(|text| TargetName::parse(text)).collect::<Result<_, _>>()?;
    let running = if args.stop { StopRunning::Yes } else { StopRunning::No };
    let store = connect(global, console).await?;
    // All names are read before the first change, because a change affects which run is the last.
    let mut targets = Vec::new();
    for name in &names {
        targets.push(name.find(&store).await);
    }
    let mut outcomes = Outcomes::on(console);
    for target in targets {
        let done = async {
            let (store, target) = target?;
            let done = match &target {
                Target::Run(run) => stop_run(&store, run).await,
                Target::Job(name) if args.run => stop_running(&store, name).await,
                Target::Job(name) if args.backfill => cancel_backfill(&store, name).await,
                Target::Job(name) => Box::pin(cancel_job(&store, name, running)).await,
            }?;
            let mut entry = target.json();
            entry["result"] = done.result.into();
            Ok((entry, done.sentence))
        };
        outcomes.report(Box::pin(done).await);
    }
    Ok(outcomes.end())
}

/// Cancels one run. Returns a sentence that describes the outcome.
pub(crate) async fn cancel_run(store: &Store, run: &RunId) -> Result<String, CliFailure> {
    stop_run(store, run).await.map(|done| done.sentence)
}

async fn stop_run(store: &Store, run: &RunId) -> Result<Done, CliFailure> {
    match job_operations::cancel_run(store, run, REASON).await? {
        CancelReply::Cancelled => {
            Ok(Done { result: "cancelled", sentence: format!("run {run} cancelled") })
        }
        CancelReply::Requested => {
            let holder = store.read_run(run).await?.and_then(|record| record.node);
            let is_worker = holder.is_some_and(|holder| holder.starts_with("worker:"));
            let who = if is_worker { "worker" } else { "node" };
            Ok(Done {
                result: "requested",
                sentence: format!("run {run} is running; its {who} was asked to stop the run"),
            })
        }
        CancelReply::Over { state, at } => Err(already(&format!("run {run}"), &state, at)),
        CancelReply::Unknown | CancelReply::Stale | CancelReply::Occupied => {
            Err(no_such_run(store, run).await)
        }
    }
}

async fn cancel_job(
    store: &Store,
    name: &JobName,
    running: StopRunning,
) -> Result<Done, CliFailure> {
    let before = store.read_job(name).await?;
    match &before {
        Some(job) if !job.is_live() => return over(store, job, running).await,
        Some(job) if job.name.instance().is_some() => return Err(of_each_node(job)),
        Some(job) if job.kind == SourceKind::File => return Err(of_file(job)),
        _ => {}
    }
    let graph = store.read_chains().await?;
    let children: Vec<JobName> = graph.children_of(name).into_iter().cloned().collect();
    if before.is_some() && !children.is_empty() {
        return Err(has_children(store, name, &children).await?);
    }
    match job_operations::cancel_job(store, name, running, REASON).await? {
        RemoveReply::Removed(count) => {
            // The removal stops only the runs that it lists as open, and manual runs are not
            // listed.
            let by_name =
                if running == StopRunning::Yes { stop_open(store, name).await? } else { 0 };
            let open = match by_name.max(usize::try_from(count).unwrap_or(usize::MAX)) {
                0 => going_on(store, name).await?,
                stopped => format!("; {}", being_stopped(stopped)),
            };
            let notices = notices_left(store, name).await?;
            Ok(Done {
                result: "cancelled",
                sentence: format!("job {name} cancelled{open}{notices}"),
            })
        }
        RemoveReply::Over(_) | RemoveReply::OtherKind(_) | RemoveReply::Listed => {
            match store.read_job(name).await? {
                Some(job) if !job.is_live() => over(store, &job, running).await,
                Some(job) => Err(of_file(&job)),
                None => Err(no_such_job(store, name).await),
            }
        }
        RemoveReply::Unknown | RemoveReply::Stale => Err(no_such_job(store, name).await),
    }
}

/// Returns the failure for a job with children. The message says how to remove each of them.
async fn has_children(
    store: &Store,
    name: &JobName,
    children: &[JobName],
) -> Result<CliFailure, CliFailure> {
    let (mut added, mut steps) = (Vec::new(), Vec::new());
    for (child, record) in children.iter().zip(store.read_jobs(children).await?) {
        match record.ok().flatten().filter(|job| job.kind == SourceKind::File) {
            Some(job) => steps.push(format!("remove [jobs.{child}] from {}", declared_in(&job))),
            None => added.push(child.as_str()),
        }
    }
    if !added.is_empty() {
        steps.insert(0, format!("cancel {}", added.join(", ")));
    }
    Ok(CliFailure::Conflict(format!(
        "job {name} has children, which would wait for it for ever: {} first",
        steps.join(", and ")
    )))
}

/// Returns the failure for the instance of a job on one node, which cannot be removed alone.
fn of_each_node(job: &JobRecord) -> CliFailure {
    let (name, defined) = (&job.name, job.name.defined());
    CliFailure::Conflict(format!(
        "job {name} is the instance of job {defined} on one node: pause it with schedctl pause {name}, \
         or change `on` or `requires` of job {defined}"
    ))
}

/// Stops the running runs of a job. Other runs and the job itself are not changed.
async fn stop_running(store: &Store, name: &JobName) -> Result<Done, CliFailure> {
    let open = open_runs(store, name).await?;
    if open.is_empty() && store.read_job(name).await?.is_none() {
        return Err(no_such_job(store, name).await);
    }
    let (mut stopped, mut ids) = (0, Vec::new());
    for run in open.iter().filter(|run| run.state == RunState::Running) {
        let reply = job_operations::cancel_run(store, &run.run, REASON).await?;
        if matches!(reply, CancelReply::Cancelled | CancelReply::Requested) {
            stopped += 1;
            ids.push(run.run.to_string());
        }
    }
    if stopped > 0 {
        let sentence = format!("job {name}: {} ({})", being_stopped(stopped), ids.join(", "));
        return Ok(Done { result: "requested", sentence });
    }
    let retried = open.iter().find(|run| run.attempt > 0).map_or_else(String::new, |run| {
        format!("; run {} waits for a retry (schedctl cancel {0} cancels it)", run.run)
    });
    Ok(Done { result: "already", sentence: format!("job {name} has no running run{retried}") })
}

/// Cancels the waiting backfill runs of a job, and stops the job's backfill run that is planned or
/// running.
async fn cancel_backfill(store: &Store, name: &JobName) -> Result<Done, CliFailure> {
    if store.read_job(name).await?.is_none() {
        return Err(no_such_job(store, name).await);
    }
    let first = store.list_backfill(name, 1).await?;
    let mut given_up = store.drop_backfill(name).await?;
    for run in first {
        // A run that had already ended is not counted as cancelled.
        if let CancelReply::Over { .. } = job_operations::cancel_run(store, &run, REASON).await? {
            given_up = given_up.saturating_sub(1);
        }
    }
    Ok(match given_up {
        0 => Done {
            result: "already",
            sentence: format!("job {name} has no backfill runs to cancel"),
        },
        1 => Done {
            result: "cancelled",
            sentence: format!("1 backfill run of job {name} cancelled"),
        },
        count => Done {
            result: "cancelled",
            sentence: format!("{count} backfill runs of job {name} cancelled"),
        },
    })
}

/// Stops all open runs of a removed job. Returns how many runs were stopped.
async fn stop_open(store: &Store, name: &JobName) -> Result<usize, CliFailure> {
    let mut stopped = 0;
    for run in open_runs(store, name).await? {
        let reply = job_operations::cancel_run(store, &run.run, REASON).await?;
        stopped += usize::from(matches!(reply, CancelReply::Cancelled | CancelReply::Requested));
    }
    Ok(stopped)
}

/// Returns a sentence about the runs of a removed job that continue, with the command that stops
/// them. Returns an empty text if no run continues. A run without an attempt ends when its job is
/// removed.
async fn going_on(store: &Store, name: &JobName) -> Result<String, CliFailure> {
    let mut open = open_runs(store, name).await?;
    open.retain(|run| run.fence.is_some());
    Ok(match open.as_slice() {
        [] => String::new(),
        [run] => format!(
            "; its run {} continues (schedctl cancel {name} --stop stops the run){RETRIES}",
            run.run
        ),
        runs => format!(
            "; each of its {} open runs continues (schedctl cancel {name} --stop stops the runs){RETRIES}",
            runs.len()
        ),
    })
}

/// Returns a sentence about the notices of a removed job that are still sent, with the command that
/// cancels them. Returns an empty text if no notice is still sent.
async fn notices_left(store: &Store, name: &JobName) -> Result<String, CliFailure> {
    let (mut count, mut cancelled_by) = (0, String::new());
    for kind in NoticeKind::ALL {
        let hidden = JobName::of_notice(name, kind);
        let open = open_runs(store, &hidden).await?.len();
        if open > 0 {
            count += open;
            let _ = write!(cancelled_by, " {hidden}");
        }
    }
    Ok(match count {
        0 => String::new(),
        1 => format!(
            "; a notice of the job is still sent (schedctl cancel{cancelled_by} cancels the notice)"
        ),
        _ => format!(
            "; {count} notices of the job are still sent (schedctl cancel{cancelled_by} cancels the notices)"
        ),
    })
}

fn being_stopped(count: usize) -> String {
    if count == 1 {
        "its run is being stopped".to_owned()
    } else {
        format!("its {count} runs are being stopped")
    }
}

/// Stops the open runs of a job that is over. Without `--stop`, stops only runs of a finished
/// one-shot and notices of a hidden job. Fails if the job ended by itself and no run is stopped.
async fn over(store: &Store, job: &JobRecord, running: StopRunning) -> Result<Done, CliFailure> {
    let name = &job.name;
    // A hidden job is always over, so only its open notices can be cancelled.
    let has_notices = name.notice_subject().is_some();
    let has_finished = job.ended.as_deref() == Some("finished");
    if running == StopRunning::Yes || has_notices || has_finished && job.is_once {
        let stopped = stop_open(store, name).await?;
        if stopped > 0 {
            let sentence = match (has_notices, stopped) {
                (true, 1) => format!("1 notice of job {name} cancelled"),
                (true, count) => format!("{count} notices of job {name} cancelled"),
                (false, count) if has_finished => format!("job {name}: {}", being_stopped(count)),
                (false, count) => {
                    format!("job {name} was already cancelled; {}", being_stopped(count))
                }
            };
            return Ok(Done { result: "requested", sentence });
        }
    }
    if !has_finished {
        return Ok(Done {
            result: "already",
            sentence: format!("job {name} was already cancelled"),
        });
    }
    let last = store.read_history(Some(name), 0, 1).await?.runs.into_iter().next();
    match last {
        // Its only run was cancelled, so nothing is left to do.
        Some(run) if run.state.as_str() == "cancelled" => {
            Ok(Done { result: "already", sentence: format!("job {name} was already cancelled") })
        }
        Some(run) => Err(already(&format!("job {name}"), run.state.as_str(), run.finished_at)),
        None => Err(already(&format!("job {name}"), "finished", job.ended_at)),
    }
}

fn already(subject: &str, state: &str, at: Option<UnixMillis>) -> CliFailure {
    let state = state.replace('_', " ");
    let at = at.map_or_else(String::new, |at| format!(" at {}", shown(at, &local_zone())));
    CliFailure::Conflict(format!("{subject} already {state}{at}, so nothing is left to cancel"))
}

fn of_file(job: &JobRecord) -> CliFailure {
    let name = &job.name;
    let then = if is_applied(job) { "apply it with --prune" } else { "reload schedd" };
    CliFailure::Conflict(format!(
        "job {name} is declared in {}: remove [jobs.{name}] there and {then}, or pause it with schedctl pause {name}; schedctl cancel {name} \
         --run stops only its running run",
        declared_in(job)
    ))
}
