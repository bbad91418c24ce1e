//! The revision of a job.

use std::fmt;

/// The revision of a job: a number as text. A later revision has a larger number.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Rev(String);

impl Rev {
    /// Makes a revision from its text in Redis.
    pub(crate) fn of(text: &str) -> Self {
        Self(text.to_owned())
    }

    /// Returns the number of the revision, or 0 if the text is no number.
    pub(crate) fn number(&self) -> u64 {
        self.0.parse().unwrap_or(0)
    }

    /// Returns the revision as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Rev {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
