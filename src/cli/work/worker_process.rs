//! The process that does the work of one run. It belongs to a keeper, as the processes of a node do.
//!
//! Invariant: no process of a run outlives the lease of the run. The keeper kills the processes also
//! if this worker is killed or stands still.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::watch;

use super::worker_client::WorkerRun;
use schedd::attempts::OutputBuffer;
use schedd_core::domain::job::process_limits::Limits;
use schedd_core::domain::run::end_words::signal_in_words;
use schedd_core::domain::run::excerpt::{ExcerptStream, OutputSink};
use schedd_core::host::boot_clock::BootInstant;
use schedd_keeper::{Child, Keeper, LaunchOrder, ProcessEnd, RunReport, Variables};

/// The time between SIGTERM and SIGKILL.
const KILL_GRACE: Duration = Duration::from_secs(5);
/// The most bytes of a stream that are kept: its end.
const MOST_BYTES: usize = 128 * 1024;
/// The most bytes of a stream in the JSON text of a report, which has escapes.
const MOST_JSON_BYTES: usize = 256 * 1024;
/// The wait before a run that its program gave back is due again.
pub(super) const RELEASE_WAIT: Duration = Duration::from_secs(1);
/// The exit code by which a program gives a run back (`EX_TEMPFAIL` of sysexits.h).
const GIVES_BACK: i32 = 75;

/// The end of the work of a run.
#[derive(Debug)]
pub(super) enum WorkEnd {
    /// The work is done.
    Done { output: String },
    /// The work failed, or took longer than its timeout.
    Failed { error: String, output: String, has_timed_out: bool },
    /// The program gave the run back.
    GivenBack,
    /// The program was stopped together with the worker, or did not begin because of that.
    Stopped { has_begun: bool },
    /// This host cannot start a program now, so that the run is given back.
    NotStarted,
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

/// The program that does the work, and its surroundings.
pub(super) struct WorkProgram {
    pub(super) keeper: Keeper,
    /// The program and its arguments.
    words: Vec<String>,
    directory: PathBuf,
    variables: BTreeMap<String, String>,
    umask: Option<u16>,
    lease: Duration,
}

/// The news about a run that its work must obey.
pub(super) struct WorkControl {
    /// The end of the lease, which each renewal moves.
    pub(super) deadline: watch::Receiver<BootInstant>,
    pub(super) stop: watch::Receiver<Option<WorkStop>>,
}

impl WorkProgram {
    /// Returns the program of `words`, which runs in the directory and with the variables of this
    /// process.
    pub(super) fn new(keeper: Keeper, words: Vec<String>, lease: Duration) -> io::Result<Self> {
        let variables = std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
            .collect();
        let directory = std::env::current_dir()?;
        Ok(Self { keeper, words, directory, variables, umask: umask(), lease })
    }

    /// Does the work of `run` by a process. The process gets SIGTERM at a stop and at its timeout. Its
    /// whole output also goes to `copy`.
    pub(super) async fn work_on(
        &self,
        run: &WorkerRun,
        mut control: WorkControl,
        copy: Option<OutputBuffer>,
    ) -> WorkEnd {
        match *control.stop.borrow_and_update() {
            Some(WorkStop::Lost) => return WorkEnd::Lost,
            Some(WorkStop::Shutdown) => return WorkEnd::Stopped { has_begun: false },
            Some(WorkStop::Cancelled) => {
                let error = "cancelled before it began".to_owned();
                return WorkEnd::Failed { error, output: String::new(), has_timed_out: false };
            }
            None => {}
        }
        let kept = Arc::new(KeptOutput { copy, ..KeptOutput::default() });
        let launch = self.launch(run, *control.deadline.borrow_and_update());
        let mut child = self.keeper.spawn(launch, kept.clone()).await;
        let report = Self::attend(&mut child, &mut control).await;
        let [output, errors] =
            [ExcerptStream::Stdout, ExcerptStream::Stderr].map(|of| kept.text(of));
        let why = *control.stop.borrow();
        match (report.end, report.exit_code) {
            (ProcessEnd::LeaseLost | ProcessEnd::MaybeAlive, _) => WorkEnd::Lost,
            _ if why == Some(WorkStop::Lost) => WorkEnd::Lost,
            (ProcessEnd::Short | ProcessEnd::Refused, _) => WorkEnd::NotStarted,
            (ProcessEnd::ByItself | ProcessEnd::Stopped, Some(0)) => WorkEnd::Done { output },
            (ProcessEnd::ByItself, Some(GIVES_BACK)) => WorkEnd::GivenBack,
            (ProcessEnd::Stopped, _) if why == Some(WorkStop::Shutdown) => {
                WorkEnd::Stopped { has_begun: true }
            }
            _ => WorkEnd::Failed {
                error: reason(&report, &errors),
                output: output + &errors,
                has_timed_out: report.end == ProcessEnd::TimedOut,
            },
        }
    }

