//! Waiting for a fact instead of sleeping and hoping.

use std::thread;
use std::time::{Duration, Instant};

/// Long enough for anything a test awaits on a busy machine; a failing test is what waits so long.
pub(crate) const LONG: Duration = Duration::from_secs(30);

/// Asks `probe` each 10 ms until it answers something; panics with `what` was awaited when `deadline` has passed.
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

/// The same for a test that runs in a runtime, whose other tasks go on meanwhile.
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
