//! Detects suspensions of this node: its host slept, or the process was stopped and continued.
//!
//! Invariant: time in which this node was suspended does not count as time in which it watched the
//! lease of another node. That node, and Redis, may have been suspended too. So that node could
//! neither renew the lease nor stop its job.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use schedd_core::host::boot_clock::BootInstant;

/// The last heartbeat of this node, and the start of the time without a suspension. A gap between
/// heartbeats that is longer than `limit` is a suspension.
pub(crate) struct SuspendDetector {
    limit: Duration,
    beats: Mutex<Beats>,
}

#[derive(Clone, Copy)]
struct Beats {
    last: BootInstant,
    awake_since: BootInstant,
}

impl SuspendDetector {
    /// Returns a detector of suspensions that last a quarter of the lease time or longer. Shorter
    /// ones do no harm, because a lease is renewed after a third of its length.
    pub(crate) fn new(lease: Duration) -> Self {
        let now = BootInstant::now();
        Self { limit: lease / 4, beats: Mutex::new(Beats { last: now, awake_since: now }) }
    }

    /// Returns the instant of the end of the last suspension, or of the start of this node.
    pub(crate) fn awake_since(&self) -> BootInstant {
        self.beat(BootInstant::now())
    }

    /// Gives a heartbeat at intervals. Never returns.
    pub(crate) async fn run(&self) {
        loop {
            tokio::time::sleep(self.limit / 2).await;
            self.awake_since();
        }
    }

    fn beat(&self, now: BootInstant) -> BootInstant {
        let mut beats = self.beats.lock().unwrap_or_else(PoisonError::into_inner);
        if now.since(beats.last) > self.limit {
            beats.awake_since = now;
        }
        beats.last = beats.last.max(now);
        beats.awake_since
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gap_longer_than_the_limit_begins_the_watch_anew() {
        let detector = SuspendDetector::new(Duration::from_secs(8));
        let start = detector.beats.lock().unwrap().last;
        let after = |seconds| start.saturating_add(Duration::from_secs(seconds));
        assert_eq!(detector.beat(after(2)), start);
        assert_eq!(detector.beat(after(4)), start);
        assert_eq!(detector.beat(after(7)), after(7));
        assert_eq!(detector.beat(after(9)), after(7));
        assert_eq!(
            detector.beat(after(8)),
            after(7),
            "two that look at once may tell their times in either order"
        );
    }
}
