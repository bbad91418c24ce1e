//! Compares Redis' clock with this node's monotonic clock, which is never set. The comparison
//! detects steps of Redis' clock, and gives the time by which the age of records is judged.
//!
//! Invariant: no run becomes due by this module. A step only makes the node examine its plans, and
//! prevents records from being removed too early. For [`STEADY_FOR`] after a step, ages are judged
//! by the oldest time that Redis' clock showed around the step.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

use schedd_core::host::boot_clock::BootInstant;
use schedd_schedule::time::unix_millis::UnixMillis;

/// The largest difference between Redis' clock and this node's monotonic clock, from one poll to
/// the next, that is not a step.
const STEP: Duration = Duration::from_secs(5);
/// The time after a step for which ages are judged by the time before the step.
pub(crate) const STEADY_FOR: Duration = Duration::from_secs(3_600);

/// The state of Redis' clock as this node knows it.
#[derive(Default)]
pub(crate) struct RedisClock {
    state: Mutex<State>,
    /// The signal that Redis' clock was stepped, which makes the node examine its plans.
    pub(crate) stepped: Notify,
}

#[derive(Default)]
struct State {
    last: Option<Reading>,
    /// The instant from which Redis' clock has run without a step. `None` before the first reading.
    steady_since: Option<BootInstant>,
    /// The oldest time that Redis' clock showed around recent steps, continued by this node's
    /// clock. `None` if no step was recent.
    before: Option<Before>,
}

/// A reading of Redis' clock, made between two instants of this node's clock.
#[derive(Debug, Clone, Copy)]
struct Reading {
    at: UnixMillis,
    sent: BootInstant,
    received: BootInstant,
}

#[derive(Debug, Clone, Copy)]
struct Before {
    at: UnixMillis,
    instant: BootInstant,
    until: BootInstant,
}

impl Before {
    fn carried_on(&self, to: BootInstant) -> UnixMillis {
        self.at.saturating_add(to.since(self.instant))
    }
}

impl RedisClock {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records the time that Redis' clock showed in the answer to a call. Returns the step since
    /// the last answer in ms (negative if the clock was set back), or `None` if no step happened.
    pub(crate) fn read(
        &self,
        at: UnixMillis,
        sent: BootInstant,
        received: BootInstant,
    ) -> Option<i64> {
        let mut state = self.state();
        let now = Reading { at, sent, received };
        state.steady_since.get_or_insert(sent);
        let last = state.last.replace(now)?;
        let by = stepped(last, now)?;
        state.steady_since = Some(sent);
        let until = received.saturating_add(STEADY_FOR);
        let before = state.before.filter(|before| before.until > sent).unwrap_or(Before {
            at: last.at,
            instant: last.received,
            until,
        });
        let is_older = at < before.carried_on(received);
        state.before = Some(if is_older {
            Before { at, instant: received, until }
        } else {
            Before { until, ..before }
        });
        self.stepped.notify_one();
        Some(by)
    }

    /// Judges the age of records by the time `at`, continued from `instant`, for [`STEADY_FOR`].
    /// Called for a step that happened before this node started.
    pub(crate) fn hold(&self, at: UnixMillis, instant: BootInstant) {
        let mut state = self.state();
        if state.before.is_none_or(|before| before.until <= instant) {
            state.before = Some(Before { at, instant, until: instant.saturating_add(STEADY_FOR) });
        }
    }

    /// Returns the time by which the ages of records are judged while Redis' clock shows `now`.
    pub(crate) fn for_ages(&self, now: UnixMillis) -> UnixMillis {
        self.for_ages_at(now, BootInstant::now())
    }

    fn for_ages_at(&self, now: UnixMillis, instant: BootInstant) -> UnixMillis {
        let state = self.state();
        let before = state.before.filter(|before| before.until > instant);
        before.map_or(now, |before| now.min(before.carried_on(instant)))
    }

    /// Returns true if this node saw Redis' clock run without a step for [`STEADY_FOR`].
    pub(crate) fn is_steady(&self) -> bool {
        self.is_steady_at(BootInstant::now())
    }

    fn is_steady_at(&self, instant: BootInstant) -> bool {
        self.state().steady_since.is_some_and(|since| instant.since(since) >= STEADY_FOR)
    }
}

/// Returns the step of Redis' clock between two readings in ms. Returns `None` if no step happened,
/// or a slow answer explains the difference.
fn stepped(last: Reading, now: Reading) -> Option<i64> {
    let millis = |time: Duration| i64::try_from(time.as_millis()).unwrap_or(i64::MAX);
    let went = now.at.as_i64() - last.at.as_i64();
    let (shortest, longest) =
        (millis(now.sent.since(last.received)), millis(now.received.since(last.sent)));
    let by = if went > longest { went - longest } else { (went - shortest).min(0) };
    (Duration::from_millis(by.unsigned_abs()) > STEP).then_some(by)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: i64) -> UnixMillis {
        UnixMillis::new(1_790_000_000_000 + ms).unwrap()
    }

    fn in_s(seconds: u64) -> BootInstant {
        BootInstant::from_nanos(1_000_000_000_000 + seconds * 1_000_000_000)
    }

    #[test]
    fn a_step_is_what_neither_the_time_between_nor_a_slow_answer_explains() {
        let clock = RedisClock::default();
        assert_eq!(clock.read(at(0), in_s(0), in_s(0)), None, "nothing to hold it against");
        assert_eq!(clock.read(at(600_000), in_s(600), in_s(600)), None, "ten minutes on both");
        assert_eq!(clock.read(at(604_900), in_s(600), in_s(600)), None, "less than a step");
        assert_eq!(clock.read(at(605_000), in_s(601), in_s(631)), None, "an answer that took 30 s");
        assert_eq!(clock.read(at(4_231_000), in_s(631), in_s(632)), Some(3_595_000));
        assert_eq!(clock.read(at(632_000), in_s(632), in_s(632)), Some(-3_599_000));
    }

    #[test]
    fn records_keep_their_age_for_an_hour_after_a_step_ahead_and_when_it_goes_back() {
        let clock = RedisClock::default();
        let (day, start) = (86_400_000, BootInstant::now());
        clock.read(at(0), start, start);
        assert_eq!(clock.for_ages(at(5)), at(5), "no step");
        assert_eq!(clock.read(at(day), start, start), Some(day));
        let aged = clock.for_ages(at(day));
        assert!(at(0) <= aged && aged < at(60_000), "{aged}");
        clock.read(at(10), start, start);
        assert!(clock.for_ages(at(10)) <= at(10));
        // A record that ended while the clock was behind is no older after it was set right.
        clock.read(at(-day), start, start);
        clock.read(at(20), start, start);
        assert!(clock.for_ages(at(20)) < at(60_000 - day));
        assert!(!clock.is_steady());
    }

    #[test]
    fn after_an_hour_the_time_that_a_step_brought_counts() {
        let clock = RedisClock::default();
        let (day, hour) = (at(86_400_000), 3_600);
        clock.hold(at(0), in_s(0));
        assert!(!clock.is_steady_at(in_s(hour)), "it was not seen at all");
        clock.read(at(0), in_s(0), in_s(0));
        assert!(!clock.is_steady_at(in_s(hour - 1)));
        assert!(clock.is_steady_at(in_s(hour)));
        assert_eq!(clock.for_ages_at(day, in_s(hour - 1)), at(3_599_000));
        assert_eq!(clock.for_ages_at(day, in_s(hour)), day);
    }
}
