//! The runs whose leases this node has. A run is listed from its claim until Redis has recorded its
//! end.
//!
//! Invariant: a run is listed exactly as long as its [`LeaseHandle`] exists. So even if the task
//! with the handle panics, the lease ends and the slot is free again. An entry includes the fence
//! of the claim, because this node may lose a run and claim it again.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, watch};
use tracing::error;

use crate::attempts::{Control, StopReason};
use crate::engine::dispatch::slots::Permit;
use schedd_core::host::boot_clock::BootInstant;
use schedd_schedule::names::{Fence, RunId};

/// The id of a run, and the fence of its claim.
pub(crate) type Lease = (RunId, Fence);

/// The runs whose leases this node has.
#[derive(Default)]
pub(crate) struct RunningLeases {
    leases: Mutex<HashMap<Lease, LeaseState>>,
    /// The leases that this node could not renew, and whose runs have no live process. These runs
    /// can be recovered before their leases end.
    given_up: Mutex<HashSet<Lease>>,
    /// The signal that this node has given up the lease of a run.
    freed: Notify,
    /// The number of leases of all nodes at the last poll.
    of_all_nodes: AtomicU64,
}

/// The state of a run whose lease this node has.
pub(crate) struct LeaseState {
    /// The channel that carries the time until which the run may execute. It is closed when the
    /// execution has ended.
    pub(crate) deadline: watch::Sender<BootInstant>,
    /// The channel that carries the request to stop the run, or `None` without a request.
    pub(crate) stop: watch::Sender<Option<StopReason>>,
    /// The reason for the stop, in the form that history shows. `None` without a request to stop.
    pub(crate) stop_cause: Option<String>,
    /// The time the run may take to stop before it is killed.
    pub(crate) kill_grace: Duration,
}

/// The right to execute one run under its lease. When the handle is dropped, the lease is no longer
/// renewed.
pub(crate) struct LeaseHandle {
    leases: Arc<RunningLeases>,
    lease: Lease,
    slot: Option<Permit>,
}

impl RunningLeases {
    /// Locks and returns all runs whose leases this node has. A lock that a panic poisoned is used
    /// all the same, because each entry is inserted or removed in one step.
    pub(crate) fn all(&self) -> MutexGuard<'_, HashMap<Lease, LeaseState>> {
        self.leases.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a claimed run, so that its lease is renewed. Returns the handle of the lease, and the
    /// receivers of the end of the lease and of a stop request. `deadline` is the first end of the
    /// lease.
    pub(crate) fn hold(
        self: &Arc<Self>,
        lease: Lease,
        deadline: BootInstant,
        kill_grace: Duration,
        slot: Permit,
    ) -> (LeaseHandle, Control) {
        let (deadline_sender, deadline) = watch::channel(deadline);
        let (stop_sender, stop) = watch::channel(None);
        let state = LeaseState {
            deadline: deadline_sender,
            stop: stop_sender,
            stop_cause: None,
            kill_grace,
        };
        self.all().insert(lease.clone(), state);
        (LeaseHandle { leases: self.clone(), lease, slot: Some(slot) }, Control { deadline, stop })
    }

    /// Returns the number of leases of all nodes at the last poll.
    pub(crate) fn of_all_nodes(&self) -> u64 {
        self.of_all_nodes.load(Ordering::Relaxed)
    }

    /// Sets the number of leases of all nodes, as a poll found it.
    pub(crate) fn note_of_all_nodes(&self, leases: u64) {
        self.of_all_nodes.store(leases, Ordering::Relaxed);
    }

    fn given_up(&self) -> MutexGuard<'_, HashSet<Lease>> {
        self.given_up.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records that `lease` could not be renewed and that its run has no live process.
    pub(crate) fn give_up(&self, lease: Lease) {
        self.given_up().insert(lease);
    }

    /// Returns all leases that were recorded by `give_up` and not yet forgotten.
    pub(crate) fn all_given_up(&self) -> HashSet<Lease> {
        self.given_up().clone()
    }

