//! Watches the two loops that a node depends on: the ticker, which starts due runs, and the lease
//! keeper.
//!
//! Invariant: each loop gives its own heartbeat. An outage of Redis delays no heartbeat, because
//! each call to Redis ends within seconds. So an overdue heartbeat means that its loop is stuck.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use schedd_core::host::boot_clock::BootInstant;

/// The heartbeats of the two loops, and the next run that the ticker saw.
#[derive(Debug, Default)]
pub(crate) struct LoopProgress {
    pub(crate) ticker: LoopSign,
    pub(crate) lease_keeper: LoopSign,
    next: AtomicU64,
}

impl LoopProgress {
    /// Returns the name of a loop whose heartbeat is overdue by more than `by`, or `None` if no
    /// loop is stuck.
    pub(crate) fn stuck(&self, now: BootInstant, by: Duration) -> Option<&'static str> {
        let overdue = |sign: &LoopSign| now >= sign.back_by().saturating_add(by);
        [("ticker", &self.ticker), ("lease keeper", &self.lease_keeper)]
            .into_iter()
            .find(|(_, sign)| overdue(sign))
            .map(|(name, _)| name)
    }

    /// Records the time until the next run. `None` means that no run is planned.
    pub(crate) fn saw_next(&self, ahead: Option<Duration>) {
        let at = ahead.map_or(0, |ahead| BootInstant::now().saturating_add(ahead).as_nanos());
        self.next.store(at, Ordering::Relaxed);
    }

    /// Returns the time until the next run that this node saw, or `None` if it saw no planned run.
    pub(crate) fn next(&self, now: BootInstant) -> Option<Duration> {
        let at = self.next.load(Ordering::Relaxed);
        (at > 0).then(|| BootInstant::from_nanos(at).since(now))
    }
}

/// The time by which a loop will give its next heartbeat. Before the first heartbeat, this time is
/// infinitely far in the future.
#[derive(Debug)]
pub(crate) struct LoopSign(AtomicU64);

impl Default for LoopSign {
    fn default() -> Self {
        Self(AtomicU64::new(u64::MAX))
    }
}

impl LoopSign {
    /// Gives a heartbeat, and promises that the next heartbeat follows within `time`.
    pub(crate) fn back_within(&self, time: Duration) {
        self.0.store(BootInstant::now().saturating_add(time).as_nanos(), Ordering::Relaxed);
    }

    fn back_by(&self) -> BootInstant {
        BootInstant::from_nanos(self.0.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loop_is_stuck_once_it_is_overdue_and_not_while_it_rests() {
        let (progress, by) = (LoopProgress::default(), Duration::from_secs(15));
        let in_s = |seconds| BootInstant::now().saturating_add(Duration::from_secs(seconds));
        assert_eq!(progress.stuck(in_s(1_000), by), None, "nothing has begun");
        progress.ticker.back_within(Duration::ZERO);
        progress.lease_keeper.back_within(Duration::from_secs(20));
        assert_eq!(progress.stuck(in_s(10), by), None);
        assert_eq!(progress.stuck(in_s(16), by), Some("ticker"));
        progress.ticker.back_within(Duration::from_secs(60));
        assert_eq!(progress.stuck(in_s(30), by), None, "both rest");
        assert_eq!(progress.stuck(in_s(36), by), Some("lease keeper"));
    }

    #[test]
    fn what_comes_next_comes_nearer() {
        let progress = LoopProgress::default();
        assert_eq!(progress.next(BootInstant::now()), None);
        progress.saw_next(Some(Duration::from_secs(60)));
        let later = BootInstant::now().saturating_add(Duration::from_secs(30));
        assert!(progress.next(later).unwrap() <= Duration::from_secs(30));
        progress.saw_next(None);
        assert_eq!(progress.next(later), None);
    }
}
