//! The connection to the API of a schedd.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use reqwest::{Body, Client, Response, StatusCode};
use serde_json::Value;
use tokio_util::io::ReaderStream;

use crate::cli::embedded::remote_frames::{FrameKind, take_frame};
use crate::cli::embedded::remote_verb::RemoteVerb;
use crate::cli::failure::CliFailure;
use crate::cli::global::Global;

/// The time within which a connection must be made.
const CONNECT_TIME: Duration = Duration::from_secs(5);
/// The time within which a short verb must have ended.
const ANSWER_TIME: Duration = Duration::from_secs(10);
const MOST_TOKEN_BYTES: usize = 4_096;

/// The connection to the API of a schedd.
pub(crate) struct ApiClient {
    client: Client,
    /// The address before the path of a route.
    base: String,
    address: String,
    token: Option<String>,
    /// The wait that the last refusal asked for, in seconds.
    retry_after: AtomicU32,
}

impl ApiClient {
    /// Prepares the connection to the API at `address`: a URL, or `unix:` and the path of a socket.
    pub(crate) fn new(global: &Global, address: &str) -> Result<Self, CliFailure> {
        let variable = std::env::var_os("SCHEDD_API_TOKEN_FILE").filter(|path| !path.is_empty());
        let file = global.token_file.clone().or_else(|| variable.map(PathBuf::from));
        let token = file.map(|path| {
            let text = std::fs::read_to_string(&path).map_err(|error| {
                CliFailure::Invalid(format!(
                    "--token-file {}: the file cannot be read: {error}",
                    path.display()
                ))
            })?;
            Ok::<_, CliFailure>(text.trim().to_owned())
        });
        let token = token.transpose()?.filter(|token| token.len() <= MOST_TOKEN_BYTES);
        // An error means that another provider is the default already.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut builder = Client::builder().connect_timeout(CONNECT_TIME);
        let base = match address.strip_prefix("unix:") {
            Some(path) => {
                builder = builder.unix_socket(path.trim_start_matches("//"));
                "http://localhost".to_owned()
            }
            None => address.trim_end_matches('/').to_owned(),
        };
        if reqwest::Url::parse(&base).map_or(true, |url| !matches!(url.scheme(), "http" | "https"))
        {
            return Err(CliFailure::Invalid(format!(
                "--api: found {address:?}, wanted a URL such as https://jobs.example.org, or unix:/run/schedd/api.sock"
            )));
        }
        let client =
            builder.build().map_err(|error| CliFailure::Failed(format!("--api: {error}")))?;
        Ok(Self {
            client,
            base,
            address: address.to_owned(),
            token,
            retry_after: AtomicU32::new(0),
        })
    }

    /// Returns the address of the API as the user gave it.
    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    /// Returns the wait that the last refusal asked for, with a random part of the same length at most.
    pub(crate) fn retry_after(&self) -> Duration {
        let wait = Duration::from_secs(self.retry_after.load(Ordering::Relaxed).into());
        wait.mul_f64(1.0 + fastrand::f64())
    }

    /// Runs a short verb. Returns its standard output. Fails with its errors if its exit code is not
    /// 0.
    pub(crate) async fn call(&self, remote: &RemoteVerb) -> Result<Vec<u8>, CliFailure> {
        let address = &self.address;
        let lost = |why: &str| CliFailure::Unreachable(format!("the API at {address} {why}"));
        let read = async {
            let answer = self.send(remote, false).await?;
            let bytes = answer.bytes().await;
            bytes.map_err(|error| lost(&format!("ended the connection: {}", whole(&error))))
        };
        let read = tokio::time::timeout(ANSWER_TIME, read).await;
        let mut bytes = read.map_err(|_| lost("gives no answer"))??.to_vec();
        let (mut output, mut errors) = (Vec::new(), Vec::new());
        while let Some((kind, data)) = take_frame(&mut bytes) {
            match (kind, data.first()) {
                (FrameKind::Output, _) => output.extend(data),
                (FrameKind::Errors, _) => errors.extend(data),
                (FrameKind::Code, Some(0)) => return Ok(output),
                (FrameKind::Code, code) => {
                    let text = String::from_utf8_lossy(&errors);
                    let lines = text.lines().map(|line| line.trim_start_matches("schedctl: "));
                    let text = lines.collect::<Vec<_>>().join("; ");
                    return Err(match code {
                        Some(69) => CliFailure::Unreachable(text),
                        _ => CliFailure::Failed(text),
                    });
                }
            }
        }
        Err(lost("ended the connection before the verb ended"))
    }

