//! `logs`: the output of an attempt, each stream to the stream of the same name.
//!
//! Invariant: no control sequence reaches a terminal unless `--raw` is given. A pipe or a file gets
//! the stored bytes unchanged.

#![allow(clippy::doc_markdown, reason = "comments on flags are texts of --help")]

mod follow;
mod output_diff;
mod output_writer;

use std::io::IsTerminal;

use serde_json::json;

use super::connect::connect;
use super::failure::CliFailure;
use super::global::Global;
use super::jobs::target::{Target, find_run, no_such_job};
use super::render::{Console, safe_text};
use super::runs::open_runs::open_runs;
use super::shell::completion;
use crate::domain::name::names::{JobName, RunId};
use crate::domain::run::run_state::RunState;
use crate::store::{KeptOutput, RunRecord, Store};
use output_writer::Escaping;

/// The number of a job's newest runs in which the latest run with output is looked for.
const RUNS_LOOKED_AT: usize = 200;

const LOGS_EXAMPLES: &str = "\
Examples:
  schedctl logs backup@1790000000000
  schedctl logs backup --attempt 1
  schedctl logs backup -f

For a JOB the newest run with output is used. Output that a job wrote to standard error goes to
standard error. On a terminal control characters are shown escaped.

With -f output is printed about a second after it is written, through all attempts, until the run
ends (exit code 0) or Ctrl-C (130). For a JOB the running run is followed, else the next one. --json
prints one object a line; state is null in all but the last.";

/// Prints the output of the last attempt of a run, or with -f follows it.
#[derive(Debug, clap::Args)]
#[command(after_help = LOGS_EXAMPLES)]
pub(crate) struct LogsArgs {
    /// Id of a run or name of a job
    #[arg(value_name = "RUN|JOB", add = completion::jobs_and_runs())]
    target: String,
    /// Print this attempt instead of the last
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    attempt: Option<u32>,
    /// Keep printing new output until the run ends
    #[arg(long, short, conflicts_with = "attempt")]
    follow: bool,
    /// Write control characters unescaped, also on a terminal
    #[arg(long)]
    raw: bool,
}

/// Prints the output of an attempt. Returns the exit code.
pub(crate) async fn logs(global: &Global, args: &LogsArgs, console: &mut Console) -> Result<u8, CliFailure> {
    let target = Target::parse(&args.target)?;
    let store = connect(global, console).await?;
    if args.follow {
        let escaping = if args.raw { Escaping::Never } else { Escaping::OnTerminals };
        return follow::follow(&store, &target, escaping, console).await;
    }
    let found = match &target {
        Target::Run(run) => Some(of_run(&store, run, args.attempt).await?),
        Target::Job(job) => of_job(&store, job, args.attempt).await?,
    };
    let Some(Found { run, attempt, output, state }) = found else {
        if console.is_json() {
            console
                .json(&json!({"run_id": null, "attempt": null, "stdout": "", "stderr": "", "dropped_bytes": 0, "kept": false}));
        }
        console.note(&format!("no output is kept of any run of {}", args.target));
        return Ok(0);
    };
    if output.is_none() {
        console.note(&nothing(&run, attempt, state));
    }
    let kept = output.is_some();
    let output = output.unwrap_or_default();
    if console.is_json() {
        console.json(&json!({
            "run_id": run.to_string(),
            "attempt": (attempt > 0).then_some(attempt),
            "stdout": String::from_utf8_lossy(&output.stdout),
            "stderr": String::from_utf8_lossy(&output.stderr),
            "dropped_bytes": output.dropped_bytes,
            "kept": kept,
        }));
    } else {
        write(&output, args, console);
    }
    Ok(0)
}

/// An attempt whose output is printed. Attempt 0 means that the run has not started, or never did.
struct Found {
    run: RunId,
    attempt: u32,
    /// The state of the run, if `attempt` is the run's last attempt.
    state: Option<RunState>,
    output: Option<KeptOutput>,
}

