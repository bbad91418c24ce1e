//! The insertion of this node's secrets into an attempt, just before the attempt starts.
//!
//! Files of secrets may be slow to read, so they are read on a separate thread. The results are
//! never logged, and are marked as sensitive for the HTTP client.

use std::collections::{BTreeMap, BTreeSet};

use crate::domain::job::job_spec::HttpRequest;
use crate::domain::job::secret_reference;
use crate::domain::job::webhook::{NotASecret, SigningSecret, WebhookSecret};
use crate::secrets;
use crate::secrets::Credentials;

use super::attempt::Attempt;

/// Returns the variables that `attempt` itself sets, and the reasons why other variables cannot be
/// read. Files of variables may also belong to the user with the id `job_user`.
pub(super) async fn variables(
    attempt: &Attempt,
    job_user: Option<u32>,
    credentials: &Credentials,
) -> Result<(BTreeMap<String, String>, Vec<String>), String> {
    if attempt.env_files.is_empty()
        && !attempt.env.values().any(|text| secret_reference::is_in(text))
    {
        return Ok((attempt.env.clone(), Vec::new()));
    }
    let (files, own, credentials) =
        (attempt.env_files.clone(), attempt.env.clone(), credentials.clone());
    waiting(move || Ok(secrets::variables(&files, job_user, &own, &credentials))).await
}

/// A request with its credentials filled in, and the names of its secret parts.
pub(super) struct Filled {
    pub(super) request: HttpRequest,
    /// The names of header fields that contain a credential.
    pub(super) secret_headers: BTreeSet<String>,
}

/// Returns the request with its credentials filled in. The error is the reason why a credential
/// cannot be filled in.
pub(super) async fn request(
    request: &HttpRequest,
    credentials: &Credentials,
) -> Result<Filled, String> {
    let mut texts = request.headers.values().chain([&request.url, &request.body]);
    if !texts.any(|text| secret_reference::is_in(text)) {
        return Ok(Filled { request: request.clone(), secret_headers: BTreeSet::new() });
    }
    let (request, credentials) = (request.clone(), credentials.clone());
    waiting(move || fill(request, &credentials)).await
}

/// Returns `text` with each reference to a credential replaced by the credential.
pub(super) async fn text(text: &str, credentials: &Credentials) -> Result<String, String> {
    if !secret_reference::is_in(text) {
        return Ok(text.to_owned());
    }
    let (text, credentials) = (text.to_owned(), credentials.clone());
    waiting(move || credentials.fill(&text).map_err(|error| error.to_string())).await
}

/// Returns `url` with each reference to a credential replaced by the credential. Fails if the
/// result contains blanks or control characters.
pub(super) async fn url(url: &str, credentials: &Credentials) -> Result<String, String> {
    let filled = text(url, credentials).await.map_err(|error| format!("URL: {error}"))?;
    is_whole(&filled).then_some(filled).ok_or_else(|| NOT_WHOLE.to_owned())
}

const NOT_WHOLE: &str =
    "URL: the credential has a blank or a control character, wanted percent-encoding";

/// Returns true if `url` has no blank and no control character, which a URL parser could silently
/// drop.
fn is_whole(url: &str) -> bool {
    !url.contains(|c: char| c.is_whitespace() || c.is_control())
}

/// Returns the secrets that can sign a request now, and the reasons why other secrets cannot be
/// read.
pub(super) async fn secrets(
    named: &[SigningSecret],
    credentials: &Credentials,
) -> (Vec<WebhookSecret>, Vec<String>) {
    let (mut secrets, mut faults) = (Vec::with_capacity(named.len()), Vec::new());
    for secret in named {
        let found = match secret {
            SigningSecret::Given(secret) => Ok(secret.clone()),
            SigningSecret::Referred(reference) => match text(reference, credentials).await {
                Ok(found) => found
                    .trim()
                    .parse()
                    .map_err(|error: NotASecret| format!("the credential {reference} {error}")),
                Err(error) => Err(error),
            },
        };
        match found {
            Ok(secret) => secrets.push(secret),
            Err(fault) => faults.push(format!("webhook_secret: {fault}")),
        }
    }
    (secrets, faults)
}

fn fill(mut request: HttpRequest, credentials: &Credentials) -> Result<Filled, String> {
    let filled =
        |what: &str, text: &str| credentials.fill(text).map_err(|error| format!("{what}: {error}"));
    let mut secret_headers = BTreeSet::new();
    for (name, text) in request.headers.iter_mut().filter(|(_, text)| secret_reference::is_in(text))
    {
        *text = filled(&format!("header {name}"), text)?;
        secret_headers.insert(name.clone());
    }
    if secret_reference::is_in(&request.body) {
        request.body = filled("body", &request.body)?;
    }
    if secret_reference::is_in(&request.url) {
        request.url = filled("URL", &request.url)?;
        if !is_whole(&request.url) {
            return Err(NOT_WHOLE.to_owned());
        }
    }
    Ok(Filled { request, secret_headers })
}

/// Returns the result of `reading`, which runs on a thread that may block.
async fn waiting<T: Send + 'static>(
    reading: impl FnOnce() -> Result<T, String> + Send + 'static,
) -> Result<T, String> {
    tokio::task::spawn_blocking(reading)
        .await
        .unwrap_or_else(|_| Err("the secrets of the job could not be read".to_owned()))
}
