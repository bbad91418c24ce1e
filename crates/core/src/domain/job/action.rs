//! The action of a job, and its `done_check`: a process or an HTTP request. A job may also hand its
//! runs to workers.

use std::collections::BTreeMap;
use std::time::Duration;

use schedd_schedule::names::HandlerName;

/// The action of an attempt: a program, a shell line, an HTTP request, or the work of a worker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Runs a program with arguments, without a shell. The name of the program is not empty, and no
    /// word contains a NUL.
    Command(Vec<String>),
    /// Runs a line with `/bin/sh -c`, or with another shell. The line is not blank and contains no
    /// NUL.
    Shell(String),
    /// Makes an HTTP request.
    Http(HttpRequest),
    /// Hands the run to a worker: a program that asks for runs of this handler. No node executes
    /// the run.
    Handler(HandlerCall),
}

impl Action {
    /// Replaces the values that may be secret: of header fields and of the body.
    pub(super) fn conceal(&mut self) {
        if let Self::Http(request) = self {
            request.headers.values_mut().for_each(conceal);
            if !request.body.is_empty() {
                conceal(&mut request.body);
            }
        }
        if let Self::Handler(call) = self {
            call.payload = format!("\"{HIDDEN}\"");
        }
    }
}

/// The text in place of a value that may be secret.
const HIDDEN: &str = "(hidden)";

/// Replaces a value that may be secret.
pub(super) fn conceal(text: &mut String) {
    HIDDEN.clone_into(text);
}

/// The work that a job hands to workers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HandlerCall {
    /// The name of the work. A worker names the handlers of which it takes runs.
    pub handler: HandlerName,
    /// The input of the work: a JSON text without spaces between its values. At most 256 KiB.
    pub payload: String,
}

/// The request of an `http` job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpRequest {
    /// The method in upper case. The default is GET, or POST with a body.
    pub method: String,
    /// The absolute `http` or `https` URL of the request. It may contain references to credentials.
    /// With the credentials inserted, it has a host, no user and no password. At most 8 KiB.
    pub url: String,
    /// The header fields in the order of their names. The fields contain no CR, LF or NUL.
    pub headers: BTreeMap<String, String>,
    /// The body of the request. An empty text means no body.
    pub body: String,
    /// The statuses that count as success. An empty list means any 2xx status.
    pub expect: Vec<u16>,
    /// The maximum number of redirects to follow. With 0, a redirect is the final answer.
    pub redirects: u8,
}

/// A check before an attempt that finds out if the work of the run is already done. The node makes
/// the check under the lease of the run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DoneCheck {
    /// The command or request of the check. Exit code 0 or an expected status means that the work
    /// is done. Exit code 1 or status 404 or 410 means that the work is not done.
    pub question: Action,
    /// The attempts before which the check is made.
    pub on: AskedOn,
    /// The maximum time for the answer of the check. 100 ms to 1 hour.
    pub timeout: Duration,
}

/// The attempts before which a `done_check` is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AskedOn {
    /// The check is made before each attempt except the first attempt of the run.
    Retry,
    /// The check is made before each attempt.
    Always,
}

impl Action {
    /// Returns true if the action starts a process instead of making a request.
    pub fn starts_process(&self) -> bool {
        match self {
            Self::Command(_) | Self::Shell(_) => true,
            Self::Http(_) | Self::Handler(_) => false,
        }
    }

    /// Returns the handler whose workers do the work. Returns `None` if nodes do the work.
    pub fn handler(&self) -> Option<&HandlerName> {
        match self {
            Self::Handler(call) => Some(&call.handler),
            Self::Command(_) | Self::Shell(_) | Self::Http(_) => None,
        }
    }
}

impl HttpRequest {
    /// Creates a POST request without a body.
    pub fn post(url: String) -> Self {
        Self {
            method: "POST".to_owned(),
            url,
            headers: BTreeMap::new(),
            body: String::new(),
            expect: Vec::new(),
            redirects: 0,
        }
    }

    /// Returns true if an answer with this status counts as success.
    pub fn expects(&self, status: u16) -> bool {
        if self.expect.is_empty() {
            (200..300).contains(&status)
        } else {
            self.expect.contains(&status)
        }
    }
}

impl DoneCheck {
    /// The default maximum time for the answer of a check.
    pub const TIMEOUT: Duration = Duration::from_secs(60);
}
