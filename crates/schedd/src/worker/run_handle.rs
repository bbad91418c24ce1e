//! The run that a handler executes.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use schedd_core::domain::run::excerpt::ExcerptStream;
use schedd_core::domain::run::run_progress::RunProgress;
use schedd_core::host::boot_clock::BootInstant;
use tokio_util::sync::CancellationToken;

use super::run_output::RunOutput;
use crate::attempts::{Attempt, OutputBuffer};
use crate::client::Client;
use crate::instants::system_time;

/// The attempt of a run that a handler makes. Clones are the same run.
///
/// ```
/// use schedd::Run;
///
/// struct App {
///     from: String,
/// }
///
/// async fn send_mail(to: String, run: Run<App>) -> schedd::Result<()> {
///     run.print(format_args!("{} writes to {to} for {}", run.state().from, run.id()));
///     Ok(())
/// }
/// # let _ = send_mail;
/// ```
pub struct Run<S = ()> {
    facts: Arc<RunContext>,
    state: Arc<S>,
}

/// The facts of an attempt, without the state of the worker.
pub(super) struct RunContext {
    pub(super) id: String,
    job: String,
    due: SystemTime,
    attempt: u32,
    fence: u64,
    deadline: SystemTime,
    ends_at: BootInstant,
    trace: Option<String>,
    pub(super) cancelled: CancellationToken,
    pub(super) output: OutputBuffer,
    client: Client,
}

impl RunContext {
    pub(super) fn of(attempt: &Attempt, output: &OutputBuffer, client: &Client) -> Self {
        let (claimed_at, read_at) = attempt.by_redis;
        Self {
            id: attempt.run.to_string(),
            job: attempt.run.job().to_string(),
            due: system_time(attempt.run.due()),
            attempt: attempt.number,
            fence: attempt.fence.as_u64(),
            deadline: system_time(claimed_at.saturating_add(attempt.timeout)),
            ends_at: read_at.saturating_add(attempt.timeout),
            trace: attempt.trace.map(|trace| trace.to_string()),
            cancelled: CancellationToken::new(),
            output: output.clone(),
            client: client.clone(),
        }
    }
}

impl<S> Run<S> {
    pub(super) fn new(facts: Arc<RunContext>, state: Arc<S>) -> Self {
        Self { facts, state }
    }

    /// Returns the same run with another state.
    pub(super) fn with_state<T>(&self, state: Arc<T>) -> Run<T> {
        Run { facts: self.facts.clone(), state }
    }

    /// Returns the id of the run, such as `job-7@1790000000000`. All attempts of a run have the same
    /// id.
    ///
    /// ```
    /// # schedd::testing::in_run(|run| async move {
    /// assert!(run.id().starts_with(run.job()));
    /// # Ok(())
    /// # });
    /// ```
    pub fn id(&self) -> &str {
        &self.facts.id
    }

    /// Returns the name of the job.
    ///
    /// ```
    /// # schedd::testing::in_run(|run| async move {
    /// assert!(!run.job().is_empty());
    /// # Ok(())
    /// # });
    /// ```
    pub fn job(&self) -> &str {
        &self.facts.job
    }

    /// Returns the time at which the run was due. It does not change with retries.
    ///
    /// ```
    /// # schedd::testing::in_run(|run| async move {
    /// assert!(run.due() <= std::time::SystemTime::now());
    /// # Ok(())
    /// # });
    /// ```
    pub fn due(&self) -> SystemTime {
        self.facts.due
    }

    /// Returns the number of the attempt, counted from 1.
    ///
    /// ```
    /// # schedd::testing::in_run(|run| async move {
    /// assert_eq!(run.attempt(), 1);
    /// # Ok(())
    /// # });
    /// ```
    pub fn attempt(&self) -> u32 {
        self.facts.attempt
    }

    /// Returns the fence of the attempt: a number that grows with each claim. A system that refuses
    /// a lower fence than the last one accepts nothing from an attempt that lost its run.
    ///
    /// ```
    /// # schedd::testing::in_run(|run| async move {
    /// assert!(run.fence() > 0);
    /// # Ok(())
    /// # });
    /// ```
    pub fn fence(&self) -> u64 {
        self.facts.fence
    }

    /// Returns a key for systems that carry out a request only once: the same for all attempts of
    /// the run, and different for each run.
    ///
    /// ```
    /// # schedd::testing::in_run(|run| async move {
    /// assert_eq!(run.idempotency_key(), format!("schedd:{}", run.id()));
    /// # Ok(())
    /// # });
    /// ```
    pub fn idempotency_key(&self) -> String {
        format!("schedd:{}", self.facts.id)
    }

