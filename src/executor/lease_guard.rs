//! Lets a future run on only while its attempt's lease is held, its time is not up and nobody asked it to stop.
//!
//! Invariant: these are looked at each time before the future is allowed a step, so no step (a connect, a send) is made on a
//! lease that has passed, not even the first one after the machine slept or the process was stopped.

use std::future::Future;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use super::{Control, StopReason};
use crate::domain::run::{Ending, Outcome};
use crate::keeper::BootInstant;

/// How often the clock is looked at while nothing else happens: tokio's timers stand still while the machine sleeps.
const LOOK: Duration = Duration::from_millis(100);

/// Why the future was not allowed to go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Interruption {
    /// Its lease passed.
    LeaseLost,
    /// Its time is up.
    TimedOut,
    /// It was asked to stop.
    Stopped(StopReason),
}

impl Interruption {
    /// How an attempt ends that was interrupted before anything of it was begun; `timeout` is how long it might have taken.
    pub(super) fn outcome_of_nothing(self, timeout: Duration) -> Outcome {
        let (ending, error) = match self {
            // Nothing of it is anywhere: it can be handed back, also where a lost one could not.
            Self::LeaseLost => (Ending::NotStarted, Some("not started: its lease ran out before the start".to_owned())),
            Self::TimedOut => (Ending::TimedOut, Some(format!("timed out after {timeout:?}, its secrets not yet read"))),
            Self::Stopped(reason) => (reason.ending(), None),
        };
        Outcome { error, ..Outcome::bare(ending) }
    }
}

/// The bounds of one attempt.
pub(super) struct LeaseGuard {
    control: Control,
    timeout_at: BootInstant,
}

impl LeaseGuard {
    /// Bounds that begin now.
    pub(super) fn new(control: Control, timeout: Duration) -> Self {
        Self { control, timeout_at: BootInstant::now().saturating_add(timeout) }
    }

    /// Why it may not go on; none if it may.
    pub(super) fn interruption(&self) -> Option<Interruption> {
        let now = BootInstant::now();
        if now >= *self.control.deadline.borrow() {
            return Some(Interruption::LeaseLost);
        }
        if let Some(reason) = *self.control.stop.borrow() {
            return Some(Interruption::Stopped(reason));
        }
        (now >= self.timeout_at).then_some(Interruption::TimedOut)
    }

    /// The end of `future`, unless one of the bounds comes first: then it is dropped.
    pub(super) async fn run<T>(&self, future: impl Future<Output = T>) -> Result<T, Interruption> {
        let mut future = pin!(future);
        let mut look = tokio::time::interval(LOOK);
        let mut stop = self.control.stop.clone();
        let mut asked = pin!(async move {
            // If nobody can ask any more, nobody will.
            if stop.wait_for(Option::is_some).await.is_err() {
                std::future::pending::<()>().await;
            }
        });
        std::future::poll_fn(|context| {
            // Both only wake us; the answer is read below.
            let _ = asked.as_mut().poll(context);
            while look.poll_tick(context).is_ready() {}
            match self.interruption() {
                Some(interruption) => Poll::Ready(Err(interruption)),
                None => future.as_mut().poll(context).map(Ok),
            }
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::watch;

    use super::*;

    #[tokio::test]
    async fn a_future_on_a_passed_lease_is_not_allowed_one_step() {
        let (_deadline, deadline) = watch::channel(BootInstant::now());
        let (_stop, stop) = watch::channel(None);
        let guard = LeaseGuard::new(Control { deadline, stop }, Duration::from_secs(60));
        let run = guard.run(async { unreachable!("it was polled") }).await;
        assert_eq!(run, Err::<(), _>(Interruption::LeaseLost));
    }

    #[tokio::test]
    async fn a_renewal_moves_the_end_and_a_stop_ends_at_once() {
        let now = BootInstant::now();
        let (renew, deadline) = watch::channel(now.saturating_add(Duration::from_millis(150)));
        let (ask, stop) = watch::channel(None);
        let guard = LeaseGuard::new(Control { deadline, stop }, Duration::from_secs(60));
        renew.send_replace(now.saturating_add(Duration::from_secs(60)));
        let slept = guard.run(tokio::time::sleep(Duration::from_millis(300))).await;
        assert_eq!(slept, Ok(()));
        let asking = async {
            ask.send_replace(Some(StopReason::ShutDown));
        };
        let (run, ()) = tokio::join!(guard.run(std::future::pending::<()>()), asking);
        assert_eq!(run, Err(Interruption::Stopped(StopReason::ShutDown)));
    }
}
