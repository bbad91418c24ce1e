//! The kinds of notices. The name of a hidden job ends with the kind of its notices.

use std::fmt;

/// The kind of a notice: the fact that the notice reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NoticeKind {
    /// The notice of a run that became a dead letter.
    Failure,
    /// The notice of a run that succeeded.
    Success,
    /// The notice of a run that started late, or was skipped as missed.
    Late,
    /// The notice of a run that succeeded after a run that failed.
    Recovered,
    /// The notice of a run that ended, sent as a ping to a monitoring service.
    Ping,
}

impl NoticeKind {
    /// The kinds of notices that a definition requests by a key of the same name, such as
    /// `on_failure`.
    pub const ASKED: [Self; 4] = [Self::Failure, Self::Recovered, Self::Success, Self::Late];
    /// All kinds of notices.
    pub const ALL: [Self; 5] =
        [Self::Failure, Self::Recovered, Self::Success, Self::Late, Self::Ping];

    /// Returns the name of this kind. For a kind in `ASKED` the name is also the key in a
    /// definition.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Failure => "on_failure",
            Self::Success => "on_success",
            Self::Late => "on_late",
            Self::Recovered => "on_recovered",
            Self::Ping => "ping",
        }
    }

    /// Returns the kind with the name `word`. Returns `None` for an unknown name.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == word)
    }
}

impl fmt::Display for NoticeKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
