//! The durations of the calls of each script.

use std::collections::BTreeMap;
use std::sync::{PoisonError, RwLock};
use std::time::Duration;

use schedd_schedule::time::time_histogram::{TimeCounts, TimeHistogram};

/// The upper bounds of the buckets.
const BOUNDS: &[Duration] = &[
    Duration::from_micros(250),
    Duration::from_micros(500),
    Duration::from_millis(1),
    Duration::from_micros(2_500),
    Duration::from_millis(5),
    Duration::from_millis(10),
    Duration::from_millis(25),
    Duration::from_millis(100),
    Duration::from_millis(250),
    Duration::from_secs(1),
];

/// The durations of the answered calls of each script, from sending to the answer.
#[derive(Debug, Default)]
pub(crate) struct ScriptTimes {
    by_script: RwLock<BTreeMap<&'static str, TimeHistogram>>,
}

impl ScriptTimes {
    /// Adds a call of `script` that was answered after `took`.
    pub(crate) fn add(&self, script: &'static str, took: Duration) {
        let known = self.by_script.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(times) = known.get(script) {
            return times.add(took);
        }
        drop(known);
        let mut all = self.by_script.write().unwrap_or_else(PoisonError::into_inner);
        all.entry(script).or_insert_with(|| TimeHistogram::new(BOUNDS)).add(took);
    }

    /// Returns for each script that was called how many of its calls took how long.
    pub(crate) fn counts(&self) -> Vec<(&'static str, TimeCounts)> {
        let all = self.by_script.read().unwrap_or_else(PoisonError::into_inner);
        all.iter().map(|(script, times)| (*script, times.counts())).collect()
    }
}
