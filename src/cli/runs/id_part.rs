//! A part of the id of a run, which names the run if no other run of its job matches.
//!
//! Digits are the first digits of the due time in the id, or at least [`FEWEST_LAST`] last digits.
//! Last digits name only a regular run, so a rerun or backfill of the same due time does not match.

/// The smallest number of last digits that name a run.
pub(crate) const FEWEST_LAST: usize = 4;
/// The last digits of a due time in whole seconds. They may be left out.
pub(crate) const WHOLE_SECOND: &str = "000";

/// The text behind `@` in a part of an id: digits, `~word`, or both.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct IdPart<'t> {
    digits: &'t str,
    /// The beginning of the word; `None` if the text has no `~`.
    word: Option<&'t str>,
}

impl<'t> IdPart<'t> {
    /// Parses the text behind `@`. Returns `None` if the text cannot be part of an id.
    pub(crate) fn parse(text: &'t str) -> Option<Self> {
        let (digits, word) = match text.split_once('~') {
            Some((digits, word)) => (digits, Some(word)),
            None => (text, None),
        };
        let is_word = |word: &str| {
            !word.is_empty() && word.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit())
        };
        let is_part =
            digits.bytes().all(|b| b.is_ascii_digit()) && word.map_or(!digits.is_empty(), is_word);
        is_part.then_some(Self { digits, word })
    }

    /// Returns the part that consists of `digits` and `word`.
    pub(crate) fn of(digits: &'t str, word: Option<&'t str>) -> Self {
        Self { digits, word }
    }

    /// Returns true if the part matches the run with the due time `due` in its id and this word.
    pub(crate) fn matches(&self, due: &str, word: Option<&str>) -> bool {
        let is_end = self.digits.len() >= FEWEST_LAST
            && (due.ends_with(self.digits)
                || due.strip_suffix(WHOLE_SECOND).is_some_and(|due| due.ends_with(self.digits)));
        let is_begin = due.starts_with(self.digits);
        match self.word {
            None => is_begin || is_end && word.is_none(),
            Some(part) => (is_begin || is_end) && word.is_some_and(|word| word.starts_with(part)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(part: &str, due: &str, word: Option<&str>) -> bool {
        IdPart::parse(part).unwrap().matches(due, word)
    }

    #[test]
    fn first_and_last_digits_name_a_run_and_seconds_need_no_zeros() {
        let due = "1795376411000";
        for part in ["1", "17953", "1795376411000", "411000", "6411", "76411"] {
            assert!(matches(part, due, None), "{part}");
        }
        for part in ["000", "411", "7953", "6410"] {
            assert!(!matches(part, due, None), "{part}");
        }
        assert!(matches("6417", "1795376416417", None) && !matches("6416", "1795376416417", None));
    }

    #[test]
    fn a_word_names_only_runs_that_have_it_and_last_digits_only_runs_without() {
        let due = "1795376411000";
        assert!(matches("~k3", due, Some("k3x9")) && !matches("~k3", due, None));
        assert!(matches("76411~back", due, Some("backfill")));
        assert!(!matches("76411", due, Some("backfill")) && matches("179", due, Some("backfill")));
        for bad in ["", "~", "1~", "x", "1x", "-1", "~A", "1~a~b"] {
            assert_eq!(IdPart::parse(bad), None, "{bad}");
        }
    }
}
