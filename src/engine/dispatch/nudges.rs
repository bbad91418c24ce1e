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
pub(crate) async fn run(shared: Arc<NodeContext>) {
    loop {
        match shared.store.nudges().await {
            Ok(nudges) => {
                let mut nudges = std::pin::pin!(nudges);
                while let Some(nudge) = nudges.next().await {
                    match nudge.as_str() {
                        "told" => shared.tell_now.notify_one(),
                        "stop" => shared.renew_now.notify_one(),
                        // No file declares a section in force any more. Perhaps the file of this
                        // node does.
                        "files" => shared.reconcile_now.notify_one(),
                        // The presence loop reads the lanes at each beat.
                        "lanes" => shared.beat_now.notify_one(),
                        // The presence loop reads the queue settings at each beat.
                        "pools" => {
                            shared.beat_now.notify_one();
                            shared.poll_now.notify_one();
                        }
                        _ => shared.poll_now.notify_one(),
                    }
                }
            }
            Err(error) => debug!("This node cannot subscribe to wake-up messages: {error}."),
        }
        tokio::time::sleep(AGAIN).await;
    }
}
