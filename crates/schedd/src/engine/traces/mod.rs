//! Traces of runs: a node sends one span for each run that it ends, by OTLP (OpenTelemetry) over
//! HTTP. Only a schedd with the cargo feature `otel` sends spans, and only if the environment names
//! an endpoint.
//!
//! - `otlp_exporter` reads the standard variables, and makes the exporter
//! - `span_sender` sends the spans in batches
//! - `run_span` makes the span of a run
//! - `span_ids` derives the ids of a run's trace and span
//!
//! Invariant: no run waits for a span. Spans that cannot be sent are dropped.

#[cfg(feature = "otel")]
mod otlp_exporter;
#[cfg(feature = "otel")]
mod run_span;
#[cfg(feature = "otel")]
mod span_ids;
#[cfg(feature = "otel")]
mod span_sender;

use std::time::Duration;

use crate::engine::dispatch::definition::Definition;
use schedd_core::domain::run::trace_context::TraceContext;
use schedd_schedule::names::{NodeName, RunId};
use schedd_store::{RunRecord, Store};

/// The longest time that a stop of the node waits for the last spans.
pub(crate) const LAST_SPANS: Duration = Duration::from_secs(2);

/// The traces of a node. Sends nothing without the cargo feature `otel`.
#[derive(Default)]
pub(crate) struct Traces {
    #[cfg(feature = "otel")]
    sender: Option<span_sender::SpanSender>,
}

#[cfg_attr(
    not(feature = "otel"),
    allow(
        unused_variables,
        clippy::unused_self,
        clippy::unused_async,
        reason = "without the feature, no span is sent"
    )
)]
impl Traces {
    /// Starts to send the spans of `node` to the endpoint that the environment of this process
    /// names. Sends nothing if the environment names none.
    pub(crate) fn from_env(store: &Store, node: &NodeName) -> Self {
        Self {
            #[cfg(feature = "otel")]
            sender: span_sender::SpanSender::from_env(store, node),
        }
    }

    /// Returns the trace that the attempts of `run` get: the span of the run, if this node sends
    /// spans of this trace, or else `of_job`, the trace in the definition of the job.
    pub(crate) fn context_of(
        &self,
        run: &RunId,
        of_job: Option<TraceContext>,
    ) -> Option<TraceContext> {
        #[cfg(feature = "otel")]
        if let Some(sender) = &self.sender {
            return sender.context_of(run, of_job);
        }
        of_job
    }

    /// Sends the span of a run of `job` that has ended. `end` returns the facts of the end that this
    /// node knows. They are used if the record in Redis is gone.
    pub(crate) fn run_ended(&self, job: Option<&Definition>, end: impl FnOnce() -> RunRecord) {
        #[cfg(feature = "otel")]
        if let Some(sender) = &self.sender {
            sender.send(job, end());
        }
    }

    /// Sends the spans that are not sent yet, and ends the sending. Takes at most [`LAST_SPANS`].
    pub(crate) async fn stop(&self) {
        #[cfg(feature = "otel")]
        if let Some(sender) = &self.sender {
            sender.stop(LAST_SPANS).await;
        }
    }
}
