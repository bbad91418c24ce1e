//! `logs`: prints the output of an attempt. Standard error of the job goes to standard error.
//!
//! Invariant: no control sequence reaches a terminal unless `--raw` is given. A pipe or a file gets
//! the stored bytes unchanged.

#![allow(clippy::doc_markdown, reason = "comments on flags are texts of --help")]

mod follow;
mod found_output;
mod output_diff;
pub(crate) mod output_place;
mod output_writer;

use serde_json::json;

use super::connect::connect;
use super::failure::CliFailure;
use super::global::Global;
use super::jobs::run_name::TargetName;
use super::jobs::target::Target;
use super::render::{Console, safe_text};
use super::shell::completion;
use found_output::{FoundOutput, of_job, of_run};
use output_place::OutputPlace;
use output_writer::Escaping;
use schedd_core::domain::run::run_state::RunState;
use schedd_schedule::names::RunId;
use schedd_store::KeptOutput;

const LOGS_EXAMPLES: &str = "\
Examples:
  schedctl logs backup
  schedctl logs backup@last --attempt 1
  schedctl logs backup -f

For a JOB the newest run with output is used. Standard error names this run, and the newest run if
that run has no output. JOB@last is the newest run itself; see also schedctl show --help. Output
that a job wrote to standard error goes to standard error. On a terminal control characters are
shown escaped.

With -f, output is printed about a second after the job writes it, for all attempts, until the run
ends (exit code 0) or Ctrl-C (exit code 130). For a JOB, the running run is followed, or else the
next run. --json prints one object per line; state is null in all objects except the last.";

/// Prints the output of the last attempt of a run, or with -f the output of a run while the job
/// writes it.
#[derive(Debug, clap::Args)]
#[command(after_help = LOGS_EXAMPLES)]
pub(crate) struct LogsArgs {
    /// Name of a job, or id or name of a run, such as backup@last
    #[arg(value_name = "RUN|JOB", add = completion::all_jobs_and_runs())]
    target: String,
    /// Print the output of attempt N instead of the last attempt
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    attempt: Option<u32>,
    /// Keep printing new output until the run ends
    #[arg(long, short, conflicts_with = "attempt")]
    follow: bool,
    /// Go on behind this place of the output
    #[arg(long, hide = true, requires = "follow", value_name = "ATTEMPT-POSITION")]
    behind: Option<OutputPlace>,
    /// Write control characters unescaped, even on a terminal
    #[arg(long)]
    raw: bool,
}

/// Prints the output of an attempt. Returns the exit code.
pub(crate) async fn logs(
    global: &Global,
    args: &LogsArgs,
    console: &mut Console,
) -> Result<u8, CliFailure> {
    let name = TargetName::parse(&args.target)?;
    let store = connect(global, console).await?;
    let (store, target) = name.find(&store).await?;
    if args.follow {
        let escaping = if args.raw { Escaping::Never } else { Escaping::OnTerminals };
        return follow::follow(&store, &target, args.behind, escaping, console).await;
    }
    let found = match &target {
        Target::Run(run) => Some(of_run(&store, run, args.attempt).await?),
        Target::Job(job) => of_job(&store, job, args.attempt).await?,
    };
    let Some(FoundOutput { run, attempt, output, state, silent }) = found else {
        if console.is_json() {
            console
                .json(&json!({"run_id": null, "attempt": null, "stdout": "", "stderr": "", "dropped_bytes": 0, "kept": false}));
        }
        console.note(&format!("no run of job {} has stored output", args.target));
        return Ok(0);
    };
    if output.is_none() {
        console.note(&nothing(&run, attempt, state));
    }
    if let (Target::Job(_), Some(state)) = (&target, state) {
        if let Some((newest, how)) = silent {
            console.note(&silence(&newest, how));
        }
        if !console.is_json() {
            console.note(&format!("output of run {run} ({}), attempt {attempt}", in_words(state)));
        }
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

/// Returns the message about the newest run of a job, of which no output is stored.
fn silence(newest: &RunId, state: RunState) -> String {
    if state == RunState::Running {
        return format!("the newest run {newest} is running and has written nothing yet");
    }
    format!("the newest run {newest} ({}) has no stored output", in_words(state))
}

/// Returns the state of a run, in words.
fn in_words(state: RunState) -> String {
    state.as_str().replace('_', " ")
}

/// Returns the message that says why an attempt has no output to print.
fn nothing(run: &RunId, attempt: u32, state: Option<RunState>) -> String {
    match (attempt, state) {
        (0, Some(state)) if state.is_final() => {
            format!("run {run} ended as {state} before it started, so it has no output")
        }
        (0, _) => format!("run {run} has not started yet"),
        (_, Some(RunState::Running)) => {
            format!("attempt {attempt} of run {run} is running and has written nothing yet")
        }
        _ => format!(
            "attempt {attempt} of run {run} has no stored output: it wrote nothing, or the output was trimmed by max_age, keep_bytes_per_job or keep_bytes of [output]"
        ),
    }
}

fn write(output: &KeptOutput, args: &LogsArgs, console: &mut Console) {
    let shown = |bytes: &[u8], is_terminal: bool| {
        if is_terminal && !args.raw { safe_text(bytes).into_bytes() } else { bytes.to_vec() }
    };
    let out = shown(&output.stdout, console.is_terminal());
    console.bytes(&out);
    let err = shown(&output.stderr, console.is_error_terminal());
    console.aside_bytes(&err);
    if output.dropped_bytes > 0 {
        console.note(&format!(
            "{} bytes in the middle of the output were not stored",
            output.dropped_bytes
        ));
    }
}
