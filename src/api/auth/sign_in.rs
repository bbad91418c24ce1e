//! The link that signs a browser in once.

use axum::body::Body;
use axum::http::request::Parts;
use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse as _, Response};

use super::browser_sessions::{COOKIES, SESSION_LIFE};
use super::caller::{Peer, tokens_of};
use super::origin_check::is_secure;
use super::site_base::site_base;
use crate::api::api_problem::ApiProblem;
use crate::api::api_state::{ApiState, host_now};
use crate::cli::embedded::CliFailure;
use crate::secrets::tokens::sha256;

/// Answers `GET /login?code=CODE`: begins a session and leads to the first page. Fails (401) for a
/// code that is unknown, used or too old, and (503) if Redis cannot record that the code was used.
pub(in crate::api) async fn sign_in(
    state: &ApiState,
    parts: &Parts,
    code: Option<&str>,
) -> Result<Response, ApiProblem> {
    if parts.method != Method::GET {
        // Programs send HEAD to look at a link, which must not use the link.
        let detail = format!("found the method {}, wanted GET", parts.method);
        let problem = ApiProblem::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", detail);
        return Ok(([(header::ALLOW, "GET")], problem).into_response());
    }
    let refused = || {
        ApiProblem::new(
            StatusCode::UNAUTHORIZED,
            "unauthorized",
            "this link is unknown, was used before or is older than a minute; make a new link with schedctl dashboard",
        )
    };
    let now = host_now();
    let hash = sha256(code.ok_or_else(refused)?);
    let tokens = tokens_of(state)?;
    let entry = tokens.tokens.iter().find(|entry| entry.link_sha256.as_deref() == Some(&hash));
    let entry = entry.filter(|entry| !entry.is_link_expired(now) && !entry.is_expired(now));
    let entry = entry.ok_or_else(refused)?;
    if !state.store.use_link(&hash).await.map_err(CliFailure::from)? {
        return Err(refused());
    }
    let cookie = state.sessions.begin(&entry.sha256, now).map_err(|error| {
        ApiProblem::new(StatusCode::INTERNAL_SERVER_ERROR, "failed", error.to_string())
    })?;
    let is_secure = is_secure(state, parts, parts.extensions.get::<Peer>());
    let (name, secure) = if is_secure { (COOKIES[0], "; Secure") } else { (COOKIES[1], "") };
    let text = format!(
        "{name}={cookie}; Path=/; Max-Age={}; HttpOnly; SameSite=Strict{secure}",
        SESSION_LIFE.as_secs()
    );
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::SEE_OTHER;
    let headers = response.headers_mut();
    if let Ok(text) = HeaderValue::from_str(&text) {
        headers.insert(header::SET_COOKIE, text);
    }
    if let Ok(place) = HeaderValue::from_str(&format!("{}/", site_base(state, parts))) {
        headers.insert(header::LOCATION, place);
    }
    Ok(response)
}
