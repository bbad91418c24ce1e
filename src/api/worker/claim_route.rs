//! `POST /v1/queues/{queue}/claim`: a worker asks for runs, and may wait for them.

use std::collections::BTreeSet;
use std::time::Duration;

use axum::http::StatusCode;
use axum::response::Response;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::worker_body::{JsonObject, bounds_fault, length_fault, read_body};
use crate::api::api_problem::{ApiProblem, Fault};
use crate::api::api_state::ApiState;
use crate::api::auth::Caller;
use crate::cli::embedded::{CliFailure, rfc3339};
use crate::secrets::tokens::sha256;
use schedd::engine::{AskError, HandedRun, WorkerAnswer, WorkerAsk};
use schedd_core::domain::queue::lane::MAX_LABELS;
use schedd_core::domain::queue::lane_serving::{HandlerChoice, Serving};
use schedd_schedule::names::{HandlerName, Label, NodeName, QueueName};
use schedd_schedule::time::zone::Zone;

const MOST_RUNS: u64 = 500;
const MOST_WAIT_MS: u64 = 55_000;
const LEAST_LEASE_MS: u64 = 1_000;
const MOST_LEASE_MS: u64 = 12 * 3_600_000;
const LEASE_MS: u64 = 30_000;
const MOST_HANDLERS: usize = 100;
const MOST_ID_CHARS: usize = 200;
/// The number of characters of the id of a question, as records of runs have it.
const ID_CHARS: usize = 32;

/// The body of a question for runs.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ClaimBody {
    claim_id: String,
    worker: JsonObject<WorkerBody>,
    handlers: Option<Vec<String>>,
    max: u64,
    #[serde(default)]
    wait_ms: u64,
    lease_ms: Option<u64>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct WorkerBody {
    name: String,
    #[serde(default)]
    labels: Vec<String>,
}

/// Answers a question of a worker for runs of `queue`.
pub(in crate::api) async fn claim_runs(
    state: &ApiState,
    caller: &Caller,
    queue: &str,
    body: Option<&[u8]>,
) -> Result<Response, ApiProblem> {
    let ask = ask_of(caller, queue, &read_body::<ClaimBody>(body)?)?;
    if let Some(unknown) =
        state.workers.unknown_queue(&ask.queue).await.map_err(CliFailure::from)?
    {
        return Err(CliFailure::NotFound(unknown).into());
    }
    let place = state.polls.clone().try_acquire_owned().map_err(|_| {
        ApiProblem::busy("too many questions of workers wait at this node; try again later", 1)
    })?;
    let answer = state.workers.ask(ask).await.map_err(|error| match error {
        AskError::Full => ApiProblem::busy(error.to_string(), 1),
        AskError::Store(error) => CliFailure::from(error).into(),
    })?;
    drop(place);
    Ok(crate::api::route::json_response(StatusCode::OK, &document(&answer)))
}

