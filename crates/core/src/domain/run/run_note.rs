//! The note of the user who asks for a run: why the run is wanted.

use std::fmt;
use std::str::FromStr;

/// The most characters of a note.
const MOST_CHARS: usize = 200;

/// A note: 1 to 200 characters on one line, without blanks around it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunNote(String);

/// The reason why a text is no note.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RunNoteError {
    /// The text has no character or too many. The value is the number of its characters.
    #[error("found a note of {0} characters, wanted 1 to 200")]
    Length(usize),
    /// The text has a control character, such as a line break.
    #[error("found a note with a control character, wanted one line of text")]
    Control,
}

impl FromStr for RunNote {
    type Err = RunNoteError;

    fn from_str(text: &str) -> Result<Self, RunNoteError> {
        let text = text.trim();
        let length = text.chars().count();
        if !(1..=MOST_CHARS).contains(&length) {
            return Err(RunNoteError::Length(length));
        }
        if text.contains(char::is_control) {
            return Err(RunNoteError::Control);
        }
        Ok(Self(text.to_owned()))
    }
}

impl RunNote {
    /// Returns the text of the note.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for RunNote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_is_one_short_line() {
        assert_eq!(" a b ".parse::<RunNote>().unwrap().as_str(), "a b");
        let long = "ä".repeat(200);
        assert_eq!(long.parse::<RunNote>().unwrap().to_string(), long);
        for (bad, error) in [
            ("", RunNoteError::Length(0)),
            ("  ", RunNoteError::Length(0)),
            (&"ä".repeat(201), RunNoteError::Length(201)),
            ("a\nb", RunNoteError::Control),
            ("a\u{1b}b", RunNoteError::Control),
        ] {
            assert_eq!(bad.parse::<RunNote>(), Err(error), "{bad:?}");
        }
    }
}
