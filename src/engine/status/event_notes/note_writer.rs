//! Writes the events of this node to Redis.
//!
//! Invariant: events that Redis did not take are kept and sent again.

use std::sync::Arc;
use std::time::Duration;

use tracing::debug;

use crate::engine::node_context::NodeContext;
use crate::keeper::BootInstant;

const EVERY: Duration = Duration::from_secs(1);
/// The interval at which a node without new events renews its stored events. Redis keeps them for
/// 30 days.
const STILL_HERE: Duration = Duration::from_secs(6 * 3600);

/// Writes events, for ever.
pub(crate) async fn run(shared: Arc<NodeContext>) {
    let mut last = BootInstant::now();
    loop {
        tokio::time::sleep(EVERY).await;
        look_at_full(&shared).await;
        let nothing = if BootInstant::now().since(last) >= STILL_HERE { Nothing::IsSaid } else { Nothing::IsNot };
        if write(&shared, nothing).await {
            last = BootInstant::now();
        }
    }
}

/// Checks which runs wait for a slot of the queues that have none free. The ticker does not poll
/// their lanes.
async fn look_at_full(shared: &NodeContext) {
    let full = shared.notes.full();
    if full.is_empty() {
        return;
    }
    for offer in shared.slots.offers() {
        let Some(since) = full.get(&offer.queue) else { continue };
        let found = shared.store.count_ripe(&offer.lanes, shared.notes.now()).await;
        // Loops with work for Redis log that it is away.
        let Ok((_, ready)) = found else { return };
        if shared.notes.full().get(&offer.queue) != Some(since) {
            continue;
        }
        match ready {
            Some(ready) => shared.notes.waits_for_slot(&offer.queue, ready),
            None => shared.notes.none_waits(&offer.queue),
        }
    }
}

/// The choice whether to call Redis without any event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Nothing {
    /// Calls Redis, which keeps the stored events of this node from expiring.
    IsSaid,
    /// Makes no call.
    IsNot,
}

/// Writes all waiting events. Returns true if a call was made and answered.
pub(crate) async fn write(shared: &NodeContext, nothing: Nothing) -> bool {
    let notes = shared.notes.take();
    if notes.is_empty() && nothing == Nothing::IsNot {
        return false;
    }
    match shared.store.note_events(&shared.settings.node, &notes).await {
        Ok(()) => true,
        Err(error) => {
            // Loops with work for Redis log that it is away.
            debug!("Node events are not written yet: {error}.");
            shared.notes.put_back(notes);
            false
        }
    }
}
