//! The jobs file that a node applied last: the time, and the settings that only the API reads.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use schedd_core::config::MetricsConfig;
use schedd_schedule::time::unix_millis::UnixMillis;

/// The jobs file that a node applied last. Empty while the node has applied no file.
#[derive(Default)]
pub(crate) struct AppliedFile {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    at: Option<UnixMillis>,
    metrics: Arc<MetricsConfig>,
}

impl AppliedFile {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records that the node applied a file with these settings at `now`.
    pub(crate) fn set(&self, now: UnixMillis, metrics: &MetricsConfig) {
        *self.state() = State { at: Some(now), metrics: Arc::new(metrics.clone()) };
    }

    /// Returns the time at which the node applied a file last, or `None` if it applied none.
    pub(crate) fn at(&self) -> Option<UnixMillis> {
        self.state().at
    }

    /// Returns the settings of `[metrics]`.
    pub(crate) fn metrics(&self) -> Arc<MetricsConfig> {
        self.state().metrics.clone()
    }
}
