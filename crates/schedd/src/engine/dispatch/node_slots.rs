//! The slots that the engines of one node share: how many runs of each queue the node executes, and
//! which engine takes a slot that became free.
//!
//! A node has an engine for the namespace, and one for each of its shards. An engine that found no
//! room waits. A free slot wakes one waiting engine: that with the fewest runs. So engines with a
//! backlog come to an equal part of the slots, and the others poll no Redis for it.
//!
//! Invariants:
//! - A slot counts as taken from before the claim, so two engines never claim for the same slot.
//! - An engine that was woken and used no slot wakes the next one. So no slot stays free while an
//!   engine has a run for it, and each waiting engine is woken at most once for a free slot.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use schedd_schedule::names::QueueName;

/// The number of the shard that an engine serves. `None` for the engine of the namespace itself.
pub(crate) type EnginePlace = Option<u32>;

/// The slots that the engines of one node share.
#[derive(Default)]
pub(crate) struct NodeSlots(Mutex<SharedCounts>);

#[derive(Default)]
struct SharedCounts {
    /// The number of taken slots of each queue.
    taken: HashMap<QueueName, u32>,
    engines: BTreeMap<EnginePlace, EngineCounts>,
    /// The number of times that slots became free.
    freed: u64,
    /// The number of times that an engine began to wait.
    waits: u64,
}

#[derive(Default)]
struct EngineCounts {
    taken: u32,
    wakeup: Arc<Notify>,
    wait: Option<Wait>,
}

/// The wait of an engine that found no room.
struct Wait {
    /// The value of `freed` when the engine looked for room.
    looked: u64,
    /// False if the engine was woken and used no slot, for example because its runs wait for gates.
    has_used: bool,
    /// The number of this wait. Earlier waits have lower numbers.
    number: u64,
}

/// The result of a round of an engine.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct RoundResult {
    /// True if the engine may have due runs for which it found no room.
    pub(crate) waits: bool,
    /// The number of runs that were claimed.
    pub(crate) started: usize,
}

impl NodeSlots {
    fn lock(&self) -> MutexGuard<'_, SharedCounts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds the engine of `place`. A free slot for it notifies `wakeup`.
    pub(crate) fn join(&self, place: EnginePlace, wakeup: Arc<Notify>) {
        self.lock().engines.entry(place).or_default().wakeup = wakeup;
    }

    /// Returns the number of taken slots of each queue.
    pub(crate) fn all_taken(&self) -> HashMap<QueueName, u32> {
        self.lock().taken.clone()
    }

    /// Returns the number of times that slots became free. An engine reads it before it looks for
    /// room.
    pub(crate) fn freed(&self) -> u64 {
        self.lock().freed
    }

    /// Takes `count` slots of `queue` for the engine of `place`.
    pub(crate) fn take(&self, place: EnginePlace, queue: &QueueName, count: u32) {
        let mut counts = self.lock();
        *counts.taken.entry(queue.clone()).or_insert(0) += count;
        counts.engines.entry(place).or_default().taken += count;
    }

    /// Takes as many slots of `queue` as there are, at most `count`, for the engine of `place`.
    /// `of_queue` and `of_node` are the most slots of the queue, and of all queues together.
    pub(crate) fn take_free(
        &self,
        place: EnginePlace,
        queue: &QueueName,
        count: u32,
        (of_queue, of_node): (u32, u32),
    ) -> u32 {
        let mut counts = self.lock();
        let running: u32 = counts.taken.values().sum();
        let taken = counts.taken.entry(queue.clone()).or_insert(0);
        let free = of_queue.saturating_sub(*taken).min(of_node.saturating_sub(running));
        let count = count.min(free);
        *taken += count;
        counts.engines.entry(place).or_default().taken += count;
        count
    }

    /// Gives `count` slots back without a wake-up.
    pub(crate) fn give_back(&self, place: EnginePlace, queue: &QueueName, count: u32) {
        self.lock().give_back(place, queue, count);
    }

    /// Gives a slot back, and wakes the waiting engine with the fewest runs. If no engine waits,
    /// wakes the engine of `place`.
    pub(crate) fn free_one(&self, place: EnginePlace, queue: &QueueName) {
        let mut counts = self.lock();
        counts.give_back(place, queue, 1);
        counts.freed += 1;
        if !counts.wake_next()
            && let Some(own) = counts.engines.get(&place)
        {
            own.wakeup.notify_one();
        }
    }

    /// Records the result of a round of the engine of `place`. `looked` is the value of
    /// [`NodeSlots::freed`] before the round. If the engine used no slot, the next engine that waits
    /// for the same free slot is woken.
    pub(crate) fn note_round(&self, place: EnginePlace, looked: u64, result: RoundResult) {
        let mut counts = self.lock();
        counts.waits += 1;
        let (number, has_used) = (counts.waits, result.started > 0);
        if let Some(own) = counts.engines.get_mut(&place) {
            own.wait = result.waits.then_some(Wait { looked, has_used, number });
        }
        if !has_used {
            counts.wake_next();
        }
    }

    /// Removes the engine of `place`, and wakes the next engine in its place.
    pub(crate) fn leave(&self, place: EnginePlace) {
        let mut counts = self.lock();
        if let Some(own) = counts.engines.get_mut(&place) {
            own.wait = None;
        }
        counts.wake_next();
    }
}

