//! How many runs of each queue this node may execute at once, and how many it does.
//!
//! Invariant: a node claims no more than it has slots for, so a due run never lies claimed and unstarted behind others.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use crate::domain::ids::QueueName;
use crate::domain::node_event::Befell;
use crate::domain::queue::{QueueHold, QueueSettings};
use crate::store::QueueRecord;

/// Runs claimed in one call at most: past this a call's latency grows and its rate does not (measured).
pub(super) const BATCH: usize = 50;

/// The slots of a node. Clones share them.
#[derive(Clone)]
pub(super) struct Slots {
    state: Arc<Mutex<State>>,
    freed: Arc<Notify>,
}

#[derive(Default)]
struct State {
    /// From this node's own file.
    own: BTreeMap<QueueName, u32>,
    /// What is kept of queues for all nodes.
    known: BTreeMap<QueueName, QueueRecord>,
    taken: HashMap<QueueName, u32>,
    /// This node's host's own.
    of_host: Option<QueueName>,
}

impl Slots {
    /// Slots that wake `freed` when one is given back.
    pub(super) fn new(freed: Arc<Notify>) -> Self {
        Self { state: Arc::default(), freed }
    }

    /// A thread that panicked holding this lock left counts that are whole: each is changed by one statement.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets what this node's file says.
    pub(super) fn set_own(&self, queues: BTreeMap<QueueName, u32>) {
        self.lock().own = queues;
        self.freed.notify_one();
    }

    /// Has the queue of this node's host served too.
    pub(super) fn set_host(&self, queue: QueueName) {
        self.lock().of_host = Some(queue);
    }

    /// Sets what is known of queues anywhere: none is left without a node.
    pub(super) fn set_known(&self, queues: BTreeMap<QueueName, QueueRecord>) {
        let mut state = self.lock();
        if state.known != queues {
            state.known = queues;
            self.freed.notify_one();
        }
    }

    /// Every queue there is, with how many runs may be claimed from it now, at most a batch.
    pub(super) fn free(&self) -> Vec<(QueueName, usize)> {
        let state = self.lock();
        let concurrency = |(queue, record): (&QueueName, &QueueRecord)| (queue.clone(), record.settings.concurrency);
        let mut all: BTreeMap<QueueName, u32> = state.known.iter().map(concurrency).collect();
        // What was set by hand holds on each node, whatever its own file says.
        let by_hand = |queue: &QueueName| state.known.get(queue).is_some_and(|record| record.is_concurrency_by_hand);
        all.extend(state.own.iter().filter(|(queue, _)| !by_hand(queue)).map(|(queue, own)| (queue.clone(), *own)));
        for queue in state.of_host.iter().cloned().chain([QueueName::default_queue()]) {
            all.entry(queue).or_insert(QueueSettings::DEFAULT_CONCURRENCY);
        }
        all.into_iter()
            .map(|(queue, concurrency)| {
                let free = concurrency.saturating_sub(state.taken.get(&queue).copied().unwrap_or(0));
                (queue, (free as usize).min(BATCH))
            })
            .collect()
    }

    /// What befell this node when it found `queue` held, as far as it knows what holds for the queue.
    pub(super) fn why_held(&self, queue: &QueueName, hold: QueueHold) -> Befell {
        let state = self.lock();
        let (queue, known) = (queue.clone(), state.known.get(queue));
        match hold {
            QueueHold::Paused => {
                let by = known.and_then(|record| record.paused.as_ref()).map_or_else(String::new, |(_, by)| by.clone());
                Befell::QueuePaused { queue, by }
            }
            QueueHold::Full => Befell::QueueFull { queue, limit: known.and_then(|record| record.settings.limit).unwrap_or(0) },
            QueueHold::Rate => {
                let rate = known.and_then(|record| record.settings.rate).map_or_else(String::new, |rate| rate.to_string());
                Befell::QueueRated { queue, rate }
            }
        }
    }

    /// Takes a slot of `queue`, given back when the permit is dropped.
    pub(super) fn take(&self, queue: &QueueName) -> Permit {
        *self.lock().taken.entry(queue.clone()).or_insert(0) += 1;
        Permit { slots: self.clone(), queue: queue.clone() }
    }
}

/// A slot in use.
pub(super) struct Permit {
    slots: Slots,
    queue: QueueName,
}

impl Drop for Permit {
    fn drop(&mut self) {
        if let Some(taken) = self.slots.lock().taken.get_mut(&self.queue) {
            *taken = taken.saturating_sub(1);
        }
        self.slots.freed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_in_use_is_not_free_until_it_is_given_back() {
        let slots = Slots::new(Arc::default());
        let queue: QueueName = "q".parse().unwrap();
        slots.set_own(BTreeMap::from([(queue.clone(), 2)]));
        let free = |slots: &Slots| slots.free().into_iter().find(|(name, _)| *name == queue).unwrap().1;
        let first = slots.take(&queue);
        assert_eq!(free(&slots), 1);
        let second = slots.take(&queue);
        assert_eq!(free(&slots), 0);
        drop((first, second));
        assert_eq!(free(&slots), 2);
    }

    #[test]
    fn a_queue_only_another_node_declares_is_served_too() {
        let slots = Slots::new(Arc::default());
        slots.set_known(BTreeMap::from([("far".parse().unwrap(), known(3))]));
        let free = slots.free();
        assert_eq!(free, [("default".parse().unwrap(), 32), ("far".parse().unwrap(), 3)]);
    }

    #[test]
    fn a_concurrency_set_by_hand_holds_whatever_the_own_file_says() {
        let slots = Slots::new(Arc::default());
        let queue: QueueName = "default".parse().unwrap();
        slots.set_own(BTreeMap::from([(queue.clone(), 2)]));
        slots.set_known(BTreeMap::from([(queue.clone(), known(3))]));
        assert_eq!(slots.free(), [(queue.clone(), 2)]);
        slots.set_known(BTreeMap::from([(queue.clone(), QueueRecord { is_concurrency_by_hand: true, ..known(3) })]));
        assert_eq!(slots.free(), [(queue, 3)]);
    }

    fn known(concurrency: u32) -> QueueRecord {
        let settings = QueueSettings { concurrency, ..QueueSettings::default() };
        QueueRecord { settings, is_concurrency_by_hand: false, paused: None, set: None, spoilt: Vec::new() }
    }
}
