//! A rate limit: the maximum number of runs that may start in a period, such as `100/1m`. Its burst
//! is the maximum number of runs that may start at once.
//!
//! The claim script applies the limit by Redis' clock with the algorithm GCRA. In a time of
//! `n * per`, at most `n * count + burst` runs start.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use schedd_schedule::time::duration::{format_duration, parse_duration};

/// A rate limit, with all values within their bounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    count: u32,
    per: Duration,
    burst: u32,
}

/// The error for a text that is not a rate limit.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("rate {found:?} {problem}, wanted RUNS/DURATION such as \"100/1m\"")]
pub struct RateError {
    found: String,
    problem: String,
}

/// The maximum number of runs in a rate limit or its burst.
pub const MOST_RUNS: u32 = 1_000_000;
const SHORTEST: Duration = Duration::from_millis(1);
const LONGEST: Duration = Duration::from_secs(86_400);
/// The maximum number of characters of an invalid text in a message.
const SHOWN: usize = 40;

impl Rate {
    /// Returns the rate limit of `count` runs in each period `per`, all of which may start at once.
    /// Returns `None` if a value is out of bounds.
    pub fn new(count: u32, per: Duration) -> Option<Self> {
        let is_sound = (1..=MOST_RUNS).contains(&count) && (SHORTEST..=LONGEST).contains(&per);
        is_sound.then_some(Self { count, per, burst: count })
    }

    /// Returns the same rate limit with this burst, clamped to 1 to [`MOST_RUNS`].
    #[must_use]
    pub fn with_burst(self, burst: u32) -> Self {
        Self { burst: burst.clamp(1, MOST_RUNS), ..self }
    }

    /// Returns the number of runs that may start in each period of [`Rate::per`].
    pub fn count(self) -> u32 {
        self.count
    }

    /// Returns the length of the period of the rate limit, 1 ms to 1 day.
    pub fn per(self) -> Duration {
        self.per
    }

    /// Returns the average time between two starts in microseconds, rounded up, for the Lua
    /// scripts.
    pub fn interval_micros(self) -> u64 {
        u64::try_from(self.per.as_micros().div_ceil(u128::from(self.count))).unwrap_or(u64::MAX)
    }

    /// Returns the maximum number of runs that may start at once, 1 to [`MOST_RUNS`].
    pub fn burst(self) -> u32 {
        self.burst
    }
}

/// Formats the rate limit without its burst, such as `100/1m`.
impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.count, format_duration(self.per))
    }
}

impl FromStr for Rate {
    type Err = RateError;

    fn from_str(text: &str) -> Result<Self, RateError> {
        let refuse =
            |problem: String| RateError { found: text.chars().take(SHOWN).collect(), problem };
        let (count, per) = text.split_once('/').ok_or_else(|| refuse("has no /".to_owned()))?;
        let is_number = !count.is_empty() && count.bytes().all(|b| b.is_ascii_digit());
        let count = count.parse().ok().filter(|count| is_number && (1..=MOST_RUNS).contains(count));
        let count = count
            .ok_or_else(|| refuse(format!("has no number from 1 to {MOST_RUNS} before the /")))?;
        // A text such as 10/s means 10/1s.
        let one =
            if per.starts_with(|c: char| c.is_ascii_alphabetic() && c != 'P') { "1" } else { "" };
        let per = parse_duration(&format!("{one}{per}"))
            .map_err(|error| refuse(format!("has an invalid period: {error}")))?;
        Self::new(count, per).ok_or_else(|| refuse("has a period outside 1ms to 1d".to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_reads_back_and_a_unit_without_number_means_one_unit() {
        for (text, canonical) in
            [("100/1m", "100/1m"), ("10/s", "10/1s"), ("1/1d", "1/1d"), ("5/1500ms", "5/1s500ms")]
        {
            let rate: Rate = text.parse().unwrap();
            assert_eq!((rate.to_string().as_str(), rate.burst()), (canonical, rate.count()));
        }
    }

    #[test]
    fn an_invalid_rate_is_refused_with_the_valid_form() {
        for (text, why) in [
            ("0/1m", "has no number from 1 to 1000000 before the /"),
            ("-1/1m", "has no number"),
            ("+1/1m", "has no number"),
            ("1000001/1m", "has no number"),
            ("100", "has no /"),
            ("100/", "is empty"),
            ("100/0s", "outside 1ms to 1d"),
            ("100/2d", "outside 1ms to 1d"),
            ("100/60", "has no unit"),
            ("/1m", "has no number"),
            ("1/1/1", "unknown unit"),
        ] {
            let found = text.parse::<Rate>().unwrap_err().to_string();
            assert!(found.contains(why) || text == "1/1/1", "{text}: {found}");
            assert!(found.ends_with("wanted RUNS/DURATION such as \"100/1m\""), "{found}");
        }
    }
}
