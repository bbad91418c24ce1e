//! The workers that ask this node for runs: their queues, handlers and labels.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use schedd_core::domain::queue::lane_serving::Serving;
use schedd_core::host::boot_clock::BootInstant;

/// The time after its last question for which a worker counts as present. It is longer than a
/// question may wait.
const PRESENT_FOR: Duration = Duration::from_secs(90);
/// The most kinds of workers that are remembered. Workers of one kind differ only in their names.
const MOST: usize = 100;

/// The workers that ask this node for runs. Workers with the same queue, handlers and labels count
/// as one kind.
#[derive(Debug, Default)]
pub(crate) struct AskingWorkers(Mutex<BTreeMap<Serving, BootInstant>>);

impl AskingWorkers {
    /// Records a question at `now`. Returns true if no worker of this kind was known.
    pub(super) fn note(&self, worker: &Serving, now: BootInstant) -> bool {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(at) = known.get_mut(worker) {
            let was_present = now.since(*at) < PRESENT_FOR;
            *at = now;
            return !was_present;
        }
        known.retain(|_, at| now.since(*at) < PRESENT_FOR);
        if known.len() < MOST {
            known.insert(worker.clone(), now);
        }
        true
    }

    /// Returns the kinds of workers that are present at `now`.
    pub(crate) fn workers(&self, now: BootInstant) -> BTreeSet<Serving> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let present = known.iter().filter(|(_, at)| now.since(**at) < PRESENT_FOR);
        present.map(|(worker, _)| worker.clone()).collect()
    }
}
