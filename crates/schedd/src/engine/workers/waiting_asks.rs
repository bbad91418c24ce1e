//! The questions of workers that wait for runs at a node.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::oneshot;

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

/// The questions that wait for runs.
#[derive(Default)]
pub(super) struct WaitingAsks(Mutex<Vec<WaitingAsk>>);

/// The turn of a question that waits at several desks. The desk that claims runs for the question
/// has the turn, and keeps it if it claimed any.
#[derive(Debug, Default)]
pub(super) struct AskTurn(AtomicBool);

impl AskTurn {
    /// Takes the turn. Returns false if another desk has it.
    pub(super) fn take(&self) -> bool {
        !self.0.swap(true, Ordering::AcqRel)
    }

    /// Gives the turn back.
    pub(super) fn give_back(&self) {
        self.0.store(false, Ordering::Release);
    }
}

/// A question that waits for runs.
pub(super) struct WaitingAsk {
    pub(super) ask: Arc<WorkerAsk>,
    /// When the question is answered without runs.
    pub(super) until: BootInstant,
    pub(super) turn: Arc<AskTurn>,
    /// True if a search for an earlier question with the same id found no open runs.
    pub(super) is_looked_up: bool,
    answer: oneshot::Sender<Result<Vec<HandedRun>, StoreError>>,
}

impl WaitingAsk {
    pub(super) fn new(
        ask: Arc<WorkerAsk>,
        until: BootInstant,
        turn: Arc<AskTurn>,
        answer: oneshot::Sender<Result<Vec<HandedRun>, StoreError>>,
    ) -> Self {
        Self { ask, until, turn, is_looked_up: false, answer }
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
    /// Removes and returns all questions, the oldest first.
    pub(super) fn take_all(&self) -> Vec<WaitingAsk> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Puts questions back in front of those that came meanwhile, but for questions that were sent again.
    pub(super) fn put_back(&self, mut asks: Vec<WaitingAsk>) {
        let mut waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let again: HashSet<String> = waiting.iter().map(|ask| ask.ask.id.clone()).collect();
        asks.retain(|ask| !again.contains(&ask.ask.id));
        asks.append(&mut waiting);
        *waiting = asks;
    }

    /// Adds a question. A question with the same id that waits ends without runs, because its asker has
    /// sent it again, and so no longer waits for the first answer.
    pub(super) fn add(&self, ask: WaitingAsk) -> Result<(), AskError> {
        let mut waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.retain(|waiting| !waiting.is_gone() && waiting.ask.id != ask.ask.id);
        if waiting.len() >= MOST_WAITING {
            return Err(AskError::Full);
        }
        waiting.push(ask);
        Ok(())
    }
}
