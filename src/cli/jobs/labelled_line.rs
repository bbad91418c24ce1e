//! The lines of `show`: a label and a text.

use crate::cli::render::{Console, one_line};

/// The width of the column of labels: the longest label, and a space.
const LABEL_WIDTH: usize = 13;

/// Prints a line with a label.
pub(super) fn field(word: &str, text: &str, console: &mut Console) {
    field_raw(word, &one_line(text), console);
}

/// Prints a line with a label. The text must contain no control characters except those for
/// colours.
pub(super) fn field_raw(word: &str, text: &str, console: &mut Console) {
    console.line(&format!("{word:<LABEL_WIDTH$} {text}"));
}
