//! Listens for nudges: messages through Redis that ask a loop of this node to act at once. A lost
//! nudge costs no more than one poll interval.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use tracing::debug;

use crate::engine::node_context::NodeContext;

/// The wait before the node listens again after the connection ended.
const AGAIN: Duration = Duration::from_secs(1);

/// Listens for nudges for ever, and wakes the loop that each nudge concerns.
pub(crate) async fn run(node: Arc<NodeContext>) {
    loop {
        match node.store.nudges().await {
            Ok(nudges) => {
                let mut nudges = std::pin::pin!(nudges);
                while let Some(nudge) = nudges.next().await {
                    match nudge.as_str() {
                        "notices" => node.wakeups.notice_planter.notify_one(),
                        "stop" => node.wakeups.lease_keeper.notify_one(),
                        // No file declares a section in force any more. Perhaps the file of this
                        // node does.
                        "files" => node.wakeups.reconciler.notify_one(),
                        // The presence loop reads the lanes at each beat.
                        "lanes" => node.wakeups.presence.notify_one(),
                        // The presence loop reads the queue settings at each beat.
                        "pools" => {
                            node.wakeups.presence.notify_one();
                            node.wakeups.ticker.notify_one();
                        }
                        _ => node.wakeups.ticker.notify_one(),
                    }
                }
            }
            Err(error) => debug!("This node cannot subscribe to wake-up messages: {error}."),
        }
        tokio::time::sleep(AGAIN).await;
    }
}
