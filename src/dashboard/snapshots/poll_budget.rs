//! The readings that open tabs may cause together while something always changes.
//!
//! A reading of a long list takes Redis about a hundred quick commands, so the number of tabs must
//! not multiply it. Tabs that find no reading left show a page that is some seconds old.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The time in which one reading is added to those that are left.
const PAUSE: Duration = Duration::from_secs(1);
/// The number of readings that may follow each other without a pause, after a quiet time.
const MOST_AT_ONCE: u32 = 5;

/// The readings that are left.
#[derive(Debug)]
pub(super) struct PollBudget {
    /// The time at which all readings are left again. Each reading moves this time by [`PAUSE`].
    used_until: Mutex<Instant>,
}

impl Default for PollBudget {
    fn default() -> Self {
        Self { used_until: Mutex::new(Instant::now()) }
    }
}

impl PollBudget {
    /// Takes a reading. Returns false if none is left.
    pub(super) fn take(&self) -> bool {
        self.take_at(Instant::now())
    }

    fn take_at(&self, now: Instant) -> bool {
        let mut used_until = self.used_until.lock().unwrap_or_else(PoisonError::into_inner);
        let next = (*used_until).max(now) + PAUSE;
        let is_left = next <= now + PAUSE * MOST_AT_ONCE;
        if is_left {
            *used_until = next;
        }
        is_left
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_readings_follow_at_once_and_then_one_each_second() {
        let (budget, start) = (PollBudget::default(), Instant::now() + PAUSE * 100);
        let taken = |at: Instant| (0..10).filter(|_| budget.take_at(at)).count();
        assert_eq!(taken(start), 5);
        assert_eq!(taken(start + PAUSE / 2), 0);
        assert_eq!(taken(start + PAUSE), 1);
        assert_eq!(taken(start + PAUSE * 3), 2);
        assert_eq!(taken(start + PAUSE * 100), 5);
    }
}
