//! The execution of `http` jobs: one request with its redirects.
//!
//! Invariant: nothing is connected or sent on a lease that has passed. Nothing is sent twice,
//! except by the redirects that the job allows. Of the answer only a bounded part is read. A sent
//! request cannot be called back: the receiver must check the fence.

mod http_error;
mod retry_after;
mod signing;

use std::time::Duration;

use reqwest::header::{self, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Client, Method, Response, Url};

use super::credential_injection;
use super::credential_injection::Filled;
use super::notice_fallback;
use super::shortage::Shortage;
use crate::secrets::Credentials;
use http_error::{in_words, short_of};
use retry_after::retry_after;
use schedd::attempts::OutputBuffer;
use schedd::attempts::lease_guard::{Interruption, LeaseGuard};
use schedd::attempts::{Attempt, Control};
use schedd::http_client::http_client;
use schedd_core::domain::job::job_spec::HttpRequest;
use schedd_core::domain::job::ping::ping_address;
use schedd_core::domain::job::secret_headers::is_secret_header;
use schedd_core::domain::job::webhook::WebhookSecret;
use schedd_core::domain::run::excerpt::ExcerptStream;
use schedd_core::domain::run::run_state::{AttemptOutcome, Ending};
use schedd_core::host::boot_clock::BootInstant;
use schedd_schedule::chain::chain_end::ParentEnd;
use schedd_schedule::time::duration::format_duration;

pub use retry_after::wait_asked;

/// The number of bytes of a response body that are kept.
const KEPT: usize = 64 * 1024;
/// The number of bytes of a response body that are read. After these bytes the connection is
/// closed, because a body may have no end.
///
/// Bytes read but not kept count as dropped. Bytes never read are not counted, because their number
/// is unknown.
const READ: usize = 1024 * 1024;
/// The time for which an idle connection is kept for the next request to the same host. The time is
/// short, so that the server rarely closes the connection first. A request on a closed connection
/// fails, because it must not be sent twice.
const IDLE: Duration = Duration::from_secs(4);
/// The longest time a ping may take.
const PING: Duration = Duration::from_secs(5);
/// The header field of an answer that sets the time of the next run of the job.
const NEXT: &str = "Schedd-Next";
/// The header field with the trace of a request, by W3C Trace Context.
const TRACE: HeaderName = HeaderName::from_static("traceparent");
/// The header fields of Standard Webhooks. They are removed if a redirect changes the request to
/// GET or leads to another origin.
const WEBHOOK: [&str; 3] = ["webhook-id", "webhook-timestamp", "webhook-signature"];

/// Builds the client for the requests of jobs.
pub(super) fn client() -> Result<Client, reqwest::Error> {
    http_client(|builder| builder.pool_idle_timeout(IDLE))
}

