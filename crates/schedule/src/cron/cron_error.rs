//! The error for a text that is not a cron expression.

use super::cron_piece::CronFault;

/// The reason why a text is not a cron expression.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("cron {text:?}: {problem}")]
pub struct CronError {
    /// The text of the expression, cut if the text is long.
    pub text: String,
    /// The message: the fault, its position as a character counted from 1, and a valid form.
    pub problem: String,
    /// The byte at which the fault begins, or the length of the text if a part is missing at the
    /// end.
    pub offset: usize,
}

impl CronError {
    pub(super) fn of(text: &str, CronFault { offset, problem }: CronFault) -> Self {
        Self { text: cut(text), problem, offset }
    }
}

fn cut(text: &str) -> String {
    match text.char_indices().nth(120) {
        Some((end, _)) => format!("{}...", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}
