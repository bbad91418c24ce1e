//! The news of Sentinels about another primary.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

use super::redis_link::{RedisLink, SEARCH_EVERY, Shared};

/// The pause before a link listens to a Sentinel, at first and after each message. A short command
/// needs no news.
const HEAR_AGAIN: Duration = Duration::from_secs(1);

impl RedisLink {
    /// Starts a task that listens to a Sentinel for as long as the link is used, and searches for the
    /// primary when the Sentinel announces another.
    pub(super) fn hear_sentinels(&self) {
        let is_first = !self.shared.hears_sentinels.swap(true, Ordering::Relaxed);
        if is_first && self.shared.address.has_sentinels() {
            tokio::spawn(hear_sentinels(Arc::downgrade(&self.shared)));
        }
    }
}

/// Searches for the primary of a link each time a Sentinel announces another. Ends with the link.
async fn hear_sentinels(shared: Weak<Shared>) {
    let mut pause = HEAR_AGAIN;
    loop {
        tokio::time::sleep(pause).await;
        let Some(address) = shared.upgrade().map(|shared| shared.address.clone()) else { return };
        let heard = address.hear_switch();
        tokio::pin!(heard);
        // The link may end meanwhile.
        let is_heard = loop {
            match tokio::time::timeout(SEARCH_EVERY, &mut heard).await {
                Ok(is_heard) => break is_heard,
                Err(_) if shared.strong_count() == 0 => return,
                Err(_) => {}
            }
        };
        pause = if is_heard { HEAR_AGAIN } else { SEARCH_EVERY };
        if !is_heard {
            continue;
        }
        let Some(shared) = shared.upgrade() else { return };
        let link = RedisLink { shared, rest: 0 };
        let open = link.slot().clone();
        if let Some(open) = open {
            link.leave_former_primary(&open).await;
        }
    }
}