/// Sends `request` by the rules of `attempt`, and returns the outcome. Notes in `shortage` whether
/// this node can connect.
pub(super) async fn execute(
    (client, shortage): (&Client, &Shortage),
    credentials: &Credentials,
    request: &HttpRequest,
    attempt: &Attempt,
    control: Control,
    output: &OutputBuffer,
) -> AttemptOutcome {
    let guard = LeaseGuard::new(control, attempt.timeout);
    // An attempt that is interrupted before this line sends nothing. If the lease is lost later,
    // only the receiver knows the result of the request.
    let when_lost =
        if guard.interruption().is_some() { Ending::LeaseLost } else { Ending::MaybeAlive };
    let mut request = match guard.run(credential_injection::request(request, credentials)).await {
        Ok(Ok(mut filled)) => {
            if filled.request.body.is_empty()
                && !matches!(filled.request.method.as_str(), "GET" | "HEAD")
            {
                filled.request.body.clone_from(&attempt.notice_facts.body);
            }
            if let Some((run, ping)) = &attempt.notice_facts.ping {
                filled.request.url = ping_address(&filled.request.url, run, *ping);
            }
            filled
        }
        Ok(Err(why)) => return why.outcome(shortage),
        Err(interruption) => return interruption.outcome_of_nothing(attempt.timeout),
    };
    let (secrets, faults) =
        match guard.run(credential_injection::secrets(&attempt.webhook_secrets, credentials)).await
        {
            Ok(Ok(found)) => found,
            Ok(Err(why)) => return why.outcome(shortage),
            Err(interruption) => return interruption.outcome_of_nothing(attempt.timeout),
        };
    if !faults.is_empty()
        && let Err(why) = notice_fallback::sign_by_the_others(
            attempt,
            &mut request.request.body,
            secrets.len(),
            &faults,
        )
    {
        return AttemptOutcome::failed(format!("cannot start: {why}"));
    }
    let mut outcome = AttemptOutcome::bare(Ending::Failed);
    let sender = (client, shortage);
    match follow(sender, (&request, secrets.as_slice()), attempt, &guard, output, &mut outcome)
        .await
    {
        Ok(()) => outcome.ending = Ending::Succeeded,
        Err(Failure::Words(words)) => outcome.error = Some(words),
        Err(Failure::Short(words)) => {
            (outcome.ending, outcome.error) = (Ending::NotStarted, Some(words));
        }
        Err(Failure::Interrupted(interruption)) => {
            (outcome.ending, outcome.error) = match interruption {
                Interruption::LeaseLost => {
                    (when_lost, Some("the lease of the run was lost".to_owned()))
                }
                Interruption::TimedOut => {
                    let why = format!(
                        "the attempt exceeded its timeout of {}",
                        format_duration(attempt.timeout)
                    );
                    (Ending::TimedOut, Some(why))
                }
                Interruption::Stopped(reason) => (reason.ending(), None),
            };
        }
    }
    outcome
}

enum Failure {
    Words(String),
    /// Nothing was sent, because this node lacks resources.
    Short(String),
    Interrupted(Interruption),
}

impl From<Interruption> for Failure {
    fn from(interruption: Interruption) -> Self {
        Self::Interrupted(interruption)
    }
}

/// Sends the request, follows the allowed redirects, reads the answer into `output` and checks the
/// status of the answer.
async fn follow(
    (client, shortage): (&Client, &Shortage),
    (filled, secrets): (&Filled, &[WebhookSecret]),
    attempt: &Attempt,
    guard: &LeaseGuard,
    output: &OutputBuffer,
    outcome: &mut AttemptOutcome,
) -> Result<(), Failure> {
    let request = &filled.request;
    let mut hop = Hop::first(filled, secrets, attempt).map_err(Failure::Words)?;
    let mut redirects_left = request.redirects;
    let response = loop {
        let sent = client.execute(hop.request());
        let is_first = redirects_left == request.redirects;
        let sent = guard.run(sent).await?;
        match sent.as_ref().err().and_then(short_of) {
            Some(words) => {
                shortage.note(&words);
                if is_first {
                    return Err(Failure::Short(words));
                }
            }
            // Even a request that the other host refused had a descriptor, so this node lacks none.
            None => shortage.clear(),
        }
        let response = sent.map_err(|error| Failure::Words(in_words(error)))?;
        outcome.http_status = Some(response.status().as_u16());
        if redirects_left == 0 {
            break response;
        }
        let Some(next) = hop.redirected(&response).map_err(Failure::Words)? else { break response };
        redirects_left -= 1;
        // The status of a redirect that is followed is not the answer's status.
        outcome.http_status = None;
        hop = next;
    };
    let status = response.status().as_u16();
    let next = response.headers().get(NEXT).and_then(|value| value.to_str().ok());
    outcome.next = next.filter(|_| !attempt.is_notice()).map(|text| Ok(text.trim().to_owned()));
    if !request.expects(status) {
        outcome.retry_after = retry_after(response.headers());
    }
    let read = guard.run(read_body(response, output)).await?;
    if !request.expects(status) {
        return Err(Failure::Words(format!("status {status}, wanted {}", wanted(&request.expect))));
    }
    read.map_err(|error| {
        let words = in_words(error);
        Failure::Words(format!("status {status}, but the response body broke off: {words}"))
    })
}

fn wanted(expect: &[u16]) -> String {
    if expect.is_empty() {
        return "2xx".to_owned();
    }
    expect.iter().map(u16::to_string).collect::<Vec<_>>().join(", ")
}

