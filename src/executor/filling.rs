//! Puts the secrets of this node into an attempt, in the moment it is made.
//!
//! Files may be slow to read, so that is done on a thread of its own. What comes back is never printed: whatever is made of it says
//! so to the libraries it is given to.

use std::collections::{BTreeMap, BTreeSet};

use crate::domain::job::HttpRequest;
use crate::domain::reference;
use crate::domain::webhook::{NotASecret, SigningSecret, WebhookSecret};
use crate::secrets::{self, Credentials};

use super::Attempt;

/// The variables `attempt` itself brings, and in words why others cannot be had. Its files may also belong to `job_user`.
pub(super) async fn variables(
    attempt: &Attempt,
    job_user: Option<u32>,
    credentials: &Credentials,
) -> Result<(BTreeMap<String, String>, Vec<String>), String> {
    if attempt.env_files.is_empty() && !attempt.env.values().any(|text| reference::is_in(text)) {
        return Ok((attempt.env.clone(), Vec::new()));
    }
    let (files, own, credentials) = (attempt.env_files.clone(), attempt.env.clone(), credentials.clone());
    waiting(move || Ok(secrets::variables(&files, job_user, &own, &credentials))).await
}

/// A request with its credentials in place, and what of it is secret.
pub(super) struct Filled {
    pub(super) request: HttpRequest,
    /// The names of header fields with a credential in them.
    pub(super) secret_headers: BTreeSet<String>,
}

/// The request as it is to be sent. The error says in words why it cannot be.
pub(super) async fn request(request: &HttpRequest, credentials: &Credentials) -> Result<Filled, String> {
    let mut texts = request.headers.values().chain([&request.url, &request.body]);
    if !texts.any(|text| reference::is_in(text)) {
        return Ok(Filled { request: request.clone(), secret_headers: BTreeSet::new() });
    }
    let (request, credentials) = (request.clone(), credentials.clone());
    waiting(move || fill(request, &credentials)).await
}

/// The text as it is used.
pub(super) async fn text(text: &str, credentials: &Credentials) -> Result<String, String> {
    if !reference::is_in(text) {
        return Ok(text.to_owned());
    }
    let (text, credentials) = (text.to_owned(), credentials.clone());
    waiting(move || credentials.fill(&text).map_err(|error| error.to_string())).await
}

/// The address as it is asked for.
pub(super) async fn url(url: &str, credentials: &Credentials) -> Result<String, String> {
    let filled = text(url, credentials).await.map_err(|error| format!("URL: {error}"))?;
    is_whole(&filled).then_some(filled).ok_or_else(|| NOT_WHOLE.to_owned())
}

const NOT_WHOLE: &str = "URL: its credential holds a blank or a control character, wanted it percent-encoded";

/// Whether nothing of an address would be dropped without a word by whoever parses it.
fn is_whole(url: &str) -> bool {
    !url.contains(|c: char| c.is_whitespace() || c.is_control())
}

/// The secrets that sign now, and in words why others cannot be had.
pub(super) async fn secrets(named: &[SigningSecret], credentials: &Credentials) -> (Vec<WebhookSecret>, Vec<String>) {
    let (mut secrets, mut faults) = (Vec::with_capacity(named.len()), Vec::new());
    for secret in named {
        let held = match secret {
            SigningSecret::Given(secret) => Ok(secret.clone()),
            SigningSecret::Referred(reference) => match text(reference, credentials).await {
                Ok(held) => held.trim().parse().map_err(|error: NotASecret| format!("what {reference} holds {error}")),
                Err(error) => Err(error),
            },
        };
        match held {
            Ok(secret) => secrets.push(secret),
            Err(fault) => faults.push(format!("webhook_secret: {fault}")),
        }
    }
    (secrets, faults)
}

fn fill(mut request: HttpRequest, credentials: &Credentials) -> Result<Filled, String> {
    let filled = |what: &str, text: &str| credentials.fill(text).map_err(|error| format!("{what}: {error}"));
    let mut secret_headers = BTreeSet::new();
    for (name, text) in request.headers.iter_mut().filter(|(_, text)| reference::is_in(text)) {
        *text = filled(&format!("header {name}"), text)?;
        secret_headers.insert(name.clone());
    }
    if reference::is_in(&request.body) {
        request.body = filled("body", &request.body)?;
    }
    if reference::is_in(&request.url) {
        request.url = filled("URL", &request.url)?;
        if !is_whole(&request.url) {
            return Err(NOT_WHOLE.to_owned());
        }
    }
    Ok(Filled { request, secret_headers })
}

/// What `reading` gives, done where waiting holds up nobody else.
async fn waiting<T: Send + 'static>(reading: impl FnOnce() -> Result<T, String> + Send + 'static) -> Result<T, String> {
    tokio::task::spawn_blocking(reading).await.unwrap_or_else(|_| Err("its secrets could not be read".to_owned()))
}
