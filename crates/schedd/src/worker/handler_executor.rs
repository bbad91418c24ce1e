//! The execution of attempts by the handlers of this program.
//!
//! Invariant: a handler is told to stop when its lease ends, and is dropped at its next `await`. It
//! makes no further step, also if the process was stopped meanwhile. A handler that blocks its
//! thread, or a thread that it started, cannot be stopped; the attempt then counts as maybe alive.

use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use futures_util::future::BoxFuture;
use schedd_core::domain::job::job_spec::Action;
use schedd_core::domain::run::run_state::{AskedNext, AttemptOutcome, Ending};
use schedd_core::host::boot_clock::BootInstant;
use schedd_schedule::time::duration::format_duration;
use tokio::sync::watch;
use tokio::task::{JoinError, JoinHandle};
use tracing::Instrument as _;

use super::handler_failure::{Failure, shortened};
use super::handlers::Handlers;
use super::run_handle::{Run, RunContext};
use crate::attempts::lease_guard::{Interruption, LeaseGuard};
use crate::attempts::{Attempt, Control, Execute, OutputBuffer, StopReason};
use crate::client::Client;

/// The interval at which the end of the lease is checked while a handler ends.
const LOOK: Duration = Duration::from_millis(100);
/// The time for which a dropped handler may go on to its next `await`, and a thread that it started
/// to its next look at the run.
const TO_NEXT_AWAIT: Duration = Duration::from_secs(1);
/// The interval between two looks at whether a thread of a stopped handler still has its [`Run`].
const LOOK_AT_THREADS: Duration = Duration::from_millis(10);

/// The handlers of a worker as the executor of its node.
pub(super) struct HandlerExecutor<S> {
    pub(super) handlers: Handlers<S>,
    pub(super) state: Arc<S>,
    pub(super) client: Client,
    /// The time that a handler has to return after it was told to stop.
    pub(super) cancel_grace: Duration,
}

/// The task of a handler. It returns `None` if the lease passed first.
type Work = JoinHandle<Option<Result<(), Failure>>>;

impl<S: Send + Sync + 'static> HandlerExecutor<S> {
    async fn attempt(
        &self,
        attempt: &Attempt,
        control: Control,
        output: &OutputBuffer,
    ) -> AttemptOutcome {
        let Action::Handler(call) = &attempt.action else {
            return AttemptOutcome::failed("cannot start: a worker has only handlers");
        };
        let guard = LeaseGuard::new(control.clone(), attempt.timeout);
        if let Some(interruption) = guard.interruption() {
            return interruption.outcome_of_nothing(attempt.timeout);
        }
        let facts = Arc::new(RunContext::of(attempt, output, &self.client));
        let run = Run::new(facts.clone(), self.state.clone());
        // The payload is read, and the handler called, outside its task.
        let made = || self.handlers.work(&call.handler, &call.payload, run);
        let work = match std::panic::catch_unwind(AssertUnwindSafe(made)) {
            Ok(Some(work)) => work,
            Ok(None) => {
                let why = format!("this worker has no handler {}", call.handler);
                return AttemptOutcome::failed(why);
            }
            Err(panic) => return AttemptOutcome::failed(panicked(&*panic)),
        };
        let work = on_lease(work, control.deadline.clone());
        let mut work: Work = tokio::spawn(work.in_current_span());
        let (interruption, is_over) = match guard.run(&mut work).await {
            Ok(Ok(Some(ended))) => return outcome_of(Ok(ended), attempt.begins_once),
            Ok(Err(error)) => return outcome_of(Err(error), attempt.begins_once),
            Ok(Ok(None)) => (Interruption::LeaseLost, true),
            Err(interruption) => (interruption, false),
        };
        facts.cancelled.cancel();
        let grace = match interruption {
            Interruption::LeaseLost => Duration::ZERO,
            Interruption::TimedOut | Interruption::Stopped(_) => self.cancel_grace,
        };
        let ended = tokio::select! {
            ended = &mut work, if !is_over => Some(ended),
            () = tokio::time::sleep(grace) => None,
            () = lease_end(control.deadline.clone()) => None,
        };
        let is_over = is_over || ended.is_some();
        let failure = match ended {
            Some(Ok(Some(Ok(())))) if interruption != Interruption::LeaseLost => {
                return AttemptOutcome::bare(Ending::Succeeded);
            }
            Some(Ok(Some(Err(failure)))) => Some(failure),
            _ => None,
        };
        work.abort();
        let gone = async {
            if !is_over {
                let _ = (&mut work).await;
            }
            until_alone(&facts).await;
        };
        let mut gone = std::pin::pin!(gone);
        let mut is_gone = tokio::time::timeout(TO_NEXT_AWAIT, gone.as_mut()).await.is_ok();
        let leaves = matches!(
            interruption,
            Interruption::LeaseLost | Interruption::Stopped(StopReason::ShutDown)
        );
        if !is_gone && !leaves {
            // While the attempt goes on, its lease is renewed. So no other attempt begins beside the thread.
            let mut stop = control.stop.clone();
            tokio::select! {
                () = gone => is_gone = true,
                () = tokio::time::sleep(attempt.lease) => {}
                // The thread ends with the program.
                Ok(_) = stop.wait_for(|stop| *stop == Some(StopReason::ShutDown)) => {}
                () = lease_end(control.deadline) => {
                    return AttemptOutcome::bare(Ending::MaybeAlive);
                }
            }
        }
        let asked = failure.as_ref().and_then(Failure::asked);
        let asked = asked.filter(|asked| *asked == AskedNext::NoRetry);
        match (interruption, failure) {
            (Interruption::Stopped(StopReason::ShutDown), Some(failure)) if asked.is_some() => {
                AttemptOutcome { asked, ..AttemptOutcome::failed(failure.text()) }
            }
            _ if leaves && !is_gone => AttemptOutcome::bare(Ending::MaybeAlive),
            (Interruption::LeaseLost, _) => AttemptOutcome::bare(Ending::LeaseLost),
            (Interruption::TimedOut, _) => AttemptOutcome {
                error: Some(format!(
                    "the attempt exceeded its timeout of {}",
                    format_duration(attempt.timeout)
                )),
                asked,
                ..AttemptOutcome::bare(Ending::TimedOut)
            },
            (Interruption::Stopped(reason), _) => AttemptOutcome::bare(reason.ending()),
        }
    }
}

