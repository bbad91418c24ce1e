//! Waiting for a fact, instead of sleeping for a guessed time.

use std::thread;
use std::time::{Duration, Instant};

/// A time long enough for anything a test awaits on a busy machine. Only a failing test waits this
/// long.
pub(crate) const LONG: Duration = Duration::from_secs(90);

/// The shortest and the longest pause between two probes. A pause is as long as the probe took: a probe
/// that starts a process leaves half of the time to the tests beside it.
const PAUSES: [Duration; 2] = [Duration::from_millis(10), Duration::from_millis(100)];

/// Calls `probe` again and again until it returns a value. Panics with `what` when `deadline` has
/// passed.
#[track_caller]
pub(crate) fn until<T>(what: &str, deadline: Duration, mut probe: impl FnMut() -> Option<T>) -> T {
    let started = Instant::now();
    loop {
        let probed = Instant::now();
        if let Some(found) = probe() {
            return found;
        }
        assert!(started.elapsed() < deadline, "waited {deadline:?} in vain: {what}");
        thread::sleep(probed.elapsed().clamp(PAUSES[0], PAUSES[1]));
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
        tokio::time::sleep(PAUSES[0]).await;
    }
}
