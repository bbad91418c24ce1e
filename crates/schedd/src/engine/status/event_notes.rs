//! The events of this node, kept in memory until they are written to Redis. `schedctl explain` uses
//! these events to say why a run was late.
//!
//! Invariant: recording an event never delays a run. The number of events is bounded, and an event
//! that cannot be written is tried again or dropped.
//!
//! Times are Redis' time. While Redis is out of reach, this node's monotonic clock continues this
//! time. A condition, such as an outage or a full queue, becomes one event when it lasts at least a
//! second. Short gaps do not end the event. A lack of slots ends with the first free slot, and
//! counts only while a due run waits.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use schedd_core::domain::run::node_event::{NodeEvent, NodeEventKind};
use schedd_core::host::boot_clock::BootInstant;
use schedd_schedule::names::QueueName;
use schedd_schedule::time::unix_millis::UnixMillis;
use schedd_store::EventNote;

/// The most events kept while Redis is out of reach. The oldest events are dropped first.
const MOST: usize = 200;
/// The shortest condition that becomes an event. A run that is late by less counts as on time.
const SHORTEST: Duration = Duration::from_secs(1);
/// The longest gap in a condition that does not end its event. For limits, the longest gap is
/// `AT_LIMIT_GAP`, because a busy queue or node reaches and leaves its limit all the time.
const GAP: Duration = Duration::from_secs(1);
const AT_LIMIT_GAP: Duration = Duration::from_secs(10);
/// The most characters that are kept of the reason why a jobs file was refused.
const LONGEST_REASON: usize = 500;

/// The node events that wait to be written to Redis, and the conditions that still last, such as a
/// node at its limit.
pub(crate) struct Notes {
    state: Mutex<State>,
}

struct State {
    /// A time of Redis' clock, and the instant of this node's clock at which the time was read.
    clock: (UnixMillis, BootInstant),
    /// The conditions that last, such as an outage or a full queue, by their kind and queue.
    lasting: BTreeMap<(&'static str, Option<QueueName>), Lasting>,
    /// The queues without a free slot, each with the time from which all its slots were taken.
    full: BTreeMap<QueueName, UnixMillis>,
    waiting: VecDeque<EventNote>,
}

struct Lasting {
    what: NodeEventKind,
    from: UnixMillis,
    seen: UnixMillis,
    /// The event that was written when the condition began. `None` if no event was written.
    written: Option<NodeEvent>,
}

impl State {
    fn now(&self) -> UnixMillis {
        let (at, instant) = self.clock;
        at.saturating_add(BootInstant::now().since(instant))
    }

    fn push(&mut self, note: EventNote) {
        if self.waiting.len() >= MOST {
            self.waiting.pop_front();
        }
        self.waiting.push_back(note);
    }

    fn note_lasting(&mut self, what: NodeEventKind, from: UnixMillis) {
        let now = self.now();
        let lasting = self.lasting.entry(key(&what)).or_insert_with(|| Lasting {
            what,
            from,
            seen: now,
            written: None,
        });
        lasting.seen = now;
        if lasting.written.is_none() && now.since(lasting.from) >= SHORTEST {
            let event = NodeEvent { what: lasting.what.clone(), from: lasting.from, to: None };
            lasting.written = Some(event.clone());
            self.push(EventNote { event, replaces: None });
        }
    }