impl<S: Send + Sync + 'static> Execute for HandlerExecutor<S> {
    fn execute<'a>(
        &'a self,
        attempt: &'a Attempt,
        control: Control,
        output: &'a OutputBuffer,
    ) -> BoxFuture<'a, AttemptOutcome> {
        Box::pin(self.attempt(attempt, control, output))
    }
}

/// Returns the result of `work`, or drops it and returns `None` if it is to make a step when the
/// lease has passed. So the first step after the process was stopped is not made.
async fn on_lease<T>(
    mut work: BoxFuture<'static, T>,
    deadline: watch::Receiver<BootInstant>,
) -> Option<T> {
    std::future::poll_fn(|context| {
        if BootInstant::now() >= *deadline.borrow() {
            return Poll::Ready(None);
        }
        work.as_mut().poll(context).map(Some)
    })
    .await
}

/// Waits until nothing of the handler has its [`Run`]: no thread, and no task that it started.
async fn until_alone(facts: &Arc<RunContext>) {
    while Arc::strong_count(facts) > 1 {
        tokio::time::sleep(LOOK_AT_THREADS).await;
    }
}

/// Waits until the lease has ended.
async fn lease_end(deadline: watch::Receiver<BootInstant>) {
    while BootInstant::now() < *deadline.borrow() {
        tokio::time::sleep(LOOK).await;
    }
}

/// Returns the outcome of a handler that has ended by itself. `begins_once` is true if its work must not
/// begin again.
fn outcome_of(ended: Result<Result<(), Failure>, JoinError>, begins_once: bool) -> AttemptOutcome {
    match ended {
        Ok(Ok(())) => AttemptOutcome::bare(Ending::Succeeded),
        Ok(Err(failure)) => match failure.asked() {
            Some(AskedNext::Again(_)) if begins_once => AttemptOutcome {
                error: Some("the handler asked to be started again".to_owned()),
                ..AttemptOutcome::bare(Ending::ShutDown)
            },
            Some(asked @ AskedNext::Again(_)) => {
                AttemptOutcome { asked: Some(asked), ..AttemptOutcome::bare(Ending::ShutDown) }
            }
            asked => AttemptOutcome { asked, ..AttemptOutcome::failed(failure.text()) },
        },
        Err(error) => AttemptOutcome::failed(match error.try_into_panic() {
            Ok(panic) => panicked(&*panic),
            Err(error) => format!("the handler was dropped: {error}"),
        }),
    }
}

/// Returns the error of an attempt whose handler panicked.
fn panicked(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    shortened(format!("the handler panicked: {}", text.unwrap_or("no message")))
}
