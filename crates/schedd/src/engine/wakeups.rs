//! The signals that wake the loops of a node before their next interval ends.
//!
//! Some loops have work only after a change. Such a loop reads Redis after each change, and
//! otherwise rarely. A message to the nodes announces each change. If the message is lost, the next
//! poll finds the change by the counters of changes.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::Notify;

use schedd_store::{Change, PollTrace};

/// The signals that wake the loops of a node. A signal has the name of the loop that it wakes. Also
/// the changes of the data in Redis, as far as the polls of this node have found them.
#[derive(Default)]
pub(crate) struct Wakeups {
    /// Sent when a run was planned for an earlier time than the next known run, or when a slot was
    /// freed.
    pub(crate) ticker: Arc<Notify>,
    /// Sent when a worker asks for runs, and by `note_worker_news`.
    pub(crate) worker_claims: Notify,
    /// Sent when a notice waits to be added to the due set.
    pub(crate) notice_planter: Notify,
    /// Sent when a run ended for which children of its job wait.
    pub(crate) chain_planter: Notify,
    /// Sent when the deadline of a run became the earliest deadline, or Redis' clock was set.
    pub(crate) deadline_watch: Notify,
    /// Sent when a job was added, edited or removed, so that a run may be due earlier.
    pub(crate) overdue_search: Notify,
    /// Sent when a user requested that a run stops.
    pub(crate) lease_keeper: Notify,
    /// Sent when the jobs file or the data in Redis has changed.
    pub(crate) reconciler: Notify,
    /// Sent when a job was added, edited or removed, or the node serves other queues or labels.
    pub(crate) instances: Notify,
    /// Sent to the boot planner when this node's jobs file has been applied to Redis.
    pub(crate) boot_planner: Notify,
    /// Sent when the time zone data was read again, so that planned runs are compared with it.
    pub(crate) zone_check: Notify,
    /// Sent when the phase of the node or the state of its configuration changed.
    pub(crate) presence: Notify,
    last: Mutex<Option<PollTrace>>,
    worker_news: AtomicU64,
    changes: AtomicU64,
    job_changes: AtomicU64,
}

impl Wakeups {
    /// Compares the data at a poll of the lanes with the data at the poll before, and wakes the
    /// loops that a change concerns. `trace` is `None` if the poll cannot tell what has changed.
    pub(crate) fn note_poll(&self, trace: Option<&PollTrace>) {
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
            self.changes.fetch_add(1, Ordering::Relaxed);
            self.note_worker_news();
        }
        for change in changes {
            match change {
                Change::Lanes | Change::Pools if trace.is_some() => self.presence.notify_one(),
                Change::Stop => self.lease_keeper.notify_one(),
                Change::Files if last.is_some() => self.reconciler.notify_one(),
                Change::Notices => self.notice_planter.notify_one(),
                Change::Chains => self.chain_planter.notify_one(),
                Change::Deadlines => self.deadline_watch.notify_one(),
                Change::Jobs => {
                    self.job_changes.fetch_add(1, Ordering::Relaxed);
                    self.instances.notify_one();
                    self.overdue_search.notify_one();
                }
                // The ticker itself polls the lanes. It also wakes the reconciler after each new
                // connection, and the presence loop reads lanes and queues at intervals.
                Change::Due | Change::Lanes | Change::Pools | Change::Files => {}
            }
        }
    }

    /// Records that a run, a lane or a queue that workers serve may have changed.
    pub(crate) fn note_worker_news(&self) {
        self.worker_news.fetch_add(1, Ordering::Relaxed);
        self.worker_claims.notify_one();
    }

    /// Returns a number that grows with each call of `note_worker_news`.
    pub(crate) fn worker_news(&self) -> u64 {
        self.worker_news.load(Ordering::Relaxed)
    }

    /// Returns a number that grows with each poll that found a change of the data in Redis.
    pub(crate) fn changes(&self) -> u64 {
        self.changes.load(Ordering::Relaxed)
    }

    /// Returns a number that grows when a poll finds that a job was added, edited or removed.
    pub(crate) fn job_changes(&self) -> u64 {
        self.job_changes.load(Ordering::Relaxed)
    }
}
