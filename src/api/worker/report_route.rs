//! `POST /v1/runs/heartbeat`, `complete`, `fail` and `release`: what a worker reports about its runs.

use std::time::Duration;

use axum::http::StatusCode;
use axum::response::Response;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::worker_body::{JsonObject, bounds_fault, length_fault, read_body};
use crate::api::api_problem::{ApiProblem, Fault};
use crate::api::api_state::ApiState;
use crate::api::auth::Caller;
use crate::api::route::ReportKind;
use crate::cli::embedded::CliFailure;
use schedd::engine::{Report, ReportedRun, WorkerReply};
use schedd_core::domain::run::run_progress::RunProgress;

const MOST_RUNS: usize = 500;
const MOST_ERROR_CHARS: usize = 8 * 1024;
/// The longest wait before a run is due again: 30 days.
const MOST_DELAY_MS: u64 = 30 * 86_400_000;

/// The body of a report. Each route takes some of the members of a run.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ReportBody {
    runs: Vec<JsonObject<RunBody>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RunBody {
    run_id: String,
    token: String,
    output: Option<String>,
    error: Option<String>,
    retry: Option<bool>,
    retry_in_ms: Option<u64>,
    delay_ms: Option<u64>,
    begun: Option<bool>,
    progress: Option<JsonObject<ProgressBody>>,
}

/// How far the work of a run is.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ProgressBody {
    percent: Option<f64>,
    text: Option<String>,
}

impl ProgressBody {
    fn progress(&self) -> RunProgress {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to 100")]
        let percent = self.percent.map(|percent| percent.clamp(0.0, 100.0) as u8);
        RunProgress::new(percent, self.text.as_deref().unwrap_or_default())
    }
}

/// Records the reports in `body`.
pub(in crate::api) async fn report(
    state: &ApiState,
    caller: &Caller,
    kind: ReportKind,
    body: Option<&[u8]>,
) -> Result<Response, ApiProblem> {
    let body: ReportBody = read_body(body)?;
    let mut faults = Vec::new();
    faults.extend(length_fault("runs", body.runs.len(), MOST_RUNS, "runs"));
    let mut runs = Vec::new();
    for (at, JsonObject(run)) in body.runs.iter().enumerate() {
        runs.extend(reported(kind, &format!("runs[{at}]"), run, &mut faults));
    }
    if !faults.is_empty() {
        return Err(ApiProblem::invalid(faults));
    }
    let replies = state.workers.record(runs, &caller.queues).await;
    let replies = replies.map_err(CliFailure::from)?;
    let is_heartbeat = kind == ReportKind::Heartbeat;
    let answer = ReportAnswer {
        runs: body
            .runs
            .iter()
            .zip(replies)
            .map(|(run, reply)| ReportedRunAnswer::of(run, &reply))
            .collect(),
        drain: is_heartbeat.then(|| state.status.status().is_stopping),
    };
    Ok(crate::api::route::json_response(StatusCode::OK, &answer))
}

/// Returns the report about one run. `path` is its place in the body. Adds its faults to `faults`.
fn reported(
    kind: ReportKind,
    path: &str,
    run: &RunBody,
    faults: &mut Vec<Fault>,
) -> Option<ReportedRun> {
    let at = |member: &str| format!("{path}.{member}");
    let given = [
        ("output", run.output.is_some()),
        ("error", run.error.is_some()),
        ("retry", run.retry.is_some()),
        ("retry_in_ms", run.retry_in_ms.is_some()),
        ("delay_ms", run.delay_ms.is_some()),
        ("begun", run.begun.is_some()),
        ("progress", run.progress.is_some()),
    ];
    let known = members(kind);
    for (member, _) in given.iter().filter(|(name, is_given)| *is_given && !known.contains(name)) {
        let wanted = [&["run_id", "token"], known].concat().join(", ");
        faults.push(Fault::new(&at(member), "an unknown member", wanted));
    }
    let id = run.run_id.parse();
    let id = id.map_err(|error: schedd_schedule::names::IdError| {
        faults.push(Fault::of_message(Some(&at("run_id")), &error.to_string()));
    });
    let token = run.token.parse();
    let token = token.map_err(|error: schedd::engine::RunTokenError| {
        faults.push(Fault::of_message(Some(&at("token")), &error.to_string()));
    });
    let wait = |ms: Option<u64>| ms.map(Duration::from_millis);
    for (member, ms) in [("retry_in_ms", run.retry_in_ms), ("delay_ms", run.delay_ms)] {
        faults.extend(ms.and_then(|ms| bounds_fault(&at(member), ms, 0, MOST_DELAY_MS)));
    }
    if let Some(JsonObject(ProgressBody { percent, text })) = &run.progress {
        let length = text.as_ref().map_or(0, |text| text.chars().count());
        if let Some(found) = percent.filter(|percent| !(0.0..=100.0).contains(percent)) {
            faults.push(Fault::new(&at("progress.percent"), found.to_string(), "0 to 100"));
        }
        let most = RunProgress::MOST_CHARS;
        faults.extend(length_fault(&at("progress.text"), length, most, "characters"));
    }
    let output = run.output.clone().unwrap_or_default();
    let report = match kind {
        ReportKind::Heartbeat => Report::Alive {
            progress: run.progress.as_ref().map(|JsonObject(progress)| progress.progress()),
        },
        ReportKind::Complete => Report::Complete { output },
        ReportKind::Fail => {
            let Some(error) = run.error.clone().filter(|error| !error.is_empty()) else {
                faults.push(Fault::new(&at("error"), "no text", "the reason in words"));
                return None;
            };
            faults.extend(length_fault(
                &at("error"),
                error.chars().count(),
                MOST_ERROR_CHARS,
                "characters",
            ));
            Report::Fail { error, output, retry: run.retry, retry_in: wait(run.retry_in_ms) }
        }
        ReportKind::Release => Report::Release {
            delay: wait(run.delay_ms).unwrap_or_default(),
            has_begun: run.begun == Some(true),
        },
    };
    Some(ReportedRun { run: id.ok()?, token: token.ok()?, report })
}

