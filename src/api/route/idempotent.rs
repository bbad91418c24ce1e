//! Requests with the header `Idempotency-Key`, and forms with a key: a repeated request gets the
//! answer of the first, and changes nothing. The key belongs to the caller and the path.
//!
//! Invariant: while a request is under way, Redis has its mark, and only this request replaces it.

use std::future::Future;
use std::time::Duration;

use axum::body::Body;
use axum::http::request::Parts;
use axum::http::uri::PathAndQuery;
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use serde::{Deserialize, Serialize};

use super::verb_route::WARNING;
use crate::api::api_problem::ApiProblem;
use crate::cli::embedded::CliFailure;
use crate::secrets::tokens::sha256;
use schedd_store::{MarkSuccessor, Store};

/// The header of the request.
const KEY: &str = "idempotency-key";
/// The header of an answer that was given before.
const REPEATED: &str = "idempotency-replayed";
const MOST_KEY_BYTES: usize = 255;
/// The place of the path for the keys of forms. No path has this form.
const FORMS: &str = "forms";
/// The time after which the mark of a request under way is renewed. The mark outlasts many renewals.
const RENEWAL: Duration = Duration::from_secs(2);

/// The stored state of a request.
#[derive(Debug, Serialize, Deserialize)]
struct KeptAnswer {
    /// The SHA-256 of the request's method, path, query and body.
    request: String,
    /// A random word of the request that is under way or was answered.
    token: String,
    /// The status and the body of the answer. `None` while the request is under way.
    answer: Option<(u16, String, String)>,
    /// The warnings of the answer, as its header has them.
    #[serde(default)]
    warnings: Option<String>,
}

/// A request whose answer is kept under a key.
pub(super) struct KeyedRequest {
    /// The id of the answer: the hash of the caller, the path and the key.
    id: String,
    /// The SHA-256 of the request's method, path, query and body.
    request: String,
}

impl KeyedRequest {
    /// Returns the request with the key in its header, or `None` if it has none.
    pub(super) fn of_header(
        parts: &Parts,
        by: &str,
        body: &[u8],
    ) -> Result<Option<Self>, ApiProblem> {
        let Some(key) = parts.headers.get(KEY) else { return Ok(None) };
        let key = key.to_str().ok().filter(|key| !key.is_empty() && key.len() <= MOST_KEY_BYTES);
        let key = key.ok_or_else(|| {
            ApiProblem::bad_request(
                "Idempotency-Key: found an empty, long or non-ASCII text, wanted 1 to 255 characters",
            )
        })?;
        let id = answer_id(by, parts.uri.path(), key);
        Ok(Some(Self { id, request: hash_of(parts, body) }))
    }

    /// Returns the request of a form that has a key among its fields. Its answer is that of all forms,
    /// whatever their paths, so that the key alone finds it.
    pub(super) fn of_form(parts: &Parts, by: &str, key: &str, body: &[u8]) -> Self {
        Self { id: answer_id(by, FORMS, key), request: hash_of(parts, body) }
    }
}

fn answer_id(by: &str, path: &str, key: &str) -> String {
    sha256(&format!("{by}\n{path}\n{key}"))
}

fn hash_of(parts: &Parts, body: &[u8]) -> String {
    let place = parts.uri.path_and_query().map_or("", PathAndQuery::as_str);
    sha256(&format!("{} {place}\n{}", parts.method, String::from_utf8_lossy(body)))
}

/// The answer to the form with a key.
pub(super) enum FormAnswer {
    /// No form with this key was carried out, or its answer is not kept any more.
    Unknown,
    /// The form was sent, and has no answer yet.
    UnderWay,
    /// The body of the answer.
    Given(String),
}

/// Returns the answer to the form with this key that the caller `by` sent.
pub(super) async fn form_answer(
    store: &Store,
    by: &str,
    key: &str,
) -> Result<FormAnswer, ApiProblem> {
    let kept = store.read_answer(&answer_id(by, FORMS, key)).await.map_err(CliFailure::from)?;
    let kept = kept.and_then(|text| serde_json::from_str::<KeptAnswer>(&text).ok());
    Ok(match kept.map(|kept| kept.answer) {
        Some(None) => FormAnswer::UnderWay,
        Some(Some((200, _, body))) => FormAnswer::Given(body),
        // A form that was refused changed nothing.
        Some(Some(_)) | None => FormAnswer::Unknown,
    })
}

