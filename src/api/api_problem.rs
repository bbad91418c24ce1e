//! Error documents (RFC 9457, `application/problem+json`).

use axum::body::Body;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

use crate::cli::embedded::CliFailure;

/// The reason why a request was not carried out.
#[derive(Debug, Clone)]
pub(super) struct ApiProblem {
    status: StatusCode,
    /// The word for the reason, which programs may compare.
    code: &'static str,
    detail: String,
    /// The faults of the sent definition: path, found value, wanted value.
    faults: Vec<Value>,
    /// The number of seconds after which the request may succeed.
    retry_after: Option<u32>,
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

    /// Returns the problem of a definition with faults (422).
    pub(super) fn invalid(detail: impl Into<String>, faults: Vec<Value>) -> Self {
        Self { faults, ..Self::new(StatusCode::UNPROCESSABLE_ENTITY, "invalid", detail) }
    }

    /// Returns the problem of a limit that is reached; the request may succeed after `seconds`.
    pub(super) fn busy(detail: impl Into<String>, seconds: u32) -> Self {
        let status = StatusCode::SERVICE_UNAVAILABLE;
        Self { retry_after: Some(seconds), ..Self::new(status, "busy", detail) }
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
            Some("invalid") => (StatusCode::UNPROCESSABLE_ENTITY, "invalid"),
            Some("not_found") => (StatusCode::NOT_FOUND, "not_found"),
            Some("conflict") => (StatusCode::CONFLICT, "conflict"),
            Some("unreachable") => {
                return Self { code: "redis_unreachable", ..Self::busy(text, 1) };
            }
            _ => (StatusCode::INTERNAL_SERVER_ERROR, "failed"),
        };
        Self::new(status, code, text)
    }

    /// Returns the problem as the member of a line of an NDJSON answer, or as the whole document.
    pub(super) fn document(&self) -> Value {
        let mut document = json!({
            "status": self.status.as_u16(),
            "title": self.status.canonical_reason(),
            "detail": self.detail,
            "code": self.code,
        });
        if !self.faults.is_empty() {
            document["errors"] = Value::Array(self.faults.clone());
        }
        document
    }
}

impl From<CliFailure> for ApiProblem {
    fn from(failure: CliFailure) -> Self {
        let problem = Self::of_error(&failure.json());
        // A cursor of another list is a malformed request.
        if problem.detail.starts_with("cursor: ") {
            Self::bad_request(problem.detail)
        } else {
            problem
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
