//! A place in the output of a run, from which a follower goes on after its connection broke.

use std::fmt;
use std::str::FromStr;

/// A place in the output of a run: `ATTEMPT-POSITION`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OutputPlace {
    /// The number of the attempt.
    pub(crate) attempt: u32,
    /// The number of bytes of the attempt's output before the place, with those that were dropped.
    pub(crate) position: u64,
}

impl fmt::Display for OutputPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.attempt, self.position)
    }
}

impl FromStr for OutputPlace {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let place = || {
            let (attempt, position) = text.split_once('-')?;
            Some(Self { attempt: attempt.parse().ok()?, position: position.parse().ok()? })
        };
        place().filter(|place| place.attempt > 0).ok_or("wanted ATTEMPT-POSITION, such as 1-2048")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_reads_back_and_any_other_text_is_refused() {
        let place = OutputPlace { attempt: 2, position: 1_500 };
        assert_eq!(place.to_string().parse(), Ok(place));
        for bad in ["", "2", "2-", "-2-5", "0-5", "2-5x", "2-99999999999999999999"] {
            assert!(bad.parse::<OutputPlace>().is_err(), "{bad}");
        }
    }
}
