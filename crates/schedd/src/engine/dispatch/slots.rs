//! The slots of a node: which lanes the node takes runs from, how many runs of each queue it may
//! execute, and how many it executes now.
//!
//! Invariant: a node claims no more runs than it has free slots, so each claimed run starts at
//! once. A node claims nothing from queues that it does not serve, or from lanes whose labels it
//! does not carry.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

use super::node_slots::{EnginePlace, NodeSlots, RoundResult};
use crate::engine::settings::WorkerServing;
use schedd_core::domain::queue::backlog::BacklogRules;
use schedd_core::domain::queue::lane::Lane;
use schedd_core::domain::queue::lane_serving::Serving;
use schedd_core::domain::queue::queue_rules::{NoRoomReason, QueueSettings, Share};
use schedd_core::domain::run::node_event::NodeEventKind;
use schedd_core::host::boot_clock::BootInstant;
use schedd_schedule::names::QueueName;
use schedd_store::QueueRecord;

/// The most runs claimed in one call to Redis. By measurement, larger calls take longer and do not
/// claim more runs per second.
pub(crate) const BATCH: usize = 50;
/// The most runs of a queue that a node claims between two polls, by several calls to Redis. By
/// measurement, a larger number does not claim more runs per second.
pub(crate) const ROUND: usize = 4 * BATCH;
/// The number of slots from which on a node waits for several free slots. With fewer slots, a free
/// slot is too large a part of them.
const MANY: u32 = 8;
/// The age up to which the last poll that found due runs of a queue counts as recent. While runs
/// are due, polls are more frequent.
const DUE_LATELY: Duration = Duration::from_secs(10);

/// The slots of a node, as one of its engines uses them. All clones share the same slots.
#[derive(Clone)]
pub(crate) struct Slots {
    state: Arc<Mutex<State>>,
    /// Wakes the ticker of the engine.
    wakeup: Arc<Notify>,
    node: Arc<NodeSlots>,
    place: EnginePlace,
}

#[derive(Default)]
struct State {
    /// The concurrency of each queue in this node's own file.
    own: BTreeMap<QueueName, u32>,
    /// The records of all queues, stored in Redis for all nodes.
    known: BTreeMap<QueueName, QueueRecord>,
    /// The lanes of all queues in Redis. A plain lane (no priority, no labels) is not listed.
    lanes: BTreeSet<Lane>,
    /// The lanes in which a recent poll found an entry. A plain lane is not listed.
    in_use: BTreeSet<Lane>,
    /// The instant at which a poll last found due runs of a queue. Only queues with a bound for
    /// their backlog are listed.
    last_due: HashMap<QueueName, BootInstant>,
    /// True once the queues and lanes have been read from Redis.
    has_learnt: bool,
    serving: Serving,
    max_running: Option<u32>,
    /// The queue of this node's host (`@HOST`). `None` until `set_host` is called, and for a worker.
    of_host: Option<QueueName>,
    /// The lanes that a worker polls before Redis lists them. Empty for a daemon.
    first_lanes: BTreeSet<Lane>,
}

/// A queue with the lanes and the number of runs that this node could claim from it now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Offer {
    pub(crate) queue: QueueName,
    /// The lanes of the queue that this node serves, most urgent first.
    pub(crate) lanes: Vec<Lane>,
    /// The number of runs that may be claimed from the queue before the next poll, at
    /// most `ROUND`.
    pub(crate) slots: usize,
    /// The share of the node's slots that the queue gets while queues compete for slots.
    pub(crate) share: Share,
}

/// A queue whose backlog this node watches.
pub(crate) struct WatchedQueue {
    pub(crate) queue: QueueName,
    pub(crate) rules: BacklogRules,
    /// All lanes of the queue, also those that this node does not serve.
    pub(crate) lanes: Vec<Lane>,
    /// True if a recent poll found due runs of the queue.
    pub(crate) had_due_runs: bool,
}

impl State {
    /// Returns the number of slots of each queue that this node serves.
    fn all(&self) -> BTreeMap<QueueName, u32> {
        let built_in =
            [QueueName::default_queue(), QueueName::of_notices(), QueueName::of_each_node()];
        let names: BTreeSet<&QueueName> = self
            .known
            .keys()
            .chain(self.own.keys())
            .chain(&self.of_host)
            .chain(&built_in)
            .collect();
        let served = names.into_iter().filter(|queue| self.serving.takes_queue(queue));
        served.map(|queue| (queue.clone(), self.concurrency(queue))).collect()
    }

