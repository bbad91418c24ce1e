//! `POST /v1/jobs`: adds the job in the body. A job that runs once belongs to the trace of the
//! request.

use std::io::Cursor;

use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use serde_json::{Map, Value};

use super::given_parameters::GivenParameters;
use super::parameter::ParamKind;
use super::request_body;
use super::route_table::Route;
use super::verb_route::{json_response, with_warnings};
use crate::api::api_problem::ApiProblem;
use crate::api::api_state::ApiState;
use crate::cli::embedded::output_pieces::{OutputForm, VerbStream, output_pieces};
use crate::cli::embedded::{Console, JobLines, ResultForm, add_from};
use schedd_core::config;
use schedd_core::config::NamedJob;
use schedd_core::domain::run::trace_context::TraceContext;
use schedd_schedule::schedule_form::Schedule;
use schedd_store::Store;

/// The header with the trace of a request.
const TRACE: &str = "traceparent";

/// Adds the job in `body`: the keys of `[jobs.X]`, and the parameters of the route.
pub(super) async fn add_job(
    state: &ApiState,
    store: Store,
    route: &'static Route,
    headers: &HeaderMap,
    body: Option<&[u8]>,
) -> Result<Response, ApiProblem> {
    let body = body.ok_or_else(|| {
        ApiProblem::bad_request("found no body, wanted a JSON object with the keys of a job")
    })?;
    let parsed = request_body::parsed(body)?;
    let Value::Object(members) = parsed else {
        return Err(ApiProblem::bad_request(
            "found a body that is no JSON object, wanted an object with the keys of a job",
        ));
    };
    let is_switch = |name: &str| {
        route.parameters.iter().any(|known| known.name == name && known.kind == ParamKind::Switch)
    };
    let (switches, mut keys): (Map<_, _>, Map<_, _>) =
        members.into_iter().partition(|(name, _)| is_switch(name));
    let mut line = if switches.is_empty() {
        // A line break in JSON stands only between two words. The text of the body is used as it is.
        String::from_utf8_lossy(body).replace(['\n', '\r'], " ")
    } else {
        Value::Object(keys.clone()).to_string()
    };
    let given = GivenParameters::of_body(route, Some(&Value::Object(switches)))?;
    let job = config::job_from_json(&line, &state.host_zone)
        .map_err(|problems| ApiProblem::of_keys(&problems))?;
    if let Some(trace) =
        trace_of(headers).filter(|_| is_once(&job) && job.spec.traceparent.is_none())
    {
        keys.insert(TRACE.to_owned(), trace.to_string().into());
        line = Value::Object(keys).to_string();
    }
    let lines = JobLines {
        input: Box::new(Cursor::new(line.into_bytes())),
        replaces: given.text("replace").is_some(),
        if_absent: given.text("if_absent").is_some(),
        allows_past: given.text("allow_past").is_some(),
        form: ResultForm::JsonLines(|failure| failure.json()),
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
    let mut warnings = Value::Null;
    if let Some(members) = result.as_object_mut() {
        members.remove("line");
        warnings = members.remove("warnings").unwrap_or_default();
    }
    let status = if result["result"] == "created" { StatusCode::CREATED } else { StatusCode::OK };
    let warnings = warnings.as_array().into_iter().flatten().filter_map(Value::as_str);
    Ok(with_warnings(json_response(status, &result), &warnings.collect::<Vec<_>>()))
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