/// Returns the members of a run that a report may have besides `run_id` and `token`.
fn members(kind: ReportKind) -> &'static [&'static str] {
    match kind {
        ReportKind::Heartbeat => &["progress"],
        ReportKind::Complete => &["output"],
        ReportKind::Fail => &["error", "output", "retry", "retry_in_ms"],
        ReportKind::Release => &["delay_ms", "begun"],
    }
}

/// The answer to a report. The answer to a heartbeat says whether the node stops.
#[derive(Serialize)]
struct ReportAnswer<'a> {
    runs: Vec<ReportedRunAnswer<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    drain: Option<bool>,
}

/// The answer to the report about one run.
#[derive(Serialize)]
struct ReportedRunAnswer<'a> {
    run_id: &'a str,
    result: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    lease_ms: Option<u64>,
}

impl<'a> ReportedRunAnswer<'a> {
    fn of(JsonObject(run): &'a JsonObject<RunBody>, reply: &WorkerReply) -> Self {
        let (result, lease) = match reply {
            WorkerReply::Ok(lease) => ("ok", *lease),
            WorkerReply::Cancel(lease) => ("cancel", Some(*lease)),
            WorkerReply::Lost => ("lost", None),
            WorkerReply::Stale => ("stale", None),
            WorkerReply::Unknown => ("unknown", None),
            WorkerReply::Again => ("again", None),
        };
        let millis = |lease: Duration| u64::try_from(lease.as_millis()).unwrap_or(u64::MAX);
        Self { run_id: &run.run_id, result, lease_ms: lease.map(millis) }
    }
}

/// Returns the schema of the body of a report.
pub(in crate::api) fn report_schema(kind: ReportKind) -> Value {
    let delay = json!({"type": ["integer", "null"], "minimum": 0, "maximum": MOST_DELAY_MS});
    let mut properties = json!({
        "run_id": {"type": "string"},
        "token": {"type": "string"},
    });
    for member in members(kind) {
        properties[*member] = match *member {
            "retry" | "begun" => json!({"type": ["boolean", "null"]}),
            "retry_in_ms" | "delay_ms" => delay.clone(),
            "progress" => json!({
                "type": ["object", "null"], "additionalProperties": false,
                "properties": {
                    "percent": {"type": ["number", "null"], "minimum": 0, "maximum": 100},
                    "text": {"type": ["string", "null"], "maxLength": RunProgress::MOST_CHARS},
                },
            }),
            "error" => {
                json!({"type": "string", "minLength": 1, "maxLength": MOST_ERROR_CHARS})
            }
            _ => json!({"type": ["string", "null"]}),
        };
    }
    let mut required = vec!["run_id", "token"];
    required.extend(members(kind).contains(&"error").then_some("error"));
    json!({
        "type": "object", "required": ["runs"], "additionalProperties": false,
        "properties": {"runs": {"type": "array", "maxItems": MOST_RUNS, "items": {
            "type": "object", "required": required, "additionalProperties": false,
            "properties": properties,
        }}},
    })
}
