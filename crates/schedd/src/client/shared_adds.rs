//! Adds of single jobs by many callers at the same time. The adds that wait during one call to Redis
//! form the next call, so each costs a part of a call.
//!
//! Invariant: an add is answered by the result of its own job. If the runtime that sends a call ends,
//! the callers learn that their jobs may or may not have been added.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::add::Add;
use super::added::Added;
use super::client_error::ClientError;
use schedd_store::{CallSender, SharedCalls};

/// The most jobs in one call.
const MOST: usize = 250;
/// The number of calls for one job each that may be under way. A caller who waits for no other
/// caller needs no task for the call.
const ALONE: usize = 2;

/// The adds that no call has taken yet, of all clones of a client.
#[derive(Debug, Default)]
pub(super) struct SharedAdds {
    calls: SharedCalls<Add, AddResult>,
    /// The number of calls for one job each that are under way.
    alone: AtomicUsize,
}

type AddResult = Result<Added, ClientError>;

/// A call to Redis that adds jobs. Returns the result of each.
pub(super) trait Sending: Future<Output = Results> + Send + 'static {}

impl<F: Future<Output = Results> + Send + 'static> Sending for F {}

type Results = Result<Vec<AddResult>, ClientError>;

/// A guard that a caller holds during its call for one job. The caller may drop the call at any point.
struct AloneGuard<'a>(&'a SharedAdds);

impl Drop for AloneGuard<'_> {
    fn drop(&mut self) {
        self.0.alone.fetch_sub(1, Ordering::Relaxed);
    }
}

impl SharedAdds {
    /// Adds one job. `send` adds the jobs of a call, and returns the result of each.
    pub(super) async fn add<F: Sending>(
        self: &Arc<Self>,
        add: Add,
        send: impl Fn(Vec<Add>) -> F + Send + 'static,
    ) -> Result<Added, ClientError> {
        let one_more = |alone| (alone < ALONE).then_some(alone + 1);
        if !self.calls.is_sending()
            && self.alone.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more).is_ok()
        {
            let _guard = AloneGuard(self);
            let mut results = send(vec![add]).await?;
            return results.pop().unwrap_or_else(|| Err(not_answered()));
        }
        let (answered, sender) = self.calls.add(add);
        if let Some(sender) = sender {
            tokio::spawn(send_all(sender, send));
        }
        answered.await.unwrap_or_else(|_| Err(not_answered()))
    }
}

/// Sends the adds that wait, until none waits.
async fn send_all<F: Sending>(
    mut sender: CallSender<Add, AddResult>,
    send: impl Fn(Vec<Add>) -> F,
) {
    while let Some(batch) =
        sender.next_call(|waiting| waiting.drain(..waiting.len().min(MOST)).collect())
    {
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
}

/// Returns the error of an add whose result is not known.
fn not_answered() -> ClientError {
    ClientError::Unreachable(
        "the runtime that sent the job has ended: the job may have been added".to_owned(),
    )
}
