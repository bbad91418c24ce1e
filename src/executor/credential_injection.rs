//! The insertion of this node's secrets into an attempt, just before the attempt starts.
//!
//! Files of secrets may be slow to read, so they are read on a separate thread. The results are
//! never logged, and are marked as sensitive for the HTTP client.

use std::collections::{BTreeMap, BTreeSet};

use crate::secrets;
use crate::secrets::{Credentials, SecretError};
use schedd_core::domain::job::job_spec::HttpRequest;
use schedd_core::domain::job::secret_reference;
use schedd_core::domain::job::webhook::{NotASecret, SigningSecret, WebhookSecret};
use schedd_core::domain::run::run_state::AttemptOutcome;

use super::shortage::Shortage;
use schedd::attempts::Attempt;

/// The reason why secrets cannot be filled into an attempt.
#[derive(Debug)]
pub(super) enum Unfilled {
    /// This node lacks the descriptors or the memory to read secrets. The text says which.
    Short(String),
    /// A secret is missing or faulty.
    Fault(String),
}

impl Unfilled {
    fn of(what: &str, error: &SecretError) -> Self {
        let text = if what.is_empty() { error.to_string() } else { format!("{what}: {error}") };
        if error.is_shortage() { Self::Short(text) } else { Self::Fault(text) }
    }

    /// Returns the outcome of an attempt that does not start for this reason. Notes a lack of
    /// resources in `shortage`.
    pub(super) fn outcome(self, shortage: &Shortage) -> AttemptOutcome {
        match self {
            Self::Fault(why) => AttemptOutcome::failed(format!("cannot start: {why}")),
            Self::Short(why) => shortage.not_started(&format!("read secrets: {why}")),
        }
    }
}

/// Returns true if a process of `attempt` needs secrets of this node.
pub(super) fn is_needed_by(attempt: &Attempt) -> bool {
    !attempt.env_files.is_empty() || attempt.env.values().any(|text| secret_reference::is_in(text))
}

/// Returns the variables that `attempt` itself sets, and the reasons why some of them cannot be
/// read. A file of variables must belong to root, to the user of this process or to the user id
/// `job_user`.
pub(super) async fn variables(
    attempt: &Attempt,
    job_user: Option<u32>,
    credentials: &Credentials,
) -> Result<(BTreeMap<String, String>, Vec<String>), Unfilled> {
    if !is_needed_by(attempt) {
        return Ok((attempt.env.clone(), Vec::new()));
    }
    let (files, own, credentials) =
        (attempt.env_files.clone(), attempt.env.clone(), credentials.clone());
    waiting(move || {
        secrets::variables(&files, job_user, &own, &credentials)
            .map_err(|error| Unfilled::of("", &error))
    })
    .await
}

/// A request with its credentials filled in, and the names of its secret header fields.
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
) -> Result<Filled, Unfilled> {
    let mut texts = request.headers.values().chain([&request.url, &request.body]);
    if !texts.any(|text| secret_reference::is_in(text)) {
        return Ok(Filled { request: request.clone(), secret_headers: BTreeSet::new() });
    }
    let (request, credentials) = (request.clone(), credentials.clone());
    waiting(move || fill(request, &credentials)).await
}

/// Returns `text` with each reference to a credential replaced by the credential.
async fn text(text: &str, credentials: &Credentials) -> Result<String, Unfilled> {
    if !secret_reference::is_in(text) {
        return Ok(text.to_owned());
    }
    let (text, credentials) = (text.to_owned(), credentials.clone());
    waiting(move || credentials.fill(&text).map_err(|error| Unfilled::of("", &error))).await
}

/// Returns `url` with each reference to a credential replaced by the credential. Fails if the
/// result contains blanks or control characters.
pub(super) async fn url(url: &str, credentials: &Credentials) -> Result<String, String> {
    let filled = text(url, credentials).await;
    let filled =
        filled.map_err(|(Unfilled::Short(why) | Unfilled::Fault(why))| format!("URL: {why}"))?;
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
/// read. Fails if this node lacks the resources to read secrets.
pub(super) async fn secrets(
    named: &[SigningSecret],
    credentials: &Credentials,
) -> Result<(Vec<WebhookSecret>, Vec<String>), Unfilled> {
    let (mut secrets, mut faults) = (Vec::with_capacity(named.len()), Vec::new());
    for secret in named {
        let found = match secret {
            SigningSecret::Given(secret) => Ok(secret.clone()),
            SigningSecret::Referred(reference) => match text(reference, credentials).await {
                Ok(found) => found
                    .trim()
                    .parse()
                    .map_err(|error: NotASecret| format!("the credential {reference} {error}")),
                Err(Unfilled::Fault(why)) => Err(why),
                Err(Unfilled::Short(why)) => {
                    return Err(Unfilled::Short(format!("webhook_secret: {why}")));
                }
            },
        };
        match found {
            Ok(secret) => secrets.push(secret),
            Err(fault) => faults.push(format!("webhook_secret: {fault}")),
        }
    }
    Ok((secrets, faults))
}

fn fill(mut request: HttpRequest, credentials: &Credentials) -> Result<Filled, Unfilled> {
    let filled =
        |what: &str, text: &str| credentials.fill(text).map_err(|error| Unfilled::of(what, &error));
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
            return Err(Unfilled::Fault(NOT_WHOLE.to_owned()));
        }
    }
    Ok(Filled { request, secret_headers })
}

/// Returns the result of `reading`. Runs `reading` on a separate thread, because it may block.
async fn waiting<T: Send + 'static>(
    reading: impl FnOnce() -> Result<T, Unfilled> + Send + 'static,
) -> Result<T, Unfilled> {
    let fault = || Unfilled::Fault("the secrets of the job could not be read".to_owned());
    tokio::task::spawn_blocking(reading).await.unwrap_or_else(|_| Err(fault()))
}
