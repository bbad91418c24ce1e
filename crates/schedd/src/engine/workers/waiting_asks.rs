//! The questions of workers that wait for runs at a node.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

use super::ask_turn::AskTurn;
use super::worker_ask::{HandedRun, WorkerAsk};
use schedd_core::host::boot_clock::BootInstant;
use schedd_store::StoreError;

/// The most questions that wait at a node.
const MOST_WAITING: usize = 20_000;

/// The reason why a question has no answer.
#[derive(Debug, thiserror::Error)]
pub enum AskError {
    /// Too many questions wait at the node.
    #[error("{MOST_WAITING} questions of workers wait at this node, wanted fewer")]
    Full,
    /// An error of the store.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// The questions that wait for runs. Their number does not slow down the adding of another.
#[derive(Default)]
pub(super) struct WaitingAsks(Mutex<AskTable>);

/// The key of a question in the table: the instant at which its wait ends, and its number.
type AskPlace = (BootInstant, u64);

/// The questions, by their ends and by their ids.
#[derive(Default)]
struct AskTable {
    by_end: BTreeMap<AskPlace, WaitingAsk>,
    places: HashMap<String, AskPlace>,
    /// The places of the questions that no round has taken yet. Some may be gone.
    new: Vec<AskPlace>,
    /// The number of questions so far.
    count: u64,
}

/// A question that waits for runs.
pub(super) struct WaitingAsk {
    pub(super) ask: Arc<WorkerAsk>,
    /// When the question is answered without runs.
    pub(super) until: BootInstant,
    pub(super) turn: Arc<AskTurn>,
    /// True if a search for an earlier question with the same id found no open runs.
    pub(super) is_looked_up: bool,
    /// True if the question has to be marked before the next claim for it.
    pub(super) needs_mark: bool,
    /// True if the note of the question has its mark.
    pub(super) is_marked: bool,
    answer: oneshot::Sender<Result<Vec<HandedRun>, StoreError>>,
    /// The number of the question at its desk, in the order in which workers asked.
    number: u64,
}

impl WaitingAsk {
    pub(super) fn new(
        ask: Arc<WorkerAsk>,
        until: BootInstant,
        turn: Arc<AskTurn>,
        answer: oneshot::Sender<Result<Vec<HandedRun>, StoreError>>,
    ) -> Self {
        Self {
            ask,
            until,
            is_looked_up: false,
            needs_mark: turn.is_shared,
            is_marked: false,
            turn,
            answer,
            number: 0,
        }
    }

    /// Answers the question. The asker may be gone.
    pub(super) fn answer(self, answer: Result<Vec<HandedRun>, StoreError>) {
        let _ = self.answer.send(answer);
    }

    /// Returns true if nobody waits for the answer any more.
    pub(super) fn is_gone(&self) -> bool {
        self.answer.is_closed()
    }
}

impl WaitingAsks {
    fn lock(&self) -> MutexGuard<'_, AskTable> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Removes and returns all questions, the oldest first.
    pub(super) fn take_all(&self) -> Vec<WaitingAsk> {
        let mut table = self.lock();
        table.places.clear();
        table.new.clear();
        let mut asks: Vec<WaitingAsk> = std::mem::take(&mut table.by_end).into_values().collect();
        asks.sort_by_key(|ask| ask.number);
        asks
    }

    /// Removes and returns the questions that no round has taken yet, and those that end by `now`.
    pub(super) fn take_new_and_over(&self, now: BootInstant) -> Vec<WaitingAsk> {
        let mut table = self.lock();
        let mut asks = Vec::new();
        for place in std::mem::take(&mut table.new) {
            asks.extend(table.by_end.remove(&place));
        }
        while let Some(first) = table.by_end.first_entry().filter(|first| first.key().0 <= now) {
            asks.push(first.remove());
        }
        for ask in &asks {
            table.places.remove(&ask.ask.id);
        }
        asks.sort_by_key(|ask| ask.number);
        asks
    }

    /// Puts questions back, but for questions that were sent again.
    pub(super) fn put_back(&self, asks: Vec<WaitingAsk>) {
        let mut table = self.lock();
        for ask in asks {
            if !table.places.contains_key(&ask.ask.id) {
                table.insert(ask);
            }
        }
    }

    /// Returns when the first question ends.
    pub(super) fn next_end(&self) -> Option<BootInstant> {
        self.lock().by_end.first_key_value().map(|((until, _), _)| *until)
    }

    /// Adds a question. A question with the same id that waits ends without runs, because its asker has
    /// sent it again, and so no longer waits for the first answer.
    pub(super) fn add(&self, mut ask: WaitingAsk) -> Result<(), AskError> {
        let mut table = self.lock();
        if let Some(place) = table.places.remove(&ask.ask.id) {
            table.by_end.remove(&place);
        }
        if table.by_end.len() >= MOST_WAITING {
            table.forget_gone();
        }
        if table.by_end.len() >= MOST_WAITING {
            return Err(AskError::Full);
        }
        table.count += 1;
        ask.number = table.count;
        let place = table.insert(ask);
        table.new.push(place);
        Ok(())
    }
}

impl AskTable {
    fn insert(&mut self, ask: WaitingAsk) -> AskPlace {
        let place = (ask.until, ask.number);
        self.places.insert(ask.ask.id.clone(), place);
        self.by_end.insert(place, ask);
        place
    }

    /// Removes the questions for whose answers nobody waits any more.
    fn forget_gone(&mut self) {
        self.by_end.retain(|_, ask| !ask.is_gone());
        self.places.retain(|_, place| self.by_end.contains_key(place));
    }
}
