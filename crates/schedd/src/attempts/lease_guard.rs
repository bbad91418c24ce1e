//! A guard that polls a future only while its lease lasts, its time is not up and no stop was
//! requested.
//!
//! Invariant: these conditions are checked before each poll of the future. So no step (a connect, a
//! send) is made on a lease that has passed. This rule includes the first step after the machine
//! slept or the process was stopped.

use std::future::Future;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use super::attempt::{Control, StopReason};
use schedd_core::domain::run::run_state::{AttemptOutcome, Ending};
use schedd_core::host::boot_clock::BootInstant;
use schedd_schedule::time::duration::format_duration;

/// The interval at which the clock is checked while nothing else happens. Tokio's timers stop while
/// the machine sleeps.
const LOOK: Duration = Duration::from_millis(100);

/// The reason why a guarded future was stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Interruption {
    /// The lease passed.
    LeaseLost,
    /// The timeout of the attempt is over.
    TimedOut,
    /// A stop was requested.
    Stopped(StopReason),
}

impl Interruption {
    /// Returns the outcome of an attempt that was interrupted before its process or request began.
    /// `timeout` is the attempt's timeout.
    pub fn outcome_of_nothing(self, timeout: Duration) -> AttemptOutcome {
        let (ending, error) = match self {
            // Nothing of the attempt was started, so another node may start the run, even if the
            // job allows no second start.
            Self::LeaseLost => (
                Ending::NotStarted,
                Some("not started: the lease expired before the start".to_owned()),
            ),
            Self::TimedOut => (
                Ending::TimedOut,
                Some(format!(
                    "the attempt exceeded its timeout of {} before the secrets of the job were read",
                    format_duration(timeout)
                )),
            ),
            Self::Stopped(reason) => (reason.ending(), None),
        };
        AttemptOutcome { error, ..AttemptOutcome::bare(ending) }
    }
}

/// A guard with the bounds of one attempt: its lease, its timeout and a requested stop.
pub struct LeaseGuard {
    control: Control,
    timeout_at: BootInstant,
}

impl LeaseGuard {
    /// Creates the guard of an attempt whose timeout begins now.
    pub fn new(control: Control, timeout: Duration) -> Self {
        Self { control, timeout_at: BootInstant::now().saturating_add(timeout) }
    }

    /// Returns the reason why the attempt must not go on. Returns `None` if the attempt may go on.
    pub fn interruption(&self) -> Option<Interruption> {
        let now = BootInstant::now();
        if now >= *self.control.deadline.borrow() {
            return Some(Interruption::LeaseLost);
        }
        if let Some(reason) = *self.control.stop.borrow() {
            return Some(Interruption::Stopped(reason));
        }
        (now >= self.timeout_at).then_some(Interruption::TimedOut)
    }

    /// Returns the result of `future`. If a bound is reached first, drops `future` and returns the
    /// bound as the error.
    pub async fn run<T>(&self, future: impl Future<Output = T>) -> Result<T, Interruption> {
        let mut future = pin!(future);
        let mut look = tokio::time::interval(LOOK);
        let mut stop = self.control.stop.clone();
        let mut asked = pin!(async move {
            // If the sender is gone, no stop can be requested any more.
            if stop.wait_for(Option::is_some).await.is_err() {
                std::future::pending::<()>().await;
            }
        });
        std::future::poll_fn(|context| {
            // Both polls only register this task to be woken. The state is read below.
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
