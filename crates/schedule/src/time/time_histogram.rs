//! A histogram of durations with fixed buckets, which many tasks fill without waiting.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// A histogram of durations. Adding a duration costs two atomic additions.
#[derive(Debug)]
pub struct TimeHistogram {
    /// The upper bounds of the buckets, rising. The last bucket, without a bound, is not listed.
    bounds: &'static [Duration],
    /// The number of durations in each bucket, each counted in one bucket only.
    counts: Box<[AtomicU64]>,
    sum_us: AtomicU64,
}

/// The contents of a histogram at one moment.
#[derive(Debug, Clone, PartialEq)]
pub struct TimeCounts {
    /// The upper bound of each bucket in seconds, and the number of durations in this bucket alone.
    /// The last bound is infinite.
    pub buckets: Vec<(f64, u64)>,
    /// The sum of all durations in seconds.
    pub sum: f64,
}

impl TimeHistogram {
    /// Returns an empty histogram. `bounds` are the upper bounds of its buckets, rising.
    pub fn new(bounds: &'static [Duration]) -> Self {
        let counts = (0..=bounds.len()).map(|_| AtomicU64::new(0)).collect();
        Self { bounds, counts, sum_us: AtomicU64::new(0) }
    }

    /// Adds a duration. A duration that equals a bound belongs to the bucket of this bound.
    pub fn add(&self, time: Duration) {
        let bucket = self.bounds.partition_point(|bound| *bound < time);
        if let Some(count) = self.counts.get(bucket) {
            count.fetch_add(1, Ordering::Relaxed);
        }
        let us = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        self.sum_us.fetch_add(us, Ordering::Relaxed);
    }

    /// Returns the present contents.
    pub fn counts(&self) -> TimeCounts {
        let bounds = self.bounds.iter().map(Duration::as_secs_f64).chain([f64::INFINITY]);
        let counts = self.counts.iter().map(|count| count.load(Ordering::Relaxed));
        let sum = Duration::from_micros(self.sum_us.load(Ordering::Relaxed));
        TimeCounts { buckets: bounds.zip(counts).collect(), sum: sum.as_secs_f64() }
    }
}

impl TimeCounts {
    /// Returns the number of all durations.
    pub fn count(&self) -> u64 {
        self.buckets.iter().map(|(_, count)| count).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_is_counted_in_the_first_bucket_whose_bound_it_does_not_exceed() {
        const BOUNDS: &[Duration] = &[Duration::from_millis(100), Duration::from_secs(1)];
        let histogram = TimeHistogram::new(BOUNDS);
        for ms in [0, 100, 101, 1_000, 1_001, 90_000_000] {
            histogram.add(Duration::from_millis(ms));
        }
        let counts = histogram.counts();
        assert_eq!(counts.buckets, [(0.1, 2), (1.0, 2), (f64::INFINITY, 2)]);
        assert_eq!(counts.count(), 6);
        assert!((counts.sum - 90_002.202).abs() < 1e-6, "{}", counts.sum);
    }
}
