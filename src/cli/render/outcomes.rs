//! The outcomes for the several objects of one command. A failure for one object does not stop the
//! work on the other objects.

use serde_json::Value;

use super::Console;
use crate::cli::failure::CliFailure;

/// A printer of outcomes: each outcome at once as a sentence, or all outcomes as one JSON array at
/// the end.
pub(crate) struct Outcomes<'a> {
    console: &'a mut Console,
    worst: u8,
    document: Vec<Value>,
}

impl<'a> Outcomes<'a> {
    pub(crate) const fn on(console: &'a mut Console) -> Self {
        Self { console, worst: 0, document: Vec::new() }
    }

    /// Adds the outcome for one object: JSON and a sentence for a success, or a failure.
    pub(crate) fn report(&mut self, done: Result<(Value, String), CliFailure>) {
        match done {
            Ok((entry, _)) if self.console.is_json() => self.document.push(entry),
            Ok((_, sentence)) if !self.console.is_quiet() => self.console.line(&sentence),
            Ok(_) => {}
            Err(failure) => self.worst = self.console.failure(&failure).max(self.worst),
        }
    }

    /// Prints the JSON array of all outcomes, if JSON was requested. Returns the highest exit code
    /// of the failures.
    pub(crate) fn end(self) -> u8 {
        if self.console.is_json() {
            self.console.json(&Value::Array(self.document));
        }
        self.worst
    }
}
