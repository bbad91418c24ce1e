//! The key by which an added job is the only one of its kind, and what becomes of a second add while another holds it.
//!
//! Two ways to hold a key: until the job is over (its record says so), or for a fixed time counted from the add, whatever
//! becomes of the job. Only taking the job out by hand ends both.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// What a job is the only one of: 1 to 256 characters, none of them a control character.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UniqueKey(String);

/// That a job is the only one of its key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unique {
    /// The key.
    pub key: UniqueKey,
    /// What becomes of a second add.
    pub second: Second,
}

/// What becomes of an add whose key another job holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Second {
    /// It is a conflict.
    Refused {
        /// How long the key is held, from the add; none = until the job is over. 100 ms to 365 days.
        window: Option<Duration>,
    },
    /// It takes the place of the first, if that has not begun: its definition and its time hold.
    Wins {
        /// How long after the first add of a burst its run is due at the latest; none = whenever the last add says. 100 ms to 365 days.
        max_wait: Option<Duration>,
    },
    /// It is dropped, and that is a success.
    Dropped {
        /// How long the key is held, from the add. 100 ms to 365 days.
        window: Duration,
    },
}

impl UniqueKey {
    /// The most characters of a key.
    pub const MOST: usize = 256;

    /// The key as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for UniqueKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Why a text is no key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum UniqueKeyError {
    /// It has no character.
    #[error("the key is empty, wanted 1 to 256 characters such as \"customer-42\"")]
    Empty,
    /// It has too many.
    #[error("the key has {0} characters, wanted at most 256")]
    TooLong(usize),
    /// One of them is a control character.
    #[error("the key has a control character at place {0}, wanted characters that can be shown")]
    Control(usize),
}

impl FromStr for UniqueKey {
    type Err = UniqueKeyError;

    fn from_str(text: &str) -> Result<Self, UniqueKeyError> {
        let count = text.chars().count();
        if count == 0 {
            return Err(UniqueKeyError::Empty);
        }
        if count > Self::MOST {
            return Err(UniqueKeyError::TooLong(count));
        }
        match text.chars().position(char::is_control) {
            Some(at) => Err(UniqueKeyError::Control(at + 1)),
            None => Ok(Self(text.to_owned())),
        }
    }
}

impl Second {
    /// The word for it.
    pub fn mode(self) -> &'static str {
        match self {
            Self::Refused { .. } => "refuse",
            Self::Wins { .. } => "debounce",
            Self::Dropped { .. } => "throttle",
        }
    }

    /// How long the key is held, from the add; none = by what the job's record says.
    pub fn window(self) -> Option<Duration> {
        match self {
            Self::Refused { window } => window,
            Self::Wins { .. } => None,
            Self::Dropped { window } => Some(window),
        }
    }

    /// Whether later adds take the place of the first.
    pub fn is_debounce(self) -> bool {
        matches!(self, Self::Wins { .. })
    }

    /// How long after the first add of a burst its run is due at the latest.
    pub fn max_wait(self) -> Option<Duration> {
        match self {
            Self::Wins { max_wait } => max_wait,
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_any_text_a_person_can_read() {
        for good in ["a", "customer-42", "Kunde Müller / 7: \\x41 {b}", &"é".repeat(256)] {
            assert_eq!(good.parse::<UniqueKey>().unwrap().as_str(), good);
        }
        assert_eq!("".parse::<UniqueKey>(), Err(UniqueKeyError::Empty));
        assert_eq!("a".repeat(257).parse::<UniqueKey>(), Err(UniqueKeyError::TooLong(257)));
        assert_eq!("a\nb".parse::<UniqueKey>(), Err(UniqueKeyError::Control(2)));
    }
}
