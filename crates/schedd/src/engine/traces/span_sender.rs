//! The sender of spans: a queue of ended runs, and the task that reads their records and sends their
//! spans in batches.
//!
//! Invariant: at most [`QUEUE`] ended runs and a batch are in memory. If the collector does not take
//! spans, further spans are dropped and counted.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use opentelemetry_otlp::SpanExporter;
use opentelemetry_sdk::trace::{SpanData, SpanExporter as _};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::otlp_exporter;
use super::run_span::{TracedJob, span_of};
use super::span_ids;
use crate::engine::dispatch::definition::Definition;
use schedd_core::domain::run::trace_context::TraceContext;
use schedd_schedule::names::{NodeName, RunId};
use schedd_store::{RunRecord, Store};

/// The most ended runs that wait for their spans.
const QUEUE: usize = 2_048;
/// The most spans of one request.
const BATCH: usize = 512;
/// The time for which a batch waits for further runs.
const GATHER: Duration = Duration::from_secs(1);
/// The longest time for which the records of a batch are read.
const READ: Duration = Duration::from_secs(2);
/// The shortest time between two log lines about spans that were not sent.
const LOG_AGAIN: Duration = Duration::from_secs(60);

/// An ended run whose span is not sent yet.
struct EndedSpan {
    job: TracedJob,
    context: TraceContext,
    record: RunRecord,
}

/// The queue of ended runs of a node.
pub(super) struct SpanSender {
    namespace: String,
    queue: mpsc::Sender<EndedSpan>,
    dropped: Arc<AtomicU64>,
    stop: CancellationToken,
    task: Mutex<Option<JoinHandle<()>>>,
}

impl SpanSender {
    /// Starts the task that sends the spans of `node`. Returns `None` if the environment names no
    /// endpoint or switches the sending off.
    pub(super) fn from_env(store: &Store, node: &NodeName) -> Option<Self> {
        let exporter = match otlp_exporter::from_env(store.namespace(), node)? {
            Ok(exporter) => exporter,
            Err(error) => {
                warn!("The traces of runs are not sent: {error}.");
                return None;
            }
        };
        info!("The traces of runs are sent to an OpenTelemetry collector.");
        let (queue, ends) = mpsc::channel(QUEUE);
        let (dropped, stop) = (Arc::<AtomicU64>::default(), CancellationToken::new());
        let task = SpanTask {
            store: store.clone(),
            exporter,
            ends,
            dropped: dropped.clone(),
            stop: stop.clone(),
            logged: None,
        };
        Some(Self {
            namespace: store.namespace().to_owned(),
            queue,
            dropped,
            stop,
            task: Mutex::new(Some(tokio::spawn(task.run()))),
        })
    }

    /// Returns the trace that the attempts of `run` get. `of_job` is the trace of its job. If its
    /// spans are not recorded, it is passed on as it is.
    pub(super) fn context_of(
        &self,
        run: &RunId,
        of_job: Option<TraceContext>,
    ) -> Option<TraceContext> {
        match of_job {
            Some(trace) if !trace.is_recorded() => of_job,
            _ => Some(span_ids::context_of(&self.namespace, run, of_job)),
        }
    }

    /// Queues the span of a run of `job` that has ended. Never waits.
    pub(super) fn send(&self, job: Option<&Definition>, record: RunRecord) {
        let job = TracedJob::of(job);
        let Some(context) =
            self.context_of(&record.run, job.trace).filter(|context| context.is_recorded())
        else {
            return;
        };
        if self.queue.try_send(EndedSpan { job, context, record }).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Sends the queued spans and ends the task. Takes at most `longest`.
    pub(super) async fn stop(&self, longest: Duration) {
        let task = self.task.lock().unwrap_or_else(PoisonError::into_inner).take();
        self.stop.cancel();
        if let Some(mut task) = task
            && tokio::time::timeout(longest, &mut task).await.is_err()
        {
            warn!("The last spans of runs were not sent in time.");
            task.abort();
        }
    }
}

/// The task that sends the spans.
struct SpanTask {
    store: Store,
    exporter: SpanExporter,
    ends: mpsc::Receiver<EndedSpan>,
    dropped: Arc<AtomicU64>,
    stop: CancellationToken,
    /// The time of the last log line about spans that were not sent.
    logged: Option<Instant>,
}

impl SpanTask {
    async fn run(mut self) {
        loop {
            let mut batch = Vec::new();
            self.gather(&mut batch).await;
            if batch.is_empty() {
                return;
            }
            let spans = self.spans_of(batch).await;
            self.export(spans).await;
        }
    }

    /// Fills `batch` with ended runs. Leaves it empty if the node stops and no run is left.
    async fn gather(&mut self, batch: &mut Vec<EndedSpan>) {
        tokio::select! {
            _ = self.ends.recv_many(batch, BATCH) => {}
            () = self.stop.cancelled() => self.ends.close(),
        }
        let until = tokio::time::Instant::now() + GATHER;
        while batch.len() < BATCH {
            let room = BATCH - batch.len();
            let more = tokio::select! {
                more = self.ends.recv_many(batch, room) => more,
                () = tokio::time::sleep_until(until), if !self.ends.is_closed() => return,
                () = self.stop.cancelled(), if !self.ends.is_closed() => {
                    self.ends.close();
                    continue;
                }
            };
            if more == 0 {
                return;
            }
        }
    }

    /// Returns the spans of ended runs. A run whose record is gone, or is open again, has the span
    /// that its node knows.
    async fn spans_of(&self, batch: Vec<EndedSpan>) -> Vec<SpanData> {
        let runs: Vec<RunId> = batch.iter().map(|end| end.record.run.clone()).collect();
        let read = tokio::time::timeout(READ, self.store.read_runs(&runs)).await;
        let mut records = read.ok().and_then(Result::ok).unwrap_or_default().into_iter();
        let span = |EndedSpan { job, context, record }| {
            let stored = records.next().and_then(Result::ok).flatten();
            let stored = stored.filter(|stored| stored.state == record.state);
            span_of(&stored.unwrap_or(record), job, context)
        };
        batch.into_iter().map(span).collect()
    }

    /// Sends `spans`. The exporter tries again for a while, and then the spans are dropped.
    async fn export(&mut self, spans: Vec<SpanData>) {
        let count = spans.len() as u64;
        if let Err(error) = self.exporter.export(spans).await {
            self.dropped.fetch_add(count, Ordering::Relaxed);
            self.log(&error.to_string());
        } else if self.dropped.load(Ordering::Relaxed) > 0 {
            self.log("more runs ended than the collector took");
        }
    }

    /// Logs that spans were dropped, and how many since the last line. Logs nothing within
    /// [`LOG_AGAIN`] of that line.
    fn log(&mut self, why: &str) {
        if self.logged.is_none_or(|at| at.elapsed() >= LOG_AGAIN) {
            self.logged = Some(Instant::now());
            let dropped = self.dropped.swap(0, Ordering::Relaxed);
            warn!(dropped, "Spans of runs were not sent to the OpenTelemetry collector: {why}.");
        }
    }
}
