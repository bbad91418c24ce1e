//! Asking a person who is about to let go of all there is of something whether that is meant.

use std::io::{IsTerminal as _, Write as _};

use super::failure::Failure;
use super::render::one_line;

/// Whether a person can be asked.
pub(super) fn is_terminal() -> bool {
    std::io::stdin().is_terminal() && std::io::stderr().is_terminal()
}

/// Fails unless the person at the terminal writes the name of the namespace. `what` is to be `done`: `3 dead letters`, `forgotten`.
pub(super) fn ask(namespace: &str, what: &str, done: &str) -> Result<(), Failure> {
    // Whether it was seen shows the answer.
    let _ = write!(std::io::stderr(), "{what} of namespace {namespace} would be {done}; to go on write {namespace}: ");
    let mut answer = String::new();
    let is_read = std::io::stdin().read_line(&mut answer).is_ok();
    if is_read && answer.trim() == namespace {
        return Ok(());
    }
    Err(Failure::Invalid(format!("found {}, wanted {namespace}: nothing was {done}", one_line(&format!("{:?}", answer.trim())))))
}
