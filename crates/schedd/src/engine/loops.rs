//! Starts the loops of a node. All loops stop when their token is cancelled.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::error;

/// The wait before a loop that panicked starts again.
const BEGIN_AGAIN: Duration = Duration::from_secs(1);

/// The starter of loops that all stop when the same token is cancelled.
pub(super) struct Loops<'a> {
    pub(super) tasks: &'a TaskTracker,
    pub(super) stop: &'a CancellationToken,
}

impl Loops<'_> {
    /// Starts the loop `run` under the name `name`. The loop gets the handles in `part`. When the
    /// token is cancelled, the loop stops at its next wait.
    pub(super) fn spawn<T, F>(
        &self,
        name: &'static str,
        part: Arc<T>,
        run: impl Fn(Arc<T>) -> F + Send + Sync + 'static,
    ) where
        T: Send + Sync + 'static,
        F: Future<Output = ()> + Send + 'static,
    {
        let stop = self.stop.clone();
        self.tasks.spawn(go_on(name, move || {
            stop.clone().run_until_cancelled_owned(run(part.clone())).map(drop)
        }));
    }
}

/// Runs a loop until it ends, and starts it again if it panics. Otherwise the node would seem alive
/// but would no longer do the work of this loop.
pub(super) async fn go_on<F: Future<Output = ()>>(name: &'static str, begin: impl Fn() -> F) {
    while AssertUnwindSafe(begin()).catch_unwind().await.is_err() {
        error!(
            part = name,
            "A loop of this node panicked and was restarted. Please report the preceding log lines."
        );
        tokio::time::sleep(BEGIN_AGAIN).await;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    #[tokio::test]
    async fn a_loop_that_panics_is_begun_again() {
        let begun = AtomicU32::new(0);
        go_on("test", || async {
            assert!(
                begun.fetch_add(1, Ordering::Relaxed) > 0,
                "a fault in this program (this test's own)"
            );
        })
        .await;
        assert_eq!(begun.into_inner(), 2);
    }
}
