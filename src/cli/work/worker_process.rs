//! The process that does the work of one run.

use std::io;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{Child, Command};
use tokio::sync::watch;

use super::worker_client::WorkerRun;
use schedd_core::domain::run::end_words::signal_in_words;

/// The time between SIGTERM and SIGKILL.
const KILL_GRACE: Duration = Duration::from_secs(5);
/// The most bytes of a stream that are kept: its end.
const MOST_BYTES: usize = 128 * 1024;
/// The exit code by which a program gives a run back (`EX_TEMPFAIL` of sysexits.h).
const GIVES_BACK: i32 = 75;

/// The end of the work of a run.
#[derive(Debug)]
pub(super) enum WorkEnd {
    /// The work is done.
    Done { output: String },
    /// The work failed.
    Failed { error: String, output: String },
    /// The program gave the run back, or was stopped together with the worker.
    GivenBack,
    /// The worker no longer has the run, so that nothing is reported.
    Lost,
}

/// A request to stop the work of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WorkStop {
    /// Somebody cancelled the run.
    Cancelled,
    /// The worker lost the run.
    Lost,
    /// The worker stops.
    Shutdown,
}

/// Does the work of `run` by a process of `words`. The process gets SIGTERM at a stop and at its
/// timeout.
pub(super) async fn work_on(
    run: &WorkerRun,
    words: &[String],
    mut stop: watch::Receiver<Option<WorkStop>>,
) -> WorkEnd {
    let mut child = match start(run, words) {
        Ok(child) => child,
        Err(error) => {
            let program = words.first().map_or("", String::as_str);
            let error = format!("cannot start {program}: {error}");
            return WorkEnd::Failed { error, output: String::new() };
        }
    };
    let group = child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
    let input = run.payload.to_string();
    let stdin = child.stdin.take();
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let feed = async {
        if let Some(mut stdin) = stdin {
            // A program may end without reading its input.
            let _ = stdin.write_all(input.as_bytes()).await;
        }
    };
    let mut why = None;
    let end = async {
        let over = tokio::time::sleep(Duration::from_millis(run.timeout_ms));
        tokio::select! {
            status = child.wait() => return status,
            () = over => {}
            Ok(stopped) = stop.wait_for(Option::is_some) => why = *stopped,
        }
        // The reason is `None` at the timeout.
        let is_timeout = why.is_none();
        signal(group, Signal::TERM);
        let ended = tokio::time::timeout(KILL_GRACE, child.wait()).await;
        let status = if let Ok(status) = ended {
            status
        } else {
            signal(group, Signal::KILL);
            child.wait().await
        };
        if is_timeout { Err(io::Error::from(io::ErrorKind::TimedOut)) } else { status }
    };
    let ((), output, errors, status) = tokio::join!(feed, kept(stdout), kept(stderr), end);
    match (why, status) {
        (Some(WorkStop::Lost), _) => WorkEnd::Lost,
        (_, Ok(status)) if status.success() => WorkEnd::Done { output },
        (Some(WorkStop::Shutdown), _) => WorkEnd::GivenBack,
        (_, Ok(status)) if status.code() == Some(GIVES_BACK) => WorkEnd::GivenBack,
        (_, status) => {
            WorkEnd::Failed { error: reason(&status, &errors), output: output + &errors }
        }
    }
}

fn start(run: &WorkerRun, words: &[String]) -> io::Result<Child> {
    let (program, arguments) = words.split_first().ok_or(io::ErrorKind::InvalidInput)?;
    let mut command = Command::new(program);
    command.args(arguments).process_group(0).kill_on_drop(true);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
        .env("SCHEDD_JOB", &run.job)
        .env("SCHEDD_RUN_ID", &run.run_id)
        .env("SCHEDD_HANDLER", &run.handler)
        .env("SCHEDD_DUE", &run.due)
        .env("SCHEDD_ATTEMPT", run.attempt.to_string())
        .env("SCHEDD_FENCE", run.fence.to_string())
        .envs(run.traceparent.iter().map(|trace| ("TRACEPARENT", trace)));
    command.spawn()
}

fn signal(group: Option<Pid>, signal: Signal) {
    if let Some(group) = group {
        // The processes may have ended a moment ago.
        let _ = kill_process_group(group, signal);
    }
}

/// Reads a stream to its end, and returns its last [`MOST_BYTES`] as text.
async fn kept(stream: Option<impl AsyncRead + Unpin>) -> String {
    let Some(mut stream) = stream else { return String::new() };
    let (mut bytes, mut part) = (Vec::new(), vec![0; 8 * 1024]);
    while let Ok(count @ 1..) = stream.read(&mut part).await {
        bytes.extend_from_slice(&part[..count]);
        if bytes.len() > 2 * MOST_BYTES {
            bytes.drain(..bytes.len() - MOST_BYTES);
        }
    }
    let from = bytes.len().saturating_sub(MOST_BYTES);
    String::from_utf8_lossy(&bytes[from..]).into_owned()
}

/// Returns the reason of a failure: how the process ended, and its last line of errors.
fn reason(status: &io::Result<ExitStatus>, errors: &str) -> String {
    let end = match status {
        Ok(status) => match (status.code(), status.signal()) {
            (Some(code), _) => format!("exit code {code}"),
            (None, Some(signal)) => signal_in_words(signal),
            (None, None) => status.to_string(),
        },
        Err(error) if error.kind() == io::ErrorKind::TimedOut => "timed out".to_owned(),
        Err(error) => error.to_string(),
    };
    match errors.lines().rev().find(|line| !line.trim().is_empty()) {
        Some(last) => format!("{end}: {}", last.chars().take(500).collect::<String>()),
        None => end,
    }
}
