//! `logs -f`: the output of a run while it is written, through all its attempts, until the run
//! ends.
//!
//! While a run is open, its record and its new output are read from Redis every [`PAUSE`]. Before a
//! run of a job has started, the job is read every [`PAUSE`] if a run is due soon, else every
//! [`LONG_PAUSE`].

use std::time::Duration;

use anyhow::Context as _;
use futures_util::StreamExt;
use signal_hook::consts::SIGINT;
use signal_hook_tokio::Signals;

use super::found_output::last_with_output;
use super::output_diff::{Growth, LogPiece};
use super::output_place::OutputPlace;
use super::output_writer::{Escaping, OutputWriter};
use crate::cli::failure::CliFailure;
use crate::cli::jobs::pause_resume::not_defined;
use crate::cli::jobs::target::{Target, find_run};
use crate::cli::local_zone::local_zone;
use crate::cli::render::{Console, Zones, facts_in_words, shown, view_runs};
use crate::cli::runs::open_runs::{ended_runs, open_runs};
use crate::cli::runs::run_poller::{PolledRun, RunPoller};
use crate::cli::runs::run_verb::{INTERRUPTED, ending};
use schedd_core::domain::run::run_state::RunState;
use schedd_schedule::names::{Fence, JobName, RunId};
use schedd_schedule::time::unix_millis::UnixMillis;
use schedd_store::{JobRecord, RunRecord, Store};

/// The time between two reads from Redis.
const PAUSE: Duration = Duration::from_millis(500);
/// The time between two reads if no run is due within this time. A manual run may start meanwhile,
/// but none of its output is missed.
const LONG_PAUSE: Duration = Duration::from_secs(2);

/// Prints the output of a run, or of the next run of a job, until the run ends. Leaves out the output
/// up to the place `behind`. Returns the exit code.
pub(super) async fn follow(
    store: &Store,
    target: &Target,
    behind: Option<OutputPlace>,
    escaping: Escaping,
    console: &mut Console,
) -> Result<u8, CliFailure> {
    let mut clock = Clock::new()?;
    let run = match target {
        Target::Run(run) => find_run(store, run).await?.run,
        Target::Job(job) => match next_of(store, job, &mut clock, console).await? {
            Ok(run) => run,
            Err(stop) => return Ok(stop.code(&format!("job {job} continues"), console)),
        },
    };
    let mut poller = RunPoller::default();
    let shown = behind.map(|OutputPlace { attempt, position }| Shown {
        attempt,
        fence: None,
        growth: Growth::behind(position),
        writer: OutputWriter::behind(position, &run, attempt, escaping),
    });
    let mut scene = Scene { store, run: &run, escaping, shown, said: None };
    loop {
        let seen = match poller.look(store, &run, console).await? {
            PolledRun::Run(record) => scene.show(*record, console).await,
            PolledRun::Away => Ok(false),
        };
        match seen {
            Ok(true) => return Ok(0),
            Ok(false) => {}
            Err(failure) => poller.report_outage(
                failure,
                &format!("the output of run {run} cannot be read"),
                console,
            )?,
        }
        if let Err(stop) = clock.pause(PAUSE, console).await {
            return Ok(stop
                .code(&format!("run {run} continues (schedctl cancel {run} stops it)"), console));
        }
    }
}

/// The reason why following a run stops.
enum Stop {
    /// The user pressed Ctrl-C.
    Interrupted,
    /// The reader of the output is gone.
    Deserted,
}

impl Stop {
    fn code(&self, what_goes_on: &str, console: &mut Console) -> u8 {
        match self {
            Self::Deserted => 0,
            Self::Interrupted => {
                console.error(&format!("interrupted; {what_goes_on}"));
                INTERRUPTED
            }
        }
    }
}

/// A timer for the pauses between reads. The timer also listens for interrupts by the user.
struct Clock {
    interrupts: Signals,
}

impl Clock {
    fn new() -> Result<Self, CliFailure> {
        Ok(Self { interrupts: Signals::new([SIGINT]).context("cannot listen for signals")? })
    }

