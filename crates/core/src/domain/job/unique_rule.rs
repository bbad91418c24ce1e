//! The unique key of a job, and the rule for a second add while another job has the same key.
//!
//! A job has its unique key until the job ends, or for a fixed time from the add. If an operator
//! removes the job, the key is free at once.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// The unique key of a job: 1 to 256 characters without control characters.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UniqueKey(String);

/// The unique key of a job, and the rule for a second add with this key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unique {
    /// The key that at most one job has at a time.
    pub key: UniqueKey,
    /// The rule for a second add with this key.
    pub second: Second,
}

/// The rule for an add whose key another job already has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Second {
    /// The second add is refused as a conflict.
    Refused {
        /// The time from the add for which the job has the key. `None` means until the job ends.
        /// 100 ms to 365 days.
        window: Option<Duration>,
    },
    /// The second add replaces the definition and the time of the first add, if the run of the
    /// first add has not started.
    Wins {
        /// The maximum time from the first add to the due time of the run. Later adds do not
        /// postpone the run beyond this time. `None` means no maximum. 100 ms to 365 days.
        max_wait: Option<Duration>,
    },
    /// The second add has no effect, but counts as successful.
    Dropped {
        /// The time from the add for which the job has the key. 100 ms to 365 days.
        window: Duration,
    },
}

impl UniqueKey {
    /// The maximum number of characters in a key.
    pub const MOST: usize = 256;

    /// Returns the key as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for UniqueKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The error for a text that is not a unique key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum UniqueKeyError {
    /// The key is empty.
    #[error("the key is empty, wanted 1 to 256 characters such as \"customer-42\"")]
    Empty,
    /// The key has more than 256 characters. The value is their number.
    #[error("the key has {0} characters, wanted at most 256")]
    TooLong(usize),
    /// The key has a control character. The value is its position, counted from 1.
    #[error("the key has a control character at position {0}, wanted printable characters")]
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
    /// Returns the name of this rule in a definition.
    pub fn mode(self) -> &'static str {
        match self {
            Self::Refused { .. } => "refuse",
            Self::Wins { .. } => "debounce",
            Self::Dropped { .. } => "throttle",
        }
    }

    /// Returns the time from the add for which the job has the key. Returns `None` if the job has
    /// the key until it ends.
    pub fn window(self) -> Option<Duration> {
        match self {
            Self::Refused { window } => window,
            Self::Wins { .. } => None,
            Self::Dropped { window } => Some(window),
        }
    }

    /// Returns true if a later add replaces the first add (`debounce`).
    pub fn is_debounce(self) -> bool {
        matches!(self, Self::Wins { .. })
    }

    /// Returns the maximum time from the first add to the due time of the run. Returns `None` if
    /// there is no maximum.
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
    fn a_key_is_any_text_a_user_can_read() {
        for good in ["a", "customer-42", "Kunde Müller / 7: \\x41 {b}", &"é".repeat(256)] {
            assert_eq!(good.parse::<UniqueKey>().unwrap().as_str(), good);
        }
        assert_eq!("".parse::<UniqueKey>(), Err(UniqueKeyError::Empty));
        assert_eq!("a".repeat(257).parse::<UniqueKey>(), Err(UniqueKeyError::TooLong(257)));
        assert_eq!("a\nb".parse::<UniqueKey>(), Err(UniqueKeyError::Control(2)));
    }
}
