//! Adds of single jobs by many callers at the same time. The adds that wait during one call to Redis
//! form the next call, so each costs a part of a call.
//!
//! Invariant: an add is answered by the result of its own job. If the runtime that sends a call ends,
//! the callers learn that their jobs may or may not have been added.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

use super::add::Add;
use super::added::Added;
use super::client_error::ClientError;

/// The most jobs in one call.
const MOST: usize = 250;
/// The number of calls for one job each that may be under way. A caller who waits for no other
/// caller needs no task for the call.
const ALONE: usize = 2;

/// The adds that no call has taken yet, of all clones of a client.
#[derive(Debug, Default)]
pub(super) struct SharedAdds(Mutex<WaitingAdds>);

/// An add and the channel for its answer.
type WaitingAdd = (Add, oneshot::Sender<Result<Added, ClientError>>);

#[derive(Debug, Default)]
struct WaitingAdds {
    adds: Vec<WaitingAdd>,
    /// The number of calls for one job each that are under way.
    alone: usize,
    /// True while a task sends the adds that wait.
    is_sending: bool,
}

/// The way in which a caller's job goes to Redis.
enum Way {
    Alone(Add),
    WithOthers {
        answered: oneshot::Receiver<Result<Added, ClientError>>,
        /// True if no task sends the adds that wait.
        is_first: bool,
    },
}

/// A call to Redis that adds jobs. Returns the result of each.
pub(super) trait Sending: Future<Output = Results> + Send + 'static {}

impl<F: Future<Output = Results> + Send + 'static> Sending for F {}

type Results = Result<Vec<Result<Added, ClientError>>, ClientError>;

/// A guard that a caller holds during its call for one job. The caller may drop the call at any point.
struct AloneGuard<'a>(&'a SharedAdds);

impl Drop for AloneGuard<'_> {
    fn drop(&mut self) {
        self.0.lock().alone -= 1;
    }
}

/// A guard that a task holds while it sends adds. If the runtime of the task ends first, the adds that
/// wait are dropped, and their callers get an error.
struct SendingGuard {
    shared: Arc<SharedAdds>,
    /// True if the task has sent all adds that waited.
    is_done: bool,
}

impl Drop for SendingGuard {
    fn drop(&mut self) {
        if !self.is_done {
            let mut waiting = self.shared.lock();
            waiting.is_sending = false;
            waiting.adds.clear();
        }
    }
}

impl SharedAdds {
    fn lock(&self) -> MutexGuard<'_, WaitingAdds> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds one job. `send` adds the jobs of a call, and returns the result of each.
    pub(super) async fn add<F: Sending>(
        self: &Arc<Self>,
        add: Add,
        send: impl Fn(Vec<Add>) -> F + Send + 'static,
    ) -> Result<Added, ClientError> {
        let way = {
            let mut waiting = self.lock();
            if !waiting.is_sending && waiting.alone < ALONE {
                waiting.alone += 1;
                Way::Alone(add)
            } else {
                let (answer, answered) = oneshot::channel();
                waiting.adds.push((add, answer));
                let is_first = !std::mem::replace(&mut waiting.is_sending, true);
                Way::WithOthers { answered, is_first }
            }
        };
        match way {
            Way::Alone(add) => {
                let _guard = AloneGuard(self);
                let mut results = send(vec![add]).await?;
                results.pop().unwrap_or_else(|| Err(not_answered()))
            }
            Way::WithOthers { answered, is_first } => {
                if is_first {
                    // The runtime may end before the task begins, so the task gets the guard.
                    let guard = SendingGuard { shared: self.clone(), is_done: false };
                    tokio::spawn(self.clone().send(send, guard));
                }
                answered.await.unwrap_or_else(|_| Err(not_answered()))
            }
        }
    }

    /// Sends the adds that wait, until none waits.
    async fn send<F: Sending>(
        self: Arc<Self>,
        send: impl Fn(Vec<Add>) -> F,
        mut guard: SendingGuard,
    ) {
        while let Some(batch) = self.next_batch() {
            let (adds, answers): (Vec<_>, Vec<_>) = batch.into_iter().unzip();
            match send(adds).await {
                Ok(results) => {
                    for (answer, result) in answers.into_iter().zip(results) {
                        let _ = answer.send(result);
                    }
                }
                Err(error) => {
                    for answer in answers {
                        let _ = answer.send(Err(error.clone()));
                    }
                }
            }
        }
        guard.is_done = true;
    }

    /// Removes the adds of the next call from those that wait. Returns `None` if no add waits.
    fn next_batch(&self) -> Option<Vec<WaitingAdd>> {
        let mut waiting = self.lock();
        let most = waiting.adds.len().min(MOST);
        waiting.is_sending = most > 0;
        waiting.is_sending.then(|| waiting.adds.drain(..most).collect())
    }
}

/// Returns the error of an add whose result is not known.
fn not_answered() -> ClientError {
    ClientError::Unreachable(
        "the runtime that sent the job has ended: the job may have been added".to_owned(),
    )
}