    /// Forgets the leases in `over`, which were recorded by `give_up` and have ended.
    pub(crate) fn forget_given_up<'a>(&self, over: impl Iterator<Item = &'a Lease>) {
        let mut given_up = self.given_up();
        for lease in over {
            given_up.remove(lease);
        }
    }

    /// Waits until this node no longer executes the same run under an earlier fence. Otherwise the
    /// run would execute twice at once after it was lost and claimed again.
    pub(crate) async fn earlier_ended(&self, (run, fence): &Lease) {
        let is_earlier = |((other, earlier), state): (&Lease, &LeaseState)| {
            other == run && earlier < fence && !state.deadline.is_closed()
        };
        while self.all().iter().any(is_earlier) {
            let _ = tokio::time::timeout(Duration::from_millis(20), self.freed.notified()).await;
        }
    }
}

impl LeaseState {
    /// Returns true if the lease ended before `now` without a renewal. The processes of the run are
    /// then killed.
    pub(crate) fn has_passed(&self, now: BootInstant) -> bool {
        !self.deadline.is_closed() && now >= *self.deadline.borrow()
    }
}

impl LeaseHandle {
    /// Frees the slot of the run. The lease is still renewed.
    pub(crate) fn free_slot(&mut self) {
        self.slot = None;
    }

    /// Returns the reason why the run was asked to stop, in the form that history shows. Returns
    /// `None` if it was not asked.
    pub(crate) fn stop_cause(&self) -> Option<String> {
        self.leases.all().get(&self.lease).and_then(|state| state.stop_cause.clone())
    }
}

impl Drop for LeaseHandle {
    fn drop(&mut self) {
        self.leases.all().remove(&self.lease);
        self.leases.freed.notify_waiters();
        if std::thread::panicking() {
            error!(run = %self.lease.0, "The task that executes this run panicked. A node will recover the run when its lease has ended.");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::engine::dispatch::slots::Slots;
    use schedd_schedule::names::QueueName;

    fn lease(fence: u64) -> Lease {
        ("a@5".parse().unwrap(), Fence::new(fence).unwrap())
    }

    fn free(slots: &Slots, queue: &QueueName) -> usize {
        slots.offers().into_iter().find(|offer| offer.queue == *queue).unwrap().slots
    }

    #[tokio::test]
    async fn a_panic_in_the_task_of_a_run_leaves_neither_its_slot_taken_nor_its_lease_held() {
        let (leases, queue) = (Arc::new(RunningLeases::default()), QueueName::default_queue());
        let slots = Slots::alone();
        slots.set_own(BTreeMap::from([(queue.clone(), 1)]));
        let (handle, _control) =
            leases.hold(lease(1), BootInstant::now(), Duration::ZERO, slots.take(&queue));
        assert_eq!((leases.all().len(), free(&slots, &queue)), (1, 0));
        let task = tokio::spawn(async move {
            let _handle = handle;
            tokio::task::yield_now().await;
            panic!("a fault in this program (this test's own)");
        });
        assert!(task.await.unwrap_err().is_panic());
        assert_eq!((leases.all().len(), free(&slots, &queue)), (0, 1));
    }

    #[tokio::test]
    async fn a_run_taken_again_under_a_later_fence_waits_for_the_earlier_and_outlives_it() {
        let (leases, slots) = (Arc::new(RunningLeases::default()), Slots::alone());
        let hold = |fence| {
            let slot = slots.take(&QueueName::default_queue());
            leases.hold(lease(fence), BootInstant::now(), Duration::ZERO, slot)
        };
        let (earlier, _later) = (hold(1), hold(2));
        let waits =
            tokio::time::timeout(Duration::from_millis(50), leases.earlier_ended(&lease(2))).await;
        assert!(waits.is_err(), "it did not wait");
        drop(earlier);
        leases.earlier_ended(&lease(2)).await;
        assert!(leases.all().contains_key(&lease(2)));
    }
}
