//! The clock of a test, which the test can advance. It is only in builds with the feature `testing`.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use schedd_schedule::time::unix_millis::UnixMillis;

use crate::Store;
use crate::server::store_error::StoreError;

/// A clock that is ahead of the clock of this host, by the time that a test has advanced it. Clones
/// are the same clock.
#[derive(Debug, Clone, Default)]
pub struct TestClock {
    ahead_ms: Arc<AtomicU64>,
}

impl TestClock {
    /// Advances the clock by `time`.
    pub fn advance(&self, time: Duration) {
        let millis = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        self.ahead_ms.fetch_add(millis, Ordering::Relaxed);
    }

    /// Returns the time that the clock shows.
    pub fn now(&self) -> UnixMillis {
        let here = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let ahead = Duration::from_millis(self.ahead_ms.load(Ordering::Relaxed));
        let millis = i64::try_from(here.saturating_add(ahead).as_millis()).unwrap_or(i64::MAX);
        UnixMillis::new(millis).unwrap_or(UnixMillis::LAST)
    }
}

impl Store {
    /// Wakes all nodes, so that they see at once what is due by an advanced clock.
    pub async fn wake_nodes(&self) -> Result<(), StoreError> {
        let mut pipeline = redis::pipe();
        pipeline.cmd("SPUBLISH").arg(self.keys.nudge()).arg("due");
        self.link.query(&mut pipeline).await.map(drop)
    }
}
