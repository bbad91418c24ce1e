//! The reason why schedd cannot start, with the exit code.

use std::fmt::Display;
use std::process::ExitCode;

use tracing::error;

/// The reason why schedd cannot start, as one line per problem, with the exit code.
#[derive(Debug)]
pub(super) struct SetupFailure {
    lines: String,
    code: u8,
}

impl SetupFailure {
    pub(super) fn usage(error: impl Display) -> Self {
        Self { lines: error.to_string(), code: 2 }
    }

    pub(super) fn conflict(error: impl Display) -> Self {
        Self { lines: error.to_string(), code: 4 }
    }

    pub(super) fn redis(error: impl Display) -> Self {
        Self { lines: error.to_string(), code: 69 }
    }

    pub(super) fn config(lines: impl Display) -> Self {
        Self { lines: lines.to_string(), code: 78 }
    }

    pub(super) fn other(error: impl Display) -> Self {
        Self { lines: error.to_string(), code: 1 }
    }

    /// Logs the reason, and returns the exit code.
    pub(super) fn logged(&self) -> ExitCode {
        for line in self.lines.lines() {
            error!("{line}");
        }
        ExitCode::from(self.code)
    }

    /// Prints the reason on standard error, and returns the exit code.
    pub(super) fn report(&self) -> ExitCode {
        use std::io::Write;
        let mut stderr = std::io::stderr().lock();
        for line in self.lines.lines() {
            // A closed standard error must not change the exit code.
            let _ = writeln!(stderr, "schedd: {line}");
        }
        ExitCode::from(self.code)
    }
}

/// Converts a system error with its context, as in `schedd cannot listen for signals: Permission
/// denied`. The exit code is 1.
impl From<anyhow::Error> for SetupFailure {
    fn from(error: anyhow::Error) -> Self {
        Self::other(format_args!("{error:#}"))
    }
}
