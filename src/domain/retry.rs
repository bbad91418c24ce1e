//! How long a failed run waits for its next attempt, and whether it gets one.

use std::time::Duration;

use super::job::{Backoff, Retry};

/// The wait before the next attempt after `failures` failed ones (at least 1); none if the budget is used up. `draw` is a
/// number in 0..1 from the caller's dice: with jitter the wait lies between half and the whole.
pub fn next_delay(retry: &Retry, failures: u32, draw: f64) -> Option<Duration> {
    if failures > retry.limit {
        return None;
    }
    let whole = match retry.backoff {
        Backoff::Fixed => retry.delay,
        Backoff::Linear => retry.delay.saturating_mul(failures),
        Backoff::Exponential => retry.delay.saturating_mul(1u32.checked_shl(failures.saturating_sub(1)).unwrap_or(u32::MAX)),
    };
    let whole = whole.min(retry.max_delay);
    Some(if retry.jitter { whole.mul_f64(0.5 + draw.clamp(0.0, 1.0) / 2.0) } else { whole })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn retry(backoff: Backoff) -> Retry {
        Retry { limit: 100, delay: Duration::from_secs(10), backoff, max_delay: Duration::from_secs(3600), jitter: false }
    }

    #[test]
    fn waits_grow_as_the_backoff_says_up_to_the_longest() {
        let waits = |backoff| [1, 2, 3, 10, 90].map(|n| next_delay(&retry(backoff), n, 0.0).unwrap().as_secs());
        assert_eq!(waits(Backoff::Fixed), [10, 10, 10, 10, 10]);
        assert_eq!(waits(Backoff::Linear), [10, 20, 30, 100, 900]);
        assert_eq!(waits(Backoff::Exponential), [10, 20, 40, 3600, 3600]);
    }

    #[test]
    fn the_budget_ends() {
        assert!(next_delay(&retry(Backoff::Fixed), 100, 0.0).is_some());
        assert!(next_delay(&retry(Backoff::Fixed), 101, 0.0).is_none());
        assert!(next_delay(&Retry::default(), 1, 0.0).is_none());
    }

    #[test]
    fn jitter_draws_between_half_and_whole() {
        let jittered = Retry { jitter: true, ..retry(Backoff::Fixed) };
        assert_eq!(next_delay(&jittered, 1, 0.0), Some(Duration::from_secs(5)));
        assert_eq!(next_delay(&jittered, 1, 1.0), Some(Duration::from_secs(10)));
    }
}