    async fn pause(&mut self, pause: Duration, console: &mut Console) -> Result<(), Stop> {
        console.flush();
        if console.is_deserted() {
            return Err(Stop::Deserted);
        }
        tokio::select! {
            () = tokio::time::sleep(pause) => Ok(()),
            _ = self.interrupts.next() => Err(Stop::Interrupted),
        }
    }
}

/// Returns the run of the job to follow: a running run, else a run that waits for a retry. If no
/// run has started, waits until a run starts.
async fn next_of(
    store: &Store,
    job: &JobName,
    clock: &mut Clock,
    console: &mut Console,
) -> Result<Result<RunId, Stop>, CliFailure> {
    let newest_ended = |runs: Vec<RunRecord>| runs.into_iter().next().map(|run| run.run);
    let before = newest_ended(ended_runs(store, job, 1).await?);
    let mut poller = RunPoller::default();
    let mut has_reported = false;
    loop {
        let look = async {
            let mut open = open_runs(store, job).await?;
            open.sort_by_key(|run| run.state != RunState::Running);
            if let Some(run) = open.iter().find(|run| run.attempt > 0) {
                return Ok(Seen::Run(run.run.clone()));
            }
            // A run may have started and ended since the last read.
            let ended = ended_runs(store, job, 1).await?.into_iter().next();
            if let Some(run) =
                ended.filter(|run| run.attempt > 0 && Some(&run.run) != before.as_ref())
            {
                return Ok(Seen::Run(run.run));
            }
            let job = store.read_job(job).await?.filter(JobRecord::is_live);
            let due = job.as_ref().and_then(|job| job.pending.as_ref()).map(RunId::due);
            let pause = if open.is_empty() { pause_before(due, store.now().await?) } else { PAUSE };
            Ok::<Seen, CliFailure>(Seen::None(job.as_ref().map(waiting), pause))
        };
        let mut pause = PAUSE;
        match look.await {
            Ok(Seen::Run(run)) => return Ok(Ok(run)),
            Ok(Seen::None(None, _)) => return Err(not_defined(store, job).await),
            Ok(Seen::None(Some(sentence), until_next)) => {
                pause = until_next;
                poller.answered();
                if !std::mem::replace(&mut has_reported, true) {
                    console.note(&sentence);
                }
            }
            Err(failure) => poller.report_outage(
                failure,
                &format!("the next run of job {job} cannot be read"),
                console,
            )?,
        }
        if let Err(stop) = clock.pause(pause, console).await {
            return Ok(Err(stop));
        }
    }
}

/// Returns the time until the next read, for a job without an open run. `due` is the due time of
/// the job's planned run; `None` if no run is planned.
fn pause_before(due: Option<UnixMillis>, now: UnixMillis) -> Duration {
    if due.is_some_and(|due| due <= now.saturating_add(LONG_PAUSE)) { PAUSE } else { LONG_PAUSE }
}

/// The result of a read of a job.
enum Seen {
    /// A run of the job has started.
    Run(RunId),
    /// No run has started. The text is a sentence about the job, or `None` if the job is not
    /// defined. The duration is the time until the next read.
    None(Option<String>, Duration),
}

fn waiting(job: &JobRecord) -> String {
    let name = &job.name;
    match &job.pending {
        Some(run) => format!(
            "no run of job {name} is running; waiting for the next run, due {}",
            shown(run.due(), &local_zone())
        ),
        None if job.paused_at.is_some() => {
            format!("no run of job {name} is running and the job is paused; waiting for a run")
        }
        None => format!("no run of job {name} is running; waiting for the next run"),
    }
}

/// The progress in showing a run: the part that was already printed.
struct Scene<'a> {
    store: &'a Store,
    run: &'a RunId,
    escaping: Escaping,
    shown: Option<Shown>,
    /// The last printed sentence about the run's state; `None` if no sentence was printed.
    said: Option<String>,
}

/// The progress in showing one attempt: the part of its output that was already printed.
struct Shown {
    attempt: u32,
    fence: Option<Fence>,
    growth: Growth,
    writer: OutputWriter,
}

