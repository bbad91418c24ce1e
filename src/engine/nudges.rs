//! Listens for nudges: a hint that looking again at once is worth it. A lost one costs no more than a poll.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use tracing::debug;

use super::shared::Shared;

/// The wait before listening again after the connection ended.
const AGAIN: Duration = Duration::from_secs(1);

/// Listens, for ever.
pub(super) async fn run(shared: Arc<Shared>) {
    loop {
        match shared.store.nudges().await {
            Ok(nudges) => {
                let mut nudges = std::pin::pin!(nudges);
                while let Some(nudge) = nudges.next().await {
                    match nudge.as_str() {
                        "told" => shared.tell_now.notify_one(),
                        "stop" => shared.renew_now.notify_one(),
                        // What holds is said by no file any more: perhaps by this node's.
                        "files" => shared.reconcile_now.notify_one(),
                        // Lanes are read with the beat.
                        "lanes" => shared.beat_now.notify_one(),
                        // What is known of queues is read with the beat.
                        "pools" => {
                            shared.beat_now.notify_one();
                            shared.poll_now.notify_one();
                        }
                        _ => shared.poll_now.notify_one(),
                    }
                }
            }
            Err(error) => debug!("Not listening for nudges: {error}."),
        }
        tokio::time::sleep(AGAIN).await;
    }
}