    /// Returns the number of slots of a queue. A concurrency that was set by hand overrides the file
    /// of each node.
    fn concurrency(&self, queue: &QueueName) -> u32 {
        let known = self.known.get(queue);
        let own =
            self.own.get(queue).filter(|_| !known.is_some_and(|it| it.is_concurrency_by_hand));
        let known = known.map(|record| record.settings.concurrency);
        own.copied().or(known).unwrap_or(QueueSettings::DEFAULT_CONCURRENCY)
    }

    /// Returns the most runs of all queues together that the node executes.
    fn most_of_node(&self) -> u32 {
        #[cfg(feature = "mutants")]
        if schedd_store::server::mutants::is(schedd_store::server::mutants::Mutant::SlotsUnbounded)
        {
            return u32::MAX;
        }
        self.max_running.unwrap_or(u32::MAX)
    }

    fn free(&self, node: &NodeSlots) -> BTreeMap<QueueName, u32> {
        let (mut all, taken) = (self.all(), node.all_taken());
        for (queue, free) in &mut all {
            *free = free.saturating_sub(taken.get(queue).copied().unwrap_or(0));
        }
        all
    }
}

impl Slots {
    /// Returns the slots of the engine of `place`, which `wakeup` wakes when it may take a slot.
    pub(crate) fn new(wakeup: Arc<Notify>, node: Arc<NodeSlots>, place: EnginePlace) -> Self {
        node.join(place, wakeup.clone());
        Self { state: Arc::default(), wakeup, node, place }
    }

    /// Returns the slots of a node with one engine.
    #[cfg(test)]
    pub(crate) fn alone() -> Self {
        Self::new(Arc::default(), Arc::default(), None)
    }

    /// Returns the slots that all engines of the node share.
    pub(crate) fn of_node(&self) -> &NodeSlots {
        &self.node
    }

    /// Records that the engine takes no more slots.
    pub(crate) fn leave(&self) {
        self.node.leave(self.place);
    }

    /// Records the result of a round that began when [`NodeSlots::freed`] was `looked`.
    pub(crate) fn note_round(&self, looked: u64, result: RoundResult) {
        self.node.note_round(self.place, looked, result);
    }

    /// Locks the state. A lock that a panic poisoned is used all the same, because each count
    /// changes in one statement and is correct.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets the concurrency of each queue in this node's file.
    pub(crate) fn set_own(&self, queues: BTreeMap<QueueName, u32>) {
        self.lock().own = queues;
        self.wakeup.notify_one();
    }

    /// Adds the queue of this node's host to the queues the node serves.
    pub(crate) fn set_host(&self, queue: QueueName) {
        self.lock().of_host = Some(queue);
    }

    /// Sets the queues and labels this node serves, and the most runs of all queues together that
    /// may run at once.
    pub(crate) fn set_serving(&self, serving: Serving, max_running: Option<u32>) {
        let mut state = self.lock();
        (state.serving, state.max_running) = (serving, max_running);
        self.wakeup.notify_one();
    }

    /// Makes this node a worker, which serves only the lanes of its handlers.
    pub(crate) fn set_worker(&self, worker: &WorkerServing) {
        let mut state = self.lock();
        state.own.clone_from(&worker.slots);
        state.serving = worker.serving();
        state.first_lanes = worker.first_lanes();
        self.wakeup.notify_one();
    }

    /// Returns the queues and labels this node serves.
    pub(crate) fn serving(&self) -> Serving {
        self.lock().serving.clone()
    }

    /// Stores the records of all queues, as read from Redis. A node without a list of queues serves
    /// all these queues, so that no queue is left without a node.
    pub(crate) fn set_known(&self, queues: BTreeMap<QueueName, QueueRecord>) {
        let mut state = self.lock();
        if state.known != queues {
            state.known = queues;
            self.wakeup.notify_one();
        }
    }

    /// Returns the queues that this node is to serve but that no file declares.
    pub(crate) fn undeclared(&self) -> Vec<QueueName> {
        let state = self.lock();
        let is_known = |queue: &&QueueName| {
            **queue == QueueName::default_queue()
                || state.known.contains_key(*queue)
                || state.own.contains_key(*queue)
        };
        state.serving.queues.iter().flatten().filter(|queue| !is_known(queue)).cloned().collect()
    }

    /// Stores the lanes of all queues, as read from Redis. The ticker polls a new lane at once.
    pub(crate) fn set_lanes(&self, lanes: BTreeSet<Lane>) {
        let mut state = self.lock();
        if state.lanes != lanes {
            state.lanes = lanes;
            self.wakeup.notify_one();
        }
    }

