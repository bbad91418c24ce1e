//! The log of problems between this node and Redis. A problem is logged at its start, at intervals
//! while it lasts, and at its end.
//!
//! Invariant: no problem fills the log, even if it lasts, if it comes and goes with every call, or
//! if many problems occur at once.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tracing::{debug, error, info, warn};

use schedd_store::StoreError;

/// The interval at which the same problem is logged again.
const SAID_AGAIN: Duration = Duration::from_secs(60);
/// The time after the start of an outage before another reason of the same outage is logged. The
/// first error only says that the connection broke, and the real reason often follows.
const NEXT_REASON: Duration = Duration::from_secs(3);
/// The shortest time between the log lines of two outages. Without this limit, a Redis that answers
/// only some calls would fill the log.
const NEXT_OUTAGE: Duration = Duration::from_secs(20);

/// The problems that were logged lately, and so are not logged again yet.
#[derive(Default)]
struct LogOnce {
    at: Mutex<HashMap<String, Instant>>,
}

impl LogOnce {
    /// The most problems that are remembered. Above this number all problems are forgotten, and may
    /// be logged again.
    const MOST: usize = 1_000;

    /// Returns true if the problem `subject` was not logged within the last minute, and counts it
    /// as logged.
    fn is_new(&self, subject: &str) -> bool {
        let mut said = self.at.lock().unwrap_or_else(PoisonError::into_inner);
        if said.get(subject).is_some_and(|at| at.elapsed() < SAID_AGAIN) {
            return false;
        }
        if said.len() >= Self::MOST {
            said.clear();
        }
        said.insert(subject.to_owned(), Instant::now());
        true
    }
}

/// The present outage, if any, and the problems that were logged lately.
#[derive(Default)]
pub(crate) struct OutageLog {
    state: Mutex<State>,
    /// The failed calls that were logged within the last minute.
    failures: LogOnce,
    /// The other problems that were logged within the last minute.
    problems: LogOnce,
}

#[derive(Default)]
struct State {
    outage: Option<Outage>,
    last_said: Option<Instant>,
}

struct Outage {
    text: String,
    since: Instant,
    is_said: bool,
}

impl State {
    fn was_said_within(&self, time: Duration) -> bool {
        self.last_said.is_some_and(|at| at.elapsed() < time)
    }
}

impl OutageLog {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns true if the problem `subject` was not logged within the last minute, and counts it
    /// as logged.
    pub(crate) fn is_new(&self, subject: &str) -> bool {
        self.problems.is_new(subject)
    }

    /// Logs a failed call. `effect` says which action fails for this reason. A missing answer
    /// counts as an outage, which lasts until the next answer. Any other error concerns only this
    /// call.
    pub(crate) fn failed(&self, error: &StoreError, effect: &str) {
        let cause = error.to_string();
        // A Redis that accepts no writes still answers reads, which end no trouble.
        if error.is_outage() && !matches!(error, StoreError::RefusesWrites { .. }) {
            return self.no_answer(cause);
        }
        // The effect comes first, because the text of an error ends with its remedy.
        let failure = format!("Because of an error, {effect}: {cause}.");
        if !self.failures.is_new(&format!("{cause} {effect}")) {
            debug!("{failure}");
        } else if error.is_passing() {
            warn!("{failure} This node tries again.");
        } else {
            error!("{failure}");
        }
    }

    fn no_answer(&self, redis_error: String) {
        let mut state = self.state();
        let is_said = state.outage.as_ref().is_some_and(|outage| outage.is_said);
        let is_other = is_said
            && state.outage.as_ref().is_some_and(|outage| outage.text != redis_error)
            && !state.was_said_within(NEXT_REASON)
            && self.failures.is_new(&redis_error);
        let is_new =
            is_other || !state.was_said_within(if is_said { SAID_AGAIN } else { NEXT_OUTAGE });
        if is_new {
            if let Some(outage) = &state.outage {
                warn!(
                    for_s = outage.since.elapsed().as_secs(),
                    "{redis_error}. This node still tries again."
                );
            } else {
                warn!("{redis_error}. This node tries again.");
            }
            state.last_said = Some(Instant::now());
        }
        let new = || Outage { text: redis_error.clone(), since: Instant::now(), is_said: false };
        let outage = state.outage.get_or_insert_with(new);
        if is_new {
            (outage.text, outage.is_said) = (redis_error, true);
        }
    }

    /// Returns the present outage as text, or `None` if Redis answers.
    pub(crate) fn trouble(&self) -> Option<String> {
        self.state().outage.as_ref().map(|outage| outage.text.clone())
    }

    /// Records that Redis answered a call, and logs the end of an outage.
    pub(crate) fn answered(&self) {
        let over = self.state().outage.take();
        if let Some(over) = over.filter(|outage| outage.is_said) {
            info!(
                after_ms = u64::try_from(over.since.elapsed().as_millis()).unwrap_or(u64::MAX),
                "Redis answers again. The problem was: {}.", over.text
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trouble_is_news_once_and_another_beside_it_too() {
        let log_once = LogOnce::default();
        assert!(log_once.is_new("a"));
        assert!(!log_once.is_new("a"));
        assert!(log_once.is_new("b"));
    }

    #[test]
    fn an_outage_that_comes_and_goes_with_every_call_is_said_once_and_so_is_its_end() {
        let log = OutageLog::default();
        let outage = StoreError::Unavailable { address: "a".to_owned(), why: "gone".to_owned() };
        log.failed(&outage, "nothing happens");
        assert!(log.state().outage.as_ref().unwrap().is_said);
        log.answered();
        log.failed(&outage, "nothing happens");
        assert!(!log.state().outage.as_ref().unwrap().is_said);
    }

    #[test]
    fn a_refusal_is_no_outage_and_is_said_once() {
        let log = OutageLog::default();
        let refusal = StoreError::OutOfMemory { address: "a".to_owned() };
        log.failed(&refusal, "jobs are not applied");
        assert!(log.state().outage.is_none());
        assert!(!log.failures.is_new(&format!("{refusal} jobs are not applied")));
    }
}
