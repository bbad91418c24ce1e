//! Scripts of attempts: an executor that starts no process, and the effects of what it executed.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime};

use futures_util::future::BoxFuture;
use tokio::sync::watch;

use super::effects::Effect;
use schedd::attempts::{Attempt, Control, Execute, OutputBuffer};
use schedd_core::domain::job::job_spec::Action;
use schedd_core::domain::run::excerpt::ExcerptStream;
use schedd_core::domain::run::run_state::{AttemptOutcome, Ending};
use schedd_core::host::boot_clock::BootInstant;
use schedd_schedule::names::RunId;

/// The work of a scripted attempt.
#[derive(Debug, Clone)]
pub(crate) enum Act {
    /// Ends at once with this outcome.
    End(AttemptOutcome),
    /// Prints the text and ends at once with this outcome.
    Print(String, AttemptOutcome),
    /// Ends after this time with this outcome.
    Last(Duration, AttemptOutcome),
    /// Goes on until [`Script::end`], a stop or the end of its lease.
    GoOn,
}

impl Act {
    /// Returns what a shell does with `true`, `false`, `exit N`, `sleep N`, or `sleep N; ` and one of
    /// the first three. Returns `None` for any other line.
    fn of_shell(line: &str) -> Option<Self> {
        let (first, rest) = line.split_once("; ").unwrap_or((line, "true"));
        let seconds = first.strip_prefix("sleep ").map(|number| number.parse().ok());
        let time = Duration::from_secs_f64(seconds.unwrap_or(Some(0.0))?);
        let last = if seconds.is_some() { rest } else { line };
        let code = match last {
            "true" => 0,
            "false" => 1,
            _ => last.strip_prefix("exit ")?.parse().ok()?,
        };
        Some(Self::Last(time, exit(code)))
    }
}

/// Returns the outcome of a process that exited with `code`.
pub(crate) fn exit(code: i32) -> AttemptOutcome {
    let ending = if code == 0 { Ending::Succeeded } else { Ending::Failed };
    AttemptOutcome { exit_code: Some(code), ..AttemptOutcome::bare(ending) }
}

/// An executor that follows a script. Clones share the script, so several nodes can follow one.
///
/// A shell line does what [`Script::set`] says. The others are the few lines of the shell that
/// [`Act::of_shell`] reads.
#[derive(Clone)]
pub(crate) struct Script(Arc<Shared>);

struct Shared {
    acts: Mutex<HashMap<String, Vec<Act>>>,
    made: Mutex<Vec<Made>>,
    /// The lines that [`Script::end`] named.
    ended: watch::Sender<HashSet<String>>,
}

/// One execution of an attempt.
#[derive(Debug, Clone)]
struct Made {
    line: String,
    attempt: Attempt,
    effect: Effect,
}

impl Script {
    pub(crate) fn new() -> Self {
        let shared = Shared {
            acts: Mutex::default(),
            made: Mutex::default(),
            ended: watch::Sender::new(HashSet::new()),
        };
        Self(Arc::new(shared))
    }

    /// Sets the acts of a shell line. A run follows them in order, one each time it executes the line.
    /// The last act is repeated.
    pub(crate) fn set(&self, line: &str, acts: &[Act]) {
        self.0.acts.lock().unwrap().insert(line.to_owned(), acts.to_vec());
    }

    /// Lets every attempt of this line that goes on succeed, now and later.
    pub(crate) fn end(&self, line: &str) {
        self.0.ended.send_modify(|lines| {
            lines.insert(line.to_owned());
        });
    }

    /// Returns the numbers of the attempts made with this shell line.
    pub(crate) fn made(&self, line: &str) -> Vec<u32> {
        let made = self.0.made.lock().unwrap();
        made.iter().filter(|made| made.line == line).map(|made| made.attempt.number).collect()
    }

    /// Returns all runs executed, in order.
    pub(crate) fn runs(&self) -> Vec<RunId> {
        self.attempts().into_iter().map(|attempt| attempt.run).collect()
    }

    /// Returns all attempts executed, in the order of their begin.
    pub(crate) fn attempts(&self) -> Vec<Attempt> {
        self.0.made.lock().unwrap().iter().map(|made| made.attempt.clone()).collect()
    }

