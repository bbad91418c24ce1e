//! Waiting for a fact, instead of sleeping for a guessed time.

use std::thread;
use std::time::{Duration, Instant};

/// A time long enough for anything a test awaits on a busy machine. Only a failing test waits this
/// long.
pub(crate) const LONG: Duration = Duration::from_secs(30);

/// Calls `probe` every 10 ms until it returns a value. Panics with `what` when `deadline` has
/// passed.
#[track_caller]
pub(crate) fn until<T>(what: &str, deadline: Duration, mut probe: impl FnMut() -> Option<T>) -> T {
    let started = Instant::now();
    loop {
        if let Some(found) = probe() {
            return found;
        }
        assert!(started.elapsed() < deadline, "waited {deadline:?} in vain: {what}");
        thread::sleep(Duration::from_millis(10));
    }
}

/// Does the same as [`until`] in an async test, whose other tasks go on meanwhile.
pub(crate) async fn eventually<T>(what: &str, mut probe: impl FnMut() -> Option<T>) -> T {
    let started = Instant::now();
    loop {
        if let Some(found) = probe() {
            return found;
        }
        assert!(started.elapsed() < LONG, "waited {LONG:?} in vain: {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}
