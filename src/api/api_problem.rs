//! Error documents (RFC 9457, `application/problem+json`).

use std::io;

use axum::body::Body;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

use crate::cli::embedded::CliFailure;
use schedd_core::config::Problem;

/// The code of the problem of a change that was made, and that too few replicas of Redis have.
const NOT_REPLICATED: &str = "not_replicated";

/// The reason why a request was not carried out.
#[derive(Debug, Clone)]
pub(super) struct ApiProblem {
    status: StatusCode,
    /// The word for the reason, which programs may compare.
    code: &'static str,
    detail: String,
    /// The faulty parameters and keys of the request.
    faults: Vec<Fault>,
    /// The number of seconds after which the request may succeed.
    retry_after: Option<u32>,
}

/// A faulty parameter or key of a request.
#[derive(Debug, Clone)]
pub(super) struct Fault {
    /// The name of the parameter or the path of the key. `None` for the request as a whole.
    pub(super) path: Option<String>,
    pub(super) found: String,
    pub(super) wanted: Option<String>,
}

impl Fault {
    pub(super) fn new(path: &str, found: impl Into<String>, wanted: impl Into<String>) -> Self {
        Self { path: Some(path.to_owned()), found: found.into(), wanted: Some(wanted.into()) }
    }

    /// Returns the fault with the message `found X, wanted Y` of the schedctl verbs.
    pub(super) fn of_message(path: Option<&str>, message: &str) -> Self {
        let (found, wanted) = match message.split_once(", wanted ") {
            Some((found, wanted)) => (found, Some(wanted.to_owned())),
            None => (message, None),
        };
        let found = found.strip_prefix("found ").unwrap_or(found).to_owned();
        Self { path: path.map(str::to_owned), found, wanted }
    }

    fn text(&self) -> String {
        let path = self.path.as_ref().map(|path| format!("{path}: ")).unwrap_or_default();
        let wanted = self.wanted.as_ref().map(|wanted| format!(", wanted {wanted}"));
        format!("{path}found {}{}", self.found, wanted.unwrap_or_default())
    }

    fn json(&self) -> Value {
        json!({"path": self.path, "found": self.found, "wanted": self.wanted})
    }
}

impl ApiProblem {
    pub(super) fn new(status: StatusCode, code: &'static str, detail: impl Into<String>) -> Self {
        Self { status, code, detail: detail.into(), faults: Vec::new(), retry_after: None }
    }

    /// Returns the problem of a request that is malformed (400).
    pub(super) fn bad_request(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "bad_request", detail)
    }

    /// Returns the problem of a request whose sender may not do this (403).
    pub(super) fn forbidden(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::FORBIDDEN, "forbidden", detail)
    }

    /// Returns the problem of a path that no route has (404).
    pub(super) fn no_route() -> Self {
        let detail = "no route has this path; GET /v1/openapi.json describes all routes";
        Self::new(StatusCode::NOT_FOUND, "not_found", detail)
    }

    /// Returns the problem of faulty parameters (422).
    pub(super) fn invalid(faults: Vec<Fault>) -> Self {
        let texts: Vec<String> = faults.iter().map(Fault::text).collect();
        Self { faults, ..Self::new(StatusCode::UNPROCESSABLE_ENTITY, "invalid", texts.join("; ")) }
    }

    /// Returns the problem of a job with faulty keys (422).
    pub(super) fn of_keys(problems: &[Problem]) -> Self {
        let fault = |problem: &Problem| {
            let path = Some(problem.path.as_str()).filter(|path| !path.is_empty());
            Fault::of_message(path, &problem.message)
        };
        let texts: Vec<String> = problems.iter().map(ToString::to_string).collect();
        Self {
            faults: problems.iter().map(fault).collect(),
            ..Self::invalid_text(texts.join("; "))
        }
    }

    /// Returns the problem of a request that a verb refuses as invalid (422).
    fn invalid_text(detail: String) -> Self {
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, "invalid", detail)
    }

    /// Returns the same problem with `name` in place of the flag `flag` in its detail.
    pub(super) fn renaming(self, flag: &str, name: &str) -> Self {
        Self { detail: renamed(&self.detail, flag, name), ..self }
    }

    /// Returns the problem of a limit that is reached; the request may succeed after `seconds`.
    pub(super) fn busy(detail: impl Into<String>, seconds: u32) -> Self {
        let status = StatusCode::SERVICE_UNAVAILABLE;
        Self { retry_after: Some(seconds), ..Self::new(status, "busy", detail) }
    }

    /// Returns true if the change was made, and too few replicas of Redis have it.
    pub(super) fn is_about_replicas(&self) -> bool {
        self.code == NOT_REPLICATED
    }

    /// Returns true if the same request may succeed later.
    pub(super) fn is_for_later(&self) -> bool {
        self.retry_after.is_some()
    }

    /// Returns the status of the answer.
    pub(super) fn status(&self) -> u16 {
        self.status.as_u16()
    }

    /// Returns the same problem, with the time after which the request may succeed.
    pub(super) fn after(self, seconds: u32) -> Self {
        Self { retry_after: Some(seconds), ..self }
    }

    /// Returns the problem for the JSON object of an error of a verb.
    pub(super) fn of_error(error: &Value) -> Self {
        let text = error["error"].as_str().unwrap_or("the request failed").to_owned();
        let (status, code) = match error["kind"].as_str() {
            Some("invalid") => return Self::invalid_text(text),
            Some("not_found") => (StatusCode::NOT_FOUND, "not_found"),
            Some("conflict") => (StatusCode::CONFLICT, "conflict"),
            Some("unreachable") => {
                return Self { code: "redis_unreachable", ..Self::busy(text, 1) };
            }
            Some("not_replicated") => {
                return Self { code: NOT_REPLICATED, ..Self::busy(text, 1) };
            }
            _ => (StatusCode::INTERNAL_SERVER_ERROR, "failed"),
        };
        Self::new(status, code, text)
    }

    /// Returns the problem of a body of lines that cannot be read to its end.
    fn of_input(error: &io::Error) -> Self {
        let (status, code) = match error.kind() {
            io::ErrorKind::FileTooLarge => (StatusCode::PAYLOAD_TOO_LARGE, "too_large"),
            io::ErrorKind::TimedOut => (StatusCode::REQUEST_TIMEOUT, "timeout"),
            _ => (StatusCode::BAD_REQUEST, "bad_request"),
        };
        Self::new(status, code, error.to_string())
    }

    /// Returns the problem as the member of a line of an NDJSON answer, or as the whole document.
    pub(super) fn document(&self) -> Value {
        let mut document = json!({
            "status": self.status.as_u16(),
            "title": self.status.canonical_reason(),
            "detail": self.detail,
            "code": self.code,
        });
        if self.status == StatusCode::UNPROCESSABLE_ENTITY {
            document["errors"] = match self.faults.as_slice() {
                [] => faults_in(&self.detail).iter().map(Fault::json).collect(),
                faults => faults.iter().map(Fault::json).collect(),
            };
        }
        document
    }
}