    /// Returns the effects of all attempts, in the order of their begin. One that was stopped has no
    /// end, as one whose process is killed.
    pub(crate) fn all(&self) -> Vec<Effect> {
        self.0.made.lock().unwrap().iter().map(|made| made.effect.clone()).collect()
    }

    /// Returns the effects of runs of `job`.
    pub(crate) fn of(&self, job: &str) -> Vec<Effect> {
        let is_its = |effect: &Effect| effect.run.split('@').next() == Some(job);
        self.all().into_iter().filter(is_its).collect()
    }

    /// Notes the begin of an attempt. Returns its place among all and its act; an error if the
    /// script has no such line.
    fn begin(&self, attempt: &Attempt, line: &str) -> (usize, Result<Act, String>) {
        let mut made = self.0.made.lock().unwrap();
        let earlier =
            made.iter().filter(|made| made.line == line && made.attempt.run == attempt.run).count();
        let act = match self.0.acts.lock().unwrap().get(line).map(Vec::as_slice) {
            Some(acts) => Ok(acts[earlier.min(acts.len() - 1)].clone()),
            None => Act::of_shell(line)
                .ok_or_else(|| format!("the script of the test has no line {line:?}")),
        };
        let effect = Effect {
            run: attempt.run.to_string(),
            attempt: attempt.number,
            fence: attempt.fence.as_u64(),
            began: now(),
            ended: None,
        };
        made.push(Made { line: line.to_owned(), attempt: attempt.clone(), effect });
        (made.len() - 1, act)
    }

    /// Waits until the attempt ends by itself. Fails with its outcome if it is ended.
    async fn attend(
        &self,
        line: &str,
        lasts: Option<Duration>,
        mut control: Control,
    ) -> Result<(), AttemptOutcome> {
        let began = Instant::now();
        let mut ended = self.0.ended.subscribe();
        loop {
            if let Some(reason) = *control.stop.borrow_and_update() {
                return Err(AttemptOutcome::bare(reason.ending()));
            }
            if BootInstant::now() >= *control.deadline.borrow_and_update() {
                return Err(AttemptOutcome::bare(Ending::LeaseLost));
            }
            let left = lasts.map(|lasts| lasts.saturating_sub(began.elapsed()));
            if left.is_some_and(|left| left.is_zero()) || ended.borrow_and_update().contains(line) {
                return Ok(());
            }
            let look = Duration::from_millis(100);
            tokio::select! {
                _ = control.stop.changed() => {}
                _ = control.deadline.changed() => {}
                _ = ended.changed() => {}
                () = tokio::time::sleep(left.unwrap_or(look).min(look)) => {}
            }
        }
    }
}

/// Returns the shell line of an action, or the words of its command as one line.
fn line_of(action: &Action) -> String {
    match action {
        Action::Shell(line) => line.clone(),
        Action::Command(words) => words.join(" "),
        Action::Http(_) => "a request".to_owned(),
        Action::Handler(_) => "the work of a worker".to_owned(),
    }
}

/// Returns the nanoseconds since 1970.
fn now() -> u128 {
    SystemTime::UNIX_EPOCH.elapsed().unwrap().as_nanos()
}

impl Execute for Script {
    fn execute<'a>(
        &'a self,
        attempt: &'a Attempt,
        control: Control,
        output: &'a OutputBuffer,
    ) -> BoxFuture<'a, AttemptOutcome> {
        Box::pin(async move {
            let line = &line_of(&attempt.action);
            let (place, act) = self.begin(attempt, line);
            let attended = match act {
                Err(error) => {
                    return AttemptOutcome {
                        error: Some(error),
                        ..AttemptOutcome::bare(Ending::Failed)
                    };
                }
                Ok(Act::End(outcome)) => Ok(outcome),
                Ok(Act::Print(text, outcome)) => {
                    output.append(ExcerptStream::Stdout, text.as_bytes());
                    Ok(outcome)
                }
                Ok(Act::Last(time, outcome)) => {
                    self.attend(line, Some(time), control).await.map(|()| outcome)
                }
                Ok(Act::GoOn) => self.attend(line, None, control).await.map(|()| exit(0)),
            };
            if attended.is_ok() {
                self.0.made.lock().unwrap()[place].effect.ended = Some(now());
            }
            attended.unwrap_or_else(|outcome| outcome)
        })
    }
}