impl SharedCounts {
    fn give_back(&mut self, place: EnginePlace, queue: &QueueName, count: u32) {
        if let Some(taken) = self.taken.get_mut(queue) {
            *taken = taken.saturating_sub(count);
        }
        if let Some(own) = self.engines.get_mut(&place) {
            own.taken = own.taken.saturating_sub(count);
        }
    }

    /// Wakes the engine that gets the next free slot. Returns false if no engine waits that has not
    /// looked for room since the last slot became free.
    fn wake_next(&mut self) -> bool {
        let freed = self.freed;
        let waiting = self.engines.values_mut().filter_map(|engine| {
            let wait = engine.wait.as_ref().filter(|wait| wait.looked < freed)?;
            Some(((!wait.has_used, engine.taken, wait.number), engine))
        });
        let Some((_, next)) = waiting.min_by_key(|(order, _)| *order) else { return false };
        next.wait = None;
        next.wakeup.notify_one();
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt as _;

    const HOME: EnginePlace = None;
    const WAITS: RoundResult = RoundResult { waits: true, started: 0 };

    struct Bench {
        slots: NodeSlots,
        wakeups: BTreeMap<EnginePlace, Arc<Notify>>,
    }

    impl Bench {
        fn of(places: &[EnginePlace]) -> Self {
            let slots = NodeSlots::default();
            let wakeups: BTreeMap<_, _> =
                places.iter().map(|place| (*place, Arc::<Notify>::default())).collect();
            for (place, wakeup) in &wakeups {
                slots.join(*place, wakeup.clone());
            }
            Self { slots, wakeups }
        }

        fn woken(&self) -> Vec<EnginePlace> {
            let woken =
                self.wakeups.iter().filter(|(_, it)| it.notified().now_or_never().is_some());
            woken.map(|(place, _)| *place).collect()
        }

        fn wait(&self, place: EnginePlace) {
            self.slots.note_round(place, self.slots.freed(), WAITS);
        }
    }

    fn queue() -> QueueName {
        QueueName::default_queue()
    }

    #[test]
    fn a_free_slot_wakes_only_the_waiting_engine_with_the_fewest_runs() {
        let bench = Bench::of(&[HOME, Some(0), Some(1)]);
        bench.slots.take(HOME, &queue(), 8);
        bench.slots.take(Some(0), &queue(), 2);
        bench.slots.take(Some(1), &queue(), 3);
        for place in [HOME, Some(0), Some(1)] {
            bench.wait(place);
        }
        bench.slots.free_one(HOME, &queue());
        assert_eq!(bench.woken(), [Some(0)]);
        // The engine that was woken does not wait any more.
        bench.slots.free_one(HOME, &queue());
        assert_eq!(bench.woken(), [Some(1)]);
        bench.slots.free_one(HOME, &queue());
        assert_eq!(bench.woken(), [HOME]);
        // No engine waits, so the engine whose run ended looks for the next.
        bench.slots.free_one(Some(0), &queue());
        assert_eq!(bench.woken(), [Some(0)]);
    }

    #[test]
    fn an_engine_that_uses_no_slot_wakes_the_next_and_none_is_woken_twice() {
        let bench = Bench::of(&[HOME, Some(0), Some(1)]);
        bench.slots.take(HOME, &queue(), 1);
        for place in [Some(0), Some(1)] {
            bench.wait(place);
        }
        bench.slots.free_one(HOME, &queue());
        assert_eq!(bench.woken(), [Some(0)]);
        bench.wait(Some(0));
        assert_eq!(bench.woken(), [Some(1)]);
        bench.wait(Some(1));
        assert_eq!(bench.woken(), [], "both have looked since the slot became free");
        // With the next free slot, engines that used their last one come first.
        let looked = bench.slots.freed();
        bench.slots.note_round(HOME, looked, RoundResult { waits: true, started: 1 });
        bench.slots.take(HOME, &queue(), 1);
        bench.slots.free_one(HOME, &queue());
        assert_eq!(bench.woken(), [HOME]);
    }

    #[test]
    fn a_slot_that_becomes_free_during_a_round_is_seen_after_the_round() {
        let bench = Bench::of(&[Some(0), Some(1)]);
        bench.slots.take(Some(1), &queue(), 1);
        let looked = bench.slots.freed();
        bench.slots.free_one(Some(1), &queue());
        assert_eq!(bench.woken(), [Some(1)]);
        bench.slots.note_round(Some(0), looked, WAITS);
        assert_eq!(bench.woken(), [Some(0)]);
    }

    #[test]
    fn two_engines_never_claim_for_the_same_slot() {
        let bench = Bench::of(&[HOME, Some(0)]);
        let take = |place, count| bench.slots.take_free(place, &queue(), count, (8, 10));
        assert_eq!((take(HOME, 5), take(Some(0), 5), take(HOME, 1)), (5, 3, 0));
        bench.slots.give_back(HOME, &queue(), 2);
        assert_eq!(bench.woken(), []);
        assert_eq!((bench.slots.all_taken()[&queue()], take(Some(0), 5)), (6, 2));
    }
}