/// Returns the faults that the text of a verb names: `since: found X, wanted Y; until: found Z`.
fn faults_in(detail: &str) -> Vec<Fault> {
    let mut parts: Vec<(Option<&str>, String)> = Vec::new();
    for part in detail.split("; ") {
        match (named(part), parts.last_mut()) {
            // A further fault follows a named fault only. Other texts have semicolons of their own.
            (Some((name, message)), None | Some((Some(_), _))) => {
                parts.push((Some(name), message.to_owned()));
            }
            (_, Some((_, message))) => {
                message.push_str("; ");
                message.push_str(part);
            }
            (None, None) => parts.push((None, part.to_owned())),
        }
    }
    parts.iter().map(|(name, message)| Fault::of_message(*name, message)).collect()
}

/// Returns the name of a parameter and the message about it, of a text such as `since: found X` or
/// `queue name "X" is not valid`.
fn named(text: &str) -> Option<(&str, &str)> {
    let is_name = |name: &str| {
        let is_of_name = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
        !name.is_empty() && name.bytes().all(is_of_name)
    };
    let of_kind = text.split_once(" name \"").map(|(kind, _)| (kind, text));
    let pairs = [text.split_once(": "), of_kind];
    pairs.into_iter().flatten().find(|(name, _)| is_name(name))
}

/// Returns `text` with `name` in place of the flag `flag`, where the flag is a whole word. A flag of a
/// command line, such as `schedctl cancel backup --stop`, stays.
fn renamed(text: &str, flag: &str, name: &str) -> String {
    let mut parts = text.split(flag);
    let mut renamed = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let goes_on = part.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '-');
        let phrase = renamed.rsplit(['(', ')', ',', ';', ':']).next().unwrap_or_default();
        let is_of_command = phrase.contains("schedctl ");
        renamed.push_str(if goes_on || is_of_command { flag } else { name });
        renamed.push_str(part);
    }
    renamed
}

impl From<CliFailure> for ApiProblem {
    fn from(failure: CliFailure) -> Self {
        match &failure {
            CliFailure::Keys(problems) => Self::of_keys(problems),
            CliFailure::Input(error) => Self::of_input(error),
            // A cursor of another list is a malformed request.
            CliFailure::Cursor => Self::bad_request(failure.lines().join("; ")),
            _ => Self::of_error(&failure.json()),
        }
    }
}

impl IntoResponse for ApiProblem {
    fn into_response(self) -> Response {
        let mut response = Response::new(Body::from(self.document().to_string()));
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        if self.status == StatusCode::UNAUTHORIZED {
            headers.insert(
                header::WWW_AUTHENTICATE,
                HeaderValue::from_static("Bearer realm=\"schedd\""),
            );
        }
        if let Some(seconds) = self.retry_after {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        response
    }
}

#[cfg(test)]
mod tests {
    use super::{Fault, faults_in, renamed};

    #[test]
    fn each_fault_in_the_text_of_a_verb_has_its_path() {
        let texts = |detail: &str| faults_in(detail).iter().map(Fault::text).collect::<Vec<_>>();
        let two = ["limit: found -1, wanted 1 to 5", "rate: found \"x\", wanted RUNS/DURATION"];
        assert_eq!(texts(&two.join("; ")), two);
        let one = "the job has no run; wanted: a run";
        assert_eq!(texts(one), [format!("found {one}")]);
        assert_eq!(texts("limit: found 1, wanted 2; or none").len(), 1);
        let name = faults_in("queue name \"A\" is not valid: wanted a-z");
        assert_eq!(name[0].path.as_deref(), Some("queue"));
    }

    #[test]
    fn a_flag_gets_its_name_but_not_within_a_command_line() {
        let text = "wanted --stop, or --stop-all; (schedctl cancel a --stop stops it), --stop";
        assert_eq!(
            renamed(text, "--stop", "stop"),
            "wanted stop, or --stop-all; (schedctl cancel a --stop stops it), stop"
        );
    }
}