/// Returns the message that says why an attempt has no output to print.
fn nothing(run: &RunId, attempt: u32, state: Option<RunState>) -> String {
    match (attempt, state) {
        (0, Some(state)) if state.is_final() => format!("{run} ended {state} before it began, so it wrote nothing"),
        (0, _) => format!("{run} has not begun yet"),
        (_, Some(RunState::Running)) => format!("attempt {attempt} of {run} is running and has written nothing yet"),
        _ => format!(
            "no output is kept of attempt {attempt} of {run}: it wrote nothing, or what it wrote is past max_age, keep_bytes_per_job or keep_bytes of [output]"
        ),
    }
}

async fn of_run(store: &Store, run: &RunId, attempt: Option<u32>) -> Result<Found, CliFailure> {
    let record = find_run(store, run).await?;
    let (run, last) = (&record.run, last_with_output(&record));
    if let Some(wanted) = attempt.filter(|wanted| *wanted > last) {
        return Err(CliFailure::NotFound(format!("run {run} has no attempt {wanted}: its last is number {last}")));
    }
    let attempt = attempt.unwrap_or(last);
    let output = if attempt == 0 { None } else { read_output(store, run, attempt).await? };
    let state = (attempt == last).then_some(record.state);
    Ok(Found { run: run.clone(), attempt, state, output })
}

/// Returns the number of the last attempt of a run that may have output.
///
/// If an attempt is to be repeated, its number is returned: it was cut short, or its `done_check`
/// gave no clear answer. The output of that `done_check` is stored as output of the attempt.
fn last_with_output(record: &RunRecord) -> u32 {
    let is_held_back = record.state == RunState::Scheduled && record.unclear > 0 || record.is_cut_short();
    record.attempt.saturating_add(u32::from(is_held_back))
}

/// Returns the stored output of an attempt, or `None` if there is no output.
async fn read_output(store: &Store, run: &RunId, attempt: u32) -> Result<Option<KeptOutput>, CliFailure> {
    let output = store.read_output(run, attempt).await?;
    Ok(output.filter(|kept| !kept.stdout.is_empty() || !kept.stderr.is_empty() || kept.dropped_bytes > 0))
}

/// Returns the newest run of a job that has output, with that output.
async fn of_job(store: &Store, job: &JobName, attempt: Option<u32>) -> Result<Option<Found>, CliFailure> {
    let mut runs: Vec<RunRecord> = open_runs(store, job).await?;
    runs.extend(store.read_history(Some(job), 0, RUNS_LOOKED_AT).await?.runs);
    if runs.is_empty() && store.read_job(job).await?.is_none() {
        return Err(no_such_job(store, job).await);
    }
    let most = runs.iter().map(last_with_output).max().unwrap_or(0);
    if let Some(wanted) = attempt.filter(|wanted| *wanted > most) {
        let of_it = format!("none of the last runs of {job} has an attempt {wanted}");
        return Err(CliFailure::NotFound(format!("{of_it}: the highest number is {most}; wanted schedctl logs RUN --attempt N")));
    }
    for record in runs.into_iter().filter(|record| last_with_output(record) > 0) {
        let number = attempt.unwrap_or_else(|| last_with_output(&record));
        if let Some(output) = read_output(store, &record.run, number).await? {
            return Ok(Some(Found { run: record.run, attempt: number, state: None, output: Some(output) }));
        }
    }
    Ok(None)
}

fn write(output: &KeptOutput, args: &LogsArgs, console: &mut Console) {
    let shown = |bytes: &[u8], is_terminal: bool| {
        if is_terminal && !args.raw { safe_text(bytes).into_bytes() } else { bytes.to_vec() }
    };
    let out = shown(&output.stdout, console.is_terminal());
    console.bytes(&out);
    let err = shown(&output.stderr, std::io::stderr().is_terminal());
    console.aside_bytes(&err);
    if output.dropped_bytes > 0 {
        console.note(&format!("{} bytes in the middle were not kept", output.dropped_bytes));
    }
}