    /// Waits for the end of the process, and passes on what becomes of its lease.
    async fn attend(child: &mut Child, control: &mut WorkControl) -> RunReport {
        let WorkControl { deadline, stop } = control;
        loop {
            tokio::select! {
                report = child.ended() => return report,
                Ok(()) = deadline.changed() => {
                    let until = *deadline.borrow_and_update();
                    // A renewal only moves the end of the lease later.
                    if until > BootInstant::now() { child.extend(until) } else { child.abandon().await }
                }
                Ok(()) = stop.changed() => {
                    let why = *stop.borrow_and_update();
                    match why {
                        // Another worker may have the run.
                        Some(WorkStop::Lost) => child.abandon().await,
                        Some(WorkStop::Cancelled | WorkStop::Shutdown) => child.stop().await,
                        None => {}
                    }
                }
            }
        }
    }

    fn launch(&self, run: &WorkerRun, deadline: BootInstant) -> LaunchOrder {
        let timeout = Duration::from_millis(run.timeout_ms);
        let mut env = self.variables.clone();
        let of_run = [
            ("SCHEDD_JOB", &run.job),
            ("SCHEDD_RUN_ID", &run.run_id),
            ("SCHEDD_HANDLER", &run.handler),
            ("SCHEDD_DUE", &run.due),
            ("SCHEDD_ATTEMPT", &run.attempt.to_string()),
            ("SCHEDD_FENCE", &run.fence.to_string()),
        ];
        env.extend(of_run.map(|(name, value)| (name.to_owned(), value.clone())));
        env.extend(run.traceparent.iter().map(|trace| ("TRACEPARENT".to_owned(), trace.clone())));
        LaunchOrder {
            run: run.run_id.clone(),
            fence: run.fence,
            argv: self.words.clone(),
            direct: None,
            env: Variables(env),
            cwd: self.directory.clone(),
            cwd_else: None,
            owner: None,
            limits: Limits::default(),
            umask: self.umask,
            stdin: Some(run.payload.to_string()),
            start_within: timeout.min(self.lease),
            timeout,
            kill_grace: KILL_GRACE,
            deadline,
            margin: self.lease / 10,
        }
    }
}

/// Returns the umask of this process, which only a change of it or this file tells.
fn umask() -> Option<u16> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let digits = status.lines().find_map(|line| line.strip_prefix("Umask:"))?;
    u16::from_str_radix(digits.trim(), 8).ok()
}

/// The ends of both streams of a process.
#[derive(Default)]
struct KeptOutput {
    copy: Option<OutputBuffer>,
    stdout: Mutex<Vec<u8>>,
    stderr: Mutex<Vec<u8>>,
}

impl KeptOutput {
    fn of(&self, stream: ExcerptStream) -> &Mutex<Vec<u8>> {
        match stream {
            ExcerptStream::Stdout => &self.stdout,
            ExcerptStream::Stderr => &self.stderr,
        }
    }

    /// Returns the last [`MOST_BYTES`] of a stream as text, or less if their JSON text is too long.
    fn text(&self, stream: ExcerptStream) -> String {
        let bytes = self.of(stream).lock().unwrap_or_else(PoisonError::into_inner);
        let from = bytes.len().saturating_sub(MOST_BYTES);
        let text = String::from_utf8_lossy(bytes.get(from..).unwrap_or_default());
        let mut room = MOST_JSON_BYTES;
        let fits = |(_, c): &(usize, char)| {
            // A control character becomes an escape of six bytes.
            let needed = if c.is_control() { 6 } else { c.len_utf8() + 1 };
            room = room.saturating_sub(needed);
            room > 0
        };
        let first = text.char_indices().rev().take_while(fits).last();
        first.map_or_else(String::new, |(at, _)| text[at..].to_owned())
    }
}

impl OutputSink for KeptOutput {
    fn append(&self, stream: ExcerptStream, bytes: &[u8]) {
        if let Some(copy) = &self.copy {
            copy.append(stream, bytes);
        }
        let mut kept = self.of(stream).lock().unwrap_or_else(PoisonError::into_inner);
        kept.extend_from_slice(bytes);
        if kept.len() > 2 * MOST_BYTES {
            let over = kept.len() - MOST_BYTES;
            kept.drain(..over);
        }
    }

    /// Counts the bytes in the copy alone, because only the end of the output is kept here.
    fn add_dropped(&self, count: u64) {
        if let Some(copy) = &self.copy {
            copy.add_dropped(count);
        }
    }
}

/// Returns the reason of a failure: how the process ended, and its last line of errors.
fn reason(report: &RunReport, errors: &str) -> String {
    let end = match (report.end, report.exit_code, report.signal, &report.error) {
        (ProcessEnd::TimedOut, ..) => "timed out".to_owned(),
        (ProcessEnd::CannotStart, .., Some(error)) => return error.clone(),
        (_, Some(code), ..) => format!("exit code {code}"),
        (_, None, Some(signal), _) => signal_in_words(signal),
        (.., error) => error.clone().unwrap_or_else(|| "ended without an exit code".to_owned()),
    };
    match errors.lines().rev().find(|line| !line.trim().is_empty()) {
        Some(last) => format!("{end}: {}", last.chars().take(500).collect::<String>()),
        None => end,
    }
}
