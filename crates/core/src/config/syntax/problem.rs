//! A fault or warning about a configuration text: its place and its message, in one line.
//!
//! [`Problems`] collects all faults while a text is compiled, so that a user sees all faults at
//! once.

use std::fmt;
use std::ops::Range;

/// The bytes of a configuration text from which a value was read.
pub(crate) type TextSpan = Range<usize>;

/// A fault of a configuration, or a warning about a configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The key with the problem, with the tables around the key: `jobs.backup.timeout`. An empty
    /// path means the whole file or line.
    pub path: String,
    /// The bytes of the file at which the problem is. `None` if the problem did not come from a
    /// file.
    pub span: Option<Range<usize>>,
    /// The message, in one line: the value found, the value wanted, and how to correct the fault.
    pub message: String,
    /// The text of the faulty value, and the byte in it at which the fault begins. `None` unless
    /// the fault is at a single character.
    pub within: Option<(String, usize)>,
}

impl Problem {
    /// Creates a problem of the whole value at `path`. `span` is the range of the bytes of the
    /// value in the file.
    pub fn new(path: &str, span: Option<TextSpan>, message: impl Into<String>) -> Self {
        Self { path: path.to_owned(), span, message: message.into(), within: None }
    }
}

/// Formats the problem as `jobs.backup.timeout: found ..., wanted ...`, without a position.
impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.path.is_empty() {
            f.write_str(&self.message)
        } else {
            write!(f, "{}: {}", self.path, self.message)
        }
    }
}

/// The problems that a compilation has found so far.
#[derive(Debug, Default)]
pub(crate) struct Problems {
    /// The faults. A file or line with a fault is not used.
    pub(crate) faults: Vec<Problem>,
    /// The warnings. A file or line with only warnings is used.
    pub(crate) warnings: Vec<Problem>,
    /// The first key that this version does not know. Such a key in a definition from Redis shows
    /// that a newer version wrote the definition.
    pub(crate) unknown_key: Option<String>,
}

impl Problems {
    /// Adds a fault of the value at `path`. `span` is the range of the bytes of the value in the
    /// file.
    pub(crate) fn fault(&mut self, path: &str, span: Option<TextSpan>, message: impl Into<String>) {
        self.faults.push(Problem::new(path, span, message));
    }

    /// Adds a fault at a single character of `text`, the value at `path`. `offset` is the byte of
    /// that character.
    pub(crate) fn fault_within(
        &mut self,
        path: &str,
        span: Option<TextSpan>,
        text: &str,
        offset: usize,
        message: String,
    ) {
        self.faults.push(Problem {
            within: Some((text.to_owned(), offset)),
            ..Problem::new(path, span, message)
        });
    }

    /// Adds a warning about the value at `path`.
    pub(crate) fn warning(
        &mut self,
        path: &str,
        span: Option<TextSpan>,
        message: impl Into<String>,
    ) {
        self.warnings.push(Problem::new(path, span, message));
    }

    /// Adds a fault for a key that this version does not know.
    pub(crate) fn unknown_key(
        &mut self,
        path: &str,
        span: Option<TextSpan>,
        message: impl Into<String>,
    ) {
        self.unknown_key.get_or_insert_with(|| path.to_owned());
        self.fault(path, span, message);
    }
}

/// Sorts problems by their place in the file, so that a reader goes through the file once.
pub(crate) fn sort_by_place(problems: &mut [Problem]) {
    problems.sort_by_key(|problem| problem.span.as_ref().map_or(0, |span| span.start));
}

/// Formats a text in quotes for a message. Control characters are escaped, and the text is cut to
/// fit on a line.
pub(crate) fn quoted(text: &str) -> String {
    const SHOWN: usize = 60;
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{:?}", format!("{}…", text.get(..end).unwrap_or_default())),
        None => format!("{text:?}"),
    }
}

/// Formats a key for a path: unchanged if TOML allows the key without quotes, else quoted.
pub(crate) fn key_text(key: &str) -> String {
    let bare = !key.is_empty()
        && key.len() <= 64
        && key.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-');
    if bare { key.to_owned() } else { quoted(key) }
}

/// Joins `words` for a message: `a, b or c`.
pub(crate) fn one_of<S: AsRef<str>>(words: &[S]) -> String {
    let words: Vec<&str> = words.iter().map(AsRef::as_ref).collect();
    match words.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} or {last}", rest.join(", ")),
        Some((last, _)) => (*last).to_owned(),
        None => "none".to_owned(),
    }
}

/// Returns the word of `known` for which `found` is probably a misspelling. Returns `None` if no
/// word is similar.
pub fn nearest<'k>(found: &str, known: impl IntoIterator<Item = &'k str>) -> Option<&'k str> {
    // A long text is not a typing error, and the time of the comparison grows with both lengths.
    if found.len() > 80 {
        return None;
    }
    let folded = found.to_ascii_lowercase().replace('-', "_");
    known
        .into_iter()
        .map(|word| {
            (
                strsim::damerau_levenshtein(&folded, &word.to_ascii_lowercase().replace('-', "_")),
                word,
            )
        })
        .filter(|(distance, word)| *distance <= word.len().div_ceil(3).min(3))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, word)| word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_of_the_finger_finds_the_word_that_was_meant() {
        let known = ["command", "timeout", "kill_grace", "late_after", "tz", "at"];
        for (found, meant) in [
            ("comand", "command"),
            ("time-out", "timeout"),
            ("kill-grace", "kill_grace"),
            ("TZ", "tz"),
        ] {
            assert_eq!(nearest(found, known), Some(meant), "{found}");
        }
        for found in ["zebra", "", &"command".repeat(20)] {
            assert_eq!(nearest(found, known), None, "{found}");
        }
    }

    #[test]
    fn what_is_quoted_stays_on_its_line_and_is_not_endless() {
        assert_eq!(quoted("a\nb\u{1b}[31m"), r#""a\nb\u{1b}[31m""#);
        assert!(quoted(&"é".repeat(1000)).chars().count() < 70);
        assert_eq!(key_text("a.b"), "\"a.b\"");
        assert_eq!(key_text("a-b_1"), "a-b_1");
    }
}
