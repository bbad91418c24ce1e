//! The body of a request: its type, its size and the time that it may take.

use std::io;
use std::pin::Pin;
use std::time::Duration;

use axum::body::{Body, BodyDataStream, Bytes};
use axum::http::{HeaderMap, StatusCode, header};
use futures_util::{Stream, StreamExt as _};
use serde_json::Value;

use crate::api::api_problem::ApiProblem;
use schedd_core::config::{check_keys, json_fault};

/// The maximum size of a JSON body, and of a form.
pub(super) const MOST_BYTES: usize = 1024 * 1024;
/// The maximum size of a body of lines.
pub(super) const MOST_LINE_BYTES: u64 = 64 * 1024 * 1024;
/// The message for a body of lines that is too large.
const TOO_MANY_LINES: &str = "found a body of more than 64 MiB, wanted at most 64 MiB";
/// The time within which a JSON body or a form must arrive.
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
    let bytes = tokio::time::timeout(JSON_TIME, whole(body)).await.map_err(|_| {
        let detail = "the body did not arrive within 30 s";
        ApiProblem::new(StatusCode::REQUEST_TIMEOUT, "timeout", detail)
    })??;
    if bytes.is_empty() {
        return Ok(None);
    }
    check_type(headers, &[wanted])?;
    Ok(Some(bytes))
}

/// Returns a whole body. Fails (413) if it is longer than [`MOST_BYTES`].
async fn whole(body: Body) -> Result<Vec<u8>, ApiProblem> {
    let mut parts = body.into_data_stream();
    let mut bytes = Vec::new();
    while let Some(part) = parts.next().await {
        bytes.extend(part.map_err(|error| unreadable(&error))?);
        if bytes.len() > MOST_BYTES {
            return Err(too_large("a body of more than 1 MiB, wanted at most 1 MiB"));
        }
    }
    Ok(bytes)
}

/// Returns the problem of a body that cannot be read.
pub(super) fn unreadable(error: &impl std::fmt::Display) -> ApiProblem {
    ApiProblem::bad_request(format!("the body cannot be read: {error}"))
}

/// Returns the problem of a body that is too large. `found` says how much was found and wanted.
pub(super) fn too_large(found: &str) -> ApiProblem {
    ApiProblem::new(StatusCode::PAYLOAD_TOO_LARGE, "too_large", format!("found {found}"))
}

/// Returns the JSON value that a body has. Fails (422) if an object has a key twice.
pub(super) fn parsed(text: &[u8]) -> Result<Value, ApiProblem> {
    let value = serde_json::from_slice(text)
        .map_err(|error| ApiProblem::bad_request(format!("the body: {}", json_fault(&error))))?;
    check_keys(&String::from_utf8_lossy(text))
        .map_err(|problems| ApiProblem::of_keys(&problems))?;
    Ok(value)
}

/// Returns the parts of a body of lines, as they arrive. Fails (413) at once if the request says that
/// its body is too large. A part that is too late or too much is an error, after which the stream
/// ends.
///
/// Waits for the first part if the sender expects to be asked for the body (`Expect: 100-continue`,
/// RFC 9110, section 10.1.1). The library asks when the body is read, but not after the head of the
/// response was sent; curl would then wait for a second.
pub(super) async fn lines(
    headers: &HeaderMap,
    body: Body,
) -> Result<impl Stream<Item = io::Result<Bytes>> + Send + 'static, ApiProblem> {
    check_type(headers, &["application/x-ndjson", "application/jsonl", JSON])?;
    let length = headers.get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok());
    if length.and_then(|text| text.parse().ok()).is_some_and(|length: u64| length > MOST_LINE_BYTES)
    {
        return Err(ApiProblem::new(StatusCode::PAYLOAD_TOO_LARGE, "too_large", TOO_MANY_LINES));
    }
    let ends = tokio::time::Instant::now() + LINE_TIME;
    let start = (Box::pin(body.into_data_stream()), 0_u64, false);
    let read = move |(mut parts, before, has_failed): (Pin<Box<BodyDataStream>>, u64, bool)| async move {
        if has_failed {
            return None;
        }
        let until = ends.min(tokio::time::Instant::now() + LINE_PAUSE);
        let failed = |kind, why: &str| Some(Err(io::Error::new(kind, why.to_owned())));
        let mut length = before;
        let item = match tokio::time::timeout_at(until, parts.next()).await {
            Err(_) => {
                failed(io::ErrorKind::TimedOut, "the next part of the body did not arrive in time")
            }
            Ok(None) => None,
            Ok(Some(Err(error))) => failed(io::ErrorKind::Other, &error.to_string()),
            Ok(Some(Ok(bytes))) => {
                length += bytes.len() as u64;
                if length > MOST_LINE_BYTES {
                    failed(io::ErrorKind::FileTooLarge, TOO_MANY_LINES)
                } else {
                    Some(Ok(bytes))
                }
            }
        };
        let item = item?;
        let has_failed = item.is_err();
        Some((item, (parts, length, has_failed)))
    };
    let mut lines = Box::pin(futures_util::stream::unfold(start, read));
    let first = if headers.contains_key(header::EXPECT) { lines.next().await } else { None };
    Ok(futures_util::stream::iter(first).chain(lines))
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