    /// Ends a condition that was not seen for `gap`. The condition ends at the time when it was
    /// last seen, or now if `gap` is zero.
    fn end(&mut self, key: &(&'static str, Option<QueueName>), gap: Duration) {
        let now = self.now();
        if self.lasting.get(key).is_none_or(|lasting| now.since(lasting.seen) < gap) {
            return;
        }
        let to = if gap.is_zero() { Some(now) } else { None };
        self.close(key, to);
    }

    /// Ends a condition at `to`. If `to` is `None`, it ends at the time when it was last seen.
    fn close(&mut self, key: &(&'static str, Option<QueueName>), to: Option<UnixMillis>) {
        if let Some(Lasting { what, from, seen, written }) = self.lasting.remove(key) {
            let to = to.unwrap_or(seen);
            if written.is_some() || to.since(from) >= SHORTEST {
                self.push(EventNote {
                    event: NodeEvent { what, from, to: Some(to) },
                    replaces: written,
                });
            }
        }
    }
}

fn key(what: &NodeEventKind) -> (&'static str, Option<QueueName>) {
    (what.word(), what.queue().cloned())
}

/// Returns the name of the limit in a reason: `load` of `load 9.1 > 8`. The values are left out,
/// because they change all the time.
fn limit_of(why: &str) -> &str {
    why.split(' ').next().unwrap_or(why)
}

impl Notes {
    /// Returns empty event notes for a node that starts at `now` by Redis' clock.
    pub(crate) fn new(now: UnixMillis) -> Self {
        let state = State {
            clock: (now, BootInstant::now()),
            lasting: BTreeMap::new(),
            full: BTreeMap::new(),
            waiting: VecDeque::new(),
        };
        Self { state: Mutex::new(state) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records that Redis answered a poll at `now`, which ends an outage.
    pub(crate) fn redis_answered(&self, now: UnixMillis) {
        let mut state = self.state();
        // The end is computed with the old clock, because Redis' clock may have been set meanwhile.
        state.end(&key(&NodeEventKind::RedisAway), Duration::ZERO);
        state.clock = (now, BootInstant::now());
    }

    /// Records that Redis did not answer the poll that was sent at `sent`.
    pub(crate) fn redis_silent(&self, sent: BootInstant) {
        let mut state = self.state();
        let from = state.now().saturating_sub(BootInstant::now().since(sent));
        state.note_lasting(NodeEventKind::RedisAway, from);
    }

    /// Records whether this node claims runs now.
    pub(crate) fn claims(&self, are: Claims) {
        let mut state = self.state();
        match are {
            Claims::Suspended => {
                let from = state.now();
                state.note_lasting(NodeEventKind::ClaimsSuspended, from);
            }
            Claims::Taken => state.end(&key(&NodeEventKind::ClaimsSuspended), GAP),
        }
    }

    /// Records whether the data in Redis is complete, is being restored, or is being examined. Runs
    /// are due only if the data is complete.
    pub(crate) fn data(&self, data: NoteData) {
        let mut state = self.state();
        match data {
            NoteData::Settles => {
                let from = state.now();
                state.end(&key(&NodeEventKind::NewServer), Duration::ZERO);
                state.note_lasting(NodeEventKind::Restoring, from);
            }
            NoteData::IsLookedAt => {
                let from = state.now();
                state.note_lasting(NodeEventKind::NewServer, from);
            }
            NoteData::IsSettled => {
                state.end(&key(&NodeEventKind::NewServer), Duration::ZERO);
                state.end(&key(&NodeEventKind::Restoring), Duration::ZERO);
            }
        }
    }

    /// Returns the present time of Redis' clock, as this node last read and continued it.
    pub(crate) fn now(&self) -> UnixMillis {
        self.state().now()
    }

    /// Records the limit that prevents this node from claiming, as in `load 9.1 > 8`. `None` means
    /// that no limit prevents it.
    pub(crate) fn at_limit(&self, why: Option<String>) {
        let mut state = self.state();
        match why {
            Some(why) => {
                let limited = (NodeEventKind::AT_LIMIT, None);
                let other = |before: &Lasting| !matches!(&before.what, NodeEventKind::AtLimit { why: before } if limit_of(before) == limit_of(&why));
                if state.lasting.get(&limited).is_some_and(other) {
                    state.end(&limited, Duration::ZERO);
                }
                let from = state.now();
                state.note_lasting(NodeEventKind::AtLimit { why }, from);
            }
            None if !state.lasting.is_empty() => {
                state.end(&(NodeEventKind::AT_LIMIT, None), AT_LIMIT_GAP);
            }
            None => {}
        }
    }

    /// Records the number of free slots of each queue at the end of a round of claims.
    pub(crate) fn slots(&self, free: impl Iterator<Item = (QueueName, u32)>) {
        let mut state = self.state();
        for (queue, free) in free {
            if free == 0 {
                let now = state.now();
                state.full.entry(queue).or_insert(now);
            } else if state.full.remove(&queue).is_some() {
                state.close(&key(&NodeEventKind::SlotsTaken { queue }), None);
            }
        }
    }

    /// Returns the queues without a free slot, each with the time from which all its slots were
    /// taken.
    pub(super) fn full(&self) -> BTreeMap<QueueName, UnixMillis> {
        self.state().full.clone()
    }

    /// Records that a run of `queue`, which is ready since `ready`, waits or waited for a slot.
    /// Only time without a free slot counts.
    pub(crate) fn waits_for_slot(&self, queue: &QueueName, ready: UnixMillis) {
        let mut state = self.state();
        if let Some(full) = state.full.get(queue).copied() {
            state.note_lasting(NodeEventKind::SlotsTaken { queue: queue.clone() }, full.max(ready));
        }
    }

    /// Records that no run of `queue` waits for a slot.
    pub(super) fn none_waits(&self, queue: &QueueName) {
        self.state().close(&key(&NodeEventKind::SlotsTaken { queue: queue.clone() }), None);
    }

    /// Records whether `queue` lets ready runs start. `reason` is the node event that prevents a
    /// start, or `None` if runs may start.
    pub(crate) fn queue(&self, queue: &QueueName, reason: Option<NodeEventKind>) {
        let mut state = self.state();
        if state.lasting.is_empty() && reason.is_none() {
            return;
        }
        let word = reason.as_ref().map(NodeEventKind::word);
        for other in ["queue_paused", "queue_full", "queue_rated"] {
            if word != Some(other) {
                let gap = if other == "queue_paused" { GAP } else { AT_LIMIT_GAP };
                state.end(&(other, Some(queue.clone())), gap);
            }
        }
        if let Some(reason) = reason {
            let from = state.now();
            state.note_lasting(reason, from);
        }
    }

    /// Records that Redis' clock was set forward by `by_ms`, or back if `by_ms` is negative.
    pub(crate) fn clock_stepped(&self, by_ms: i64) {
        self.happened(NodeEventKind::ClockStepped { by_ms });
    }

    /// Records that the jobs file was refused for the reason `why`.
    pub(crate) fn file_refused(&self, why: &str) {
        self.happened(NodeEventKind::FileRefused {
            why: why.chars().take(LONGEST_REASON).collect(),
        });
    }

    /// Records that this node stops and no longer claims runs, and ends all conditions that last.
    pub(crate) fn stopped(&self) {
        let lasting: Vec<_> = self.state().lasting.keys().cloned().collect();
        for key in lasting {
            self.state().end(&key, Duration::ZERO);
        }
        self.happened(NodeEventKind::Stopped);
    }

    fn happened(&self, what: NodeEventKind) {
        let mut state = self.state();
        let from = state.now();
        state.push(EventNote { event: NodeEvent { what, from, to: None }, replaces: None });
    }

    pub(super) fn take(&self) -> Vec<EventNote> {
        self.state().waiting.drain(..).collect()
    }

    pub(super) fn put_back(&self, notes: Vec<EventNote>) {
        let mut state = self.state();
        for note in notes.into_iter().rev() {
            if state.waiting.len() < MOST {
                state.waiting.push_front(note);
            }
        }
    }
}

/// The state of the data in Redis, which decides whether any run can be due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NoteData {
    /// A data loss was noticed a short time ago: no run is due until the data is restored.
    Settles,
    /// The node has just met this Redis server: no run is due until the data is examined.
    IsLookedAt,
    /// The data is complete or restored: runs can be due.
    IsSettled,
}

/// The two states of claiming on this node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Claims {
    /// This node claims due runs.
    Taken,
    /// This node leaves due runs to other nodes, because its keeper is not ready.
    Suspended,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: i64) -> UnixMillis {
        UnixMillis::new(ms).unwrap()
    }

    fn words(notes: &Notes) -> Vec<(&'static str, bool, bool)> {
        notes
            .take()
            .iter()
            .map(|note| (note.event.what.word(), note.event.to.is_some(), note.replaces.is_some()))
            .collect()
    }

    #[test]
    fn what_lasts_is_written_when_it_began_and_again_when_it_is_over() {
        let notes = Notes::new(at(1_000_000));
        let sent = BootInstant::now();
        notes.redis_silent(sent);
        assert!(words(&notes).is_empty(), "it may be over in a moment");
        // The outage began with a poll that was sent long ago.
        notes.state().lasting.clear();
        notes.redis_silent(BootInstant::from_nanos(0));
        assert_eq!(words(&notes), [("redis_away", false, false)]);
        notes.redis_answered(at(1_000_500));
        assert_eq!(words(&notes), [("redis_away", true, true)]);
        notes.redis_answered(at(1_000_600));
        assert!(words(&notes).is_empty());
    }

    #[test]
    fn slots_count_as_taken_only_while_none_is_free_and_something_waits() {
        let notes = Notes::new(at(1_000_000));
        let queue: QueueName = "q".parse().unwrap();
        let free = |free| notes.slots([(queue.clone(), free)].into_iter());
        // All slots were taken long ago.
        let taken_long = || {
            free(0);
            notes.state().full.insert(queue.clone(), at(900_000));
        };
        let spans = || {
            let span = |note: EventNote| {
                (
                    note.event.what.word(),
                    note.event.from.as_i64(),
                    note.event.to.map(UnixMillis::as_i64),
                )
            };
            notes.take().into_iter().map(span).collect::<Vec<_>>()
        };
        taken_long();
        free(3);
        notes.waits_for_slot(&queue, at(800_000));
        assert!(spans().is_empty(), "nothing waited, or a slot was free");
        // Short runs in a row, and a due run at each poll.
        for _ in 0..3 {
            free(0);
            notes.waits_for_slot(&queue, at(800_000));
            free(1);
        }
        assert!(spans().is_empty(), "what was no more than moments");
        taken_long();
        notes.waits_for_slot(&queue, at(950_000));
        assert_eq!(spans(), [("slots_taken", 950_000, None)]);
        free(0);
        notes.waits_for_slot(&queue, at(999_000));
        notes.none_waits(&queue);
        let ended = notes.take().remove(0);
        assert_eq!(
            (ended.event.from, ended.event.to.is_some(), ended.replaces.is_some()),
            (at(950_000), true, true)
        );
        free(2);
        assert!(spans().is_empty());
    }

    #[test]
    fn another_limit_that_holds_a_node_is_another_event_though_it_comes_at_once() {
        let notes = Notes::new(at(1_000_000));
        let at_limit = |why: &str| notes.at_limit(Some(why.to_owned()));
        let long_ago =
            || notes.state().lasting.values_mut().for_each(|lasting| lasting.from = at(900_000));
        at_limit("running 4 of 1");
        long_ago();
        at_limit("running 2 of 1");
        notes.at_limit(None);
        at_limit("load 9.1 > 8");
        long_ago();
        at_limit("load 9.3 > 8");
        let taken = notes.take();
        let reported: Vec<_> =
            taken.iter().map(|note| (&note.event.what, note.event.to.is_some())).collect();
        let [running, load] = ["running 4 of 1", "load 9.1 > 8"]
            .map(|why| NodeEventKind::AtLimit { why: why.to_owned() });
        assert_eq!(reported, [(&running, false), (&running, true), (&load, false)]);
    }

    #[test]
    fn the_pause_after_a_loss_is_one_event_until_the_data_has_settled() {
        let notes = Notes::new(at(1_000_000));
        notes.data(NoteData::Settles);
        notes.state().lasting.values_mut().for_each(|lasting| lasting.from = at(900_000));
        notes.data(NoteData::Settles);
        notes.data(NoteData::IsSettled);
        notes.data(NoteData::IsSettled);
        assert_eq!(words(&notes), [("restoring", false, false), ("restoring", true, true)]);
    }

    #[test]
    fn notes_that_cannot_be_written_are_kept_in_order_and_bounded() {
        let notes = Notes::new(at(1_000_000));
        for number in 0..MOST + 5 {
            notes.file_refused(&format!("{number}"));
        }
        let taken = notes.take();
        assert_eq!(taken.len(), MOST);
        assert_eq!(taken[0].event.what, NodeEventKind::FileRefused { why: "5".to_owned() });
        notes.stopped();
        notes.put_back(taken);
        let again = notes.take();
        assert_eq!((again.len(), again[MOST - 1].event.what.word()), (MOST, "stopped"));
    }
}