async fn read_body(mut response: Response, output: &OutputBuffer) -> Result<(), reqwest::Error> {
    let mut count = 0_usize;
    while count < READ
        && let Some(bytes) = response.chunk().await?
    {
        let (kept, dropped) = bytes.split_at(KEPT.saturating_sub(count).min(bytes.len()));
        output.append(ExcerptStream::Stdout, kept);
        if !dropped.is_empty() {
            output.add_dropped(dropped.len() as u64);
        }
        count = count.saturating_add(bytes.len());
    }
    Ok(())
}

/// A request in a chain of redirects.
struct Hop {
    method: Method,
    url: Url,
    headers: HeaderMap,
    body: String,
}

impl Hop {
    fn first(
        filled: &Filled,
        secrets: &[WebhookSecret],
        attempt: &Attempt,
    ) -> Result<Self, String> {
        let request = &filled.request;
        let method = Method::from_bytes(request.method.as_bytes()).map_err(|_| {
            format!("method {:?} is not valid: wanted letters such as GET or POST", request.method)
        })?;
        // The parser's error does not contain the URL.
        let url = Url::parse(&request.url).map_err(|error| format!("URL is not valid: {error}"))?;
        let is_plain = url.username().is_empty() && url.password().is_none();
        if !matches!(url.scheme(), "http" | "https") || !url.has_host() || !is_plain {
            return Err(
                "URL is not valid: wanted http or https, a host, and neither user nor password"
                    .to_owned(),
            );
        }
        let mut headers = headers(filled, attempt)?;
        sign(&mut headers, secrets, attempt, &request.body)?;
        Ok(Self { method, url, headers, body: request.body.clone() })
    }

    fn request(&self) -> reqwest::Request {
        let mut request = reqwest::Request::new(self.method.clone(), self.url.clone());
        *request.headers_mut() = self.headers.clone();
        if !self.body.is_empty() {
            *request.body_mut() = Some(self.body.clone().into());
        }
        request
    }

    /// Returns the next request if `response` is a redirect; `None` if `response` is the final
    /// answer. The error is the reason why the redirect cannot be followed.
    fn redirected(&self, response: &Response) -> Result<Option<Self>, String> {
        let status = response.status();
        let keeps_method = matches!(status.as_u16(), 307 | 308);
        if !keeps_method && !matches!(status.as_u16(), 301..=303) {
            return Ok(None);
        }
        let Some(location) = response.headers().get(header::LOCATION) else { return Ok(None) };
        let location = location.to_str().ok().and_then(|location| self.url.join(location).ok());
        let url = location.filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
        let url = url.ok_or_else(|| {
            format!(
                "status {}, and the Location header is not an http or https URL",
                status.as_u16()
            )
        })?;
        let mut next = Self {
            method: self.method.clone(),
            headers: self.headers.clone(),
            body: self.body.clone(),
            url,
        };
        // RFC 9110, 15.4: only 307 and 308 promise to repeat the request unchanged.
        if !keeps_method && self.method != Method::GET && self.method != Method::HEAD {
            next.method = Method::GET;
            next.body.clear();
            next.headers.remove(header::CONTENT_TYPE);
            for name in WEBHOOK {
                next.headers.remove(name);
            }
        }
        if next.url.origin() != self.url.origin() {
            next.leave_the_origin(status.as_u16())?;
        }
        Ok(Some(next))
    }
}

impl Hop {
    /// Removes the parts of the request that were meant only for the previous origin. Fails if the
    /// request has a body, because the other origin must not get the body.
    fn leave_the_origin(&mut self, status: u16) -> Result<(), String> {
        if !self.body.is_empty() {
            let origin = self.url.origin().ascii_serialization();
            return Err(format!(
                "status {status} redirects to another origin ({origin}), which must not get the request body, wanted the URL of that origin in the job"
            ));
        }
        let is_secret = |(name, value): &(&HeaderName, &HeaderValue)| {
            value.is_sensitive()
                || is_secret_header(name.as_str())
                || WEBHOOK.contains(&name.as_str())
        };
        let secret: Vec<HeaderName> =
            self.headers.iter().filter(is_secret).map(|(name, _)| name.clone()).collect();
        for name in secret.into_iter().chain([header::HOST]) {
            self.headers.remove(name);
        }
        Ok(())
    }
}

