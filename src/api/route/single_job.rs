//! `POST /v1/jobs`: adds the job in the body. A job that runs once belongs to the trace of the
//! request.

use std::io::Cursor;

use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use serde_json::{Value, json};

use super::request_body;
use super::verb_route::json_response;
use crate::api::api_problem::ApiProblem;
use crate::api::api_state::ApiState;
use crate::cli::embedded::output_pieces::{OutputForm, VerbStream, output_pieces};
use crate::cli::embedded::{CliFailure, Console, JobLines, ResultForm, add_from};
use crate::config;
use crate::config::NamedJob;
use crate::domain::run::trace_context::TraceContext;
use crate::domain::schedule::schedule_form::Schedule;
use crate::store::Store;

/// The header with the trace of a request.
const TRACE: &str = "traceparent";

/// Adds the job in `body`: the keys of `[jobs.X]`, `name`, `in`, `replace` and `if_absent`.
pub(super) async fn add_job(
    state: &ApiState,
    store: Store,
    headers: &HeaderMap,
    body: Option<&[u8]>,
) -> Result<Response, ApiProblem> {
    let body = body.ok_or_else(|| {
        ApiProblem::bad_request("found no body, wanted a JSON object with the keys of a job")
    })?;
    let parsed = request_body::parsed(body)?;
    let Value::Object(mut members) = parsed else {
        return Err(ApiProblem::bad_request(
            "found a body that is no JSON object, wanted an object with the keys of a job",
        ));
    };
    let mut flag = |name: &str| match members.remove(name) {
        None | Some(Value::Null | Value::Bool(false)) => Ok(false),
        Some(Value::Bool(true)) => Ok(true),
        Some(_) => Err(ApiProblem::invalid(
            format!("{name}: wanted true or false"),
            vec![json!({"path": name, "found": null, "wanted": "true or false"})],
        )),
    };
    let (replaces, if_absent) = (flag("replace")?, flag("if_absent")?);
    // A line break in JSON stands only between two words. The text of the body is used as it is,
    // so that a key that it has twice is found.
    let mut line = if replaces || if_absent {
        json!(members).to_string()
    } else {
        String::from_utf8_lossy(body).replace(['\n', '\r'], " ")
    };
    let job =
        config::job_from_json(&line, &state.host_zone).map_err(|problems| faulty(&problems))?;
    if let Some(trace) =
        trace_of(headers).filter(|_| is_once(&job) && job.spec.traceparent.is_none())
    {
        members.insert(TRACE.to_owned(), trace.to_string().into());
        line = json!(members).to_string();
    }
    let lines = JobLines {
        input: Box::new(Cursor::new(line.into_bytes())),
        replaces,
        if_absent,
        form: ResultForm::JsonLines(CliFailure::json),
    };
    let (sender, mut pieces) = output_pieces();
    let form = OutputForm { is_json: true, is_quiet: true, ..OutputForm::default() };
    let mut console = Console::for_request(form, sender);
    add_from(store, lines, state.host_zone.clone(), &mut console).await?;
    drop(console);
    let mut output = Vec::new();
    while let Some((stream, bytes)) = pieces.next().await {
        if stream == VerbStream::Output {
            output.extend(bytes);
        }
    }
    let mut result: Value = serde_json::from_slice(&output).unwrap_or_default();
    if !result["error"].is_null() {
        return Err(ApiProblem::of_error(&result["error"]));
    }
    if let Some(members) = result.as_object_mut() {
        members.remove("line");
    }
    let status = if result["result"] == "created" { StatusCode::CREATED } else { StatusCode::OK };
    Ok(json_response(status, &result))
}

/// Returns the trace of a request. A header that is missing, repeated or faulty is no trace, as W3C
/// Trace Context requires.
fn trace_of(headers: &HeaderMap) -> Option<TraceContext> {
    let mut values = headers.get_all(TRACE).iter();
    let value = values.next().filter(|_| values.next().is_none())?;
    value.to_str().ok()?.parse().ok()
}

/// Returns true if the job runs once. The later runs of a recurring job are no effect of the request
/// that added the job.
fn is_once(job: &NamedJob) -> bool {
    job.start_in.is_some() || matches!(job.spec.schedule, Schedule::At(_))
}

/// Returns the problem of a definition with these faults.
fn faulty(problems: &[config::Problem]) -> ApiProblem {
    let fault = |problem: &config::Problem| {
        let message = problem.message.as_str();
        let (found, wanted) = message.split_once(", wanted ").unwrap_or((message, ""));
        json!({
            "path": problem.path,
            "found": found.strip_prefix("found ").unwrap_or(found),
            "wanted": Some(wanted).filter(|wanted| !wanted.is_empty()),
        })
    };
    let detail: Vec<String> = problems.iter().map(ToString::to_string).collect();
    ApiProblem::invalid(detail.join("; "), problems.iter().map(fault).collect())
}
