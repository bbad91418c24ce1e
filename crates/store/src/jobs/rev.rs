//! The revision of a job.

use std::fmt;

/// The revision of a job: a number as text. Revisions are only compared for equality.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Rev(String);

impl Rev {
    /// Makes a revision from its text in Redis.
    pub(crate) fn of(text: &str) -> Self {
        Self(text.to_owned())
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
