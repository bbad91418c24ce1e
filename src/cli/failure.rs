//! The failures of a verb, each with one line of text and an exit code.
//!
//! Invariant: a failure is one line on standard error, but a failure of a configuration file has
//! one line for each problem. No line contains a password or a control character. With `--json`
//! each failure is one JSON object on standard error.

use std::io;

use serde_json::{Value, json};

use super::render::one_line;
use schedd::ClientError;
use schedd::engine::planning::job_operations::OperationError;
use schedd::engine::planning::planting::PlantingError;
use schedd_core::config::Problem;
use schedd_schedule::time::human_time::InstantError;
use schedd_store::{AddressError, StoreError};

/// The reason why a verb did not do what the user asked for.
#[derive(Debug)]
pub(crate) enum CliFailure {
    /// An operation failed, or stored data is wrong.
    Failed(String),
    /// The input cannot be used. Nothing was changed.
    Invalid(String),
    /// The text of an argument has an error at the byte `offset`. On a terminal a caret marks the
    /// error. The exit code is that of `Invalid`.
    Pointed { line: String, text: String, offset: usize },
    /// The named job or run does not exist.
    NotFound(String),
    /// The request does not fit the current state of a job, run or queue.
    Conflict(String),
    /// Redis cannot be reached, or no Redis was found.
    Unreachable(String),
    /// The change was made, but too few replicas of Redis have it.
    NotReplicated(String),
    /// A configuration file has problems, one line each.
    Config(Vec<String>),
    /// Keys of a job have problems. The exit code is that of `Invalid`.
    Keys(Vec<Problem>),
    /// The cursor of a page is none that schedd made for this list. The exit code is that of
    /// `Invalid`.
    Cursor,
    /// The input cannot be read to its end. The exit code is that of `Invalid`.
    Input(io::Error),
}

impl CliFailure {
    /// Returns the exit code of the process: 1 to 4, 69 if Redis is out of reach, 75 if a failover may
    /// lose the change, or 78 for a bad file.
    pub(crate) fn code(&self) -> u8 {
        match self {
            Self::Failed(_) => 1,
            Self::Invalid(_)
            | Self::Pointed { .. }
            | Self::Keys(_)
            | Self::Cursor
            | Self::Input(_) => 2,
            Self::NotFound(_) => 3,
            Self::Conflict(_) => 4,
            Self::Unreachable(_) => 69,
            Self::NotReplicated(_) => 75,
            Self::Config(_) => 78,
        }
    }

    /// Returns the lines of the failure for standard error.
    pub(crate) fn lines(&self) -> Vec<String> {
        match self {
            Self::Failed(line)
            | Self::Invalid(line)
            | Self::NotFound(line)
            | Self::Conflict(line)
            | Self::Unreachable(line)
            | Self::NotReplicated(line) => {
                vec![one_line(line)]
            }
            Self::Pointed { line, .. } => vec![one_line(line)],
            Self::Keys(problems) => {
                let texts: Vec<String> = problems.iter().map(ToString::to_string).collect();
                vec![one_line(&texts.join("; "))]
            }
            Self::Cursor => vec![
                "cursor: found a text that is no cursor, wanted the value of next in the page before"
                    .to_owned(),
            ],
            Self::Input(error) => {
                vec![one_line(&format!("the standard input cannot be read: {error}"))]
            }
            Self::Config(lines) => lines.iter().map(|line| one_line(line)).collect(),
        }
    }

    /// Returns the failure as one JSON object: all lines of the failure, its exit code and its kind.
    pub(crate) fn json(&self) -> Value {
        let kind = match self {
            Self::Failed(_) => "failed",
            Self::Invalid(_)
            | Self::Pointed { .. }
            | Self::Keys(_)
            | Self::Cursor
            | Self::Input(_) => "invalid",
            Self::NotFound(_) => "not_found",
            Self::Conflict(_) => "conflict",
            Self::Unreachable(_) => "unreachable",
            Self::NotReplicated(_) => "not_replicated",
            Self::Config(_) => "config",
        };
        error_json(&self.lines().join("\n"), Some((self.code(), kind)))
    }

