//! Writes the events of this node to Redis.
//!
//! Invariant: events that Redis did not accept are kept and sent again.

use std::sync::Arc;
use std::time::Duration;

use tracing::debug;

use super::event_notes::Notes;
use super::node_health::NodeHealth;
use crate::engine::dispatch::slots::Slots;
use crate::engine::node_context::NodeContext;
use schedd_core::host::boot_clock::BootInstant;

const EVERY: Duration = Duration::from_secs(1);
/// The interval at which a node without new events calls Redis to keep its stored events. Otherwise
/// Redis would delete these events after 30 days.
const STILL_HERE: Duration = Duration::from_secs(6 * 3600);

/// The loop that writes the events of this node to Redis.
pub(crate) struct NoteWriter {
    pub(crate) node: Arc<NodeContext>,
    pub(crate) slots: Slots,
    pub(crate) health: Arc<NodeHealth>,
}

/// Writes the events of this node to Redis. Never returns.
pub(crate) async fn run(writer: Arc<NoteWriter>) {
    let mut last = BootInstant::now();
    loop {
        tokio::time::sleep(EVERY).await;
        look_at_full(&writer).await;
        let nothing = if BootInstant::now().since(last) >= STILL_HERE {
            Nothing::IsSaid
        } else {
            Nothing::IsNot
        };
        if write(&writer.node, &writer.health.notes, nothing).await {
            last = BootInstant::now();
        }
    }
}

/// Checks whether runs wait for a slot of the queues without a free slot. The ticker does not know,
/// because it does not poll the lanes of such queues.
async fn look_at_full(writer: &NoteWriter) {
    let full = writer.health.notes.full();
    if full.is_empty() {
        return;
    }
    for offer in writer.slots.offers() {
        let Some(since) = full.get(&offer.queue) else { continue };
        let found = writer.node.store.count_due(&offer.lanes, writer.health.notes.now()).await;
        // Other loops log that Redis is out of reach.
        let Ok((_, ready)) = found else { return };
        if writer.health.notes.full().get(&offer.queue) != Some(since) {
            continue;
        }
        match ready {
            Some(ready) => writer.health.notes.waits_for_slot(&offer.queue, ready),
            None => writer.health.notes.none_waits(&offer.queue),
        }
    }
}

/// The choice of whether a write without waiting events calls Redis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Nothing {
    /// Redis is called, so that the stored events of this node do not expire.
    IsSaid,
    /// Redis is not called.
    IsNot,
}

/// Writes all waiting events. Returns true if Redis was called and answered.
pub(crate) async fn write(node: &NodeContext, notes: &Notes, nothing: Nothing) -> bool {
    let waiting = notes.take();
    if waiting.is_empty() && nothing == Nothing::IsNot {
        return false;
    }
    match node.store.note_events(&node.settings.node, &waiting).await {
        Ok(()) => true,
        Err(error) => {
            // Other loops log that Redis is out of reach.
            debug!("Node events are not written yet: {error}.");
            notes.put_back(waiting);
            false
        }
    }
}
