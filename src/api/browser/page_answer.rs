//! A page of the dashboard, for a reader whose role includes that of the page.

use axum::body::Body;
use axum::http::request::Parts;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response;

use super::compression::{ACCEPT_ENCODING, put_compressed, takes_compressed};
use super::html_answer::put_html;
use super::page_reader::PageReader;
use crate::api::api_problem::ApiProblem;
use crate::api::api_state::ApiState;
use crate::api::auth::{Caller, curl_address};
use crate::dashboard::{PageAnswer, PageKind, PageRequest, PageSnapshot};
use schedd_store::Store;

/// Answers with a page, or with 304 if the reader has the same page.
pub(in crate::api) async fn page(
    state: &ApiState,
    store: &Store,
    parts: &Parts,
    caller: &Caller,
    (kind, target): (PageKind, Option<String>),
    (parameters, flags): (Vec<(String, String)>, Vec<String>),
) -> Result<Response, ApiProblem> {
    let PageReader { base, address, choices } = PageReader::new(state, parts);
    let role = caller.role;
    // Only the page of the API shows its address.
    let server = (kind == PageKind::Api).then(|| curl_address(state, parts));
    let known = parts.headers.get(header::IF_NONE_MATCH).and_then(|etag| etag.to_str().ok());
    // This header is `navigate` when a reader opens a page, and another word for a request of a script.
    let mode = parts.headers.get("sec-fetch-mode").map(HeaderValue::as_bytes);
    let is_poll = mode.map_or(known.is_some(), |mode| mode != b"navigate");
    let request = PageRequest {
        kind,
        base,
        address,
        target,
        parameters,
        flags,
        role,
        choices,
        is_poll,
        server,
    };
    let response = match state.dashboard.answer(store, &request, known).await? {
        PageAnswer::Unchanged(snapshot) => {
            let mut response = tagged(&snapshot);
            *response.status_mut() = StatusCode::NOT_MODIFIED;
            response
        }
        PageAnswer::Page(snapshot) => {
            let mut response = tagged(&snapshot);
            put_html(&mut response, snapshot.html.as_ref().to_owned());
            if takes_compressed(parts)
                && let Some(bytes) = snapshot.compressed()
            {
                put_compressed(&mut response, &bytes);
            }
            response
        }
    };
    Ok(response)
}

/// Returns an answer with the entity tag of the page.
fn tagged(snapshot: &PageSnapshot) -> Response {
    let mut response = Response::new(Body::empty());
    if let Ok(etag) = HeaderValue::from_str(&snapshot.etag) {
        response.headers_mut().insert(header::ETAG, etag);
    }
    response.headers_mut().insert(header::VARY, ACCEPT_ENCODING);
    response
}