    /// Returns true if one-shots of `queue` are placed on shards.
    pub(crate) fn is_spread(&self, queue: &QueueName) -> bool {
        self.lock().known.get(queue).is_some_and(|record| record.settings.is_spread)
    }

    /// Returns the lanes of handlers, from which workers take runs.
    pub(crate) fn lanes_of_workers(&self) -> Vec<Lane> {
        self.lock().lanes.iter().filter(|lane| lane.handler().is_some()).cloned().collect()
    }

    /// Records that queues and lanes have been read from Redis, except any that are unreadable.
    pub(crate) fn note_learnt(&self) {
        if !std::mem::replace(&mut self.lock().has_learnt, true) {
            self.wakeup.notify_one();
        }
    }

    /// Returns true if this node knows that `queue` is declared.
    pub(crate) fn knows_queue(&self, queue: &QueueName) -> bool {
        let state = self.lock();
        state.known.contains_key(queue) || state.own.contains_key(queue)
    }

    /// Returns true if queues and lanes have been read from Redis. Nothing is claimed before,
    /// because a more urgent lane may not be known yet.
    pub(crate) fn has_learnt(&self) -> bool {
        self.lock().has_learnt
    }

    /// Records that a poll found an entry in this lane.
    pub(crate) fn saw(&self, lane: &Lane) {
        if !lane.is_plain() {
            let mut state = self.lock();
            if !state.in_use.contains(lane) {
                state.in_use.insert(lane.clone());
            }
        }
    }

    /// Records that a poll found due runs of `queue`, also if the queue has no room for them.
    pub(crate) fn saw_due_runs(&self, queue: &QueueName) {
        let mut state = self.lock();
        let has_bound = |record: &QueueRecord| record.settings.backlog.has_bound();
        if state.known.get(queue).is_some_and(has_bound) {
            state.last_due.insert(queue.clone(), BootInstant::now());
        }
    }

    /// Returns the queues that have a bound for their backlog.
    pub(crate) fn watched(&self) -> Vec<WatchedQueue> {
        let state = self.lock();
        let (now, watched) = (
            BootInstant::now(),
            state.known.iter().filter(|(_, record)| record.settings.backlog.has_bound()),
        );
        let read = |(queue, record): (&QueueName, &QueueRecord)| WatchedQueue {
            queue: queue.clone(),
            rules: record.settings.backlog.clone(),
            lanes: (state.lanes.iter().filter(|lane| lane.queue() == queue).cloned())
                .chain([Lane::from(queue.clone())])
                .collect(),
            had_due_runs: state.last_due.get(queue).is_some_and(|at| now.since(*at) < DUE_LATELY),
        };
        watched.map(read).collect()
    }

    /// Returns the lanes in which a poll found an entry and that `known` lacks. Each lane is
    /// returned once, and again only after a poll finds another entry there.
    pub(crate) fn in_use_beside(&self, known: &BTreeSet<Lane>) -> BTreeSet<Lane> {
        let mut state = self.lock();
        let (kept, unknown) =
            std::mem::take(&mut state.in_use).into_iter().partition(|lane| known.contains(lane));
        state.in_use = kept;
        unknown
    }

    /// Returns the lanes, free slots and share of each queue that this node serves.
    pub(crate) fn offers(&self) -> Vec<Offer> {
        let state = self.lock();
        let mut lanes: BTreeMap<&QueueName, Vec<Lane>> = BTreeMap::new();
        let listed = state.lanes.union(&state.first_lanes);
        for lane in listed.filter(|lane| state.serving.takes(lane)) {
            lanes.entry(lane.queue()).or_default().push(lane.clone());
        }
        let is_worker = state.serving.handlers.is_some();
        let offer = |(queue, free): (QueueName, u32)| {
            let mut lanes = lanes.remove(&queue).unwrap_or_default();
            if !is_worker {
                lanes.push(Lane::from(queue.clone()));
            }
            lanes.sort_by(|a, b| b.priority().cmp(&a.priority()).then_with(|| a.cmp(b)));
            let share = state
                .known
                .get(&queue)
                .map_or(QueueSettings::default().share, |record| record.settings.share);
            #[cfg(feature = "mutants")]
            let share = schedd_store::server::mutants::share(share);
            Offer { queue, lanes, slots: (free as usize).min(ROUND), share }
        };
        state.free(&self.node).into_iter().map(offer).collect()
    }

    /// Returns the number of slots of each queue that this node serves, taken and free slots
    /// together.
    pub(crate) fn all(&self) -> BTreeMap<QueueName, u32> {
        self.lock().all()
    }

