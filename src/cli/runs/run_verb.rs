//! `run`: starts a manual run, and waits for its end if asked.
//!
//! Invariant: Ctrl-C, the timeout and an outage of Redis end the wait, but not the run. The message
//! about the end of the wait names the id of the run.

#![allow(clippy::doc_markdown, reason = "comments on flags are texts of --help")]

use std::time::{Duration, Instant};

use anyhow::Context as _;
use futures_util::StreamExt;
use serde_json::{Value, json};
use signal_hook::consts::SIGINT;
use signal_hook_tokio::Signals;

use super::run_poller::{PolledRun, RunPoller};
use crate::cli::connect::connect;
use crate::cli::failure::CliFailure;
use crate::cli::global::Global;
use crate::cli::jobs::instance_names::has_instances;
use crate::cli::jobs::pause_resume::not_defined;
use crate::cli::jobs::target::{definition_of, job_name};
use crate::cli::local_zone::local_zone;
use crate::cli::render::{Console, RunView, Zones, rfc3339, shown, span, view_runs, zone_of_job};
use crate::cli::state::node_presence::warn_if_none_runs;
use schedd::engine::planning::job_operations;
use schedd_core::domain::run::run_note::RunNote;
use schedd_core::domain::run::run_state::RunState;
use schedd_schedule::names::{JobName, RunId};
use schedd_schedule::time::duration::parse_duration;
use schedd_store::{JobRecord, RunRecord, Store};

const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_millis(500);

const TIMED_OUT: u8 = 124;
const NOT_RUN: u8 = 75;
pub(crate) const INTERRUPTED: u8 = 130;

const EXAMPLES: &str = "\
Examples:
  schedctl run backup
  schedctl run backup --note 'after the repair of the disk'
  schedctl run backup --wait --wait-timeout 10m

Exit codes with --wait: the job's own; 128 + signal; 124 the run timed out, or the wait did; 75
skipped, cancelled or lost; 1 failed otherwise; 130 Ctrl-C, which ends only the wait.";

/// Runs a job now and prints the id of the run; the schedule of the job does not change.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct RunArgs {
    /// Name of the job
    #[arg(add = crate::cli::shell::completion::jobs())]
    job: String,
    /// Why the run is wanted, for its record and the audit log of the job
    #[arg(long, value_name = "TEXT")]
    note: Option<RunNote>,
    #[command(flatten)]
    waiting: WaitArgs,
}

/// The flags for waiting for the end of a run.
#[derive(Debug, clap::Args)]
pub(crate) struct WaitArgs {
    /// Wait for the end of the run and exit with the exit code of the run
    #[arg(long)]
    wait: bool,
    /// Wait at most this long, then exit with 124; the run continues after that
    #[arg(long, visible_alias = "timeout", value_name = "DURATION", requires = "wait")]
    wait_timeout: Option<String>,
}

/// The wait for the end of a run. The wait is prepared before the run is added.
pub(crate) struct WaitingForRun {
    limit: Option<Duration>,
    /// The interrupts by the user, or `None` without a wait. Listening starts before the run is
    /// added, so an interrupt cannot lose the run's id.
    interrupts: Option<Signals>,
}

impl WaitArgs {
    /// Checks the flags for waiting and starts to listen for interrupts.
    pub(crate) fn prepare(&self) -> Result<WaitingForRun, CliFailure> {
        WaitingForRun::prepare(self.wait, self.wait_timeout.as_deref())
    }
}

impl WaitingForRun {
    /// Prepares a wait if `is_asked`: starts to listen for interrupts. The wait lasts at most
    /// `limit`, the value of `--wait-timeout`.
    pub(crate) fn prepare(is_asked: bool, limit: Option<&str>) -> Result<Self, CliFailure> {
        let limit = limit.map(parse_duration).transpose();
        let limit =
            limit.map_err(|error| CliFailure::Invalid(format!("--wait-timeout: {error}")))?;
        let interrupts = is_asked.then(|| Signals::new([SIGINT])).transpose();
        Ok(Self { limit, interrupts: interrupts.context("cannot listen for signals")? })
    }

    /// Returns true if the user asked to wait.
    pub(crate) fn is_asked(&self) -> bool {
        self.interrupts.is_some()
    }
}