fn ask_of(caller: &Caller, queue: &str, body: &ClaimBody) -> Result<WorkerAsk, ApiProblem> {
    let mut faults = Vec::new();
    let mut bad = |path: &str, error: &dyn std::fmt::Display| {
        faults.push(Fault::of_message(Some(path), &error.to_string()));
    };
    let queue = queue.parse::<QueueName>().map_err(|error| bad("queue", &error)).ok();
    let worker = body.worker.0.name.parse::<NodeName>();
    let worker = worker.map_err(|error| bad("worker.name", &error)).ok();
    let mut labels = BTreeSet::new();
    for label in &body.worker.0.labels {
        match label.parse::<Label>().and_then(Label::for_people) {
            Ok(label) => drop(labels.insert(label)),
            Err(error) => bad("worker.labels", &error),
        }
    }
    let mut handlers = HandlerChoice::Any;
    if let Some(names) = &body.handlers {
        let mut known = BTreeSet::new();
        for name in names {
            match name.parse::<HandlerName>() {
                Ok(name) => drop(known.insert(name)),
                Err(error) => bad("handlers", &error),
            }
        }
        handlers = HandlerChoice::Only(known);
    }
    let lease_ms = body.lease_ms.unwrap_or(LEASE_MS);
    let id_chars = body.claim_id.chars().count();
    if !(1..=MOST_ID_CHARS).contains(&id_chars) {
        let wanted = format!("1 to {MOST_ID_CHARS} characters");
        faults.push(Fault::new("claim_id", format!("{id_chars} characters"), wanted));
    }
    faults.extend(length_fault("worker.labels", body.worker.0.labels.len(), MAX_LABELS, "labels"));
    let named = body.handlers.as_ref().map_or(0, Vec::len);
    if body.handlers.as_ref().is_some_and(Vec::is_empty) {
        let wanted = "at least one handler, or no member handlers for all";
        faults.push(Fault::new("handlers", "an empty list", wanted));
    }
    faults.extend(length_fault("handlers", named, MOST_HANDLERS, "handlers"));
    faults.extend(bounds_fault("max", body.max, 1, MOST_RUNS));
    faults.extend(bounds_fault("wait_ms", body.wait_ms, 0, MOST_WAIT_MS));
    faults.extend(bounds_fault("lease_ms", lease_ms, LEAST_LEASE_MS, MOST_LEASE_MS));
    let (Some(queue), Some(worker), true) = (queue, worker, faults.is_empty()) else {
        return Err(ApiProblem::invalid(faults));
    };
    if !caller.serves(&queue) {
        let queues: Vec<&str> = caller.queues.iter().map(QueueName::as_str).collect();
        return Err(ApiProblem::forbidden(format!(
            "the token is for {}, wanted a token for queue {queue} (schedctl token new --role worker --queues {queue})",
            queues.join(", ")
        )));
    }
    let id = sha256(&format!("{}\n{queue}\n{worker}\n{}", caller.by, body.claim_id));
    Ok(WorkerAsk {
        worker,
        serving: Serving { queues: Some([queue.clone()].into()), labels, handlers: Some(handlers) },
        queue,
        most: usize::try_from(body.max).unwrap_or(1),
        wait: Duration::from_millis(body.wait_ms),
        lease: Duration::from_millis(lease_ms),
        id: id.chars().take(ID_CHARS).collect(),
    })
}

/// The answer to a question.
#[derive(Serialize)]
struct ClaimAnswer<'a> {
    runs: Vec<ClaimedRunAnswer<'a>>,
    drain: bool,
}

/// A run in the answer to a question.
#[derive(Serialize)]
struct ClaimedRunAnswer<'a> {
    run_id: String,
    job: &'a str,
    handler: &'a str,
    payload: Value,
    due: String,
    attempt: u32,
    fence: u64,
    token: String,
    lease_ms: u64,
    timeout_ms: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    traceparent: Option<String>,
}

fn document(answer: &WorkerAnswer) -> ClaimAnswer<'_> {
    ClaimAnswer { runs: answer.runs.iter().map(run_document).collect(), drain: answer.is_draining }
}

fn run_document(run: &HandedRun) -> ClaimedRunAnswer<'_> {
    let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    ClaimedRunAnswer {
        run_id: run.run.to_string(),
        job: run.job.as_str(),
        handler: &run.handler,
        payload: serde_json::from_str(&run.payload).unwrap_or_default(),
        due: rfc3339(run.run.due(), &Zone::utc()),
        attempt: run.attempt,
        fence: run.token.fence(),
        token: run.token.to_string(),
        lease_ms: millis(run.lease),
        timeout_ms: millis(run.timeout),
        traceparent: run.trace.map(|trace| trace.to_string()),
    }
}

/// Returns the schema of the body of a question.
pub(in crate::api) fn claim_schema() -> Value {
    let name = json!({"type": "string", "pattern": "^[a-z0-9][a-z0-9._-]{0,62}$"});
    json!({
        "type": "object",
        "required": ["claim_id", "worker", "max"],
        "additionalProperties": false,
        "properties": {
            "claim_id": {"type": "string", "minLength": 1, "maxLength": MOST_ID_CHARS,
                         "description": "the id of the question: the same id gets the same runs"},
            "worker": {
                "type": "object", "required": ["name"], "additionalProperties": false,
                "properties": {
                    "name": name,
                    "labels": {"type": "array", "maxItems": MAX_LABELS, "items": name},
                },
            },
            "handlers": {"type": ["array", "null"], "maxItems": MOST_HANDLERS, "items": name,
                         "description": "only runs of these handlers (all)"},
            "max": {"type": "integer", "minimum": 1, "maximum": MOST_RUNS},
            "wait_ms": {"type": "integer", "minimum": 0, "maximum": MOST_WAIT_MS},
            "lease_ms": {"type": ["integer", "null"], "minimum": LEAST_LEASE_MS, "maximum": MOST_LEASE_MS},
        },
    })
}
