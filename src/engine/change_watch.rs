//! The changes of the data that polls find, and the loops that a change wakes.
//!
//! Some loops have work only after a change. Such a loop reads Redis after each change, and
//! otherwise rarely. A message to the nodes announces each change. If the message is lost, the next
//! poll finds the change by the counters of changes.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use super::wakeups::Wakeups;
use crate::store::{Change, PollTrace};

/// The changes of the data in Redis, as far as the polls of this node have found them.
#[derive(Default)]
pub(crate) struct ChangeWatch {
    last: Mutex<Option<PollTrace>>,
    all: AtomicU64,
    of_jobs: AtomicU64,
}

impl ChangeWatch {
    /// Compares the data at a poll of the lanes with the data at the poll before, and wakes the
    /// loops that a change concerns. `trace` is `None` if the poll cannot tell what has changed.
    pub(crate) fn note(&self, trace: Option<&PollTrace>, wakeups: &Wakeups) {
        let last = {
            let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
            std::mem::replace(&mut *last, trace.cloned())
        };
        let (changes, is_unchanged) = match (&last, trace) {
            (Some(last), Some(trace)) if last.is_of_same_data(trace) => {
                (trace.counts().since(last.counts()), trace.is_unchanged_since(last))
            }
            _ => (Change::ALL.to_vec(), false),
        };
        if !is_unchanged {
            self.all.fetch_add(1, Ordering::Relaxed);
        }
        for change in changes {
            match change {
                Change::Lanes | Change::Pools if trace.is_some() => wakeups.presence.notify_one(),
                Change::Stop => wakeups.lease_keeper.notify_one(),
                Change::Files if last.is_some() => wakeups.reconciler.notify_one(),
                Change::Notices => wakeups.notice_planter.notify_one(),
                Change::Deadlines => wakeups.deadline_watch.notify_one(),
                Change::Jobs => {
                    self.of_jobs.fetch_add(1, Ordering::Relaxed);
                }
                // The ticker itself polls the lanes. It also wakes the reconciler after each new
                // connection, and the presence loop reads lanes and queues at intervals.
                Change::Due | Change::Lanes | Change::Pools | Change::Files => {}
            }
        }
    }

    /// Returns a number that grows with each poll that found a change of the data in Redis.
    pub(crate) fn all(&self) -> u64 {
        self.all.load(Ordering::Relaxed)
    }

    /// Returns a number that grows when a poll finds that a job was added, edited or removed.
    pub(crate) fn of_jobs(&self) -> u64 {
        self.of_jobs.load(Ordering::Relaxed)
    }
}
