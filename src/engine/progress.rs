//! Whether the loops a node cannot do without come round: the ticker, which starts what is due, and the lease keeper.
//!
//! Invariant: only the loop itself gives its sign, and a Redis that is away is no reason to miss one: each call to it ends within
//! seconds, and the next try is a sign. So a loop that is overdue stands still, whatever else of the process is alive.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::keeper::BootInstant;

/// The signs of life of the loops, and what the ticker saw to come next.
#[derive(Debug, Default)]
pub(super) struct Progress {
    pub(super) ticker: Sign,
    pub(super) lease_keeper: Sign,
    next: AtomicU64,
}

impl Progress {
    /// The loop that wanted to be back longer than `by` ago, if one is.
    pub(super) fn stuck(&self, now: BootInstant, by: Duration) -> Option<&'static str> {
        let overdue = |sign: &Sign| now >= sign.back_by().saturating_add(by);
        [("ticker", &self.ticker), ("lease keeper", &self.lease_keeper)]
            .into_iter()
            .find(|(_, sign)| overdue(sign))
            .map(|(name, _)| name)
    }

    /// The next run is ready so long from now; none if there is none.
    pub(super) fn saw_next(&self, ahead: Option<Duration>) {
        let at = ahead.map_or(0, |ahead| BootInstant::now().saturating_add(ahead).as_nanos());
        self.next.store(at, Ordering::Relaxed);
    }

    /// In how long the next run this node saw is ready; none if it saw none.
    pub(super) fn next(&self, now: BootInstant) -> Option<Duration> {
        let at = self.next.load(Ordering::Relaxed);
        (at > 0).then(|| BootInstant::from_nanos(at).since(now))
    }
}

/// By when one loop wants to be back; never, before it began.
#[derive(Debug)]
pub(super) struct Sign(AtomicU64);

impl Default for Sign {
    fn default() -> Self {
        Self(AtomicU64::new(u64::MAX))
    }
}

impl Sign {
    /// The loop goes on, and wants to be here again after `time`.
    pub(super) fn back_within(&self, time: Duration) {
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
        let (progress, by) = (Progress::default(), Duration::from_secs(15));
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
        let progress = Progress::default();
        assert_eq!(progress.next(BootInstant::now()), None);
        progress.saw_next(Some(Duration::from_secs(60)));
        let later = BootInstant::now().saturating_add(Duration::from_secs(30));
        assert!(progress.next(later).unwrap() <= Duration::from_secs(30));
        progress.saw_next(None);
        assert_eq!(progress.next(later), None);
    }
}
