//! Instants in milliseconds since 1970 in UTC, within the years that a schedule may name.
//!
//! Invariant: 1970-01-01 <= instant < 2100-01-01. So arithmetic on instants cannot overflow, and
//! every instant can be printed.

use std::fmt;
use std::time::Duration;

/// An instant, in milliseconds since 1970-01-01T00:00:00Z.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UnixMillis(i64);

impl UnixMillis {
    /// The first instant past the allowed range: 2100-01-01T00:00:00Z.
    pub const END: i64 = 4_102_444_800_000;

    /// The first instant: 1970-01-01T00:00:00Z.
    pub const EPOCH: Self = Self(0);

    /// The last instant before 2100.
    pub const LAST: Self = Self(Self::END - 1);

    /// Returns the instant `millis` after 1970. Returns `None` if that instant is before 1970 or
    /// not before 2100.
    pub fn new(millis: i64) -> Option<Self> {
        (0..Self::END).contains(&millis).then_some(Self(millis))
    }

    /// Returns the milliseconds since 1970.
    pub fn as_i64(self) -> i64 {
        self.0
    }

    /// Returns the seconds since 1970.
    #[expect(clippy::cast_precision_loss, reason = "an instant before 2100 is below 2^52 ms")]
    pub fn as_seconds(self) -> f64 {
        self.0 as f64 / 1_000.0
    }

    /// Returns the instant that is later by `by`, at most the last millisecond of 2099.
    #[must_use]
    pub fn saturating_add(self, by: Duration) -> Self {
        let by = i64::try_from(by.as_millis()).unwrap_or(Self::END);
        Self((self.0 + by.min(Self::END)).min(Self::END - 1))
    }

    /// Returns the instant that is earlier by `by`, but not before 1970-01-01T00:00:00Z.
    #[must_use]
    pub fn saturating_sub(self, by: Duration) -> Self {
        let by = i64::try_from(by.as_millis()).unwrap_or(Self::END);
        Self((self.0 - by.min(Self::END)).max(0))
    }

    /// Returns the time from `earlier` to this instant, or zero if `earlier` is later.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(u64::try_from(self.0 - earlier.0).unwrap_or(0))
    }

    /// Returns the start of the second that contains this instant.
    #[must_use]
    pub fn floor_to_second(self) -> Self {
        Self(self.0 - self.0 % 1000)
    }

    /// Converts this instant to a jiff timestamp.
    pub fn to_timestamp(self) -> jiff::Timestamp {
        // The value is in range by the invariant: jiff covers the years -9999 to 9999.
        jiff::Timestamp::from_millisecond(self.0).unwrap_or(jiff::Timestamp::UNIX_EPOCH)
    }

    /// Returns the instant of a jiff timestamp, truncated to the millisecond. Returns `None`
    /// outside 1970 to 2099.
    pub fn from_timestamp(at: jiff::Timestamp) -> Option<Self> {
        Self::new(at.as_millisecond())
    }
}

/// Formats the instant as RFC 3339 in UTC with milliseconds, as in `SCHEDD_DUE`:
/// `2026-12-24T08:00:00.000Z`.
impl fmt::Display for UnixMillis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.3}", self.to_timestamp())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instant_prints_as_rfc_3339_with_milliseconds() {
        assert_eq!(
            UnixMillis::new(1_798_099_200_000).unwrap().to_string(),
            "2026-12-24T08:00:00.000Z"
        );
        assert_eq!(UnixMillis::new(5).unwrap().to_string(), "1970-01-01T00:00:00.005Z");
    }

    #[test]
    fn arithmetic_stays_in_range_whatever_it_is_given() {
        let late = UnixMillis::new(UnixMillis::END - 1).unwrap();
        assert_eq!(late.saturating_add(Duration::MAX), late);
        assert_eq!(late.saturating_sub(Duration::MAX).as_i64(), 0);
        assert!(UnixMillis::new(-1).is_none() && UnixMillis::new(UnixMillis::END).is_none());
    }
}
