//! The wait between two rounds of a loop that takes waiting entries from Redis: ends of runs for
//! children, or notices.

use std::time::Duration;

use tokio::sync::Notify;

use crate::engine::node_context::NodeContext;
use schedd_store::StoreError;

/// The wait before entries that could not be taken are tried again.
const EVERY: Duration = Duration::from_secs(1);
/// The longest interval between readings. A poll finds each new entry within a second, even if the
/// wake-up signal is lost.
const LONGEST: Duration = Duration::from_secs(60);
/// The number of waiting entries read in one call.
pub(crate) const BATCH: usize = 200;
/// The number of entries taken in one call.
pub(crate) const STEP: usize = 50;

/// Waits until the next round. `left` is the number of entries that the last round left, or its
/// failure. `outage` says in words what does not happen while Redis is out of reach.
pub(crate) async fn pause(
    node: &NodeContext,
    wakeup: &Notify,
    outage: &str,
    left: Result<usize, StoreError>,
) {
    let pause = if matches!(left, Ok(0)) { LONGEST } else { EVERY };
    let left = left.unwrap_or_else(|error| {
        node.outage_log.failed(&error, outage);
        0
    });
    if left >= BATCH {
        // A wait, because reading many unusable entries at each nudge would keep the node busy.
        tokio::time::sleep(EVERY).await;
    } else {
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = wakeup.notified() => {}
        }
    }
}