/// Adds a manual run of a job and waits for its end if asked. Returns the exit code.
pub(crate) async fn run(
    global: &Global,
    args: &RunArgs,
    console: &mut Console,
) -> Result<u8, CliFailure> {
    let name = job_name(&args.job)?;
    let waiting = args.waiting.prepare()?;
    let store = connect(global, console).await?.place_of_job(&name).await?;
    refuse_damaged(&store, &name).await?;
    let runs = job_operations::run_by_hand(&store, &name, args.note.as_ref()).await?;
    if runs.is_empty() {
        let record = store.read_job(&name).await?.filter(JobRecord::is_live);
        if record.as_ref().is_some_and(has_instances) {
            return Err(CliFailure::Conflict(format!(
                "job {name} runs on each node, and no node that serves its queue is running; \
                 see schedctl nodes"
            )));
        }
        return Err(not_defined(&store, &name).await);
    }
    if runs.len() > 1 || runs.iter().any(|run| *run.job() != name) {
        let absent = store.list_instances(&name).await?.into_iter();
        let absent = absent.filter(|(_, job)| !runs.iter().any(|run| *run.job() == job.name));
        let absent: Vec<String> = absent.map(|(node, _)| node.to_string()).collect();
        if !absent.is_empty() {
            console.note(&format!("not run on {}: not running now", absent.join(", ")));
        }
    }
    follow(&store, &runs, waiting, console).await
}

/// Prints the ids of new runs, and waits for the end of all of them if asked. Several runs are the
/// runs of a job on each node, and their JSON is a list. Returns the first exit code that is not 0.
pub(crate) async fn follow(
    store: &Store,
    runs: &[RunId],
    waiting: WaitingForRun,
    console: &mut Console,
) -> Result<u8, CliFailure> {
    warn_if_none_runs(store, console).await;
    let ids: Vec<String> = runs.iter().map(ToString::to_string).collect();
    if waiting.is_asked() {
        return wait_for(store, runs, &ids, waiting, console).await;
    }
    if console.is_json() {
        let mut added = Vec::with_capacity(runs.len());
        for run in runs {
            let due = rfc3339(run.due(), &zone_of_job(store, run.job()).await);
            let job = run.job().defined();
            added.push(json!({"run_id": run.to_string(), "job": job.as_str(), "due": due}));
        }
        console.json(&one_or_list(added));
    } else {
        for id in &ids {
            console.line(id);
        }
    }
    Ok(0)
}

fn one_or_list(mut items: Vec<Value>) -> Value {
    if items.len() == 1 { items.remove(0) } else { items.into() }
}

/// Prints `names`, the names of the new runs or job, and waits for the end of all `runs`. Returns
/// the first exit code that is not 0. With `--json` only the ends are printed.
pub(crate) async fn wait_for(
    store: &Store,
    runs: &[RunId],
    names: &[String],
    WaitingForRun { limit, interrupts }: WaitingForRun,
    console: &mut Console,
) -> Result<u8, CliFailure> {
    let interrupts = interrupts.map_or_else(|| Signals::new([SIGINT]), Ok);
    let mut interrupts = interrupts.context("cannot listen for signals")?;
    if !console.is_json() {
        for name in names {
            console.line(name);
        }
        console.flush();
    }
    let started = Instant::now();
    let (mut ended, mut code) = (Vec::new(), 0);
    for run in runs {
        let left = limit.map(|limit| limit.saturating_sub(started.elapsed()));
        let (own, view) = wait(store, run, left, &mut interrupts, console).await?;
        code = if code == 0 { own } else { code };
        ended.extend(view.map(|view| Value::Object(view.json())));
        if own == INTERRUPTED {
            break;
        }
    }
    if console.is_json() && !ended.is_empty() {
        console.json(&one_or_list(ended));
    }
    Ok(code)
}

/// Refuses a job whose definition cannot be used, because a run of such a job would never start.
pub(crate) async fn refuse_damaged(store: &Store, name: &JobName) -> Result<(), CliFailure> {
    store.read_job(name).await?.map(definition_of).transpose().map(drop)
}

