//! The sender of a request: the owner of a token, a signed-in browser, or a user of the Unix socket.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use tracing::warn;

use super::browser_sessions::cookie_of;
use super::host_name::without_port;
use crate::api::api_problem::ApiProblem;
use crate::api::api_state::{ApiState, host_now};
use crate::secrets::tokens::{TokenEntry, TokenFile, TokenRole, TokenStock, TokenText, sha256};
use schedd_schedule::names::QueueName;

/// The other end of a connection.
#[derive(Debug, Clone)]
pub(in crate::api) enum Peer {
    /// An address of the network. True if the connection has TLS.
    Tcp(IpAddr, bool),
    /// A user of the Unix socket, as `USER@HOST`.
    Unix(String),
}

/// The sender of a request.
#[derive(Debug, Clone)]
pub(in crate::api) struct Caller {
    pub(in crate::api) role: TokenRole,
    /// The name that is recorded with each change.
    pub(in crate::api) by: String,
    /// The hash of the token. `None` for a user of the Unix socket.
    token: Option<String>,
    /// The queues of which a worker may take runs. Empty for all queues.
    pub(in crate::api) queues: Vec<QueueName>,
    /// True if a cookie of a browser named the sender, so a foreign page may have sent the request.
    pub(in crate::api) is_browser: bool,
}

/// Returns the sender of a request. Fails (401) if the request has no valid token.
pub(in crate::api) fn identify(state: &ApiState, parts: &Parts) -> Result<Caller, ApiProblem> {
    if let Some(Peer::Unix(user)) = parts.extensions.get() {
        return Ok(Caller {
            role: TokenRole::Admin,
            by: user.clone(),
            token: None,
            queues: Vec::new(),
            is_browser: false,
        });
    }
    let unknown =
        |detail: &str| Err(ApiProblem::new(StatusCode::UNAUTHORIZED, "unauthorized", detail));
    let tokens = tokens_of(state)?;
    let now = host_now();
    let (hash, is_browser) = if let Some(text) = parts.headers.get(header::AUTHORIZATION) {
        let Some(token) = bearer(text) else {
            return unknown("the header Authorization has no whole token; wanted Bearer TOKEN");
        };
        (sha256(token.as_str()), false)
    } else {
        let cookie = cookie_of(&parts.headers);
        let Some(hash) = cookie.and_then(|cookie| state.sessions.token_of(&cookie, now)) else {
            return unknown(
                "no token was sent; wanted the header Authorization: Bearer TOKEN, see schedctl token",
            );
        };
        (hash, true)
    };
    let entry = tokens.tokens.iter().find(|entry| is_same(&entry.sha256, &hash));
    match entry {
        None => unknown("the token is unknown or was revoked"),
        Some(entry) if entry.is_expired(now) => unknown("the token has expired"),
        Some(TokenEntry { name, role, queues, .. }) => Ok(Caller {
            role: *role,
            by: format!("token:{name}"),
            token: Some(hash),
            queues: queues.iter().filter_map(|queue| queue.parse().ok()).collect(),
            is_browser,
        }),
    }
}

impl Caller {
    /// Returns true if the sender may take runs of `queue`.
    pub(in crate::api) fn serves(&self, queue: &QueueName) -> bool {
        self.queues.is_empty() || self.queues.contains(queue)
    }
}

/// The right of the reader of a stream, which may end while the stream is open.
pub(in crate::api) struct ReaderRight {
    /// The file of tokens and the hash of the token. `None` for a user of the Unix socket, whose right
    /// has no end.
    token: Option<(Arc<TokenFile>, String)>,
    checked: Instant,
}

impl ReaderRight {
    /// The time after which the token is looked up again.
    const CHECKED: Duration = Duration::from_secs(1);
    /// The reason why a stream ends when the right has ended.
    pub(in crate::api) const ENDED: &str = "the token was revoked or has expired";

    /// Returns the right of `caller`.
    pub(in crate::api) fn of(state: &ApiState, caller: Option<&Caller>) -> Self {
        let hash = caller.and_then(|caller| caller.token.clone());
        Self { token: hash.map(|hash| (state.tokens.clone(), hash)), checked: Instant::now() }
    }

    /// Returns a right without an end.
    #[cfg(test)]
    pub(in crate::api) fn endless() -> Self {
        Self { token: None, checked: Instant::now() }
    }

    /// Returns false if the token was revoked or has expired. Looks at the file of tokens at most once
    /// a second.
    pub(in crate::api) fn holds(&mut self) -> bool {
        let Some((tokens, hash)) = &self.token else { return true };
        if self.checked.elapsed() < Self::CHECKED {
            return true;
        }
        self.checked = Instant::now();
        let now = host_now();
        let is_valid = |entry: &TokenEntry| is_same(&entry.sha256, hash) && !entry.is_expired(now);
        tokens.tokens().is_ok_and(|stock| stock.tokens.iter().any(is_valid))
    }
}

/// Returns the tokens. The reason why their file cannot be read is only for the log.
pub(super) fn tokens_of(state: &ApiState) -> Result<Arc<TokenStock>, ApiProblem> {
    state.tokens.tokens().map_err(|error| {
        warn!("No request of the HTTP API is answered: {error}.");
        ApiProblem::busy("the file of tokens cannot be read; the log of schedd has the reason", 60)
    })
}

/// Fails (403) unless `[api] define` is on.
pub(in crate::api) fn permit_define(state: &ApiState) -> Result<(), ApiProblem> {
    if !state.config.may_define {
        return Err(ApiProblem::forbidden(
            "this schedd defines no jobs for the API, because that allows any command; wanted define = true in its [api]",
        ));
    }
    Ok(())
}

/// Returns the token in the value of the header `Authorization`, or `None` if it has no whole token.
fn bearer(value: &HeaderValue) -> Option<TokenText> {
    let (scheme, token) = value.to_str().ok()?.split_once(' ')?;
    TokenText::parse(token.trim()).filter(|_| scheme.eq_ignore_ascii_case("bearer"))
}

/// Compares two hashes in a time that does not depend on their content.
fn is_same(one: &str, other: &str) -> bool {
    let differing = one.bytes().zip(other.bytes()).fold(0, |all, (a, b)| all | (a ^ b));
    one.len() == other.len() && differing == 0
}

/// Reads all texts of a request that may name its sender, for the fuzzer.
pub(in crate::api) fn read_credentials(headers: &HeaderMap) {
    headers.get(header::AUTHORIZATION).and_then(bearer);
    cookie_of(headers);
    if let Some(host) = headers.get(header::HOST).and_then(|host| host.to_str().ok()) {
        without_port(host);
    }
}
