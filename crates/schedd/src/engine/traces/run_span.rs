//! The span of a run, from the record of the run: its times, its waits as events, and its end.
//!
//! The attributes of schedd begin with `schedd.`. All others are those of the semantic conventions of
//! OpenTelemetry (<https://opentelemetry.io/docs/specs/semconv/>).

use std::time::{Duration, UNIX_EPOCH};

use opentelemetry::trace::{
    Event, SpanContext, SpanId, SpanKind, Status, TraceFlags, TraceId, TraceState,
};
use opentelemetry::{InstrumentationScope, KeyValue, Value};
use opentelemetry_sdk::trace::{SpanData, SpanEvents, SpanLinks};

use crate::engine::dispatch::definition::Definition;
use schedd_core::domain::run::trace_context::TraceContext;
use schedd_schedule::time::unix_millis::UnixMillis;
use schedd_store::RunRecord;

/// The name of the spans of all jobs that run once. Their own names are too many for the list of
/// span names that a trace store keeps.
const ONE_SHOT: &str = "schedd.run";

/// The facts about the job of a run that its span needs.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct TracedJob {
    /// The trace in the definition of the job.
    pub(super) trace: Option<TraceContext>,
    /// True if the job runs once.
    pub(super) is_once: bool,
}

impl TracedJob {
    /// Returns the facts about the job with this definition, or about a job that is gone.
    pub(super) fn of(job: Option<&Definition>) -> Self {
        job.map_or_else(Self::default, |job| Self {
            trace: job.spec.traceparent,
            is_once: job.record.is_once,
        })
    }
}

/// Returns the span of the run in `record`, with the ids of `context`.
pub(super) fn span_of(record: &RunRecord, job: TracedJob, context: TraceContext) -> SpanData {
    let events = events_of(record);
    let ended = record.attempt_ended_at().or(record.started_at).unwrap_or(record.run.due());
    let start = started(record).min(ended);
    let mut span_events = SpanEvents::default();
    span_events.events = events;
    SpanData {
        span_context: SpanContext::new(
            TraceId::from_bytes(context.trace().to_be_bytes()),
            SpanId::from_bytes(context.span().to_be_bytes()),
            TraceFlags::SAMPLED,
            false,
            TraceState::default(),
        ),
        parent_span_id: job
            .trace
            .map_or(SpanId::INVALID, |trace| SpanId::from_bytes(trace.span().to_be_bytes())),
        parent_span_is_remote: job.trace.is_some(),
        // The request that added the job does not wait for its runs.
        span_kind: SpanKind::Consumer,
        name: if job.is_once { ONE_SHOT.into() } else { record.run.job().to_string().into() },
        start_time: UNIX_EPOCH + since_epoch(start),
        end_time: UNIX_EPOCH + since_epoch(ended),
        attributes: attributes_of(record),
        dropped_attributes_count: 0,
        events: span_events,
        links: SpanLinks::default(),
        status: if record.state.is_dead() {
            Status::error(
                record.error.clone().or_else(|| record.reason.clone()).unwrap_or_default(),
            )
        } else {
            Status::Unset
        },
        instrumentation_scope: InstrumentationScope::builder("schedd")
            .with_version(env!("CARGO_PKG_VERSION"))
            .build(),
    }
}

/// Returns the time at which the span of a run begins: its due time, or the time it became ready, if
/// its due time only names a past occurrence.
fn started(record: &RunRecord) -> UnixMillis {
    let ready = ready(record);
    let is_by_schedule = !record.run.is_manual() && record.parents.is_empty();
    if is_by_schedule { ready.min(record.run.due()) } else { ready }
}

fn ready(record: &RunRecord) -> UnixMillis {
    record.ready_at.unwrap_or(record.run.due())
}