    /// Returns the number of free slots of each queue that this node serves.
    pub(crate) fn free(&self) -> BTreeMap<QueueName, u32> {
        self.lock().free(&self.node)
    }

    /// Returns true if runs take more than three quarters of the slots of a queue or of this node. A
    /// queue with few slots never counts.
    pub(crate) fn is_nearly_full(&self) -> bool {
        let state = self.lock();
        let is_full =
            |taken: u32, all: u32| all >= MANY && u64::from(taken) * 4 > u64::from(all) * 3;
        let taken = self.node.all_taken();
        let running = taken.values().sum();
        state.max_running.is_some_and(|most| is_full(running, most))
            || taken.iter().any(|(queue, taken)| is_full(*taken, state.concurrency(queue)))
    }

    /// Returns the number of runs this node executes or is about to claim.
    pub(crate) fn running(&self) -> usize {
        self.node.all_taken().values().map(|taken| *taken as usize).sum()
    }

    /// Returns the number of further runs that this node may start, for all queues together.
    pub(crate) fn capacity(&self) -> usize {
        (self.lock().most_of_node() as usize).saturating_sub(self.running())
    }

    /// Returns the node event that says why `queue` lets no run start. The event includes the
    /// limit, rate or pause that this node knows of the queue. `hold` is the reason that Redis
    /// gave.
    pub(crate) fn why_no_room(&self, queue: &QueueName, hold: NoRoomReason) -> NodeEventKind {
        let state = self.lock();
        let (queue, known) = (queue.clone(), state.known.get(queue));
        match hold {
            NoRoomReason::Paused => {
                let by = known
                    .and_then(|record| record.paused.as_ref())
                    .map_or_else(String::new, |(_, by)| by.clone());
                NodeEventKind::QueuePaused { queue, by }
            }
            NoRoomReason::Full => NodeEventKind::QueueFull {
                queue,
                limit: known.and_then(|record| record.settings.limit).unwrap_or(0),
            },
            NoRoomReason::Rate => {
                let rate = known
                    .and_then(|record| record.settings.rate)
                    .map_or_else(String::new, |rate| rate.to_string());
                NodeEventKind::QueueRated { queue, rate }
            }
        }
    }

    /// Takes a slot of `queue`. The slot is free again when the returned permit is dropped.
    pub(crate) fn take(&self, queue: &QueueName) -> Permit {
        self.node.take(self.place, queue, 1);
        Permit { slots: self.clone(), queue: queue.clone() }
    }

    /// Takes at most `count` free slots of `queue` for a claim. Other engines of the node may have
    /// taken slots since they were offered.
    pub(crate) fn reserve(&self, queue: &QueueName, count: usize) -> Reservation {
        let bounds = {
            let state = self.lock();
            (state.concurrency(queue), state.most_of_node())
        };
        let count = u32::try_from(count).unwrap_or(u32::MAX);
        let count = self.node.take_free(self.place, queue, count, bounds);
        Reservation { slots: self.clone(), queue: queue.clone(), count }
    }
}

/// The slots that a claim may use. They are free again when the reservation is dropped. A run that
/// was claimed has taken a slot of its own by then.
pub(crate) struct Reservation {
    slots: Slots,
    queue: QueueName,
    count: u32,
}

impl Reservation {
    /// Returns the number of reserved slots.
    pub(crate) fn count(&self) -> usize {
        self.count as usize
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.slots.node.give_back(self.slots.place, &self.queue, self.count);
    }
}

/// A permit to use a slot. The slot is free again when the permit is dropped.
pub(crate) struct Permit {
    slots: Slots,
    queue: QueueName,
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.slots.node.free_one(self.slots.place, &self.queue);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lanes(text: &str) -> Vec<Lane> {
        text.split_whitespace().map(|lane| lane.parse().unwrap()).collect()
    }

    /// Returns the offered queues with their slots, except the queues of schedd itself, which every
    /// node serves.
    fn offered(slots: &Slots) -> Vec<(String, usize)> {
        let mut offers = slots.offers();
        assert_eq!(offers.remove(0).queue, QueueName::of_each_node());
        assert_eq!(offers.remove(0).queue, QueueName::of_notices());
        offers.into_iter().map(|offer| (offer.queue.to_string(), offer.slots)).collect()
    }

    #[test]
    fn a_slot_in_use_is_not_free_until_it_is_given_back() {
        let slots = Slots::alone();
        let queue: QueueName = "q".parse().unwrap();
        slots.set_own(BTreeMap::from([(queue.clone(), 2)]));
        slots.set_serving(Serving::default(), Some(3));
        let free = |slots: &Slots| {
            slots.offers().into_iter().find(|offer| offer.queue == queue).unwrap().slots
        };
        let first = slots.take(&queue);
        assert_eq!((free(&slots), slots.capacity()), (1, 2));
        let second = slots.take(&queue);
        assert_eq!((free(&slots), slots.capacity()), (0, 1));
        drop((first, second));
        assert_eq!((free(&slots), slots.capacity()), (2, 3));
    }

