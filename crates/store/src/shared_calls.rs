//! Items of many callers that go to Redis together: those that wait during one call form the next.
//!
//! Invariant: no item waits for ever. If the task that sends them ends early, with its runtime or by a
//! panic, the items that wait are dropped, and the next caller starts another task.

use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

/// An item and the channel for its answer.
pub type WaitingItem<T, A> = (T, oneshot::Sender<A>);

/// The items that wait for a shared call to Redis, each with the channel for its answer.
#[derive(Debug)]
pub struct SharedCalls<T, A>(Arc<Mutex<WaitingItems<T, A>>>);

#[derive(Debug)]
struct WaitingItems<T, A> {
    items: Vec<WaitingItem<T, A>>,
    /// True while a [`CallSender`] exists.
    is_sending: bool,
}

impl<T, A> Default for SharedCalls<T, A> {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(WaitingItems { items: Vec::new(), is_sending: false })))
    }
}

impl<T, A> SharedCalls<T, A> {
    fn lock(&self) -> MutexGuard<'_, WaitingItems<T, A>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds an item. Returns the channel on which its answer comes. Also returns a sender if no task
    /// sends items; the caller must give the sender to a task.
    pub fn add(&self, item: T) -> (oneshot::Receiver<A>, Option<CallSender<T, A>>) {
        let (answer, answered) = oneshot::channel();
        let mut waiting = self.lock();
        waiting.items.push((item, answer));
        let is_first = !mem::replace(&mut waiting.is_sending, true);
        let sender = || CallSender { calls: Self(self.0.clone()), is_done: false };
        (answered, is_first.then(sender))
    }

    /// Returns true while a task sends items.
    pub fn is_sending(&self) -> bool {
        self.lock().is_sending
    }
}

/// The right to send the items that wait. Its holder sends until none waits.
#[derive(Debug)]
pub struct CallSender<T, A> {
    calls: SharedCalls<T, A>,
    is_done: bool,
}

impl<T, A> CallSender<T, A> {
    /// Returns the items of the next call, which `take` removes from those that wait. Returns `None` if no
    /// item waits; the next item then gets a new sender.
    pub fn next_call(
        &mut self,
        take: impl FnOnce(&mut Vec<WaitingItem<T, A>>) -> Vec<WaitingItem<T, A>>,
    ) -> Option<Vec<WaitingItem<T, A>>> {
        let mut waiting = self.calls.lock();
        if waiting.items.is_empty() {
            waiting.is_sending = false;
            self.is_done = true;
            return None;
        }
        Some(take(&mut waiting.items))
    }
}

impl<T, A> Drop for CallSender<T, A> {
    fn drop(&mut self) {
        if !self.is_done {
            *self.calls.lock() = WaitingItems { items: Vec::new(), is_sending: false };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sender_that_ends_early_answers_nobody_and_the_next_item_gets_another() {
        let calls = SharedCalls::<u8, u8>::default();
        let (mut first, sender) = calls.add(1);
        let (mut second, none) = calls.add(2);
        assert!(sender.is_some() && none.is_none() && calls.is_sending());
        drop(sender);
        assert!(first.try_recv().is_err() && second.try_recv().is_err());
        let (mut third, sender) = calls.add(3);
        let mut sender = sender.unwrap();
        for (item, answer) in sender.next_call(mem::take).unwrap() {
            answer.send(item * 2).unwrap();
        }
        assert_eq!(third.try_recv(), Ok(6));
        assert!(sender.next_call(mem::take).is_none() && !calls.is_sending());
        let (_answered, again) = calls.add(4);
        drop(sender);
        assert!(again.is_some() && calls.is_sending(), "a sender that is done ends nothing");
    }
}