/// Returns the answer of `work`, or the answer that an earlier request with the same key got. Fails
/// (409) if the earlier request had another body, or is still under way. The caller must not
/// drop the future, because `work` could end without an answer.
pub(super) async fn once(
    store: &Store,
    keyed: Option<KeyedRequest>,
    work: impl Future<Output = Result<Response, ApiProblem>>,
) -> Result<Response, ApiProblem> {
    let Some(KeyedRequest { id, request }) = keyed else { return work.await };
    let token = format!("{:032x}", fastrand::u128(..));
    let kept = |answer, warnings| {
        let kept = KeptAnswer { request: request.clone(), token: token.clone(), answer, warnings };
        serde_json::to_string(&kept).unwrap_or_default()
    };
    let mark = kept(None, None);
    let earlier = store.begin_answer(&id, &mark).await.map_err(CliFailure::from)?;
    if let Some(earlier) = earlier {
        return repeat(&earlier, &request);
    }
    let done = marked(store, &id, &mark, work).await;
    // A change that too few replicas have was made, and a repeated request must not make another.
    let is_made = done.as_ref().is_err_and(ApiProblem::is_about_replicas);
    let response = done.unwrap_or_else(ApiProblem::into_response);
    let status = response.status();
    if status.is_server_error() && !is_made {
        // The mark ends by itself if Redis is out of reach.
        let _ = store.replace_mark(&id, &mark, MarkSuccessor::Nothing).await;
        return Ok(response);
    }
    let (head, body) = response.into_parts();
    let bytes = axum::body::to_bytes(body, usize::MAX).await;
    let text = bytes.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default();
    let header = |name| head.headers.get(name)?.to_str().ok().map(str::to_owned);
    let kind = header(header::CONTENT_TYPE).unwrap_or_default();
    let answer = Some((status.as_u16(), kind, text.clone()));
    let warnings = header(HeaderName::from_static(WARNING));
    // If the answer cannot be stored, a repeated request gets 409 for a minute and then runs.
    let _ = store.replace_mark(&id, &mark, MarkSuccessor::Answer(&kept(answer, warnings))).await;
    Ok(Response::from_parts(head, Body::from(text)))
}

/// Does the work of a request, and renews its mark meanwhile.
async fn marked<T>(store: &Store, id: &str, mark: &str, work: impl Future<Output = T>) -> T {
    let mut work = std::pin::pin!(work);
    loop {
        match tokio::time::timeout(RENEWAL, &mut work).await {
            Ok(done) => return done,
            // The next renewal makes up for a renewal that failed.
            Err(_) => drop(store.replace_mark(id, mark, MarkSuccessor::Mark).await),
        }
    }
}

/// Fails (400) if a request whose answer cannot be kept has a key.
pub(super) fn refuse_key(parts: &Parts) -> Result<(), ApiProblem> {
    if parts.headers.contains_key(KEY) {
        return Err(ApiProblem::bad_request(
            "Idempotency-Key: found the header on a route whose answers are not kept, wanted no such header; lines of bulk are repeated with if_absent=1, and requests of workers as they are",
        ));
    }
    Ok(())
}

/// Returns the answer that an earlier request got.
fn repeat(earlier: &str, request: &str) -> Result<Response, ApiProblem> {
    let conflict = |detail: &str| ApiProblem::new(StatusCode::CONFLICT, "conflict", detail);
    let earlier: KeptAnswer = serde_json::from_str(earlier).map_err(|_| {
        conflict("Idempotency-Key: the stored answer cannot be read; wanted another key")
    })?;
    if earlier.request != request {
        return Err(conflict(
            "Idempotency-Key: an earlier request with this key had another body; wanted another key",
        ));
    }
    let Some((status, kind, body)) = earlier.answer else {
        return Err(
            conflict("Idempotency-Key: the request with this key is still under way").after(1)
        );
    };
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::OK);
    let headers = response.headers_mut();
    headers.insert(REPEATED, HeaderValue::from_static("true"));
    if let Ok(kind) = HeaderValue::from_str(&kind) {
        headers.insert(header::CONTENT_TYPE, kind);
    }
    let warnings = earlier.warnings.and_then(|text| HeaderValue::from_str(&text).ok());
    if let Some(warnings) = warnings {
        headers.insert(WARNING, warnings);
    }
    Ok(response)
}
