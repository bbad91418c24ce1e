//! Texts of others on a page: names, reasons, errors. No character of such a text controls the
//! browser: control characters and changes of the direction of writing become visible escapes.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize};

use crate::cli::embedded::{one_line, safe_text};
use schedd_schedule::time::wording::end_within;

/// The number of bytes of a text that a page shows. A longer text is cut.
const MOST_BYTES: usize = 2_000;

/// A text of a document, mostly on one line. The template escapes it when it writes it.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(crate) struct ShownText(String);

impl ShownText {
    /// Returns the text as a page shows it.
    pub(crate) fn new(text: &str) -> Self {
        let end = end_within(text, MOST_BYTES.min(text.len()));
        let cut = if end < text.len() { " ... (cut)" } else { "" };
        Self(format!("{}{cut}", one_line(&text[..end])))
    }

    /// Returns the lines of a text, such as a script, as a page shows them.
    pub(crate) fn of_lines(text: &str) -> Self {
        let end = end_within(text, MOST_BYTES.min(text.len()));
        let cut = if end < text.len() { "\n... (cut)" } else { "" };
        Self(format!("{}{cut}", safe_text(text[..end].trim_end().as_bytes())))
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the word with blanks for its underscores, such as `timed out`.
    pub(crate) fn in_words(&self) -> String {
        self.0.replace('_', " ")
    }
}

impl fmt::Display for ShownText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for ShownText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(|text| Self::new(&text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_controls_nothing_and_is_bounded() {
        let text = ShownText::new("a\u{202e}b\u{1b}[31m\nc");
        assert_eq!(text.as_str(), "a\\u{202e}b\\u{1b}[31m\\nc");
        let long = ShownText::new(&"ä".repeat(1_000_000));
        assert!(long.as_str().ends_with("ä ... (cut)") && long.as_str().len() < 2_100);
        let lines = ShownText::of_lines("a\u{202e}\n\tb\r\n\n");
        assert_eq!(lines.as_str(), "a\\u{202e}\n\tb");
        assert_eq!(ShownText::new("timed_out").in_words(), "timed out");
    }
}