impl Scene<'_> {
    /// Prints new output and returns true if the run has ended. `record` was read before the
    /// output, so the output of an ended run is printed completely.
    async fn show(&mut self, record: RunRecord, console: &mut Console) -> Result<bool, CliFailure> {
        let attempt = last_with_output(&record);
        if self.shown.as_ref().is_some_and(|shown| shown.attempt < attempt) {
            self.write_new(console).await?;
            self.end_attempt(console);
            if record.state != RunState::Scheduled {
                console.note(&begun(&record, attempt));
            }
        } else if self.shown.as_ref().is_some_and(|shown| shown.fence != record.fence)
            && record.state == RunState::Running
        {
            // The run was handed back, and its attempt number is used again.
            console.note(&begun(&record, attempt));
        }
        match &mut self.shown {
            Some(shown) if shown.attempt >= attempt => shown.fence = record.fence,
            _ if attempt == 0 => {}
            shown => {
                let writer = OutputWriter::behind(0, self.run, attempt, self.escaping);
                *shown =
                    Some(Shown { attempt, fence: record.fence, growth: Growth::default(), writer });
            }
        }
        self.write_new(console).await?;
        if record.state.is_final() {
            self.end_attempt(console);
            self.report_end(record, attempt, console).await?;
            return Ok(true);
        }
        if let Some(sentence) =
            standing(&record).filter(|sentence| self.said.as_ref() != Some(sentence))
        {
            console.note(&sentence);
            self.said = Some(sentence);
        }
        Ok(false)
    }

    /// Prints the output that the attempt has written since the last read.
    async fn write_new(&mut self, console: &mut Console) -> Result<(), CliFailure> {
        let Some(Shown { attempt, growth, writer, .. }) = &mut self.shown else { return Ok(()) };
        let Some(output) = self.store.read_output_since(self.run, *attempt, growth.mark()).await?
        else {
            return Ok(());
        };
        for piece in growth.take(output) {
            match piece {
                LogPiece::Anew => writer.begin_anew(console),
                LogPiece::Bytes(stream, bytes) => writer.write(stream, &bytes, console),
                LogPiece::Missed(count) => writer.missed(count, console),
            }
        }
        Ok(())
    }

    fn end_attempt(&mut self, console: &mut Console) {
        if let Some(shown) = &mut self.shown {
            shown.writer.end(console);
        }
    }

    async fn report_end(
        &self,
        record: RunRecord,
        attempt: u32,
        console: &mut Console,
    ) -> Result<(), CliFailure> {
        if console.is_json() {
            let place = self.shown.as_ref().filter(|shown| shown.attempt == attempt);
            let position = place.map_or(0, |shown| shown.writer.position());
            OutputWriter::behind(position, self.run, attempt, self.escaping)
                .over(record.state, console);
            return Ok(());
        }
        for view in view_runs(self.store, &mut Zones::default(), vec![record]).await? {
            console.note(&ending(&view));
        }
        Ok(())
    }
}

fn begun(record: &RunRecord, attempt: u32) -> String {
    let node = record.node.as_deref().map(|node| format!(" on node {node}")).unwrap_or_default();
    format!("attempt {attempt} of run {} started{node}", record.run)
}

/// Returns a sentence about a run that waits for its next attempt, or `None` for any other run.
fn standing(record: &RunRecord) -> Option<String> {
    if record.state != RunState::Scheduled {
        return None;
    }
    let run = &record.run;
    let ready =
        record.ready.map(|at| format!(", ready {}", shown(at, &local_zone()))).unwrap_or_default();
    if record.attempt == 0 {
        return Some(format!("run {run} has not started yet{ready}"));
    }
    let why = facts_in_words(record).map(|why| format!(": {why}")).unwrap_or_default();
    Some(format!(
        "attempt {} of run {run} ended{why}; waiting for the next attempt{ready}",
        record.attempt
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_that_is_far_away_is_looked_for_less_often() {
        let at = |ms| UnixMillis::new(ms).unwrap();
        assert_eq!(pause_before(Some(at(12_000)), at(10_000)), PAUSE);
        assert_eq!(pause_before(Some(at(9_000)), at(10_000)), PAUSE, "it is about to begin");
        assert_eq!(pause_before(Some(at(12_001)), at(10_000)), LONG_PAUSE);
        assert_eq!(pause_before(None, at(10_000)), LONG_PAUSE);
    }
}
