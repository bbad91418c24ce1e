//! The answer of a route by the verb of the same name.

use axum::body::Body;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response;
use serde::Serialize;
use serde_json::{Value, json};

use super::given_parameters::GivenParameters;
use super::route_table::{AnswerShape, Route};
use crate::api::api_problem::ApiProblem;
use crate::cli::embedded::verb_call::{VerbResult, call_verb};
use schedd_store::Store;

/// The header with the warnings of a verb, separated by `; `.
pub(super) const WARNING: &str = "schedd-warning";

/// Runs the verb of a route. `target` is the job, run or queue in the path.
pub(super) async fn answer_by_verb(
    store: &Store,
    route: &Route,
    verb: &[&str],
    target: Option<&str>,
    given: &GivenParameters,
    conceals: bool,
) -> Result<Response, ApiProblem> {
    let mut words: Vec<String> = verb.iter().map(ToString::to_string).collect();
    words.extend(given.flags());
    if let Some(target) = target {
        words.push("--".to_owned());
        words.push(target.to_owned());
        words.extend(given.settings());
    }
    let VerbResult { document, errors, warnings, remarks } =
        call_verb(store, &words, conceals).await?;
    if let Some(error) = errors.first() {
        return Err(ApiProblem::of_error(error));
    }
    let document = document.ok_or_else(|| {
        let why = remarks.first().cloned().unwrap_or_else(|| "the verb had no result".to_owned());
        ApiProblem::new(StatusCode::INTERNAL_SERVER_ERROR, "failed", why)
    })?;
    let document = match (route.shape, document) {
        (AnswerShape::Only, Value::Array(mut items)) if items.len() == 1 => items.remove(0),
        (_, Value::Array(items)) => json!({"items": items, "next": null}),
        (_, document) => document,
    };
    let warnings: Vec<&str> = warnings.iter().map(String::as_str).collect();
    Ok(with_warnings(json_response(StatusCode::OK, &document), &warnings))
}

/// Returns `response` with a header for the warnings, if there are any.
pub(super) fn with_warnings(mut response: Response, warnings: &[&str]) -> Response {
    if !warnings.is_empty() {
        let text: String = warnings.join("; ").chars().filter(char::is_ascii).take(1_000).collect();
        if let Ok(text) = HeaderValue::from_str(&text) {
            response.headers_mut().insert(WARNING, text);
        }
    }
    response
}

/// Returns a response with a JSON document.
pub(in crate::api) fn json_response(status: StatusCode, document: &impl Serialize) -> Response {
    // A document can always be written as JSON.
    let text = serde_json::to_string(document).unwrap_or_default();
    let mut response = Response::new(Body::from(text));
    *response.status_mut() = status;
    response
        .headers_mut()
        .insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}
