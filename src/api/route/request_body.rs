//! The body of a request: its type, its size and the time that it may take.

use std::io;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, StatusCode, header};
use futures_util::{Stream, StreamExt as _};
use serde_json::Value;

use crate::api::api_problem::ApiProblem;

/// The maximum size of a JSON body, and of a form.
pub(super) const MOST_BYTES: usize = 1024 * 1024;
/// The maximum size of a body of lines.
pub(super) const MOST_LINE_BYTES: u64 = 64 * 1024 * 1024;
/// The time within which such a body must arrive.
const JSON_TIME: Duration = Duration::from_secs(30);
/// The time within which each next part of a body of lines must arrive.
const LINE_PAUSE: Duration = Duration::from_secs(30);
/// The time within which a whole body of lines must arrive.
const LINE_TIME: Duration = Duration::from_secs(600);

/// The content type of a JSON body.
pub(super) const JSON: &str = "application/json";
/// The content type of the form of a page.
pub(super) const FORM: &str = "application/x-www-form-urlencoded";

/// Returns the text of a body with the content type `wanted`, or `None` if there is no body.
pub(super) async fn whole_text(
    headers: &HeaderMap,
    body: Body,
    wanted: &str,
) -> Result<Option<Vec<u8>>, ApiProblem> {
    let read = axum::body::to_bytes(body, MOST_BYTES);
    let bytes = tokio::time::timeout(JSON_TIME, read)
        .await
        .map_err(|_| {
            ApiProblem::new(
                StatusCode::REQUEST_TIMEOUT,
                "timeout",
                "the body did not arrive within 30 s",
            )
        })?
        .map_err(|error| {
            if is_too_long(&error) {
                let detail = "found a body of more than 1 MiB, wanted at most 1 MiB";
                return ApiProblem::new(StatusCode::PAYLOAD_TOO_LARGE, "too_large", detail);
            }
            ApiProblem::bad_request(format!("the body cannot be read: {error}"))
        })?;
    if bytes.is_empty() {
        return Ok(None);
    }
    check_type(headers, &[wanted])?;
    Ok(Some(bytes.to_vec()))
}

/// Returns the JSON value that a body has.
pub(super) fn parsed(text: &[u8]) -> Result<Value, ApiProblem> {
    serde_json::from_slice(text)
        .map_err(|error| ApiProblem::bad_request(format!("the body is not JSON: {error}")))
}

/// Returns the parts of a body of lines, as they arrive. A part that is too late or too much is an
/// error, after which the stream ends.
pub(super) fn lines(
    headers: &HeaderMap,
    body: Body,
) -> Result<impl Stream<Item = io::Result<Bytes>> + Send + 'static, ApiProblem> {
    check_type(headers, &["application/x-ndjson", "application/jsonl", JSON])?;
    let ends = tokio::time::Instant::now() + LINE_TIME;
    let start = (Box::pin(body.into_data_stream()), 0_u64, false);
    Ok(futures_util::stream::unfold(start, move |(mut parts, before, has_failed)| async move {
        if has_failed {
            return None;
        }
        let until = ends.min(tokio::time::Instant::now() + LINE_PAUSE);
        let failed = |why: &str| Some(Err(io::Error::other(why.to_owned())));
        let mut length = before;
        let item = match tokio::time::timeout_at(until, parts.next()).await {
            Err(_) => failed("the next part of the body did not arrive in time"),
            Ok(None) => None,
            Ok(Some(Err(error))) => failed(&error.to_string()),
            Ok(Some(Ok(bytes))) => {
                length += bytes.len() as u64;
                if length > MOST_LINE_BYTES {
                    failed("found a body of more than 64 MiB, wanted at most 64 MiB")
                } else {
                    Some(Ok(bytes))
                }
            }
        };
        let item = item?;
        let has_failed = item.is_err();
        Some((item, (parts, length, has_failed)))
    }))
}

fn check_type(headers: &HeaderMap, wanted: &[&str]) -> Result<(), ApiProblem> {
    let found =
        headers.get(header::CONTENT_TYPE).and_then(|found| found.to_str().ok()).unwrap_or_default();
    let essence = found.split(';').next().unwrap_or_default().trim();
    let has_encoding =
        headers.get(header::CONTENT_ENCODING).is_some_and(|encoding| encoding != "identity");
    if wanted.iter().any(|wanted| essence.eq_ignore_ascii_case(wanted)) && !has_encoding {
        return Ok(());
    }
    let found =
        if has_encoding { "an encoded body".to_owned() } else { format!("content type {found:?}") };
    Err(ApiProblem::new(
        StatusCode::UNSUPPORTED_MEDIA_TYPE,
        "unsupported_type",
        format!("found {found}, wanted {} without encoding", wanted[0]),
    ))
}

/// Returns true if a body could not be read because of its length.
fn is_too_long(error: &axum::Error) -> bool {
    let mut cause: Option<&dyn std::error::Error> = Some(error);
    while let Some(error) = cause {
        if error.to_string().contains("length limit") {
            return true;
        }
        cause = error.source();
    }
    false
}