    /// Returns the failure for the JSON object of an error of a verb.
    pub(crate) fn of_json(error: &Value) -> Self {
        let text = error["error"].as_str().unwrap_or("the verb failed").to_owned();
        match error["kind"].as_str() {
            Some("invalid") => Self::Invalid(text),
            Some("not_found") => Self::NotFound(text),
            Some("conflict") => Self::Conflict(text),
            Some("unreachable") => Self::Unreachable(text),
            Some("not_replicated") => Self::NotReplicated(text),
            Some("config") => Self::Config(text.lines().map(str::to_owned).collect()),
            _ => Self::Failed(text),
        }
    }

    /// Returns the failure for `text`, the value of the flag `flag`, which is not a valid time.
    pub(crate) fn at_time(flag: &str, text: &str, error: &InstantError) -> Self {
        Self::Pointed {
            line: format!("{flag}: {error}"),
            text: text.to_owned(),
            offset: error.offset,
        }
    }

    /// Returns two lines for a terminal: the text with the error, and a caret below the error.
    /// Returns `None` for other failures, or if the error is after the first 100 characters.
    pub(crate) fn pointer(&self) -> Option<[String; 2]> {
        const SHOWN: usize = 100;
        let Self::Pointed { text, offset, .. } = self else { return None };
        let before = one_line(text.get(..*offset)?).chars().count();
        let shown = one_line(text);
        (before <= SHOWN).then(|| {
            [
                format!("  {}", shown.chars().take(SHOWN).collect::<String>()),
                format!("  {}^", " ".repeat(before)),
            ]
        })
    }
}

/// Returns the JSON object of an error. `end` is the exit code and the kind of the failure that ends
/// the command. It is `None` for an error about one item, after which the command continues.
pub(crate) fn error_json(error: &str, end: Option<(u8, &str)>) -> Value {
    json!({
        "error": error,
        "exit_code": end.map(|(code, _)| code),
        "kind": end.map(|(_, kind)| kind),
    })
}

/// Converts a system error with its context, as in `cannot listen for signals: Permission denied`.
/// The result is always `Failed`, which has the exit code 1.
impl From<anyhow::Error> for CliFailure {
    fn from(error: anyhow::Error) -> Self {
        Self::Failed(format!("{error:#}"))
    }
}

/// A call of the engine fails for the same reasons as a call of the library.
impl From<ClientError> for CliFailure {
    fn from(error: ClientError) -> Self {
        match error {
            ClientError::Invalid(text) => Self::Invalid(text),
            ClientError::NotFound(text) => Self::NotFound(text),
            ClientError::Conflict(text) => Self::Conflict(text),
            ClientError::Unreachable(text) => Self::Unreachable(text),
            ClientError::NotReplicated(text) => Self::NotReplicated(text),
            error => Self::Failed(error.to_string()),
        }
    }
}

impl From<StoreError> for CliFailure {
    fn from(error: StoreError) -> Self {
        ClientError::from(error).into()
    }
}

impl From<AddressError> for CliFailure {
    fn from(error: AddressError) -> Self {
        ClientError::from(error).into()
    }
}

impl From<PlantingError> for CliFailure {
    fn from(error: PlantingError) -> Self {
        ClientError::from(error).into()
    }
}

impl From<OperationError> for CliFailure {
    fn from(error: OperationError) -> Self {
        ClientError::from(error).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_pointed_at_where_it_cannot_be_read() {
        let pointed = |text: &str, offset| {
            CliFailure::Pointed { line: String::new(), text: text.to_owned(), offset }.pointer()
        };
        assert_eq!(
            pointed("0 0 * * *1", 8),
            Some(["  0 0 * * *1".to_owned(), "          ^".to_owned()])
        );
        assert_eq!(pointed("\té x", 4), Some(["  \\té x".to_owned(), "      ^".to_owned()]));
        assert_eq!(pointed("é", 1), None);
        assert_eq!(pointed(&"x".repeat(300), 200), None);
    }

    #[test]
    fn a_line_stays_one_line_whatever_is_in_it() {
        let failure = CliFailure::Failed("a\nb\u{1b}[31m\u{202e}".to_owned());
        assert_eq!(failure.lines(), ["a\\nb\\u{1b}[31m\\u{202e}"]);
    }
}
