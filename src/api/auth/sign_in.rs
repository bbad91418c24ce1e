//! The link that signs a browser in once.

use axum::body::Body;
use axum::http::request::Parts;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response;

use super::browser_sessions::{COOKIES, SESSION_LIFE};
use super::caller::{Peer, tokens_of};
use super::origin_check::is_secure;
use crate::api::api_problem::ApiProblem;
use crate::api::api_state::{ApiState, host_now};
use crate::domain::time::unix_millis::UnixMillis;
use crate::secrets::tokens::sha256;

/// Answers `GET /login?code=CODE`: begins a session and leads to the first page. Fails (401) for a
/// code that is unknown, used or too old.
pub(in crate::api) fn sign_in(
    state: &ApiState,
    parts: &Parts,
    code: Option<&str>,
) -> Result<Response, ApiProblem> {
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
    let ends = entry.link_expires_ms.and_then(UnixMillis::new).unwrap_or(now);
    if !state.sessions.use_link(&hash, ends, now) {
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
    if let Ok(place) = HeaderValue::from_str(&format!("{}/", state.config.base_path)) {
        headers.insert(header::LOCATION, place);
    }
    Ok(response)
}