    /// Returns the time at which the attempt exceeds the job's timeout.
    ///
    /// ```
    /// # schedd::testing::in_run(|run| async move {
    /// assert!(run.deadline() > run.due());
    /// # Ok(())
    /// # });
    /// ```
    pub fn deadline(&self) -> SystemTime {
        self.facts.deadline
    }

    /// Returns the time left until the job's timeout, by a clock that nobody sets.
    ///
    /// ```
    /// # schedd::testing::in_run(|run| async move {
    /// assert!(run.time_left() > std::time::Duration::ZERO);
    /// # Ok(())
    /// # });
    /// ```
    pub fn time_left(&self) -> Duration {
        self.facts.ends_at.since(BootInstant::now())
    }

    /// Returns the trace of the run as W3C Trace Context. `None` if the job has no trace.
    ///
    /// ```
    /// # schedd::testing::in_run(|run| async move {
    /// assert_eq!(run.traceparent(), None);
    /// # Ok(())
    /// # });
    /// ```
    pub fn traceparent(&self) -> Option<&str> {
        self.facts.trace.as_deref()
    }

    /// Returns the state that [`Worker::state`](crate::Worker::state) set.
    ///
    /// ```
    /// # schedd::testing::in_run(|run| async move {
    /// assert_eq!(run.state(), &()); // the state of a worker without one
    /// # Ok(())
    /// # });
    /// ```
    pub fn state(&self) -> &S {
        &self.state
    }

    /// Returns a client, to add jobs from a handler.
    ///
    /// ```
    /// # schedd::testing::in_run(|run| async move {
    /// let next = schedd::Add::to("clean-up", &run.id()).in_(std::time::Duration::from_secs(60));
    /// run.client().add(next).await?;
    /// # Ok(())
    /// # });
    /// ```
    pub fn client(&self) -> &Client {
        &self.facts.client
    }

    /// Waits until the run shall stop: it was cancelled, its time is over, its worker stops, or
    /// another worker may have it. The handler then has 10 s to return
    /// ([`Worker::cancel_grace`](crate::Worker::cancel_grace)).
    ///
    /// ```
    /// # use schedd::Run;
    /// async fn watch((): (), run: Run) -> schedd::Result<()> {
    ///     run.cancelled().await;
    ///     Ok(())
    /// }
    /// # let _ = watch;
    /// ```
    pub async fn cancelled(&self) {
        self.facts.cancelled.cancelled().await;
    }

    /// Returns true if the run shall stop.
    ///
    /// ```
    /// # schedd::testing::in_run(|run| async move {
    /// for _row in 0..10 {
    ///     if run.is_cancelled() {
    ///         return Err("cancelled".into());
    ///     }
    /// }
    /// # Ok(())
    /// # });
    /// ```
    pub fn is_cancelled(&self) -> bool {
        self.facts.cancelled.is_cancelled()
    }

    /// Reports how much of the work is done. `schedctl show`, the API and the dashboard show the last
    /// report of the attempt, such as `40 %: half of the rows`. They show it up to a second later.
    /// Only the first 256 characters of `text` are kept.
    ///
    /// ```
    /// # schedd::testing::in_run(|run| async move {
    /// run.progress(40, "half of the rows");
    /// # Ok(())
    /// # });
    /// ```
    pub fn progress(&self, percent: u8, text: impl fmt::Display) {
        self.facts.output.set_progress(RunProgress::new(Some(percent), &text.to_string()));
    }

    /// Writes a line to the output of the run.
    ///
    /// ```
    /// # schedd::testing::in_run(|run| async move {
    /// run.print("400 rows");
    /// # Ok(())
    /// # });
    /// ```
    pub fn print(&self, line: impl fmt::Display) {
        self.facts.output.append(ExcerptStream::Stdout, format!("{line}\n").as_bytes());
    }

    /// Returns a writer into the output of the run.
    ///
    /// ```
    /// # schedd::testing::in_run(|run| async move {
    /// use std::io::Write as _;
    ///
    /// writeln!(run.output(), "400 rows")?;
    /// # Ok(())
    /// # });
    /// ```
    pub fn output(&self) -> RunOutput {
        RunOutput(self.facts.output.clone())
    }
}

impl<S> Clone for Run<S> {
    fn clone(&self) -> Self {
        Self { facts: self.facts.clone(), state: self.state.clone() }
    }
}

impl<S> fmt::Debug for Run<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Run({}, attempt {})", self.facts.id, self.facts.attempt)
    }
}
