//! How far the work of an attempt is, as its handler or worker reports it.

use std::fmt;

/// How far the work of an attempt is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunProgress {
    /// The done part of the work in percent, 0 to 100. `None` if only the text was reported.
    pub percent: Option<u8>,
    /// A description of the done work, on one line. May be empty.
    pub text: String,
}

impl RunProgress {
    /// The most characters of the text.
    pub const MOST_CHARS: usize = 256;

    /// Returns a progress. A percentage above 100 becomes 100. Only the first
    /// [`RunProgress::MOST_CHARS`] characters of `text` are kept. A control character, such as a line
    /// break, becomes a blank.
    pub fn new(percent: Option<u8>, text: &str) -> Self {
        let visible = |c: char| if c.is_control() { ' ' } else { c };
        Self {
            percent: percent.map(|percent| percent.min(100)),
            text: text.chars().take(Self::MOST_CHARS).map(visible).collect(),
        }
    }

    /// Returns the text from which [`RunProgress::read`] gets the same progress.
    pub fn stored(&self) -> String {
        let percent = self.percent.map_or_else(|| "-".to_owned(), |percent| percent.to_string());
        format!("{percent} {}", self.text)
    }

    /// Returns the progress that is stored as `text`. `None` if the text is no progress.
    pub fn read(text: &str) -> Option<Self> {
        let (percent, words) = text.split_once(' ')?;
        let percent = if percent == "-" { None } else { Some(percent.parse().ok()?) };
        Some(Self::new(percent, words))
    }
}

impl fmt::Display for RunProgress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.percent, &*self.text) {
            (Some(percent), "") => write!(f, "{percent} %"),
            (Some(percent), text) => write!(f, "{percent} %: {text}"),
            (None, text) => f.write_str(text),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_progress_reads_back_and_is_one_short_line() {
        for (progress, stored, shown) in [
            (RunProgress::new(Some(40), "half\nof it"), "40 half of it", "40 %: half of it"),
            (RunProgress::new(None, "a b"), "- a b", "a b"),
            (RunProgress::new(Some(200), ""), "100 ", "100 %"),
        ] {
            assert_eq!((&*progress.stored(), &*progress.to_string()), (stored, shown));
            assert_eq!(RunProgress::read(stored), Some(progress));
        }
        assert_eq!(RunProgress::new(None, &"ä".repeat(300)).text.chars().count(), 256);
        for bad in ["", "40", "x y", "-1 a", "300 a"] {
            assert_eq!(RunProgress::read(bad), None, "{bad:?}");
        }
    }
}
