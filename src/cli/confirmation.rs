//! A confirmation by the user at the terminal, before all data of a kind is deleted.

use std::io::{IsTerminal as _, Write as _};

use super::failure::CliFailure;
use super::render::one_line;

/// Returns true if standard input and standard error are terminals.
pub(crate) fn is_terminal() -> bool {
    std::io::stdin().is_terminal() && std::io::stderr().is_terminal()
}

/// Fails unless the user at the terminal types the name of the namespace.
///
/// The question names `what` would be `done`, such as `3 dead letters` and `forgotten`.
pub(crate) fn ask(namespace: &str, what: &str, done: &str) -> Result<(), CliFailure> {
    // A failed write needs no error: without the question there will be no right answer.
    let _ = write!(
        std::io::stderr(),
        "{what} of namespace {namespace} will be {done}; type {namespace} to confirm: "
    );
    let mut answer = String::new();
    let is_read = std::io::stdin().read_line(&mut answer).is_ok();
    if is_read && answer.trim() == namespace {
        return Ok(());
    }
    Err(CliFailure::Invalid(format!(
        "found {}, wanted {namespace}: nothing is {done}",
        one_line(&format!("{:?}", answer.trim()))
    )))
}
