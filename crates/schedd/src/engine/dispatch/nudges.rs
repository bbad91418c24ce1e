//! Listens for nudges: messages through Redis that wake a loop of this node. A lost nudge only
//! delays the work until the next interval of that loop.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use tracing::debug;

use crate::engine::node_context::NodeContext;

/// The wait before the node subscribes again after the connection has ended.
const AGAIN: Duration = Duration::from_secs(1);

/// Listens for nudges, and wakes the loop that each nudge concerns. Never returns.
pub(crate) async fn run(node: Arc<NodeContext>) {
    loop {
        match node.store.nudges().await {
            Ok(nudges) => {
                let mut nudges = std::pin::pin!(nudges);
                while let Some(nudge) = nudges.next().await {
                    match nudge.as_str() {
                        "chains" => node.wakeups.chain_planter.notify_one(),
                        "notices" => node.wakeups.notice_planter.notify_one(),
                        "stop" => node.wakeups.lease_keeper.notify_one(),
                        // A queue or group has lost its last declaration in Redis. The jobs file of
                        // this node may declare the queue or group again.
                        "files" => node.wakeups.reconciler.notify_one(),
                        // The list of lanes changed. The presence loop reads it each time it writes
                        // this node's presence.
                        "lanes" => node.wakeups.presence.notify_one(),
                        // The settings of a queue changed. The presence loop reads them each time
                        // it writes this node's presence.
                        "pools" => {
                            node.wakeups.presence.notify_one();
                            node.wakeups.ticker.notify_one();
                            node.wakeups.note_worker_news();
                        }
                        _ => {
                            node.wakeups.ticker.notify_one();
                            node.wakeups.note_worker_news();
                        }
                    }
                }
            }
            Err(error) if error.is_outage() => {
                debug!("This node cannot subscribe to wake-up messages: {error}.");
            }
            Err(error) => node.outage_log.failed(&error, "what others change is seen late"),
        }
        tokio::time::sleep(AGAIN).await;
    }
}