    #[test]
    fn a_node_is_nearly_full_if_runs_take_most_slots_of_a_queue_with_many() {
        let slots = Slots::alone();
        let [small, large] = ["small", "large"].map(|queue| queue.parse::<QueueName>().unwrap());
        slots.set_own(BTreeMap::from([(small.clone(), 7), (large.clone(), 16)]));
        let take = |queue: &QueueName, count| -> Vec<Permit> {
            std::iter::repeat_with(|| slots.take(queue)).take(count).collect()
        };
        let _small = take(&small, 7);
        let _large = take(&large, 12);
        assert!(!slots.is_nearly_full());
        let one_more = slots.take(&large);
        assert!(slots.is_nearly_full());
        drop(one_more);
        slots.set_serving(Serving::default(), Some(20));
        assert!(slots.is_nearly_full(), "19 of 20 slots of the node are taken");
    }

    #[test]
    fn a_queue_only_another_node_declares_is_served_too() {
        let slots = Slots::alone();
        slots.set_known(BTreeMap::from([("far".parse().unwrap(), known(3))]));
        assert_eq!(offered(&slots), [("default".to_owned(), 32), ("far".to_owned(), 3)]);
    }

    #[test]
    fn only_what_this_node_serves_is_offered_and_always_its_host() {
        let slots = Slots::alone();
        slots.set_host("@h".parse().unwrap());
        slots.set_known(BTreeMap::from([("far".parse().unwrap(), known(3))]));
        let queues = Some(["far", "none"].map(|queue| queue.parse().unwrap()).into());
        slots.set_serving(Serving { queues, ..Serving::default() }, None);
        assert_eq!(offered(&slots), [("@h".to_owned(), 32), ("far".to_owned(), 3)]);
        assert_eq!(slots.undeclared(), ["none".parse().unwrap()]);
    }

    #[test]
    fn lanes_of_a_queue_come_by_priority_and_only_with_labels_this_node_has() {
        let slots = Slots::alone();
        slots.set_lanes(
            lanes("default!-3 default!5+gpu default!5 default+eu,gpu default+ssd other!1")
                .into_iter()
                .collect(),
        );
        let labels = ["gpu", "eu"].map(|label| label.parse().unwrap()).into();
        slots.set_serving(Serving { labels, ..Serving::default() }, None);
        let offers: Vec<Offer> =
            slots.offers().into_iter().filter(|offer| !offer.queue.is_of_host()).collect();
        assert_eq!(offers.len(), 1, "a lane of a queue nobody declares is no reason to serve it");
        assert_eq!(
            offers[0].lanes,
            lanes("default!5 default!5+gpu default default+eu,gpu default!-3")
        );
    }

    #[test]
    fn a_lane_in_use_that_is_known_no_more_is_reported_once() {
        let slots = Slots::alone();
        let all = lanes("default default!1 default!2");
        for lane in &all {
            slots.saw(lane);
        }
        assert_eq!(
            slots.in_use_beside(&BTreeSet::from([all[1].clone()])),
            BTreeSet::from([all[2].clone()])
        );
        assert_eq!(slots.in_use_beside(&BTreeSet::new()), BTreeSet::from([all[1].clone()]));
        assert!(slots.in_use_beside(&BTreeSet::new()).is_empty());
    }

    #[test]
    fn a_concurrency_set_by_hand_holds_whatever_the_own_file_says() {
        let slots = Slots::alone();
        let queue: QueueName = "default".parse().unwrap();
        slots.set_own(BTreeMap::from([(queue.clone(), 2)]));
        slots.set_known(BTreeMap::from([(queue.clone(), known(3))]));
        assert_eq!(offered(&slots), [(queue.to_string(), 2)]);
        slots.set_known(BTreeMap::from([(
            queue.clone(),
            QueueRecord { is_concurrency_by_hand: true, ..known(3) },
        )]));
        assert_eq!(offered(&slots), [(queue.to_string(), 3)]);
    }

    fn known(concurrency: u32) -> QueueRecord {
        let settings = QueueSettings { concurrency, ..QueueSettings::default() };
        QueueRecord {
            settings,
            is_concurrency_by_hand: false,
            paused: None,
            set: None,
            unreadable: Vec::new(),
        }
    }
}
