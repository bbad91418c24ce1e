//! The question to the user at the terminal before all data of a kind is deleted.

use std::io::Write as _;

use super::failure::CliFailure;
use super::render::one_line;

/// Fails unless the user at the terminal types the name of the namespace.
///
/// The question says that `what`, such as `3 dead letters`, will be `done`, such as `deleted`.
pub(crate) fn ask(namespace: &str, what: &str, done: &str) -> Result<(), CliFailure> {
    // An error of this write is ignored, because a user who does not see the question cannot give
    // the right answer.
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
        "the answer is {}, wanted the namespace {namespace}; nothing is {done}",
        one_line(&format!("{:?}", answer.trim()))
    )))
}