/// Adds the header fields of Standard Webhooks, with one signature for each of `secrets`. Adds
/// nothing if `secrets` is empty.
fn sign(
    headers: &mut HeaderMap,
    secrets: &[WebhookSecret],
    attempt: &Attempt,
    body: &str,
) -> Result<(), String> {
    if secrets.is_empty() {
        return Ok(());
    }
    let (at, since) = attempt.by_redis;
    let timestamp = at.saturating_add(BootInstant::now().since(since)).as_i64().div_euclid(1000);
    let id = attempt.run.to_string();
    let signatures = signing::signatures(secrets, &id, timestamp, body);
    for (name, value) in WEBHOOK.into_iter().zip([id, timestamp.to_string(), signatures]) {
        let value = HeaderValue::from_str(&value)
            .map_err(|_| format!("value of header {name} is not valid"))?;
        headers.insert(HeaderName::from_static(name), value);
    }
    Ok(())
}

/// Requests `url` and accepts any answer with a status below 400. The error is the reason why there
/// was no such answer, without the URL.
pub(super) async fn ping(client: &Client, url: &str) -> Result<(), String> {
    let url = Url::parse(url).map_err(|error| format!("URL is not valid: {error}"))?;
    let answer = client.get(url).timeout(PING).send().await.and_then(Response::error_for_status);
    answer.map(drop).map_err(in_words)
}

/// Returns the header fields of the job and of schedd. The fields of schedd override the fields of
/// the job, so that a receiver can rely on them.
fn headers(
    Filled { request, secret_headers, .. }: &Filled,
    attempt: &Attempt,
) -> Result<HeaderMap, String> {
    let mut headers = HeaderMap::new();
    for (name, value) in &request.headers {
        let parsed = HeaderName::from_bytes(name.as_bytes())
            .map_err(|_| format!("header name {name:?} is not valid"))?;
        let mut value = HeaderValue::from_str(value).map_err(|_| {
            format!("value of header {name} is not valid: wanted visible characters on one line")
        })?;
        value.set_sensitive(secret_headers.contains(name));
        headers.append(parsed, value);
    }
    if !request.body.is_empty() && !headers.contains_key(header::CONTENT_TYPE) {
        let is_json = serde_json::from_str::<serde::de::IgnoredAny>(&request.body).is_ok();
        let kind = if is_json { "application/json" } else { "text/plain; charset=utf-8" };
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    }
    if let Some(trace) = attempt.trace
        && !headers.contains_key(TRACE)
        && let Ok(value) = HeaderValue::from_str(&trace.to_string())
    {
        headers.insert(TRACE, value);
    }
    let facts = [
        ("idempotency-key", attempt.run.to_string()),
        ("schedd-job", attempt.run.job().to_string()),
        ("schedd-due", attempt.run.due().to_string()),
        ("schedd-attempt", attempt.number.to_string()),
        ("schedd-fence", attempt.fence.to_string()),
    ];
    for (name, value) in facts.into_iter().chain(parent_headers(&attempt.parents)) {
        let value = HeaderValue::from_str(&value)
            .map_err(|_| format!("value of header {name} is not valid"))?;
        headers.insert(HeaderName::from_static(name), value);
    }
    Ok(headers)
}

/// Returns the header fields with the ends of the parents: as JSON, and as words. Returns none for a
/// run that no parent started.
///
/// A server limits the size of a header. The JSON has at most 4 KiB, because a job has at most 16
/// parents and the JSON has no reasons, which may be long.
fn parent_headers(ends: &[ParentEnd]) -> Vec<(&'static str, String)> {
    if ends.is_empty() {
        return Vec::new();
    }
    let without_reason = |end: &ParentEnd| {
        let mut fields = end.to_json();
        fields.as_object_mut().map(|fields| fields.remove("reason"));
        fields
    };
    let json: serde_json::Value = ends.iter().map(without_reason).collect();
    vec![("schedd-parents", json.to_string()), ("schedd-parent-states", ParentEnd::states_of(ends))]
}