/// Waits for the end of a run, until an interrupt or for at most `limit`. Returns the exit code, and
/// the run if it ended.
async fn wait(
    store: &Store,
    run: &RunId,
    limit: Option<Duration>,
    interrupts: &mut Signals,
    console: &mut Console,
) -> Result<(u8, Option<RunView>), CliFailure> {
    let started = Instant::now();
    let mut pause = FIRST_PAUSE;
    let mut poller = RunPoller::default();
    let mut last = None;
    loop {
        match poller.look(store, run, console).await? {
            PolledRun::Run(record) if record.state.is_final() => {
                return report_end(store, *record, console).await;
            }
            PolledRun::Run(record) => last = Some(record),
            PolledRun::Away => {}
        }
        let left = limit.map(|limit| limit.saturating_sub(started.elapsed()));
        if left.is_some_and(|left| left.is_zero()) {
            let within = span(started.elapsed());
            console.error_of_run(run, &over_time(run, last.as_deref(), &within));
            return Ok((TIMED_OUT, None));
        }
        tokio::select! {
            () = tokio::time::sleep(left.map_or(pause, |left| left.min(pause))) => {}
            _ = interrupts.next() => {
                let text = format!("interrupted; run {run} is not stopped (schedctl cancel {run} stops it)");
                console.error_of_run(run, &text);
                return Ok((INTERRUPTED, None));
            }
        }
        pause = (pause * 3 / 2).min(LONGEST_PAUSE);
    }
}

/// Returns a sentence about a run that did not end in the time of the wait, which is `within` in
/// words. `last` is the last known record of the run.
fn over_time(run: &RunId, last: Option<&RunRecord>, within: &str) -> String {
    match last {
        Some(record) if record.fence.is_none() => {
            let due = shown(record.ready.unwrap_or(run.due()), &local_zone());
            format!("run {run} has not begun within {within}; it is due at {due}")
        }
        _ => format!("run {run} has not ended within {within}; the run continues"),
    }
}

/// Prints the end of a run as a sentence, unless JSON is asked for. Returns the exit code for this
/// end, and the run.
async fn report_end(
    store: &Store,
    record: RunRecord,
    console: &mut Console,
) -> Result<(u8, Option<RunView>), CliFailure> {
    let code = code_of(&record);
    let view = view_runs(store, &mut Zones::default(), vec![record]).await?.pop();
    if let Some(view) = view.as_ref().filter(|_| !console.is_json()) {
        console.note(&sentence(view));
    }
    Ok((code, view))
}

/// Returns a sentence about the end of a run, with the command that prints the output of a failed
/// run.
fn sentence(view: &RunView) -> String {
    let has_failed = matches!(view.record.state, RunState::Failed | RunState::TimedOut);
    let has_started =
        !view.record.error.as_deref().is_some_and(|error| error.starts_with("cannot start"));
    let more = if has_failed && has_started {
        format!(" (schedctl logs {} shows its output)", view.record.run)
    } else {
        String::new()
    };
    format!("{}{more}", ending(view))
}

/// Returns a phrase about the end of a run: its state, duration and reason.
pub(crate) fn ending(view: &RunView) -> String {
    let record = &view.record;
    let state = record.state.as_str().replace('_', " ");
    let took = record.took().map(|took| format!(" after {}", span(took)));
    let reason = view.reason().map(|reason| format!(": {reason}"));
    format!("run {} {state}{}{}", record.run, took.unwrap_or_default(), reason.unwrap_or_default())
}

/// Returns the exit code of schedctl for the end of a run.
fn code_of(record: &RunRecord) -> u8 {
    let byte = |number: i32| u8::try_from(number).unwrap_or(u8::MAX);
    match record.state {
        RunState::Succeeded => record.exit_code.map_or(0, byte),
        RunState::TimedOut => TIMED_OUT,
        RunState::Skipped | RunState::Cancelled | RunState::Lost => NOT_RUN,
        RunState::Failed | RunState::Scheduled | RunState::Running => {
            match (record.signal, record.exit_code) {
                (Some(signal), _) => byte(signal.saturating_add(128)),
                (None, Some(code)) if code != 0 => byte(code),
                (None, _) => 1,
            }
        }
    }
}
