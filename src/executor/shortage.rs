//! The shortage of resources on this node, judged by its last attempts to start runs.
//!
//! Invariant: a run that was not started because the node lacks resources (descriptors, processes,
//! memory) executed nothing and is handed back. The node then claims nothing for a moment, and
//! after that starts one run as a test. The pause grows each time until a start succeeds, because
//! other nodes may have the resources. A test start that reports no shortage within [`TRY`] ends
//! the shortage, even if its run takes long.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tracing::{info, warn};

use schedd_core::domain::run::run_state::{AttemptOutcome, Ending};
use schedd_core::host::boot_clock::BootInstant;

/// The pause in claims after the first failed start.
const FIRST_PAUSE: Duration = Duration::from_secs(2);
/// The longest pause in claims.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// The time for which a test start may report a shortage. A start that reports none within this
/// time has succeeded, or waits for something other than the resources of this node.
const TRY: Duration = Duration::from_secs(2);

/// The shortage of resources on this node, if there is any.
#[derive(Debug, Default)]
pub(super) struct Shortage {
    /// The present shortage; `None` if the last start succeeded, or no start has failed.
    state: Mutex<Option<Short>>,
}

#[derive(Debug)]
struct Short {
    why: String,
    pause: Duration,
    until: BootInstant,
    /// True if a test start was begun since the pause ended.
    is_tried: bool,
}

impl Short {
    /// Returns true if the shortage counts as over, although no start has succeeded yet.
    fn is_over(&self, now: BootInstant) -> bool {
        // If no start was tried for long, the shortage may be over.
        now >= self.until && (self.is_tried || now >= self.until.saturating_add(LONGEST_PAUSE))
    }
}

impl Shortage {
    fn lock(&self) -> MutexGuard<'_, Option<Short>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that a run was not started because of `error`.
    pub(super) fn note(&self, error: &str) {
        let why = error.strip_prefix("not started: ").unwrap_or(error).to_owned();
        let now = BootInstant::now();
        let mut state = self.lock();
        let pause = match &*state {
            // This run was claimed together with the run that reported the shortage first.
            Some(short) if now < short.until && !short.is_tried => return,
            Some(short) => (short.pause * 2).min(LONGEST_PAUSE),
            None => FIRST_PAUSE,
        };
        warn!(
            "This node cannot start runs: {why}. The node hands claimed runs back and claims no run for {pause:?}."
        );
        *state = Some(Short { why, pause, until: now.saturating_add(pause), is_tried: false });
    }

    /// Notes that this node cannot do a step of a start; the text `cannot` names the step. Returns
    /// the outcome of the attempt that needed the step: the attempt was not started.
    pub(super) fn not_started(&self, cannot: &str) -> AttemptOutcome {
        let why = format!("not started: this node cannot {cannot}");
        self.note(&why);
        AttemptOutcome { error: Some(why), ..AttemptOutcome::bare(Ending::NotStarted) }
    }

    /// Notes that a start of a run succeeded.
    pub(super) fn clear(&self) {
        if self.lock().take().is_some() {
            info!("This node can start runs again.");
        }
    }

    /// Returns the reason why this node cannot start runs. Returns `None` if the last start
    /// succeeded or its test found no shortage. Also returns `None` if no start was tried for long
    /// after the pause.
    pub(super) fn why(&self) -> Option<String> {
        let now = BootInstant::now();
        self.lock().as_ref().filter(|short| !short.is_over(now)).map(|short| short.why.clone())
    }

    /// Returns how many runs may be claimed: none during the pause, then one run as a test, and
    /// `usize::MAX` without a shortage.
    pub(super) fn capacity(&self) -> usize {
        let now = BootInstant::now();
        match &*self.lock() {
            Some(short) if now < short.until => 0,
            Some(short) if !short.is_over(now) => 1,
            Some(_) | None => usize::MAX,
        }
    }

    /// Notes that a run is about to be started. After the pause, this start is a test. No more runs
    /// are then claimed until the result of the test is known, for at most `TRY`.
    pub(super) fn begin(&self) {
        let now = BootInstant::now();
        let mut state = self.lock();
        if let Some(short) =
            state.as_mut().filter(|short| short.until <= now && !short.is_over(now))
        {
            short.is_tried = true;
            short.until = now.saturating_add(TRY);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_that_is_short_pauses_longer_after_each_try_until_one_succeeds() {
        let shortage = Shortage::default();
        assert_eq!(shortage.capacity(), usize::MAX);
        let mut pauses = Vec::new();
        for _ in 0..6 {
            shortage.begin();
            shortage.note("not started: this node cannot start processes: x");
            shortage.note("not started: y, which was claimed together with the first");
            assert_eq!(
                (shortage.why().as_deref(), shortage.capacity()),
                (Some("this node cannot start processes: x"), 0)
            );
            let mut state = shortage.lock();
            let short = state.as_mut().unwrap();
            pauses.push(short.pause.as_secs());
            short.until = BootInstant::now();
            drop(state);
            assert!(shortage.why().is_some());
            assert_eq!(shortage.capacity(), 1, "one is tried");
            shortage.begin();
            assert_eq!(shortage.capacity(), 0, "it has not told yet");
        }
        assert_eq!(pauses, [2, 4, 8, 16, 30, 30]);
        shortage.clear();
        assert_eq!((shortage.why(), shortage.capacity()), (None, usize::MAX));
        shortage.note("not started: x");
        assert_eq!(shortage.lock().as_ref().unwrap().pause, FIRST_PAUSE);
    }
    #[test]
    fn a_test_that_meets_no_shortage_in_time_ends_the_shortage() {
        let shortage = Shortage::default();
        let pass = || shortage.lock().as_mut().unwrap().until = BootInstant::now();
        shortage.note("not started: x");
        pass();
        shortage.begin();
        assert_eq!((shortage.why().as_deref(), shortage.capacity()), (Some("x"), 0));
        pass();
        assert_eq!((shortage.why(), shortage.capacity()), (None, usize::MAX));
        shortage.begin();
        assert_eq!(shortage.capacity(), usize::MAX, "a further start is no test");
        shortage.note("not started: the test was slow");
        assert_eq!(shortage.lock().as_ref().unwrap().pause, 2 * FIRST_PAUSE);
    }
}