    /// Sends a verb, with the standard input of this process if the verb reads it. Returns the answer,
    /// whose body is the output. Fails if the API refuses the verb.
    pub(super) async fn send(
        &self,
        remote: &RemoteVerb,
        reads_input: bool,
    ) -> Result<Response, CliFailure> {
        let mut head =
            serde_json::to_vec(remote).map_err(|error| CliFailure::Failed(error.to_string()))?;
        head.push(b'\n');
        let body = if reads_input {
            let head =
                futures_util::stream::once(async move { Ok::<_, std::io::Error>(head.into()) });
            let input = ReaderStream::new(tokio::io::stdin());
            Body::wrap_stream(futures_util::StreamExt::chain(head, input))
        } else {
            Body::from(head)
        };
        self.answer("/v1/schedctl", "application/x-ndjson", body).await
    }

    /// Sends a JSON body to a route, and returns the JSON of the answer. Fails if no answer comes within
    /// `time`, or if the API refuses the request.
    pub(crate) async fn post(
        &self,
        path: &str,
        body: &Value,
        time: Duration,
    ) -> Result<Value, CliFailure> {
        let read = async {
            let answer = self.answer(path, "application/json", body.to_string().into()).await?;
            let lost = |error: reqwest::Error| {
                let why = whole(&error);
                CliFailure::Unreachable(format!(
                    "the API at {} gives no answer: {why}",
                    self.address
                ))
            };
            let text = answer.text().await.map_err(lost)?;
            serde_json::from_str(&text).map_err(|error| {
                let address = &self.address;
                CliFailure::Failed(format!("the answer of {address} is no JSON: {error}"))
            })
        };
        tokio::time::timeout(time, read).await.unwrap_or_else(|_| {
            let address = &self.address;
            Err(CliFailure::Unreachable(format!("the API at {address} gives no answer")))
        })
    }

    /// Sends a request, and returns its answer. Fails if the API cannot be reached or refuses the
    /// request.
    async fn answer(&self, path: &str, kind: &str, body: Body) -> Result<Response, CliFailure> {
        let url = format!("{}{path}", self.base);
        let mut request = self.client.post(&url).header("content-type", kind).body(body);
        if let Some(token) = &self.token {
            request = request.bearer_auth(token);
        }
        let answer = request.send().await.map_err(|error| {
            let why = whole(&error);
            let is_untrusted = why.contains("certificate");
            let hint = if is_untrusted {
                "; SSL_CERT_FILE names a file with the certificate of its authority"
            } else {
                ""
            };
            CliFailure::Unreachable(format!(
                "the API at {} cannot be reached: {why}{hint}",
                self.address
            ))
        })?;
        let status = answer.status();
        let wait = answer.headers().get("retry-after").and_then(|wait| wait.to_str().ok());
        self.retry_after
            .store(wait.and_then(|wait| wait.parse().ok()).unwrap_or(0), Ordering::Relaxed);
        if status.is_success() {
            return Ok(answer);
        }
        let text = answer.text().await.unwrap_or_default();
        let problem: Value = serde_json::from_str(&text).unwrap_or_default();
        let detail =
            problem["detail"].as_str().map_or_else(|| format!("status {status}"), str::to_owned);
        let is_no_route = detail.starts_with("no route has this path");
        // The reason comes first, because a line of `top` may be cut.
        let line = format!("{detail}; the API at {} refused the request", self.address);
        Err(match status {
            StatusCode::UNAUTHORIZED => CliFailure::Invalid(format!("{line}; see --token-file")),
            StatusCode::BAD_REQUEST | StatusCode::UNPROCESSABLE_ENTITY => {
                CliFailure::Invalid(detail)
            }
            StatusCode::NOT_FOUND if problem["code"] == "not_found" && !is_no_route => {
                CliFailure::NotFound(detail)
            }
            StatusCode::NOT_FOUND => CliFailure::Failed(format!(
                "{line}; wanted a schedd of version {} or later",
                env!("CARGO_PKG_VERSION")
            )),
            StatusCode::SERVICE_UNAVAILABLE => CliFailure::Unreachable(line),
            _ => CliFailure::Failed(line),
        })
    }
}

/// Returns an error with its causes.
fn whole(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}