fn attributes_of(record: &RunRecord) -> Vec<KeyValue> {
    let text = |name, value: Option<&str>| Some(KeyValue::new(name, value?.to_owned()));
    let number = |name, value: Option<i64>| Some(KeyValue::new(name, value?));
    let is_manual = record.run.is_manual();
    let skipped = record.skipped.and_then(|(_, count)| i64::try_from(count).ok());
    let all = [
        text("schedd.job", Some(record.run.job().as_str())),
        text("schedd.run", Some(&record.run.to_string())),
        text("schedd.kind", is_manual.then(|| record.run.kind().as_str())),
        text("schedd.queue", Some(record.lane.queue().as_str())),
        text("schedd.state", Some(record.state.as_str())),
        text("schedd.reason", record.reason.as_deref()),
        text("schedd.node", record.node.as_deref()),
        number("schedd.attempt", Some(i64::from(record.attempt))),
        number("schedd.skipped", skipped),
        number("schedd.signal", record.signal.map(i64::from)),
        number("process.exit.code", record.exit_code.map(i64::from)),
        number("http.response.status_code", record.http_status.map(i64::from)),
        text("error.type", record.state.is_dead().then(|| record.state.as_str())),
    ];
    all.into_iter().flatten().collect()
}

/// Returns the steps of a run with their times, as far as its record has them, in the order of
/// their times.
fn events_of(record: &RunRecord) -> Vec<Event> {
    let mut events =
        vec![(record.run.due(), "due", Vec::new()), (ready(record), "ready", Vec::new())];
    let attribute = |name: &'static str, value: &str| KeyValue::new(name, value.to_owned());
    if let Some(from) = record.waited_from {
        let behind = record.behind.as_ref().map(|run| attribute("schedd.behind", &run.to_string()));
        events.push((from, "waiting", behind.into_iter().collect()));
    }
    for wait in record.waits.iter().filter(|wait| wait.is_at_gate()) {
        let gate = vec![attribute("schedd.gate", &wait.cause)];
        events.extend(wait.until.map(|until| (until, "admitted", gate)));
    }
    events.extend(record.retried_at.map(|at| (at, "retried", Vec::new())));
    for past in &record.past {
        let facts: serde_json::Value = serde_json::from_str(&past.record).unwrap_or_default();
        let time = |field: &str| facts[field].as_i64().and_then(UnixMillis::new);
        let number = KeyValue::new("schedd.attempt", i64::from(past.number));
        let node = facts["node"].as_str().map(|node| attribute("schedd.node", node));
        if let Some(at) = time("started_at_ms") {
            events.push((at, "started", [number.clone()].into_iter().chain(node).collect()));
        }
        if let Some(at) = time("finished_at_ms") {
            let state = facts["state"].as_str().map(|state| attribute("schedd.state", state));
            let error = facts["error"].as_str().map(|error| attribute("schedd.error", error));
            let code = facts["exit_code"].as_i64();
            let code = code.map(|code| KeyValue::new("process.exit.code", Value::I64(code)));
            let all = [Some(number), state, error, code];
            events.push((at, "ended", all.into_iter().flatten().collect()));
        }
    }
    let number = KeyValue::new("schedd.attempt", i64::from(record.attempt));
    if let Some(at) = record.started_at.filter(|_| record.has_current()) {
        let node = record.node.as_deref().map(|node| attribute("schedd.node", node));
        events.push((at, "started", [number.clone()].into_iter().chain(node).collect()));
    }
    if let Some(at) = record.attempt_ended_at() {
        let state = attribute("schedd.state", record.state.as_str());
        events.push((at, "ended", vec![number, state]));
    }
    events.sort_by_key(|(at, ..)| *at);
    events
        .into_iter()
        .map(|(at, name, attributes)| Event::new(name, UNIX_EPOCH + since_epoch(at), attributes, 0))
        .collect()
}

fn since_epoch(at: UnixMillis) -> Duration {
    Duration::from_millis(u64::try_from(at.as_i64()).unwrap_or(0))
}
